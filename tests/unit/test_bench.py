"""These tests check the parts of the bench that measure nothing: its statistics, its verdicts, what
it reads."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from bench.__main__ import COMPARISONS, main
from bench.ancestor import parse_periods
from bench.bed import Track
from bench.generators import frame
from bench.guide import GUIDE, NEWEST, TABLES, table_of, write
from bench.order import contradicted, in_order
from bench.own import worst_interval
from bench.pairs import Interval, Limit, Verdict, interleaved, median_interval, ratios, verdict
from bench.peaks import costs_of, samples_of
from bench.peers import (
    NFV_TESTPERF,
    PEERS,
    TRAFGEN,
    MissingPeer,
    Peer,
    find,
    require_kernel_pktgen,
)
from bench.report import Row, absolute, compared, table, write_json
from bench.rtt import parse_median_us
from bench.testpmd import devices, received
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from switchmark.model.test import Test
from switchmark.path.resolving import resolve

FACTS = {
    "cores": 2,
    "processor": "some CPU",
    "kernel": "6.1",
    "load_average_before": 0.25,
    "load_average_after": 1.5,
    "steal": 0.0125,
}

# -- pairs ---------------------------------------------------------------------------------


def test_rounds_take_turns_in_order_and_in_reverse() -> None:
    order: list[str] = []

    def slot(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = interleaved(3, {"A": lambda: slot("A"), "B": lambda: slot("B")})
    assert "".join(order) == "ABBAAB"
    assert found == {"A": [1.0, 4.0, 5.0], "B": [2.0, 3.0, 6.0]}


def test_a_ratio_is_of_one_pair() -> None:
    assert ratios([2.0, 9.0], [1.0, 3.0]) == [2.0, 3.0]


@pytest.mark.parametrize("values", [([1.0], [0.0]), ([0.0], [1.0])])
def test_nothing_measured_is_no_ratio(values: tuple[list[float], list[float]]) -> None:
    with pytest.raises(ValueError, match="no ratio"):
        ratios(*values)


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert median_interval([1.5] * 15) == Interval(1.5, 1.5, 1.5)


def test_the_interval_holds_the_median_and_lies_within_the_values() -> None:
    found = median_interval([1.0, 2.0, 3.0, 4.0, 100.0])
    assert found.median == 3.0
    assert 1.0 <= found.low < 3.0 < found.high <= 100.0


def test_one_outlier_of_fifteen_does_not_reach_the_interval() -> None:
    found = median_interval([1.0 + 0.01 * i for i in range(14)] + [50.0])
    assert found.high < 1.2


def test_the_interval_of_the_same_values_is_always_the_same() -> None:
    values = [1.0, 1.2, 0.9, 1.1, 1.3]
    assert median_interval(values) == median_interval(values)


def test_the_interval_covers_the_true_median_nineteen_times_of_twenty() -> None:
    import numpy as np

    source = np.random.default_rng(1)
    hits = 0
    for _ in range(80):
        found = median_interval([float(x) for x in source.normal(1.0, 0.1, 15)])
        hits += found.low <= 1.0 <= found.high
    assert hits >= 70


def test_no_values_have_no_interval() -> None:
    with pytest.raises(ValueError, match="no values"):
        median_interval([])


@pytest.mark.parametrize(
    ("low", "high", "at_least", "at_most"),
    [
        (1.22, 1.4, "met", "missed"),
        (1.15, 1.4, "met", "not shown either way"),
        (1.0, 1.15, "not shown either way", "met"),
        (1.0, 1.4, "not shown either way", "not shown either way"),
        (0.9, 1.1, "missed", "met"),
        (1.10, 1.4, "met", "not shown either way"),
        (1.09, 1.14, "missed", "met"),
        (1.09, 1.4, "not shown either way", "not shown either way"),
        (1.0, 1.20, "not shown either way", "met"),
        (1.16, 1.21, "met", "missed"),
    ],
)
def test_only_a_whole_interval_decides(
    low: float, high: float, at_least: Verdict, at_most: Verdict
) -> None:
    found = Interval((low + high) / 2, low, high)
    assert verdict(found, Limit("at least", 1.15)) == at_least
    assert verdict(found, Limit("at most", 1.15)) == at_most


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.9, 1.1, "met"),
        (0.98, 0.99, "met"),
        (0.95, 0.99, "not shown either way"),
        (0.9, 0.96, "missed"),
        (1.04, 1.1, "missed"),
    ],
)
def test_a_ratio_of_one_is_met_nearby_too(low: float, high: float, expected: Verdict) -> None:
    assert verdict(Interval((low + high) / 2, low, high), Limit("off", 0.03)) == expected


# -- peers ---------------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "trafgen"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_peer_is_where_its_variable_says(program: Path) -> None:
    assert find(TRAFGEN, {"TRAFGEN": str(program), "PATH": "/nowhere"}) == str(program)


def test_a_peer_is_found_on_the_path(program: Path) -> None:
    peer = Peer("peer", "PEER", program.name, "make one", "nothing")
    assert find(peer, {"PATH": str(program.parent)}) == str(program)


def test_a_variable_that_names_nothing_is_not_passed_over(program: Path) -> None:
    with pytest.raises(MissingPeer, match="TRAFGEN names no program: /no/trafgen"):
        find(TRAFGEN, {"TRAFGEN": "/no/trafgen", "PATH": str(program.parent)})


def test_a_missing_peer_says_how_to_get_it() -> None:
    with pytest.raises(MissingPeer, match="corrected build.*set NFV_TESTPERF"):
        find(NFV_TESTPERF, {"PATH": "/usr/bin"})
    with pytest.raises(MissingPeer, match="apt-get install some-peer, or set SOME_PEER"):
        find(Peer("peer", "SOME_PEER", "no-such-peer", "apt-get install some-peer", ""), {})


def test_the_packet_generator_of_the_kernel_is_a_folder(tmp_path: Path) -> None:
    require_kernel_pktgen(tmp_path)
    with pytest.raises(MissingPeer, match="modprobe pktgen"):
        require_kernel_pktgen(tmp_path / "pktgen")


# -- what peers print, and get ---------------------------------------------------------------


def test_the_ancestors_first_second_is_left_out() -> None:
    output = "FINAL STATS\nRx-pps: 10\nRx-pps: 500\nRx-pps: 502\nCaught signal"
    assert parse_periods(output) == [500, 502]
    assert parse_periods("No stats to be printed.") == []


def test_the_median_of_sockperf_is_of_round_trips() -> None:
    output = "sockperf: ---> percentile 50.000 =   17.250\nsockperf: ====> avg-rtt=18"
    head = "sockperf: Summary: Round trip is 18.204 usec\n"
    assert parse_median_us(head + output) == 17.25
    with pytest.raises(ValueError, match="told no round trip"):
        parse_median_us("sockperf: Summary: Latency is 9.102 usec\n" + output)
    with pytest.raises(ValueError, match="told no round trip"):
        parse_median_us(head)


def test_the_frame_for_trafgen_is_64_bytes_with_right_checksums() -> None:
    test = Test.model_validate({"switch": "direct", "engine": "mmap"})
    layout = resolve(test, prefix="sm0000", run_dir="/run/switchmark/sm0000")
    data = frame(Track(layout))
    assert len(data) == 60
    parsed = Ether(data)
    assert parsed[UDP].len == 26
    del parsed[IP].chksum
    del parsed[UDP].chksum
    assert bytes(parsed) == data


def test_telemetry_tells_what_a_port_received() -> None:
    assert received(b'{"/ethdev/stats": {"ipackets": 12, "opackets": 3}}') == 12
    for answer in (b'{"/ethdev/stats": null}', b'{"/ethdev/stats": {}}', b"[]", b"", b"{"):
        with pytest.raises(ValueError):
            received(answer)


def test_testpmd_gets_the_devices_of_our_engine() -> None:
    axes = {"switch": "direct", "engine": "dpdk", "port": "vhost-user", "memory": "no-huge"}
    layout = resolve(Test.model_validate(axes), prefix="sm0000", run_dir="/run/sm0000")
    track = Track(layout)
    assert track.opened_by_programs
    (server,), (client,) = devices(track, ("f0",)), devices(track, ("f1",))
    assert server == "net_vhost0,iface=/run/sm0000/ports/p0.sock,queues=1,client=0"
    assert client.startswith("net_virtio_user0,")
    assert {"path=/run/sm0000/ports/p0.sock", "queue_size=1024", "server=0"} <= {*client.split(",")}


def test_a_path_of_interfaces_is_up_without_programs() -> None:
    test = Test.model_validate({"switch": "linux-bridge", "engine": "mmap"})
    layout = resolve(test, prefix="sm0000", run_dir="/run/sm0000")
    assert not Track(layout).opened_by_programs


def test_the_worst_interval_counts_either_way() -> None:
    assert worst_interval([100, 98, 101], 1000, 0.1) == pytest.approx(0.02)
    assert worst_interval([100, 99, 103], 1000, 0.1) == pytest.approx(0.03)


# -- the report ------------------------------------------------------------------------------


def test_the_table_tells_the_figures_the_skipped_and_the_machine() -> None:
    samples = {"A": [2.0, 2.2], "B": [1.0, 1.1], "A again": [2.0, 2.2]}
    rows = [
        compared("one", "ours", "theirs", "Mpps", samples, Limit("at least", 1.5), ("a note",)),
        absolute("two", "ours", "ns", [12.0], Limit("at most", 10.0)),
    ]
    text = table(rows, {"three": "no such peer"}, FACTS)
    head, _, one, two = text.splitlines()[:4]
    assert head.split()[:3] == ["name", "A", "B"]
    for part in ("ours 2.100 Mpps", "theirs 1.050 Mpps", "2.000 [2.000, 2.000]", ">= 1.5", "met"):
        assert part in one
    for part in ("12.000 [12.000, 12.000] ns", "<= 10", "missed"):
        assert part in two
    assert "one: a note" in text
    assert "three: skipped: no such peer" in text
    assert "load average 0.25 before and 1.50 after, steal 1.25 %" in text


def test_a_machine_that_is_not_steady_is_told() -> None:
    samples = {"A": [1.0, 1.0], "B": [1.0, 1.0], "A again": [1.5, 1.5]}
    row = compared("one", "ours", "theirs", "Mpps", samples, None)
    assert "not steady" in row.notes[0]
    assert row.verdict is None


def test_the_json_holds_every_sample(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    row = compared("one", "a", "b", "us", {"A": [1.0, 2.0], "B": [2.0, 4.0]}, None)
    write_json(file, [row], {"two": "why"}, FACTS)
    found = json.loads(file.read_text())
    assert found["rows"][0]["samples"] == {"A": [1.0, 2.0], "B": [2.0, 4.0]}
    assert found["rows"][0]["figure"]["median"] == 0.5
    assert found["skipped"] == {"two": "why"}


# -- the guide -----------------------------------------------------------------------------

PLACES = "".join(
    f"<!-- make bench, {table}: begin -->\nold {table}\n<!-- make bench, {table}: end -->\n"
    for table in ("peers", *TABLES)
)


@pytest.fixture
def pages(tmp_path: Path) -> tuple[Path, Path]:
    guide, history = tmp_path / "guide.md", tmp_path / "history.md"
    guide.write_text(f"# Guide\n\n{PLACES}\nthe end\n")
    history.write_text(f"# History\n\n{NEWEST}\n\n## first\n")
    return guide, history


def _written(pages: tuple[Path, Path], rows: list[Row], skipped: dict[str, str]) -> list[str]:
    guide, history = pages
    facts = FACTS | {"started": "2026-11-27T20:00:00+0000"}
    return write(rows, skipped, facts, 2.0, guide=guide, history=history)


def test_the_guide_gets_the_tables_of_what_ran_and_keeps_the_others(
    pages: tuple[Path, Path],
) -> None:
    samples = {"A": [2.0, 2.2], "B": [1.0, 1.1]}
    checks = (True, False)
    row = compared("memif, x", "ours", "p", "Mpps", samples, Limit("at least", 3), checks=checks)
    assert _written(pages, [row], {"vhost-dperf": "no dperf", "labs": "no"}) == ["user-space"]
    text = pages[0].read_text()
    assert "old kernel" in text
    assert "old user-space" not in text
    assert "2 pairs of 2 s, 2026-11-27: 2 cores, some CPU, Linux 6.1, steal 1.2 %." in text
    cells = ("memif, x", "ours 2.100 Mpps", "p 1.050 Mpps", "**checked / unchecked**")
    assert f"| {' | '.join(cells)} | 2.000 [2.000, 2.000] |  | >= 3, missed |" in text
    assert "- `vhost-dperf` is absent: no dperf." in text
    assert "labs" not in text.partition("time: begin")[0]
    assert text.endswith("\nthe end\n")
    assert all(f"| {peer.name} | {peer.checks} |" in text for peer in PEERS)


def test_a_table_that_is_replaced_goes_to_the_top_of_the_history(pages: tuple[Path, Path]) -> None:
    for value in (1.0, 2.0):
        _written(pages, [absolute("null, send", "engine null", "ns", [value], None)], {})
    history = pages[1].read_text()
    assert history.index("1.000 [1.000") < history.index("old null") < history.index("## first")
    assert "2.000 [2.000" not in history


def test_a_guide_without_a_place_for_a_table_is_not_written(pages: tuple[Path, Path]) -> None:
    pages[0].write_text("<!-- make bench, peers: begin --><!-- make bench, peers: end -->")
    with pytest.raises(ValueError, match="no place for table null"):
        _written(pages, [absolute("null, send", "engine null", "ns", [1.0], None)], {})


def test_the_guide_has_a_place_for_every_comparison() -> None:
    text = GUIDE.read_text()
    for name in ("peers", *TABLES):
        assert f"<!-- make bench, {name}: begin -->" in text
        assert f"<!-- make bench, {name}: end -->" in text
    shown = {one.name for one in COMPARISONS if table_of(one.name)}
    assert {one.name for one in COMPARISONS} - shown == {"order", "builds"}


def test_a_frame_that_takes_too_long_for_100g_is_split_by_function(
    pages: tuple[Path, Path],
) -> None:
    parts = {"sender": {"write_short": 30.0, "other": 10.0}, "receiver": {"count": 20.0}}
    row = absolute("peaks, memif", "sent and checked, 1 + 1 cores", "Mpps", [25.0], None)
    _written(pages, [replace(row, parts=parts)], {})
    text = pages[0].read_text()
    assert "| memif | sent and checked, 1 + 1 cores | 25.000 [25.000, 25.000] | 16.8 % |" in text
    assert "| sender | 40.0 | 13.1 | `write_short` 30.0, `other` 10.0 |" in text
    assert "| receiver | 20.0 | nothing | `count` 20.0 |" in text


def test_samples_are_those_of_our_threads_on_a_cpu() -> None:
    ours = "/usr/bin/switchmark-traffic"
    script = (
        f"switchmark-traf [001]  1049c82 write_short ({ours})\n"
        f" switchmark-traf [001]  1049c92 write_short+0x10 ({ours})\n"
        "switchmark-traf [001] ffff1049c82 [unknown] (/usr/lib/librte_net_memif.so.23.0)\n"
        f"switchmark-traf [000] 1049c82 receiver_step ({ours})\n"
        f"python3 [001] 1049c82 write_short ({ours})\n"
        "nonsense\n"
    )
    found = samples_of(script, 1)
    assert found == {"write_short": 2, "librte_net_memif.so.23.0": 1}
    assert costs_of(found, 30.0) == {"write_short": 20.0, "librte_net_memif.so.23.0": 10.0}
    assert samples_of(script, None) == found + Counter({"receiver_step": 1})
    assert costs_of(samples_of(script, 3), 30.0) == {}


def test_small_functions_are_one() -> None:
    costs = costs_of(Counter({"large": 97, "small": 2, "tiny": 1}), 100.0)
    assert costs == {"large": 97.0, "other": 3.0}


# -- the order of the engines ----------------------------------------------------------------


def test_a_host_that_contradicts_the_order_of_the_engines_fails_the_bench() -> None:
    assert in_order() == ["xdp", "mmap", "raw-mmsg", "raw"]
    limit = Limit("at least", 1.0)

    def row(first: str, second: str, ratios: list[float]) -> Row:
        samples = {"A": ratios, "B": [1.0] * len(ratios)}
        return compared(f"order, {first} to {second}", first, second, "Mpps", samples, limit)

    agreed, unclear = row("xdp", "mmap", [1.1, 1.2, 1.3]), row("mmap", "raw", [0.9, 1.0, 1.2])
    assert contradicted([agreed, unclear]) is None
    contradictions = contradicted([agreed, row("mmap", "raw", [0.8, 0.9, 0.7])])
    assert contradictions is not None
    assert contradictions.endswith("is contradicted: raw before mmap")


# -- the command -----------------------------------------------------------------------------


def test_lists_its_comparisons(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [
        "raw-mmsg",
        "raw-gso",
        "udp-gso",
        "best",
        "trafgen-mmap",
        "trafgen-mmap-gso",
        "trafgen-xdp",
        "trafgen-xdp-live",
        "xdp-trafficgen",
        "kernel-pktgen",
        "order",
        "rtt",
        "vhost",
        "vhost-pktgen",
        "vhost-dperf",
        "vhost-ancestor",
        "memif",
        "memif-pktgen",
        "memif-native",
        "bypass-testpmd",
        "memif-testpmd",
        "memif-vpp",
        "setup-bypass",
        "container",
        "start-function",
        "null",
        "builds",
        "threads",
        "peaks",
        "pacing",
        "setup",
        "setup-switches",
        "records",
        "page",
        "labs",
    ]


def test_refuses_a_name_that_is_none() -> None:
    with pytest.raises(SystemExit, match="there is no comparison 'trafgenn'; there are: raw-mmsg"):
        main(["trafgenn"])


@pytest.mark.parametrize("option", ["--pairs=0", "--seconds=0"])
def test_refuses_to_measure_nothing(option: str) -> None:
    with pytest.raises(SystemExit):
        main([option, "null"])

"""These tests hold the engine that `--engine auto` chooses against every engine that there is."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click import Context

from recorded import fresh
from switchmark.campaign.load import Campaign, from_options, load
from switchmark.cli import main
from switchmark.cli.completion import completer
from switchmark.cli.measuring import run
from switchmark.engines import TABLE as ENGINES
from switchmark.engines.base import Engine
from switchmark.errors import Unavailable, UsageError
from switchmark.hosts.local import LocalHost
from switchmark.model.labels import following
from switchmark.model.record import Record
from switchmark.model.test import AXES, Test
from switchmark.path.choosing import AUTO, candidates, with_engines
from switchmark.path.refusals import check
from switchmark.report.answer import answer
from switchmark.report.pairing import within


def everything(test: Test) -> bool:
    return True


def without(*names: str) -> Callable[[Test], bool]:
    """Return a host that has all engines but these."""
    return lambda test: test.engine not in names


def lacking(switch: str, *engines: str) -> Callable[[Test], bool]:
    """Return a host that has all but a switch, and some engines."""
    return lambda test: test.switch != switch and test.engine not in engines


def chosen(
    usable: Callable[[Test], bool] = everything, *, switch: str = "linux-bridge", **axes: Any
) -> dict[str, str]:
    """Return the engines for some switches, `a,b`, of one run."""
    tests = [Test(switch=name, engine=AUTO, **axes) for name in switch.split(",")]
    return {test.switch: test.engine for test in with_engines(tests, usable)}


def test_af_xdp_is_chosen_up_to_the_longest_frame_of_a_page() -> None:
    assert chosen(frame_size=3524) == {"linux-bridge": "xdp"}
    assert chosen(frame_size=3525) == {"linux-bridge": "mmap"}


# --- what is asked for stays ------------------------------------------------------------------


@pytest.mark.parametrize(
    "axes",
    [
        {"burst": 256},
        {"flows": 1_000_000, "flow_order": "zipf"},
        {"flows": 64, "flows_by": "mac"},
        {"arrivals": "poisson", "rate": "10k"},
        {"touch": "full"},
        {"dimension": "latency", "rate": "1000"},
        {"frame_size": 9000},
        {"vlan": 7, "frame_size": 68},
        {"encapsulation": "vxlan6", "frame_size": 200},
        {"ip_version": "6", "frame_size": 84},
        {"direction": "bi", "pairs": 2},
        {"copies": 2},
        {"function_cores": 2, "flows": 16},
    ],
)
@pytest.mark.parametrize("switch", ["linux-bridge", "ovs", "linux-bridge,ovs-dpdk"])
def test_what_is_asked_for_stays_and_can_work(switch: str, axes: dict[str, Any]) -> None:
    tests = [Test(switch=name, engine=AUTO, **axes) for name in switch.split(",")]
    chosen = with_engines(tests, everything)
    assert [check(test) for test in chosen] == [[]] * len(tests)
    assert [test.model_copy(update={"engine": AUTO}) for test in chosen] == tests


# --- the order ----------------------------------------------------------------------------------


def test_the_table_is_the_order() -> None:
    # xdp-live only sends; no application sends like the other three
    never = ("xdp-live", "raw-gso", "udp-gso", "mmap-gso")
    assert candidates() == [name for name in ENGINES if name not in never]
    assert chosen() == {"linux-bridge": "xdp"}
    assert chosen(without("xdp")) == {"linux-bridge": "mmap"}
    assert chosen(without("xdp", "mmap")) == {"linux-bridge": "raw-mmsg"}


@pytest.mark.parametrize(
    ("axes", "engine"),
    [
        ({"frame_size": 9000}, "mmap"),  # longer than a chunk of AF_XDP: needs Linux 6.6
        ({"vlan": 7, "frame_size": 68}, "mmap"),  # XDP does not see a bridge's tags
        ({"encapsulation": "vlan", "frame_size": 68}, "mmap"),
        ({"switch": "ipvlan"}, "udp-mmsg"),  # it goes by the IP address of the interface
        ({"switch": "sriov"}, "mmap"),  # a socket of AF_XDP has one queue of a virtual function
        ({"scenario": "p2p", "nic": "a0=eth1:eth2,b0=eth3:eth4"}, "mmap"),
        ({"port": "macvlan", "switch": "macvlan"}, "xdp"),
        ({"switch": "testpmd"}, "dpdk"),
        ({"switch": "vpp"}, "dpdk"),  # on vhost-user, though it has veth, too
        ({"switch": "vpp", "port": "veth"}, "xdp"),
        ({"switch": "vale"}, "netmap"),
        ({"switch": "null"}, "null"),
        ({"memory": "hugepages"}, "dpdk"),
    ],
)
def test_what_is_asked_for_decides(axes: dict[str, Any], engine: str) -> None:
    assert set(chosen(**axes).values()) == {engine}


def test_where_netmap_is_not_there_a_port_of_another_kind_is_opened() -> None:
    assert chosen(without("netmap"), switch="vale") == {"vale": "xdp"}


# --- one engine for a run -----------------------------------------------------------------------


def test_one_engine_is_for_all_switches_that_it_fits() -> None:
    engines = {"linux-bridge": "dpdk", "ovs": "dpdk", "ovs-dpdk": "dpdk"}
    assert chosen(switch="linux-bridge,ovs,ovs-dpdk") == engines
    assert chosen(switch="linux-bridge,ipvlan") == dict.fromkeys(
        ("linux-bridge", "ipvlan"), "udp-mmsg"
    )


def test_one_engine_is_for_all_tests_of_a_run() -> None:
    tests = [Test(engine=AUTO, frame_size=size) for size in (64, 9000)]
    assert [test.engine for test in with_engines(tests, everything)] == ["mmap", "mmap"]


def test_where_none_fits_all_each_switch_has_its_own() -> None:
    tests = [
        Test(switch=switch, engine=AUTO, frame_size=size)
        for switch, size in itertools.product(("linux-bridge", "ipvlan", "testpmd"), (64, 9000))
    ]
    engines = [test.engine for test in with_engines(tests, everything)]
    assert engines == ["mmap"] * 2 + ["udp-mmsg"] * 2 + ["dpdk"] * 2


def test_a_switch_that_cannot_be_measured_here_decides_nothing_for_the_others() -> None:
    engines = chosen(lacking("ovs-dpdk"), switch="linux-bridge,ovs,ovs-dpdk")
    assert engines == {"linux-bridge": "xdp", "ovs": "xdp", "ovs-dpdk": "dpdk"}
    engines = chosen(lacking("ovs-dpdk"), switch="linux-bridge,ipvlan,ovs-dpdk")
    assert engines == {"linux-bridge": "udp-mmsg", "ipvlan": "udp-mmsg", "ovs-dpdk": "dpdk"}
    engines = chosen(without("dpdk", "xdp"), switch="linux-bridge,ovs,ovs-dpdk")
    assert engines == {"linux-bridge": "mmap", "ovs": "mmap", "ovs-dpdk": "dpdk"}


def test_what_no_engine_can_is_refused_for_what_is_wrong_with_it() -> None:
    (test,) = with_engines(
        [Test(switch="ovs-dpdk", engine=AUTO, touch="none", burst=1)], everything
    )
    assert test.engine == "dpdk"
    with pytest.raises(UsageError, match="--queues: switch linux-bridge does not") as refused:
        from_options({"queues": "2", "flows": "16"}, check, left_to_us)
    assert "engine" not in str(refused.value)


# --- where it is asked for ------------------------------------------------------------------------


def left_to_us(tests: Any) -> list[Test]:
    return with_engines(tests, everything)


def engines_of(campaign: Campaign) -> list[str]:
    return [test.engine for test in campaign.tests]


def test_a_command_line_that_names_no_engine_leaves_it_open() -> None:
    assert engines_of(from_options({}, check, left_to_us)) == ["xdp"]
    assert engines_of(from_options({"engine": "raw-mmsg"}, check, left_to_us)) == ["raw-mmsg"]
    assert engines_of(from_options({"engine": "raw,auto,xdp"}, check, left_to_us)) == ["raw", "xdp"]
    assert engines_of(from_options({}, check)) == ["raw-mmsg"]


def test_a_file_that_names_no_engine_has_the_usual_one(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("switch: [linux-bridge, ovs]\n")
    assert engines_of(load(file, {}, check, left_to_us)) == [AXES["engine"].default] * 2
    assert engines_of(load(file, {"engine": AUTO}, check, left_to_us)) == ["xdp"] * 2
    file.write_text("engine: auto\ntests: [{switch: ovs}, {switch: testpmd}]\n")
    assert engines_of(load(file, {}, check, left_to_us)) == ["dpdk"] * 2


def test_what_is_left_to_nobody_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="engine auto is chosen where a run begins"):
        from_options({"engine": AUTO}, check)
    with pytest.raises(UsageError, match="did you mean auto"):
        from_options({"engine": "aut"}, check, left_to_us)


def test_it_is_completed() -> None:
    complete = completer(AXES["engine"])
    assert complete is not None
    (option,) = (param for param in run.params if param.name == "engine")
    context = Context(run)
    assert complete(context, option, "a") == ["auto"]
    assert complete(context, option, "xdp,m") == ["xdp,mmap", "xdp,memif", "xdp,mmap-gso"]


# --- what a host has ------------------------------------------------------------------------------


class WithoutXdp(LocalHost):
    """This host's kernel was built without AF_XDP."""

    def read(self, path: str) -> bytes:
        content = LocalHost.read(self, path)
        if path != "/proc/net/protocols":
            return content
        return b"".join(line for line in content.splitlines(True) if not line.startswith(b"XDP "))


def test_a_kernel_without_af_xdp_has_no_engine_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "probe", lambda self, host: "built")
    with pytest.raises(Unavailable, match="has no AF_XDP"):
        ENGINES["xdp"].probe(WithoutXdp())


# --- what is said of it ---------------------------------------------------------------------------


def measured_with(**engines: str) -> list[Record]:
    return [
        fresh(number, test=Test(search="max", switch=switch.replace("_", "-"), engine=engine))
        for number, (switch, engine) in enumerate(engines.items(), 1)
    ]


def test_switches_with_an_engine_each_are_compared_and_it_is_said() -> None:
    records = measured_with(ipvlan="udp-mmsg", testpmd="dpdk", linux_bridge="dpdk")
    assert following([record.test for record in records], "switch") == ("engine",)
    text = " ".join(answer(records))
    assert "different engines (ipvlan with udp-mmsg; testpmd and linux-bridge with dpdk)" in text
    assert text.count("ipvlan (") == 1, "one sentence has all of them"
    assert len(within([records])) == 3


def test_engines_that_were_asked_for_are_told_apart() -> None:
    records = [
        *measured_with(testpmd="dpdk", linux_bridge="dpdk"),
        *measured_with(linux_bridge="xdp"),
    ]
    assert following([record.test for record in records], "switch") == ()
    assert "different engines" not in " ".join(answer(records))


def test_a_paper_has_the_engine_that_it_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["switchmark", "paper", "ara-2021/table2", "--engine", "raw,auto"]
    monkeypatch.setattr(sys, "argv", argv)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "--engine auto is of run and plan" in capsys.readouterr().err

"""These tests run the command as a user does: killed, interrupted, starved, crowded. Where it ends
by itself, it is in the process of the tests.

After each test the host is as it was before.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from host_snapshot import is_locked, state_of_the_lane
from host_state import (
    marked,
    records,
    start,
    traffic_processes,
    wait_for,
    wait_for_trials,
)
from switchmark.cli import papers
from switchmark.papers import library

ALONE = "--calibrate never".split()
"""Nobody asks for the verdict: the traffic program is not measured without the switch."""

QUICK = ["--duration", "0.15", "--warmup", "0.05", "--rate", "5k", *ALONE]


@pytest.fixture
def environment(traffic_program: str) -> dict[str, str]:
    return {**os.environ, "SWITCHMARK_TRAFFIC": traffic_program}


Run = Callable[..., subprocess.CompletedProcess[str]]


# --- what a user types ----------------------------------------------------------------------


def test_a_record_whose_frames_add_up(switchmark: Run) -> None:
    completed = switchmark(
        *"run --switch linux-bridge --scenario v2v --engine raw-mmsg --frame-size 64".split(),
        *"--rate max --duration 0.3 --repeat 1 --json".split(),
    )
    assert completed.returncode == 0, completed.stderr
    (record,) = records(completed)
    assert record["schema"] == 1
    assert record["status"] == "ok"
    assert record["semantics"] == "learning"
    assert record["rx"]["frames"] > 0
    assert abs(record["unaccounted"]) <= 0.001 * record["tx"]["frames"]
    assert record["rx"]["gbps_l1"] == pytest.approx(record["rx"]["pps"] * 84 * 8 / 1e9)


def test_latency_of_round_trips(switchmark: Run) -> None:
    axes = "--dimension latency --rate 1000 --duration 0.3 --repeat 1 --json"
    completed = switchmark("run", *axes.split())
    assert completed.returncode == 0, completed.stderr
    (record,) = records(completed)
    latency = record["latency_ns"]
    assert latency["kind"] == "rtt"
    assert latency["count"] == record["rx"]["frames"] > 150
    assert 0 < latency["min"] <= latency["p50"] <= latency["p90"] <= latency["max"]
    assert latency["p999"] is None, "fewer than ten samples lie beyond it"
    floor = record["latency_floor_ns"]
    assert (floor["switch"], floor["kind"], floor["rate_pps"]) == ("direct", "rtt", 1000)
    assert floor["count"] > 100
    assert 0 < floor["min"] <= floor["p50"] <= floor["max"]
    assert ("(baseline " in completed.stderr) is floor["holds"]


# --- ends that nobody planned ---------------------------------------------------------------


# test_clean kills runs with links and namespaces alone behind each step.
@pytest.mark.parametrize("switch", [pytest.param("linux-bridge", marks=pytest.mark.further), "ovs"])
def test_killed_in_its_set_up_then_cleaned_nothing_is_left(
    environment: dict[str, str], tmp_path: Path, switchmark: Run, switch: str
) -> None:
    arguments = f"run --switch {switch} --duration 20 --warmup 0.1 --rate 1k --out runs".split()
    killed = start(environment, tmp_path, *arguments, *ALONE)
    wait_for(lambda: list(Path("/run/switchmark").glob("sm*/journal")), "a journal")
    killed.kill()
    killed.communicate(timeout=60)
    completed = switchmark("clean")
    assert completed.returncode == 0, completed.stderr
    again = switchmark("clean")
    assert again.returncode == 0
    left = Path("/run/switchmark").glob("sm*")
    assert all(is_locked(run / "journal") for run in left)  # others live beside this one


def test_finished_records_outlive_a_kill_and_are_not_run_again(
    environment: dict[str, str], tmp_path: Path, switchmark: Run
) -> None:
    killed = start(
        environment,
        tmp_path,
        *["run", "--switch", "linux-bridge,direct", *QUICK, "--duration", "0.3"],
        *["--repeat", "3", "--out", "runs"],
    )
    found = wait_for(
        lambda: [f for f in tmp_path.glob("runs/*/records.jsonl") if f.read_text().count("\n")],
        "a record",
    )
    wait_for(lambda: traffic_processes(killed), "the next test's traffic process")
    killed.kill()
    killed.communicate(timeout=60)
    assert switchmark("clean").returncode == 0
    before = found[0].read_text().splitlines()
    completed = switchmark("resume", str(found[0].parent), "--json")
    assert completed.returncode == 0, completed.stderr
    after = found[0].read_text().splitlines()
    assert after[: len(before)] == before
    assert len(after) == 2
    assert [record["status"] for record in records(completed)] == ["ok"] * 2


def test_ctrl_c_cleans_up_and_says_how_to_go_on(
    environment: dict[str, str], tmp_path: Path
) -> None:
    arguments = "run --duration 0.3 --repeat 100 --rate 1k --out runs".split()
    run = start(environment, tmp_path, *arguments, *ALONE)
    wait_for_trials(tmp_path)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    assert "resume with: switchmark resume" in errors
    assert "Traceback" not in errors


def test_a_traffic_process_that_dies_fails_its_test_alone(
    environment: dict[str, str], tmp_path: Path
) -> None:
    run = start(
        environment,
        tmp_path,
        *"run --switch direct,linux-bridge --rate 1k --json".split(),
        *"--repeat 5 --duration 0.15 --warmup 0".split(),
        *ALONE,
    )
    wait_for_trials(tmp_path)
    os.kill(traffic_processes(run)[0], signal.SIGSEGV)
    output, errors = run.communicate(timeout=60)
    assert run.returncode == 1, errors
    first, second = [json.loads(line) for line in output.splitlines()]
    assert first["status"] == "failed"
    # While it waits for its turn, nobody asks it for an answer.
    assert re.search("was killed by signal 11|died between two rounds", first["error"])
    assert second["status"] == "ok"


def test_a_switch_that_dies_in_a_trial_fails_its_test(
    environment: dict[str, str], tmp_path: Path
) -> None:
    arguments = "run --switch ovs --duration 0.5 --repeat 100 --rate 1k --placement pinned --json"
    run = start(environment, tmp_path, *arguments.split(), *ALONE)
    wait_for_trials(tmp_path)
    os.kill(marked("ovs-vswitchd", run)[0], signal.SIGKILL)
    output, errors = run.communicate(timeout=60)
    assert run.returncode == 1, errors
    record = json.loads(output)
    assert record["status"] == "failed"
    assert "ovs died" in record["error"]


def test_a_switch_that_does_not_start_fails_with_its_words(
    switchmark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "bin" / "ovs-vswitchd"
    broken.parent.mkdir()
    broken.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exec /usr/sbin/ovs-vswitchd --version\n'
        "echo 'no room in the inn' >&2\nexit 3\n"
    )
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{broken.parent}:{os.environ['PATH']}")
    completed = switchmark("run", "--switch", "ovs,direct", *QUICK, "--repeat", "1", "--json")
    assert completed.returncode == 1, completed.stderr
    first, second = records(completed)
    assert first["status"] == "failed"
    assert "no room in the inn" in first["error"]
    assert "status 3" in first["error"]
    assert second["status"] == "ok"


def test_a_full_disk_ends_the_run_and_loses_nothing(switchmark: Run, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)], check=True)
    try:
        subprocess.run(["mkdir", "-p", str(small / "runs")], check=True)
        filler = small / "filler"
        filler.write_bytes(b"x" * 190_000)
        completed = switchmark(
            *["run", "--switch", "direct", "--engine", "raw,raw-mmsg,udp,mmap,udp-mmsg"],
            *["--flows", "200", "--repeat", "2", *QUICK, "--out", str(small / "runs")],
        )
        assert completed.returncode == 4, (completed.stdout, completed.stderr)
        assert "No space left" in completed.stderr
        assert "Traceback" not in completed.stderr
        for file in small.glob("runs/*/*.jsonl"):
            for line in file.read_text().splitlines():
                json.loads(line)
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_run_whose_folder_is_removed_says_so(environment: dict[str, str], tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    run = start(environment, here, *"run --duration 0.5 --rate 1k --repeat 2".split(), *ALONE)
    wait_for(lambda: len(traffic_processes(run)) == 2, "traffic processes")

    def removed() -> bool:
        shutil.rmtree(here, ignore_errors=True)  # the run writes into it meanwhile
        return not here.exists()

    wait_for(removed, "an end of the folder")
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 4, errors
    assert "is gone" in errors
    assert "a bug in" not in errors


def test_two_campaigns_at_once_do_not_collide_and_clean_leaves_both_and_what_is_foreign(
    environment: dict[str, str], tmp_path: Path, switchmark: Run
) -> None:
    namespace, bridge = "smforeign-sw", "smforeign-br"
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    subprocess.run(["ip", "link", "add", bridge, "type", "bridge"], check=True)
    try:
        before = state_of_the_lane()
        arguments = ["run", "--switch", "ovs", *QUICK, "--duration", "1", "--json"]
        arguments += ["--repeat", "2"]
        runs = [start(environment, tmp_path, *arguments, "--out", f"runs{i}") for i in range(2)]
        wait_for(lambda: all(traffic_processes(run) for run in runs), "traffic processes")
        cleaned = switchmark("clean")
        assert cleaned.returncode == 0
        states = [line.partition(": ")[2] for line in cleaned.stdout.splitlines()]
        assert states == ["live"] * len(states)
        assert len(states) >= 2
        for run in runs:
            output, errors = run.communicate(timeout=90)
            assert run.returncode == 0, errors
            content = [json.loads(line) for line in output.splitlines()]
            assert [record["status"] for record in content] == ["ok"]
            assert all(record["foreign"] == record["corrupted"] == 0 for record in content)
        assert switchmark("clean").returncode == 0
        assert state_of_the_lane() == before
    finally:
        subprocess.run(["ip", "link", "del", bridge], check=True)
        subprocess.run(["ip", "netns", "del", namespace], check=True)


# --- options ---------------------------------------------------------------------------------


def test_keep_leaves_the_path_up_and_says_how_to_enter_it(
    environment: dict[str, str], tmp_path: Path, switchmark: Run
) -> None:
    run = start(environment, tmp_path, "run", *QUICK, "--keep")
    printed = run.communicate(timeout=60)
    assert run.returncode == 0, printed
    output = "".join(printed)
    entrances = re.findall(r"ip netns exec (sm[0-9a-f]{4}-\S+) bash", output)
    assert len(entrances) == 3, output
    for node in entrances:
        subprocess.run(["ip", "netns", "exec", node, "true"], check=True)
    switch = next(node for node in entrances if node.endswith("-sw"))
    links = subprocess.run(["ip", "-n", switch, "-o", "link"], capture_output=True, text=True)
    assert "master" in links.stdout
    assert switchmark("clean", switch.removesuffix("-sw")).returncode == 0


def test_keep_is_for_one_test(switchmark: Run, tmp_path: Path) -> None:
    completed = switchmark("run", "--switch", "direct,linux-bridge", "--keep")
    assert completed.returncode == 2
    assert "has 2 tests" in completed.stderr
    assert not (tmp_path / "runs").exists()


def test_captures_hold_valid_frames(switchmark: Run, tmp_path: Path) -> None:
    from scapy.layers.inet import IP, UDP  # GPL: tests only
    from scapy.utils import rdpcap

    completed = switchmark(
        *["run", "--engine", "raw-mmsg", "--frame-size", "200", "--touch", "full", *QUICK],
        # Longer than a busy host takes a CPU away.
        *["--duration", "0.5", "--capture", "50", "--out", "runs", "--json"],
    )
    assert completed.returncode == 0, completed.stderr
    assert "captured" in records(completed)[0]["doubts"]
    files = sorted(tmp_path.glob("runs/*/captures/*.pcap"))
    assert len(files) == 2
    for file in files:
        frames = [frame for frame in rdpcap(str(file)) if frame.haslayer(UDP)]
        assert len(frames) >= 40
        for frame in frames:
            if frame.dst == "ff:ff:ff:ff:ff:ff":
                continue  # the receiver's announcement
            assert len(frame) == 200 - 4
            assert frame[IP].len == 200 - 4 - 14
            assert frame[UDP].len == 200 - 4 - 14 - 20
            ip_sum, udp_sum = frame[IP].chksum, frame[UDP].chksum
            del frame[IP].chksum, frame[UDP].chksum
            rebuilt = frame.__class__(bytes(frame))
            assert (rebuilt[IP].chksum, rebuilt[UDP].chksum) == (ip_sum, udp_sum)


@pytest.fixture
def cable() -> Iterator[tuple[str, str]]:
    """Return two NICs of the host joined by a cable; here, a veth pair that stands for one."""
    a, b = "smtest-nic0", "smtest-nic1"
    subprocess.run(["ip", "link", "add", a, "type", "veth", "peer", "name", b], check=True)
    subprocess.run(["ip", "link", "set", a, "up"], check=True)
    yield a, b
    subprocess.run(["ip", "link", "del", a], check=True)


@pytest.mark.parametrize("switch", ["linux-bridge", "ip-forward", "macvlan", "ovs"])
def test_a_nic_is_lent_and_comes_back_as_it_was(
    switchmark: Run, cable: tuple[str, str], switch: str
) -> None:
    def interface_states() -> str:
        found = []
        for nic in cable:
            link = subprocess.run(["ip", "-o", "link", "show", nic], capture_output=True, text=True)
            features = subprocess.run(["ethtool", "-k", nic], capture_output=True, text=True)
            text = re.sub(r"^\d+: |state \S+|LOWER_UP|NO-CARRIER|M-DOWN|@\S+", "", link.stdout)
            found.append(text + features.stdout)
        return "\n".join(re.sub(r"<[^>]*>", "UP" if ",UP" in t else "DOWN", t) for t in found)

    before = interface_states()
    completed = switchmark(
        *["run", "--switch", switch, "--scenario", "p2v", *QUICK, "--json"],
        *["--nic", f"a0={cable[0]}:{cable[1]}"],
    )
    assert completed.returncode == 0, completed.stderr
    (record,) = records(completed)
    assert record["status"] == "ok", record["error"]
    assert record["rx"]["frames"] > 0
    assert record["unaccounted"] == 0
    assert interface_states() == before


def test_a_nic_in_use_is_refused(switchmark: Run, cable: tuple[str, str]) -> None:
    default = json.loads(
        subprocess.run(["ip", "-j", "route", "show", "default"], capture_output=True).stdout
    )
    busy, peer = cable
    subprocess.run(["ip", "address", "add", "198.19.255.1/32", "dev", busy], check=True)
    cases = [(f"a0={busy}:{peer}", "198.19.255.1"), (f"a0=nosuch0:{peer}", "nosuch0")]
    if default:
        cases.append((f"a0={default[0]['dev']}:{peer}", "default route"))
    for nic, message in cases:
        completed = switchmark("run", "--scenario", "p2v", *QUICK, "--nic", nic, "--json")
        (record,) = records(completed)
        assert record["status"] == "refused"
        assert message in record["error"]


_AS_A_USER = """
import sys
from switchmark.cli import main
for words in ("plan", "list switches --json", "doctor"):
    sys.argv = ["switchmark", *words.split()]
    print(f"--- {words}", flush=True)
    try:
        main()
    except SystemExit as end:
        print(f"--- ended with {end.code or 0}", flush=True)
"""


def test_plan_and_list_need_no_privileges(environment: dict[str, str], tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    # All that is kept of root's is to read everywhere: the checkout may be in /root.
    as_user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    as_user += ["--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search"]
    before = state_of_the_lane()
    completed = subprocess.run(
        [*as_user, sys.executable, "-c", _AS_A_USER],
        capture_output=True,
        text=True,
        env={**environment, "HOME": "/nonexistent"},
        cwd="/",
    )
    assert completed.returncode == 0, completed.stderr
    shown = re.findall(r"^--- (.+)\n((?s:.*?))^--- ended with (\d+)$", completed.stdout, re.M)
    assert [words for words, _, _ in shown] == ["plan", "list switches --json", "doctor"]
    assert all(output for _, output, _ in shown)
    assert [int(code) for _, _, code in shown[:2]] == [0, 0]
    assert int(shown[2][2]) in (0, 3), completed.stderr
    assert "Traceback" not in completed.stderr
    assert state_of_the_lane() == before


@pytest.mark.further  # the next test has the same table with one engine and without containers
def test_the_papers_experiment_prints_published_beside_measured(switchmark: Run) -> None:
    completed = switchmark(
        "paper", "ara-2021/table2", "--quick", "--duration", "0.3", "--warmup", "0.05", *ALONE
    )
    assert completed.returncode in (0, 1), completed.stderr
    for value in ("338", "409", "360", "440"):
        assert value in completed.stdout


@pytest.mark.usefixtures("undrawn")
def test_an_experiment_of_ones_own_is_measured_and_laid_over_the_next_run(
    switchmark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the five texts, outside of the package, with what a run before it measured."""
    kept = Path(library.__file__).parent / "ara-2021"
    own = tmp_path / "mine/my-table"
    own.mkdir(parents=True)
    shutil.copy(kept / "source.yaml", own)
    text = (kept / "table2.yaml").read_text()
    (own / "table2.yaml").write_text(text.replace("environment: lxc", "environment: netns"))
    quick = "--quick --engine udp --repeat 1 --duration 0.2 --warmup 0.05".split() + ALONE
    first = switchmark("paper", "./mine/my-table/table2", *quick, "-o", "first/")
    assert first.returncode == 0, first.stderr
    assert "my-table/table2" in first.stdout
    (udp,) = (line for line in first.stdout.splitlines() if line.strip().startswith("udp "))
    assert re.search(r"\b338\b", udp), udp  # what is published, beside what is measured
    assert "rx.kpps" in (tmp_path / "first/values.csv").read_text()
    again = ("paper", "my-table/*", "--experiments", "mine", *quick, "--data", "first/values.csv")
    second = switchmark(*again)
    assert second.returncode == 0, second.stderr
    (udp,) = (line for line in second.stdout.splitlines() if line.strip().startswith("udp "))
    assert re.search(r"338; [\d.]+", udp), udp
    # unit/test_cli.py has the rest of the list, which takes seconds.
    monkeypatch.setattr(papers, "_listed", lambda experiment, _: {"name": experiment.name})
    listed = switchmark("list", "papers", "--experiments", "mine", "--json")
    assert any(entry["name"] == "my-table/table2" for entry in json.loads(listed.stdout))


def test_an_experiment_with_mistakes_is_refused_before_anything_is_measured(
    switchmark: Run, tmp_path: Path
) -> None:
    own = tmp_path / "mine/p"
    own.mkdir(parents=True)
    (own / "source.yaml").write_text("{authors: a, title: t, year: 2020, venue: v, bed: b}")
    (own / "e.yaml").write_text(
        "{place: figure 1, summary: s, axes: [engine], campaign: {engine: [raw], repeat: 3},\n"
        " published: [{at: {engine: udp}, metric: rx.kpps, value: 1}]}"
    )
    completed = switchmark("paper", "mine/p/e")
    assert completed.returncode == 2
    assert "published: no point is at {'engine': 'udp'}" in completed.stderr
    other = tmp_path / "other/q"  # a process reads a folder of experiments once
    shutil.copytree(own, other)
    (other / "e.yaml").write_text("{place: figure 1, abstract: s}")
    completed = switchmark("paper", "other/q/e")
    assert completed.returncode == 2
    assert "abstract: Extra inputs are not permitted" in completed.stderr

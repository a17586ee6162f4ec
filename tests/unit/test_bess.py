"""These tests check the commands to BESS's client and the parsing of its counters."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.errors import Unavailable
from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.model.plan import Reserve, Spawn, Write
from switchmark.model.topology import Memory, Tuning, Wiring
from switchmark.switches import bess
from switchmark.switches.bess import SWITCH
from wirings import wiring_of

ROOT = "/srv/bess"
FILES = {f"{ROOT}/pybess/builtin_pb/service_pb2_grpc.py": b""}
COUNTS = {"rx": 10, "rx_dropped": 1, "tx": 7, "tx_dropped": 3}


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_BESS", ROOT)


wiring = partial(wiring_of, program="/srv/bess")


def configuration(requested: Wiring) -> dict[str, Any]:
    """Return the configuration in the client's file."""
    (file,) = (
        step
        for step in SWITCH.start(requested)
        if isinstance(step, Write) and step.path.endswith("ports.json")
    )
    found: dict[str, Any] = json.loads(file.content)
    return found


def test_every_queue_of_a_port_is_joined_on_the_workers_in_turn() -> None:
    found = configuration(wiring(queues=2, cores=(1, 3), descriptors=256))
    assert found["cores"] == [1, 3]
    assert found["ways"] == [
        ["p0", "p1", 0, 0],
        ["p0", "p1", 1, 1],
        ["p1", "p0", 0, 0],
        ["p1", "p0", 1, 1],
    ]
    port = found["ports"]["p1"]
    assert {port["num_inc_q"], port["num_out_q"]} == {2}
    assert {port["size_inc_q"], port["size_out_q"]} == {256}


@pytest.mark.parametrize("memory", [Memory("hugepages"), Memory("no-huge")])
def test_what_it_writes_of_its_memory_is_thrown_away(memory: Memory) -> None:
    """It would fill a pipe that nobody reads, and wait."""
    plan = SWITCH.start(wiring(memory=memory))
    daemon = next(step for step in plan if isinstance(step, Spawn))
    script = daemon.argv[daemon.argv.index("-c") + 1]
    completed = subprocess.run(
        ["sh", "-c", script[script.index("exec") :], "sh", "seq", "3"], capture_output=True
    )
    assert (completed.returncode, completed.stdout) == (0, b"")


def test_buffers_are_as_many_as_are_asked_for_and_have_room() -> None:
    def started(**options: Any) -> tuple[str, int]:
        plan = SWITCH.start(wiring(**options))
        spawn, _ = (step for step in plan if isinstance(step, Spawn))
        (reserve,) = (step for step in plan if isinstance(step, Reserve))
        return " ".join(spawn.argv), reserve.megabytes

    assert "-m 512 -buffers 16384" in started()[0]
    assert "-m 512 -buffers 8192" in started(tuning=Tuning(buffers=8192))[0]
    arguments, reserved = started(tuning=Tuning(buffers=1 << 20))
    assert "-m 3072 -buffers 1048576" in arguments
    assert reserved == 3072


def test_long_frames_and_a_port_with_two_peers_are_refused() -> None:
    assert SWITCH.accepts(wiring()) is None
    assert "1518 bytes" in str(SWITCH.accepts(wiring(mtu=9000)))
    crossed = wiring(4)
    flows = (*crossed.flows, replace(crossed.flows[0], id="more", sink="f2"))
    assert "port f0 can send to only one" in str(SWITCH.accepts(replace(crossed, flows=flows)))


def counters(**options: Any) -> bytes:
    """Return the client's output for two ports: threads that ran for 1 ms, and polled in vain for
    three quarters of it."""
    answer = {"ports": {"p0": COUNTS, "p1": {**COUNTS, "rx": 20}}, "spent_ns": 1_000_000}
    return json.dumps({**answer, "empty": 30_000, "empty_a_ns": 0.04, **options}).encode()


def test_counters_are_by_port() -> None:
    found = SWITCH.counters.parse(wiring(), (counters(),))
    assert (found.ports["f0"].rx, found.ports["f1"].rx) == (10, 20)
    assert (found.ports["f0"].rx_dropped, found.ports["f0"].tx_dropped) == (1, 3)
    assert (found.busy_cycles, found.idle_cycles) == (250_000, 750_000)


class Daemon:
    """A daemon on one core, whose ports are polled in vain 20 times in a microsecond each. Every
    fourth answer comes late: the client waits for a CPU, and the daemon goes on."""

    def __init__(self) -> None:
        self.spent_ns, self.asked = 0, 0

    def clock_gettime_ns(self, clock: int) -> int:
        return self.spent_ns

    def sleep(self, seconds: float) -> None:
        self.spent_ns += round(seconds * 1e9)

    def get_port_stats(self, name: str) -> SimpleNamespace:
        self.asked += 1
        half = 5_000_000 if self.asked % 4 == 0 else 50_000
        self.spent_ns += half
        counts = {"packets": 0, "dropped": 0, "actual_hist": [self.spent_ns // 50]}
        self.spent_ns += half
        return SimpleNamespace(inc=SimpleNamespace(**counts), out=SimpleNamespace(**counts))


def test_idle_polls_are_measured_while_the_client_waits_for_a_cpu() -> None:
    client = bess._CLIENT
    functions = client[
        client.index("idle = []") : client.index("with socket.socket(socket.AF_UNIX) as server")
    ]
    daemon = Daemon()
    names: dict[str, Any] = {
        "json": json,
        "time": daemon,
        "bess": daemon,
        "daemon": 1,
        "config": {"ports": ["p0", "p1"]},
    }
    exec(functions, names)
    answer = json.loads(names["counters"]())
    assert answer["empty_a_ns"] == pytest.approx(0.04, rel=0.002)
    assert answer["empty"] == pytest.approx(0.04 * answer["spent_ns"], rel=0.002)


def test_polls_that_were_never_counted_tell_nothing() -> None:
    found = SWITCH.counters.parse(wiring(), (counters(empty_a_ns=0.0),))
    assert (found.busy_cycles, found.idle_cycles) == (None, None)


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"null",
        b"[" * 100_000,
        counters(ports={"p0": COUNTS}),
        counters(ports={"p0": COUNTS, "p1": {}}),
        counters(ports={"p0": COUNTS, "p1": {**COUNTS, "rx": "7"}}),
        counters(ports={"p0": COUNTS, "p1": {**COUNTS, "more": 7}}),
        counters(empty="many"),
        counters(empty_a_ns="much"),
        counters(empty_a_ns=None),
    ],
)
def test_garbled_counters_are_a_value_error(output: bytes) -> None:
    with pytest.raises(ValueError):
        SWITCH.counters.parse(wiring(), (output,))


@given(st.binary())
def test_any_bytes_are_counters_or_a_value_error(output: bytes) -> None:
    with pytest.raises(ValueError):
        SWITCH.counters.parse(wiring(), (output,))


def test_the_version_is_the_daemons_and_what_is_missing_is_named() -> None:
    answers: dict[tuple[str, ...], bytes | Completed] = {
        (f"{ROOT}/core/bessd",): b"bessd version 1d8f708\n",
        ("/usr/bin/python3",): b"version 1.51.1\n",
    }
    version = SWITCH.probe(RecordingHost(answers, files=FILES))
    assert (version.text, version.verified) == ("1d8f708", "not verified")
    with pytest.raises(Unavailable, match="builtin_pb/service_pb2_grpc.py is missing") as refused:
        SWITCH.probe(RecordingHost(answers))
    assert "SWITCHMARK_BESS" in str(refused.value.hint)
    answers["/usr/bin/python3",] = Completed(1, b"", b"ModuleNotFoundError")
    with pytest.raises(Unavailable) as refused:
        SWITCH.probe(RecordingHost(answers, files=FILES))
    assert refused.value.hint == "apt-get install python3-grpcio python3-protobuf"

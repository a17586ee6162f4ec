"""These tests hold the command line of a program that T4P4S has compiled."""

from __future__ import annotations

from functools import partial

import pytest

from switchmark.errors import Unavailable
from switchmark.hosts.recording import RecordingHost
from switchmark.model.plan import Spawn
from switchmark.model.topology import PortKind, Wiring
from switchmark.switches.t4p4s import SWITCH
from wirings import wiring_of


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_T4P4S", "/srv/l2fwd/build/l2fwd")


wiring = partial(wiring_of, program="/srv/l2fwd/build/l2fwd")


def command(requested: Wiring) -> tuple[str, ...]:
    (spawn,) = (step for step in SWITCH.start(requested) if isinstance(step, Spawn))
    return spawn.argv


def test_the_queues_of_ports_are_shared_out_among_the_cores() -> None:
    argv = command(wiring(2, cores=(2, 5), queues=2))
    assert argv[0] == "/srv/l2fwd/build/l2fwd"
    assert argv[argv.index("--lcores") + 1] == "0@2,1@5"
    assert argv[argv.index("--") + 1 :] == (
        *("-p", "0x3", "--config", "(0,0,0),(0,1,1),(1,0,1),(1,1,0)"),
    )
    assert sum("queues=2" in word for word in argv) == 2
    assert "--lcores" not in command(wiring(cores=()))


def test_a_core_sends_by_a_queue_of_its_own_to_a_function() -> None:
    assert "--queues 2" in str(SWITCH.accepts(wiring(cores=(1, 2))))
    assert SWITCH.accepts(wiring(cores=(1, 2), queues=2)) is None
    assert SWITCH.accepts(wiring(queues=2)) is None
    assert "--queues 1" in str(SWITCH.accepts(wiring(queues=2, kind=PortKind.MEMIF)))


def test_more_queues_than_its_cores_can_poll_are_refused() -> None:
    assert SWITCH.accepts(wiring(16)) is None
    assert "at most 16 queues per core: 1 at each of 18" in str(SWITCH.accepts(wiring(18)))
    assert SWITCH.accepts(wiring(16, cores=(1, 2), queues=2)) is None
    assert SWITCH.accepts(wiring(18, cores=(1, 2), queues=2)) is not None


def test_its_version_is_dpdks_and_nothing_of_it_was_verified() -> None:
    host = RecordingHost({("/srv/l2fwd/build/l2fwd",): b"EAL: RTE Version: 'DPDK 22.03.0'\n"})
    version = SWITCH.probe(host)
    assert (version.text, version.verified) == ("22.03.0", "not verified")
    with pytest.raises(Unavailable) as refused:
        SWITCH.probe(RecordingHost())
    assert "SWITCHMARK_T4P4S" in str(refused.value.hint)

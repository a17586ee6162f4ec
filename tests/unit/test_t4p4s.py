"""These tests hold the command line of a program that T4P4S has compiled."""

from __future__ import annotations

from functools import partial

import pytest

from switchmark.errors import Unavailable
from switchmark.machine.recording import RecordingHost
from switchmark.model.plan import Spawn
from switchmark.model.topology import Wiring
from switchmark.switches.t4p4s import SWITCH
from wirings import wiring_of


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_T4P4S", "/srv/l2fwd/build/l2fwd")


wiring = partial(wiring_of, program="/srv/l2fwd/build/l2fwd")


def command(asked: Wiring) -> tuple[str, ...]:
    (spawn,) = (step for step in SWITCH.start(asked) if isinstance(step, Spawn))
    return spawn.argv


def test_ports_are_shared_out_among_the_cores() -> None:
    argv = command(wiring(4, cores=(2, 5)))
    assert argv[0] == "/srv/l2fwd/build/l2fwd"
    assert argv[argv.index("--lcores") + 1] == "0@2,1@5"
    assert argv[argv.index("--") + 1 :] == (
        *("-p", "0xf", "--config", "(0,0,0),(1,0,1),(2,0,0),(3,0,1)"),
    )
    assert "--lcores" not in command(wiring(cores=()))


def test_more_ports_than_its_cores_can_have_are_refused() -> None:
    assert SWITCH.accepts(wiring(16)) is None
    assert "--switch-cores 2" in str(SWITCH.accepts(wiring(18)))
    assert SWITCH.accepts(wiring(18, cores=(1, 2))) is None


def test_its_version_is_dpdks_and_nothing_of_it_was_verified() -> None:
    host = RecordingHost({("/srv/l2fwd/build/l2fwd",): b"EAL: RTE Version: 'DPDK 22.03.0'\n"})
    version = SWITCH.probe(host)
    assert (version.text, version.verified) == ("22.03.0", "not verified")
    with pytest.raises(Unavailable) as refused:
        SWITCH.probe(RecordingHost())
    assert "SWITCHMARK_T4P4S" in str(refused.value.hint)

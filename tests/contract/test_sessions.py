"""These tests play the recorded sessions of switches whose programs no package has, with fakes that
speak the protocols of these programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from session_programs import UNRECORDED
from sessions import CASES, Case, Session, check, no_ends, play, playing
from switchmark.errors import CommandFailed, SetupFailed
from switchmark.model.plan import Spawn, Step, Write
from switchmark.model.topology import Semantics
from switchmark.switches.verified import verifications

RECORDED = [case for case in CASES if case.file.exists()]
FIRST = {case.switch: case for case in reversed(RECORDED)}


def unrecorded(session: Session) -> str:
    """Return what the driver said that its session does not have."""
    file = session.programs / "unrecorded"
    return file.read_text() if file.exists() else ""


def test_every_case_has_a_session() -> None:
    assert [case.name for case in CASES if case not in RECORDED] == []
    assert sorted(path.stem for path in CASES[0].file.parent.iterdir()) == sorted(
        case.name for case in CASES
    )


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case.name)
def test_a_driver_and_the_program_of_its_switch_understand_each_other(case: Case) -> None:
    """The driver says what it said to the real program, in that order, and reads the answers: the
    version, and as many frames as the other ends sent and received."""
    header = case.header()
    with playing(case, case.file) as session:
        try:
            played = play(session, no_ends)
        finally:
            assert not unrecorded(session), (
                f"{unrecorded(session)}\nmake sessions NAMES={case.name} records it anew"
            )
        assert (played.version.text, played.version.mode) == (header["version"], header["mode"])
        played.frames = header["frames"]
        check(played)
        assert session.files() == [], "the files of the run are gone"


@pytest.mark.parametrize("name", FIRST)
def test_the_version_of_a_session_is_the_one_that_was_verified(name: str) -> None:
    """A driver that is verified with another version needs sessions with that version."""
    for case in RECORDED:
        if case.switch == name:
            header, verification = case.header(), verifications()[name][case.kind]
            version = " ".join(filter(None, (header["version"], header["mode"])))
            assert version == verification.version, (
                f"{name} was verified with {verification.version} on {verification.date}, and its "
                f"session is of {header['version']}: make sessions NAMES={case.name}"
            )


STALE = [
    pytest.param(case, path, words, id=f"{case.name} {path.rpartition('/')[2]}")
    for case in RECORDED
    for path, words in case.made()["refuses"].items()
]


@pytest.mark.parametrize(("case", "path", "words"), STALE)
def test_a_program_does_not_start_beside_what_a_killed_one_left(
    case: Case, path: str, words: list[str]
) -> None:
    """The real program refused this file, so a driver has to remove it."""
    with playing(case, case.file) as session:
        plan = session.driver.start(session.wiring)
        number = next(i for i, step in enumerate(plan) if isinstance(step, Spawn))
        session.executor.execute(plan[:number])
        Path(session.folder.own(path)).parent.mkdir(parents=True, exist_ok=True)
        Path(session.folder.own(path)).touch()
        with pytest.raises(SetupFailed, match=f"ended with status {UNRECORDED}") as refused:
            session.executor.execute((*plan[number:], *session.driver.settled(session.wiring)))
        assert session.folder.own(words[-1]) in str(refused.value)


@pytest.mark.parametrize("case", FIRST.values(), ids=lambda case: case.name)
def test_a_fake_refuses_what_its_session_does_not_have(case: Case) -> None:
    with playing(case, case.file) as session:
        other = replace(session.wiring, cores=(1,))
        with pytest.raises(SetupFailed):
            session.executor.execute((*session.driver.start(other), *session.driver.settled(other)))
        assert f"the session {case.file.name} has no such command" in unrecorded(session)


def test_a_client_of_no_switch_fails_as_the_real_one_did() -> None:
    case = FIRST["vpp"]
    with playing(case, case.file) as session:
        (command, *_) = session.driver.counters.commands(session.wiring)
        with pytest.raises(CommandFailed, match="connect: No such file or directory"):
            session.executor.run(command)
        assert not unrecorded(session)


def test_a_script_that_vpp_was_not_given_is_no_part_of_its_session() -> None:
    """The difference is shown."""
    case = FIRST["vpp"]
    with playing(case, case.file) as session:
        driver, wiring = session.driver, session.wiring
        other = replace(wiring, semantics=Semantics.LEARNING)
        (script,) = (step for step in driver.start(other) if _is_script(step))
        plan = driver.start(wiring)
        session.executor.execute(tuple(script if _is_script(step) else step for step in plan))
        assert "+set interface l2 bridge VirtualEthernet0/0/0 1" in unrecorded(session)


def test_an_unknown_command_gets_the_answer_of_vpp() -> None:
    case = FIRST["vpp"]
    with playing(case, case.file) as session:
        session.executor.execute(session.driver.start(session.wiring))
        (step, *_) = session.driver.counters.commands(session.wiring)
        (output,) = session.executor.run(replace(step, argv=(*step.argv[:3], "shew")))
        assert output.decode().strip() == "unknown input `shew'"
        assert "shew" in unrecorded(session)


def _is_script(step: Step) -> bool:
    return isinstance(step, Write) and step.path.endswith("ports.cli")


def test_an_unknown_question_gets_the_answer_of_the_real_program() -> None:
    case = FIRST["fastclick"]
    with playing(case, case.file) as session:
        driver, wiring = session.driver, session.wiring
        session.executor.execute((*driver.start(wiring), *driver.settled(wiring)))
        (step,) = driver.counters.commands(wiring)
        wrong = tuple("f0.counts" if word == "f0.count" else word for word in step.argv)
        outputs = session.executor.run(replace(step, argv=wrong))
        with pytest.raises(ValueError, match="did not report the counters"):
            driver.counters.parse(wiring, outputs)
        assert "READ f0.counts" in unrecorded(session)

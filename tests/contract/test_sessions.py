"""These tests play the recorded sessions of switches whose programs no package has, with fakes that
speak the protocols of these programs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from session_programs import UNRECORDED
from sessions import CASES, Case, Session, check, no_ends, play, playing, start_beside
from switchmark.errors import CommandFailed, SetupFailed
from switchmark.model.plan import Run, Step, Wait, Write
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
    version, and as many frames as the other ends sent and received. A program that patches is
    killed and started again."""
    header = case.header()
    with playing(case, case.file) as session:
        try:
            played = play(session, no_ends, replace_it=case.semantics is Semantics.PATCH)
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
        with pytest.raises(SetupFailed, match=f"ended with status {UNRECORDED}") as refused:
            start_beside(session, path)
            session.executor.execute(session.driver.settled(session.wiring))
        assert session.folder.own(words[-1]) in str(refused.value)


STALE_PORTS = [
    pytest.param(case, path, call["asked"], id=f"{case.name} {path.rpartition('/')[2]}")
    for case in RECORDED
    for path, call in case.made().get("refuses_calls", {}).items()
]


@pytest.mark.parametrize(("case", "path", "call"), STALE_PORTS)
def test_a_program_makes_no_port_beside_what_a_killed_one_left(
    case: Case, path: str, call: str
) -> None:
    """The real program refused this call beside the socket, so a driver has to remove it."""
    with playing(case, case.file) as session:
        with pytest.raises(SetupFailed, match="client ended with status 1") as refused:
            start_beside(session, path)
        assert "Cannot attach vdev" in str(refused.value)
        assert path in call


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


def _ask_for_links(session: Session) -> None:
    (settled,) = session.driver.settled(session.wiring)
    assert isinstance(settled, Wait)
    session.executor.run(Run("links", settled.check.argv, settled.check.at))


def _with_client(session: Session, old: str, new: str) -> None:
    """Start the switch with another client than its driver's."""
    plan = session.driver.start(session.wiring)
    client = next(step for step in plan if isinstance(step, Write) and step.path.endswith(".py"))
    content = client.content.replace(old.encode(), new.encode())
    assert content != client.content
    other = replace(client, content=content)
    session.executor.execute(tuple(other if step is client else step for step in plan))


@pytest.mark.parametrize(
    ("call", "recorded", "said"),
    [
        ("pause_all", "0 ['pause_all'", "0 ['add_worker'"),
        ("resume_all", "12 ['resume_all'", "12 ['get_link_status'"),
    ],
)
def test_calls_to_bess_have_an_order(call: str, recorded: str, said: str) -> None:
    """A port is no part of a module before there is one, and what is paused forwards nothing."""
    case = FIRST["bess"]
    with playing(case, case.file) as session:
        with pytest.raises((SetupFailed, CommandFailed)):
            _with_client(session, f"bess.{call}()\n", "")
            _ask_for_links(session)
        shown = unrecorded(session).replace('\\"', "'")
        assert f'-"{recorded}' in shown
        assert f'+"{said}' in shown


def test_a_port_that_bess_does_not_have_is_refused_in_its_words() -> None:
    case = FIRST["bess"]
    with playing(case, case.file) as session:
        _with_client(session, "bess.get_link_status(name)", 'bess.get_link_status(f"{name}x")')
        with pytest.raises(CommandFailed, match="No port 'p0x' found"):
            _ask_for_links(session)
        assert "p0x" in unrecorded(session)

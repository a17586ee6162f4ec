"""These tests check the recorder and the player themselves: recorded calls are replayed without the
host, and unrecorded calls are refused."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replaying import (
    Names,
    RecordedClock,
    RecordedHost,
    Recording,
    ReplayedClock,
    ReplayedHost,
    Tape,
    Unrecorded,
)
from switchmark import clock
from switchmark.errors import CommandFailed, CommandTimedOut, Unavailable
from switchmark.hosts.base import Call, Completed, Host
from switchmark.hosts.local import LocalHost
from switchmark.hosts.processes import MARK

RUN = "sm1a2b"
ANSWERS = (
    """read line; echo '{"ok": true, "n": 1}'; read line; echo 'not JSON'; read line; exit 3"""
)

Act = Callable[[Host, Path], object]


def names(folder: Path) -> Names:
    return Names({str(folder): "/runs"})


def recorded(act: Act, folder: Path) -> tuple[object, list[str]]:
    """Return the result of an action on this host, and the lines of its recording."""
    folder.mkdir(exist_ok=True)
    tape = Tape(names(folder))
    with clock.replaced_by(RecordedClock(tape)):
        result = act(RecordedHost(LocalHost(), tape), folder)
    return result, list(tape.lines(case="x"))


def replayed(act: Act, folder: Path, lines: list[str]) -> object:
    """Return the result of the same action in a replay, where no process starts."""
    folder.mkdir(exist_ok=True)
    recording = Recording("x", lines, names(folder))
    with pytest.MonkeyPatch.context() as patch, clock.replaced_by(ReplayedClock(recording)):
        patch.setattr(subprocess, "Popen", None)
        result = act(ReplayedHost(recording), folder)
    recording.finish()
    return result


def recorded_and_replayed(act: Act, tmp_path: Path) -> tuple[object, object, list[str]]:
    result, lines = recorded(act, tmp_path / "one")
    return result, replayed(act, tmp_path / "other", lines), lines


def run_of(text: str) -> tuple[str, ...]:
    return ("sh", "-c", text)


# --- each call of a host ----------------------------------------------------------------------


def commands(host: Host, folder: Path) -> object:
    results = [
        host.run(run_of("cat; echo out; echo err >&2; exit 3"), stdin=b"\xff in\n"),
        host.run(run_of("echo $A"), env={"A": "1", MARK: RUN}),
        *host.run_all([Call(run_of("echo 1"), ok=(0,)), Call(run_of("exit 1"), ok=(0,))]),
        *host.run_all([Call(run_of("exit 1"), ok=(0,)), Call(run_of("echo never"), ok=(0,))]),
    ]
    for argv, timeout_s in (("no-such-program",), 1.0), (("sleep", "9"), 0.01):
        with pytest.raises((Unavailable, CommandTimedOut)) as failed:
            host.run(argv, timeout_s=timeout_s)
        results.append((type(failed.value).__name__, failed.value.message))  # type: ignore[arg-type]
    return results


def files(host: Host, folder: Path) -> object:
    path = f"{folder}/{RUN}-file"
    host.write(path, b"1\n2\n3\n")
    results: list[object] = [host.read(path), host.exists(path), host.read_all(f"{folder}/*")]
    host.write(path, b"1\n4\n3\n")
    results += [host.read_all(f"{folder}/*", f"{folder}/none"), host.read_all(path)]
    results += [host.inodes("/proc/self/ns/net", f"{folder}/none"), host.allowed_cpus()]
    host.remove(path)
    with pytest.raises(FileNotFoundError) as failed:
        host.read(path)
    return [_with_here(result, folder) for result in results], failed.value.errno, host.exists(path)


def _with_here(result: object, folder: Path) -> object:
    if not isinstance(result, dict):
        return result
    return {path.replace(str(folder), ""): content for path, content in result.items()}


def processes(host: Host, folder: Path) -> object:
    process = host.spawn(run_of(ANSWERS), stderr_path=f"{folder}/{RUN}-talks.stderr")
    results: list[object] = []
    for number in range(3):
        process.send(json.dumps({"cmd": "go", "number": number}))
        results += [process.poll(), process.receive(5.0)]
    results += [process.poll(), process.last_words()]
    with pytest.raises(CommandFailed):
        for _ in range(100):  # its input may take a moment to close
            process.send("one more")
    process.hang_up()
    spinning = host.spawn(("sleep", "60"), stderr_path=f"{folder}/{RUN}-talks.stderr")
    assert (folder / f"{RUN}-talks.stderr").exists()
    return *results, process.stop(signal.SIGTERM, 1.0), spinning.stop(signal.SIGKILL, 1.0)


def times(host: Host, folder: Path) -> object:
    before = clock.monotonic_ns()
    clock.sleep(0.01)
    return clock.monotonic_ns() - before, clock.stamp(), clock.epoch_s()


@pytest.mark.parametrize("act", [commands, files, processes, times])
def test_a_replay_gives_what_the_host_gave(act: Act, tmp_path: Path) -> None:
    result, again, _ = recorded_and_replayed(act, tmp_path)
    assert again == result


def test_every_call_of_a_host_is_recorded() -> None:
    """What the class `Host` does by itself would reach this host in a replay."""
    by_itself = {"run_all", "read_later"}  # by `run` and `read_all`
    of_far_hosts = {"begin", "hold", "runs_there", "undo_run", "close", "lives", "up", "emulated"}
    calls = {
        name for name in vars(Host) if not name.startswith("_") and callable(getattr(Host, name))
    }
    assert calls - by_itself - of_far_hosts <= set(vars(ReplayedHost))
    assert calls - {"read_later"} - of_far_hosts <= set(vars(RecordedHost))


# --- what a recording looks like ----------------------------------------------------------------


def test_a_recording_names_neither_run_nor_folder(tmp_path: Path) -> None:
    _, _, lines = recorded_and_replayed(files, tmp_path)
    assert not [line for line in lines if RUN in line or str(tmp_path) in line]
    assert any('"/runs/sm0000-file"' in line for line in lines)


def test_a_file_that_was_read_before_is_not_written_again(tmp_path: Path) -> None:
    def act(host: Host, folder: Path) -> object:
        path = folder / "file"
        results = []
        for text in ("a\nb\nc\n", "a\nb\nc\n", "a\nx\nc\n", "a\n"):
            path.write_text(text)
            results.append(host.read_all(str(path))[str(path)])
        return results

    result, lines = recorded(act, tmp_path / "one")
    news = [json.loads(line)["read_all"]["/runs/file"] for line in lines[1:]]
    assert news == ["a\nb\nc\n", "=", {"1": "x"}, "a\n"]
    assert result == [b"a\nb\nc\n", b"a\nb\nc\n", b"a\nx\nc\n", b"a\n"]


def test_output_that_is_json_is_shown_as_json_and_replayed_to_the_byte(tmp_path: Path) -> None:
    texts = ['[{"a":1,"b":"\\u00e9"}]\n', '{"a": 1}\n', '{"a":1}', "{", '{"a":1,"a":2}\n', "[1]\n"]

    def act(host: Host, folder: Path) -> object:
        return [host.run(("printf", "%s", text)).stdout for text in texts]

    result, again, lines = recorded_and_replayed(act, tmp_path)
    assert again == result == [text.encode() for text in texts]
    assert json.loads(lines[-1])["out"] == {"json": [1]}


def test_what_else_a_host_runs_is_not_written_down(tmp_path: Path) -> None:
    def act(host: Host, folder: Path) -> object:
        return host.read_all("/proc/[0-9]*/comm")

    result, lines = recorded(act, tmp_path / "one")
    assert len(result) > 1  # type: ignore[arg-type]
    files = json.loads(lines[1])["read_all"]["/proc/[0-9]*/comm"]
    assert all(name.startswith("ksoftirqd/") for name in files.values())


# --- what is refused ----------------------------------------------------------------------------

DIALOGUE = [
    {"began_ns": 0},
    {"t": 1.0, "spawn": "traffic", "argv": ["serve"], "pid": 7, "started": 1},
    {"t": 2.0, "of": "traffic", "send": {"cmd": "arm", "run": 5, "tasks": [{"rate": 100}]}},
    {"t": 3.0, "of": "traffic", "receive": {"ok": True}},
    {"t": 4.0, "read": "/proc/a", "to": "1\n"},
    {"t": 5.0, "run": ["ip", "link"], "out": "one"},
    {"t": 6.0, "read": "/proc/a", "to": "="},
    {"t": 7.0, "run": ["ip", "link"], "out": "two"},
    {"t": 8.0, "clock": 8_000_500},
    {"t": 9.0, "of": "traffic", "ended": -9},
    {"t": 10.0, "of": "traffic", "stop": 15, "status": -9},
]


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording("x.jsonl", [json.dumps(line) for line in DIALOGUE], names(tmp_path))


@pytest.fixture
def host(recording: Recording) -> ReplayedHost:
    return ReplayedHost(recording)


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(tmp_path / "traffic.stderr")


def arm(**members: Any) -> str:
    return json.dumps({"cmd": "arm", "run": 6, "tasks": [{"rate": 100}], **members})


def test_another_order_is_shown_beside_the_recorded_one(host: Host, log: str) -> None:
    process = host.spawn(("serve",), stderr_path=log)
    with pytest.raises(Unrecorded) as refused:
        process.send(arm(tasks=[{"rate": 200}]))
    text = str(refused.value)
    assert "traffic gets another order than recorded" in text
    assert '"rate": 100' in text
    assert '"rate": 200' in text
    assert "tasks[0].rate: recorded 100, now 200" in text
    assert "after x.jsonl:3:" in text


@pytest.mark.parametrize("members", [{"more": 1}, {"tasks": []}, {"cmd": "open"}])
def test_an_order_with_other_members_is_refused(host: Host, log: str, members: Any) -> None:
    process = host.spawn(("serve",), stderr_path=log)
    with pytest.raises(Unrecorded, match="another order"):
        process.send(arm(**members))


def test_an_order_may_have_another_number_of_the_run(host: Host, log: str) -> None:
    process = host.spawn(("serve",), stderr_path=log)
    process.send(arm(run=7))
    assert json.loads(process.receive(1.0) or "") == {"ok": True}


def test_a_command_that_was_not_recorded_is_refused(host: Host) -> None:
    with pytest.raises(Unrecorded) as refused:
        host.run(("ip", "addr"))
    assert 'not recorded: {"run": ["ip", "addr"]}' in str(refused.value)
    assert 'recorded is: {"run": ["ip", "link"]}' in str(refused.value)


def test_a_command_is_not_run_once_more_than_recorded(host: Host) -> None:
    assert [host.run(("ip", "link")).stdout for _ in range(2)] == [b"one", b"two"]
    with pytest.raises(Unrecorded, match="asked once more than recorded"):
        host.run(("ip", "link"))


def test_a_file_that_never_changed_may_be_read_once_more(host: Host) -> None:
    assert [host.read("/proc/a") for _ in range(3)] == [b"1\n"] * 3


def test_calls_may_come_in_another_order(host: Host, recording: Recording, log: str) -> None:
    assert host.run(("ip", "link")) == Completed(0, b"one", b"")
    assert host.read("/proc/a") == b"1\n"
    process = host.spawn(("serve",), stderr_path=log)
    process.send(arm())
    process.receive(1.0)
    host.run(("ip", "link"))
    process.stop(15, 1.0)
    recording.finish()


def test_a_call_that_was_not_made_is_named(host: Host, recording: Recording, log: str) -> None:
    process = host.spawn(("serve",), stderr_path=log)
    process.send(arm())
    host.run(("ip", "link"))
    with pytest.raises(Unrecorded) as refused:
        recording.finish()
    text = str(refused.value)
    assert "2 recorded calls were not made" in text
    assert 'line 8: {"t":7.0,"run":["ip","link"]' in text
    assert 'line 11: {"t":10.0,"of":"traffic","stop":15' in text


def test_a_refusal_that_is_caught_is_still_told(host: Host, recording: Recording) -> None:
    for program in ("first", "second"):
        with pytest.raises(Unrecorded):
            host.run((program,))
    with pytest.raises(Unrecorded, match="first"):
        recording.finish()


def test_a_process_is_stopped_by_the_recorded_signal(host: Host, log: str) -> None:
    process = host.spawn(("serve",), stderr_path=log)
    with pytest.raises(Unrecorded, match="stopped by 9, not by 15"):
        process.stop(9, 1.0)


def test_a_process_has_ended_where_the_recording_found_it_so(host: Host, log: str) -> None:
    process = host.spawn(("serve",), stderr_path=log)
    assert process.poll() is None
    host.run(("ip", "link"))
    host.run(("ip", "link"))
    assert process.poll() is None
    with clock.replaced_by(ReplayedClock(host._recording)):  # type: ignore[attr-defined]
        clock.monotonic_ns()
    assert (process.poll(), process.poll()) == (-9, -9)


def test_the_clock_shows_the_time_of_the_latest_call(host: ReplayedHost) -> None:
    with clock.replaced_by(ReplayedClock(host._recording)):
        assert clock.monotonic_ns() == 0
        host.read("/proc/a")
        assert clock.monotonic_ns() == 4_000_000
        host.run(("ip", "link"))
        host.run(("ip", "link"))
        assert clock.monotonic_ns() == 8_000_500, "as it was read then"
        assert clock.monotonic_ns() == 8_000_000, "read once more: the end of the latest call"


def slept(seconds: float, tmp_path: Path) -> None:
    lines = [json.dumps({"began_ns": 0}), json.dumps({"t": 1.0, "sleep": 0.2})]
    recording = Recording("x", lines, names(tmp_path))
    with clock.replaced_by(ReplayedClock(recording)):
        if seconds:
            clock.sleep(seconds)
    recording.finish()


def test_a_sleep_is_as_long_as_the_recorded_one(tmp_path: Path) -> None:
    slept(0.2003, tmp_path)
    with pytest.raises(Unrecorded, match=r"waits 0.1 s here, and 0.2 s in the recording"):
        slept(0.1, tmp_path)
    with pytest.raises(Unrecorded, match="1 recorded calls were not made"):
        slept(0, tmp_path)

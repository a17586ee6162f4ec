"""This module records what a host and the traffic program answer to a run, and replays it: without
a host, without processes, and without waiting.

A recording is a file of JSON lines, one call a line, in the order of the calls. `t` are the
milliseconds from the beginning to the end of the call. A call is answered by its own words, not by
its place: calls that are the same are answered in the order of the recording, and others may come
earlier or later than there. The clock shows the time of the recording at the last call.
"""

from __future__ import annotations

import difflib
import gzip
import json
import re
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import Any

from switchmark import errors
from switchmark.clock import Clock
from switchmark.errors import SwitchmarkError
from switchmark.hosts.base import Call, Completed, Host, Process
from switchmark.hosts.processes import MARK
from switchmark.observe.facts import FIGURE_OPTIONS

Event = dict[str, Any]

ACTIONS = ("run", "spawn", "send", "write", "remove", "stop", "hang_up", "end", "sleep")
"""Calls that change something: a replay must make all of them. Others only read."""

DRAWN = frozenset({"run"})
"""Members of an order to the traffic program that are drawn at random."""

_SLEEP_S = 0.001
"""By how much a sleep may differ from the recorded one: it ends at a moment, whose distance is read
from the clock."""


class Unrecorded(AssertionError):
    """The code asked what the recording does not answer."""


# --- names ------------------------------------------------------------------------------------


class Names:
    """Names that differ from run to run, and their replacements in a recording: `folders` maps
    those of this run. A run's id is noted when the first call names it."""

    _RUN = re.compile(r"(?<![0-9a-z])sm[0-9a-f]{4}(?![0-9a-f])")

    def __init__(self, folders: Mapping[str, str]) -> None:
        longest = sorted(folders.items(), key=lambda pair: -len(pair[0]))
        self._recorded_names = dict(longest)
        self._own_names = {recorded: own for own, recorded in longest}

    def request(self, text: str) -> str:
        """Return a text of a call as the recording has it, with numbers for new runs."""
        for run in self._RUN.findall(text):
            if run not in self._recorded_names:
                number = len([name for name in self._recorded_names if "/" not in name])
                name = f"sm{number:04x}"
                self._recorded_names[run], self._own_names[name] = name, run
        return self.to_recording(text)

    def to_recording(self, text: str) -> str:
        """Return a text as a recording has it."""
        return _replaced(text, self._recorded_names)

    def from_recording(self, text: str) -> str:
        """Return a text of a recording with the names of this run."""
        return _replaced(text, self._own_names)


def _replaced(text: str, replacements: Mapping[str, str]) -> str:
    if not any(word in text for word in replacements):
        return text
    return re.sub(
        "|".join(map(re.escape, replacements)), lambda match: replacements[match[0]], text
    )


def _text(content: bytes) -> str:
    return content.decode(errors="surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _shown(text: str) -> Any:
    """Return an output as a recording shows it: JSON as such, if that says every byte."""
    if text.startswith(("[", "{")):
        try:
            content = json.loads(text)
        except ValueError:
            return text
        if _of_shown({"json": content}) == text:
            return {"json": content}
    return text


def _of_shown(output: Any) -> str:
    if isinstance(output, dict):
        return json.dumps(output["json"], separators=(",", ":"), ensure_ascii=False) + "\n"
    return str(output)


# --- what is written down ---------------------------------------------------------------------

_CONFIG, _COMMANDS = "/proc/config.gz", "/proc/cmdline"
_OPTIONS = "|".join((*FIGURE_OPTIONS, "CONFIG_IRQ_TIME_ACCOUNTING"))
_KEPT_OF: tuple[tuple[str, re.Pattern[str]], ...] = (
    (_CONFIG, re.compile(rf"(# )?({_OPTIONS})[= ].*")),
    (_COMMANDS, re.compile(r"tsc=\S+")),
    ("/proc/stat", re.compile(r"cpu.*")),
    ("/status", re.compile(r".*_ctxt_switches:.*")),
    ("/sched", re.compile(r"se\.nr_migrations .*")),
)
"""The ends of paths, and the lines of these long or private files that are written down: those that
the lab looks for. Words of the kernel's command line count as lines."""

_KEPT_OF_ALL = {
    "/proc/[0-9]*/comm": re.compile(r"ksoftirqd/\d+\n"),
    "/proc/[0-9]*/stat": re.compile(r"\d+ \((qemu|vhost-|switchmark).*", re.DOTALL),
}
"""Files of all processes of a host, of which only some are written down: the content of those that
the lab looks for. Other processes of the host are not recorded."""


def _stored_text(path: str, pattern: str, content: bytes) -> str | None:
    """Return the recorded part of a file; None if nothing is recorded."""
    text = _text(gzip.decompress(content) if path == _CONFIG else content)
    for end, lines in _KEPT_OF:
        if path.endswith(end):
            apart = " " if path == _COMMANDS else "\n"
            return apart.join(line for line in text.strip().split(apart) if lines.fullmatch(line))
    kept_lines = _KEPT_OF_ALL.get(pattern)
    return text if kept_lines is None or kept_lines.fullmatch(text) else None


def _as_read(path: str, content: str) -> bytes:
    """Return the content of a file that was written down."""
    return gzip.compress(_bytes(content), mtime=0) if path == _CONFIG else _bytes(content)


SAME = "="
"""In place of an answer: the same as that of the same reading before."""


class Latest:
    """The latest answer of each reading. A file writes down what is new in the next one: nothing,
    or the lines of a text that changed, by number."""

    def __init__(self) -> None:
        self._of: dict[str, Any] = {}

    def news(self, reading: str, answer: Any) -> Any:
        """Return the recorded form of an answer."""
        before, self._of[reading] = self._of.get(reading), answer
        if before is not None and before == answer:
            return SAME
        if isinstance(before, str) and isinstance(answer, str):
            old_lines, now = before.split("\n"), answer.split("\n")
            if len(old_lines) == len(now) > 2:
                changed = enumerate(zip(old_lines, now, strict=True))
                return {str(index): new for index, (old, new) in changed if old != new}
        if isinstance(before, dict) and isinstance(answer, dict):
            leaves, old_leaves = dict(_leaves(answer)), dict(_leaves(before))
            if list(leaves) == list(old_leaves):
                return {
                    "but": {path: leaf for path, leaf in leaves.items() if leaf != old_leaves[path]}
                }
        return answer

    def whole(self, reading: str, news: Any) -> Any:
        """Return the answer for a recorded form."""
        if news == SAME:
            return self._of[reading]
        if isinstance(news, dict) and "but" in news:
            news = _with_leaves(self._of[reading], news["but"])
        elif isinstance(news, dict) and "json" not in news:
            lines = self._of[reading].split("\n")
            for index, line in news.items():
                lines[int(index)] = line
            news = "\n".join(lines)
        self._of[reading] = news
        return news


def _leaves(content: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values in JSON, each with its place."""
    if isinstance(content, (dict, list)) and content:
        items = content.items() if isinstance(content, dict) else enumerate(content)
        for name, member in items:
            yield from _leaves(member, f"{path}/{name}")
    else:
        yield path, content


def _with_leaves(content: Any, changed: Mapping[str, Any], path: str = "") -> Any:
    """Return JSON with other values in some places."""
    if isinstance(content, dict) and content:
        return {
            name: _with_leaves(value, changed, f"{path}/{name}") for name, value in content.items()
        }
    if isinstance(content, list) and content:
        return [_with_leaves(value, changed, f"{path}/{no}") for no, value in enumerate(content)]
    return changed.get(path, content)


_ANY = re.compile(r"[*?\[]")


def _news_of(latest: Latest, kind: str, found: Mapping[str, Mapping[str, Any]]) -> Event:
    """Return what a recording says of a `read_all` or `inodes`: by pattern, or by path below a
    pattern that may have several. A file that is not there is null."""
    news: Event = {}
    for pattern, files in found.items():
        of_files = {path: latest.news(f"{kind} {path}", file) for path, file in files.items()}
        if not _ANY.search(pattern):
            news[pattern] = of_files.get(pattern)
        elif latest.news(f"{kind} paths of {pattern}", list(files)) == SAME and all(
            value == SAME for value in of_files.values()
        ):
            news[pattern] = SAME
        else:
            news[pattern] = of_files
    return news


def _whole_of(latest: Latest, kind: str, news: Event) -> Event:
    """Return the answer of which a recording says this, by pattern and path."""
    found: Event = {}
    for pattern, of_files in news.items():
        if not _ANY.search(pattern):
            of_files = {} if of_files is None else {pattern: of_files}
        elif of_files == SAME:
            of_files = dict.fromkeys(latest.whole(f"{kind} paths of {pattern}", SAME), SAME)
        latest.whole(f"{kind} paths of {pattern}", list(of_files))
        found[pattern] = {
            path: latest.whole(f"{kind} {path}", value) for path, value in of_files.items()
        }
    return found


@cache
def _folder(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern.replace("/", "\0")))


def _matches(path: str, pattern: str) -> bool:
    matched = _folder(pattern).match(path.replace("/", "\0"))
    return matched is not None and path.count("/") == pattern.count("/")


def _key(event: Mapping[str, Any]) -> str:
    """Return the words by which a call finds its answer."""
    kind = _kind(event)
    if kind in ("send", "receive", "hang_up", "stop", "ended", "words"):
        return f"{kind} {event['of']}"
    if kind in ("sleep", "clock", "epoch", "read_all", "inodes"):
        return kind
    return json.dumps({name: event[name] for name in _ASKED[kind] if name in event})


_ASKED: dict[str, tuple[str, ...]] = {
    "run": ("run", "stdin", "env"),
    "spawn": ("spawn", "argv", "env"),
    "end": ("end",),
    "path_of": ("path_of",),
    "allowed_cpus": ("allowed_cpus",),
    "marked": ("marked",),
    "read": ("read",),
    "write": ("write", "content"),
    "exists": ("exists",),
    "remove": ("remove",),
    "read_all": ("read_all",),
    "inodes": ("inodes",),
    "send": ("send", "of"),
    "receive": ("receive", "of"),
    "words": ("words", "of"),
    "hang_up": ("hang_up", "of"),
    "stop": ("stop", "of"),
    "ended": ("ended", "of"),
    "sleep": ("sleep",),
    "clock": ("clock",),
    "epoch": ("epoch",),
}
"""The members of each kind of call that are its words; the others are the answer."""


def _kind(event: Mapping[str, Any]) -> str:
    return next(kind for kind in _ASKED if kind in event)


def _request(argv: tuple[str, ...], stdin: bytes | None, env: Mapping[str, str]) -> Event:
    variables = {name: value for name, value in env.items() if name != MARK}
    return {
        "run": list(argv),
        **({} if stdin is None else {"stdin": _text(stdin)}),
        **({"env": variables} if variables else {}),
    }


def _request_line(argv: Iterable[str]) -> str:
    return f"run {' '.join(argv)}"


def _mapped(content: Any, change: Callable[[str], str]) -> Any:
    """Return JSON with each of its strings changed."""
    if isinstance(content, str):
        return change(content)
    if isinstance(content, Mapping):
        return {change(name): _mapped(value, change) for name, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_mapped(item, change) for item in content]
    return content


# --- recording --------------------------------------------------------------------------------


class Tape:
    """The calls of a run, as they are recorded."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.latest = Latest()
        self.events: list[Event] = []
        self.began_ns = time.monotonic_ns()
        self._spawned: Counter[str] = Counter()

    def note(self, request: Event, **answer: Any) -> None:
        """Note a call that has just ended, and its answer."""
        t = round((time.monotonic_ns() - self.began_ns) / 1e6, 3)
        call = _mapped(request, self.names.request)
        self.events.append({"t": t, **call, **_mapped(answer, self.names.to_recording)})

    def name_of(self, stderr_path: str) -> str:
        """Return the name of a process that is about to be started."""
        return _name_of(self._spawned, Path(stderr_path).stem)

    def lines(self, **facts: Any) -> Iterable[str]:
        """Return the lines of the file. The first has `facts` about the recording."""
        yield _line({"began_ns": self.began_ns, **facts})
        yield from map(_line, self.events)


def _name_of(spawned: Counter[str], stem: str) -> str:
    spawned[stem] += 1
    return stem if spawned[stem] == 1 else f"{stem} {spawned[stem]}"


def _line(event: Event) -> str:
    return json.dumps(event, separators=(",", ":")) + "\n"


class RecordedClock(Clock):
    """This clock notes each time that it is read, and each sleep."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def monotonic_ns(self) -> int:
        now = super().monotonic_ns()
        self._tape.note({"clock": now})
        return now

    def epoch_s(self) -> float:
        now = super().epoch_s()
        self._tape.note({"epoch": now})
        return now

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self._tape.note({"sleep": seconds})


class RecordedProcess:
    """A process that records its input and its output."""

    def __init__(self, process: Process, tape: Tape, name: str) -> None:
        self._process, self._tape, self._name = process, tape, name
        self.pid, self.started = process.pid, process.started
        self._ended = False

    @property
    def patience(self) -> float:
        return self._process.patience

    def send(self, line: str) -> None:
        order = {"of": self._name, "send": _order(line)}
        try:
            self._process.send(line)
        except SwitchmarkError as error:
            self._tape.note(order, **_raised(error))
            raise
        self._tape.note(order)

    def receive(self, timeout_s: float) -> str | None:
        line = self._process.receive(timeout_s)
        self._tape.note({"of": self._name}, receive=None if line is None else _order(line))
        return line

    def poll(self) -> int | None:
        status = self._process.poll()
        if status is not None and not self._ended:
            self._ended = True
            self._tape.note({"of": self._name}, ended=status)
        return status

    def last_words(self, count: int = 5) -> str:
        lines = self._process.last_words(count)
        self._tape.note({"of": self._name}, words=lines)
        return lines

    def hang_up(self) -> None:
        self._process.hang_up()
        self._tape.note({"of": self._name, "hang_up": True})

    def stop(self, number: int, grace_s: float) -> int:
        status = self._process.stop(number, grace_s)
        self._tape.note({"of": self._name, "stop": number}, status=status)
        return status


def _order(line: str) -> Any:
    """Return a line of the dialogue with the traffic program: a JSON object, or text."""
    try:
        content = json.loads(line)
    except ValueError:
        return line
    return content if isinstance(content, dict) else line


def _raised(error: Exception) -> Event:
    answer = {"raised": type(error).__name__}
    if isinstance(error, SwitchmarkError):
        return {**answer, "message": error.message, **({"hint": error.hint} if error.hint else {})}
    if isinstance(error, OSError):
        return {**answer, "errno": error.errno, "message": error.strerror or str(error)}
    return {**answer, "message": str(error)}


class RecordedHost(Host):
    """This host lets another one do the work, and notes each call with its answer."""

    def __init__(self, host: Host, tape: Tape) -> None:
        self._host, self._tape = host, tape
        self.name, self.patience = host.name, host.patience
        self.is_local, self.is_far = host.is_local, host.is_far
        self.is_machine, self.in_order = host.is_machine, host.in_order

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] = {},
        timeout_s: float = 10.0,
    ) -> Completed:
        return next(self.run_all([Call(argv, stdin, env, timeout_s)]))

    def run_all(self, calls: Sequence[Call]) -> Generator[Completed, None, None]:
        with closing(self._host.run_all(calls)) as outcomes:
            for call in calls:
                request = _request(call.argv, call.stdin, call.env)
                try:
                    completed = next(outcomes)
                except StopIteration:
                    return
                except SwitchmarkError as error:
                    self._tape.note(request, **_raised(error))
                    raise
                self._tape.note(
                    request,
                    **({"status": completed.status} if completed.status else {}),
                    **({"out": self._news_of(call, completed)} if completed.stdout else {}),
                    **({"err": _shown(_text(completed.stderr))} if completed.stderr else {}),
                )
                yield completed

    def _news_of(self, call: Call, completed: Completed) -> Any:
        output = _shown(_text(completed.stdout))
        return (
            self._tape.latest.news(_request_line(call.argv), output)
            if call.stdin is None
            else output
        )

    def spawn(
        self, argv: tuple[str, ...], *, stderr_path: str, env: Mapping[str, str] = {}
    ) -> RecordedProcess:
        name = self._tape.name_of(stderr_path)
        request = _request(argv, None, env)
        request = {"spawn": name, "argv": request.pop("run"), **request}
        try:
            process = self._host.spawn(argv, stderr_path=stderr_path, env=env)
        except SwitchmarkError as error:
            self._tape.note(request, **_raised(error))
            raise
        self._tape.note(request, pid=process.pid, started=process.started)
        return RecordedProcess(process, self._tape, name)

    def end(self, pid: int, started: int, number: int, grace_s: float) -> bool:
        ended = self._host.end(pid, started, number, grace_s)
        self._tape.note({"end": [pid, started, number]}, to=ended)
        return ended

    def marked(self, run: str) -> tuple[tuple[int, int], ...]:
        found = self._host.marked(run)
        self._tape.note({"marked": run}, found=found)
        return found

    def path_of(self, program: str) -> str:
        path = self._host.path_of(program)
        self._tape.note({"path_of": program}, to=path)
        return path

    def allowed_cpus(self) -> frozenset[int]:
        cpus = self._host.allowed_cpus()
        self._tape.note({"allowed_cpus": True}, to=self._tape.latest.news("cpus", sorted(cpus)))
        return cpus

    def read(self, path: str) -> bytes:
        try:
            content = self._host.read(path)
        except OSError as error:
            self._tape.note({"read": path}, **_raised(error))
            raise
        self._tape.note(
            {"read": path},
            to=self._tape.latest.news(f"read {path}", _stored_text(path, path, content)),
        )
        return content

    def write(self, path: str, content: bytes) -> None:
        request = {"write": path, "content": _text(content)}
        try:
            self._host.write(path, content)
        except OSError as error:
            self._tape.note(request, **_raised(error))
            raise
        self._tape.note(request)

    def exists(self, path: str) -> bool:
        exists = self._host.exists(path)
        self._tape.note({"exists": path}, to=exists)
        return exists

    def remove(self, path: str) -> None:
        self._host.remove(path)
        self._tape.note({"remove": path})

    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        files = self._host.read_all(*patterns)
        found: dict[str, dict[str, str]] = {pattern: {} for pattern in patterns}
        for path, content in files.items():
            pattern = next(
                pattern for pattern in patterns if path == pattern or _matches(path, pattern)
            )
            if (text := _stored_text(path, pattern, content)) is not None:
                found[pattern][path] = text
        for pattern in patterns:
            self._tape.names.request(pattern)
        self._tape.note({}, read_all=_news_of(self._tape.latest, "read", found))
        return files

    def inodes(self, *patterns: str) -> Mapping[str, int]:
        numbers = self._host.inodes(*patterns)
        # Of many processes, those in the namespaces that are asked for by name.
        named = {numbers.get(pattern) for pattern in patterns}
        found: dict[str, dict[str, int]] = {pattern: {} for pattern in patterns}
        for path, number in numbers.items():
            pattern = next(
                pattern for pattern in patterns if path == pattern or _matches(path, pattern)
            )
            if number in named or not _matches(path, "/proc/[0-9]*/ns/net"):
                found[pattern][path] = number
        for pattern in patterns:
            self._tape.names.request(pattern)
        self._tape.note({}, inodes=_news_of(self._tape.latest, "inode", found))
        return numbers

    @property
    def up(self) -> bool:
        return self._host.up

    @property
    def emulated(self) -> str:
        return self._host.emulated

    def lives(self) -> bool:
        return self._host.lives()


# --- replaying --------------------------------------------------------------------------------


class Recording:
    """A recording that is replayed. `at` is the number of its latest call that was made."""

    def __init__(self, name: str, lines: Iterable[str], names: Names) -> None:
        self.name, self.names = name, names
        header, *events = (json.loads(line) for line in lines)
        self.about: Event = header
        self.events = list(_completed(events))
        self.at = -1
        self.failure: Unrecorded | None = None
        self.spawned: Counter[str] = Counter()
        self._made: set[int] = set()
        self._waiting: dict[str, deque[int]] = defaultdict(deque)
        self._last: dict[str, int] = {}
        for number, event in enumerate(self.events):
            for key in _keys(event):
                self._waiting[key].append(number)

    def answer(self, **request: Any) -> Event:
        """Return the recorded call of these words. Raise Unrecorded if there is no further one."""
        event = _mapped(request, self.names.request)
        answer: Event = self._to_own_names(self.events[self._next(_key(event), event)])
        return answer

    def of_file(self, kind: str, pattern: str) -> Mapping[str, Any]:
        """Return what a pattern of `read_all` or `inodes` found."""
        recorded_pattern = self.names.request(pattern)
        number = self._next(f"{kind} {recorded_pattern}", {kind: recorded_pattern})
        found: Mapping[str, Any] = self._to_own_names(self.events[number][kind][recorded_pattern])
        return found

    def now_ns(self) -> int:
        """Return the time of the recording: the next reading of the clock, or the end of the latest
        call."""
        if self._follows("clock"):
            return int(self._take_next()["clock"])
        t = self.events[self.at]["t"] if self.at >= 0 else 0.0
        return int(self.about["began_ns"] + t * 1e6)

    def epoch_s(self) -> float:
        """Return the date of the recording."""
        number = self._next("epoch", {"epoch": True}, again=True)
        return float(self.events[number]["epoch"])

    def slept(self, seconds: float) -> None:
        event = self.events[self._next("sleep", {"sleep": seconds})]
        if abs(event["sleep"] - seconds) > _SLEEP_S:
            self.fail(f"waits {seconds:g} s here, and {event['sleep']:g} s in the recording")

    def ended(self, process: str) -> int | None:
        """Return the status of a process if the recording has found it ended by now."""
        key = self.names.request(f"ended {process}")
        if (waiting := self._waiting.get(key)) and waiting[0] <= self.at + 1:
            return int(self.events[self._next(key, {})]["ended"])
        return None

    def fail(self, why: str) -> None:
        """Raise Unrecorded, and remember the first reason: what follows is its consequence."""
        place = f"{self.name}:{self.at + 2}"
        failure = Unrecorded(f"{why}\n  after {place}: {self._brief(self.at)}")
        self.failure = self.failure or failure
        raise failure

    def finish(self) -> None:
        """Raise Unrecorded if the code asked what is not recorded, or did less than is recorded."""
        if self.failure is not None:
            raise self.failure
        left = [
            number
            for number, event in enumerate(self.events)
            if number not in self._made and _kind(event) in ACTIONS
        ]
        if left:
            lines = "".join(f"\n  line {number + 2}: {self._brief(number)}" for number in left[:5])
            self.fail(f"{len(left)} recorded calls were not made:{lines}")

    def _next(self, key: str, request: Event, *, again: bool = False) -> int:
        waiting = self._waiting.get(key)
        if not waiting and (again or self._never_changed(key)) and key in self._last:
            return self._last[key]
        if not waiting:
            self._refuse(key, request)
        assert waiting
        number = self._last[key] = waiting.popleft()
        self._made.add(number)
        self.at = max(self.at, number)
        return number

    def _never_changed(self, key: str) -> bool:
        """Return whether a reading was answered the same each time, so that one more is, too."""
        numbers = [n for n, event in enumerate(self.events) if key in _keys(event)]
        if not numbers or _kind(self.events[numbers[0]]) in ACTIONS:
            return False
        kind, _, pattern = key.partition(" ")
        if kind in ("read_all", "inodes"):
            answers = [self.events[n][kind][pattern] for n in numbers]
        elif _kind(self.events[numbers[0]]) in ("read", "exists", "allowed_cpus", "path_of"):
            answers = [{k: v for k, v in self.events[n].items() if k != "t"} for n in numbers]
        else:
            return False
        return all(answer == answers[0] for answer in answers)

    def _refuse(self, key: str, request: Event) -> None:
        if key in self._last:
            self.fail(f"asked once more than recorded: {key}")
        nearest = difflib.get_close_matches(key, list(self._waiting), n=1, cutoff=0.3)
        text = "".join(f"\n  recorded is: {event}" for event in nearest)
        self.fail(f"not recorded: {key}{text}")

    def _follows(self, kind: str) -> bool:
        return self.at + 1 < len(self.events) and kind in self.events[self.at + 1]

    def _take_next(self) -> Event:
        self.at += 1
        self._made.add(self.at)
        return self.events[self.at]

    def _to_own_names(self, content: Any) -> Any:
        return _mapped(content, self.names.from_recording)

    def _brief(self, number: int) -> str:
        text = _line(self.events[number]).strip() if number >= 0 else "the beginning"
        return text if len(text) < 200 else f"{text[:200]}..."


def _completed(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events of a recording with the answers of readings as a whole."""
    latest = Latest()
    for event in events:
        match _kind(event):
            case "read" if "to" in event:
                yield {**event, "to": latest.whole(f"read {event['read']}", event["to"])}
            case "run" if "out" in event and "stdin" not in event:
                yield {**event, "out": latest.whole(_request_line(event["run"]), event["out"])}
            case "allowed_cpus":
                yield {**event, "to": latest.whole("cpus", event["to"])}
            case "read_all":
                yield {**event, "read_all": _whole_of(latest, "read", event["read_all"])}
            case "inodes":
                yield {**event, "inodes": _whole_of(latest, "inode", event["inodes"])}
            case _:
                yield event


def _keys(event: Event) -> list[str]:
    kind = _kind(event)
    if kind in ("read_all", "inodes"):
        return [f"{kind} {pattern}" for pattern in event[kind]]
    return [] if kind == "clock" else [_key(event)]


class ReplayedClock(Clock):
    """This clock shows the times of a recording, and does not wait."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def monotonic_ns(self) -> int:
        return self._recording.now_ns()

    def epoch_s(self) -> float:
        return self._recording.epoch_s()

    def sleep(self, seconds: float) -> None:
        self._recording.slept(seconds)


class ReplayedProcess:
    """This process answers as the recorded one did, if it gets the recorded orders."""

    patience = 1.0

    def __init__(self, recording: Recording, name: str, pid: int, started: int) -> None:
        self._recording, self._name = recording, name
        self.pid, self.started = pid, started
        self._status: int | None = None

    def send(self, line: str) -> None:
        event = self._recording.answer(of=self._name, send=_order(line))
        now = _mapped(_order(line), self._recording.names.to_recording)
        recorded = _mapped(event["send"], self._recording.names.to_recording)
        if differing := list(differences(recorded, now, but=DRAWN)):
            self._recording.fail(
                f"{self._recording.names.to_recording(self._name)} gets another order than recorded"
                f"\n  recorded: {json.dumps(recorded)}\n  now:      {json.dumps(now)}"
                + "".join(f"\n  {line}" for line in differing)
            )
        _raise(event)

    def receive(self, timeout_s: float) -> str | None:
        line = self._recording.answer(of=self._name, receive=None)["receive"]
        return json.dumps(line) if isinstance(line, dict) else line

    def poll(self) -> int | None:
        if self._status is None:
            self._status = self._recording.ended(self._name)
        return self._status

    def last_words(self, count: int = 5) -> str:
        return str(self._recording.answer(of=self._name, words="")["words"])

    def hang_up(self) -> None:
        self._recording.answer(of=self._name, hang_up=True)

    def stop(self, number: int, grace_s: float) -> int:
        event = self._recording.answer(of=self._name, stop=number)
        if event["stop"] != number:
            self._recording.fail(f"{self._name} is stopped by {number}, not by {event['stop']}")
        return int(event["status"])


def differences(
    old: Any, now: Any, path: str = "", but: Container[str] = frozenset()
) -> Iterator[str]:
    """Yield the places where recorded and current JSON differ, without members of these names."""
    if isinstance(old, dict) and isinstance(now, dict):
        for name in dict.fromkeys((*old, *now)):
            if name not in but:
                here = f"{path}.{name}" if path else name
                yield from differences(old.get(name), now.get(name), here, but)
    elif isinstance(old, list) and isinstance(now, list) and len(old) == len(now):
        for number, (one, other) in enumerate(zip(old, now, strict=True)):
            yield from differences(one, other, f"{path}[{number}]", but)
    elif old != now:
        yield f"{path or 'all of it'}: recorded {json.dumps(old)}, now {json.dumps(now)}"


def _raise(event: Event) -> None:
    """Raise the error of a recorded call, if there was one."""
    if (kind := event.get("raised")) is None:
        return
    if hasattr(errors, kind):
        raise getattr(errors, kind)(event["message"], hint=event.get("hint"))
    raise OSError(event["errno"], event["message"])


class ReplayedHost(Host):
    """This host answers from a recording."""

    is_local = True
    in_order = False

    def __init__(self, recording: Recording, name: str = "local") -> None:
        self.name, self._recording = name, recording

    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] = {},
        timeout_s: float = 10.0,
    ) -> Completed:
        event = self._recording.answer(**_request(argv, stdin, env))
        _raise(event)
        out, err = (_bytes(_of_shown(event.get(name, ""))) for name in ("out", "err"))
        return Completed(event.get("status", 0), out, err)

    def spawn(
        self, argv: tuple[str, ...], *, stderr_path: str, env: Mapping[str, str] = {}
    ) -> ReplayedProcess:
        name = _name_of(self._recording.spawned, Path(stderr_path).stem)
        request = _request(argv, None, env)
        event = self._recording.answer(**{"spawn": name, "argv": request.pop("run"), **request})
        _raise(event)
        Path(stderr_path).touch()
        return ReplayedProcess(self._recording, name, event["pid"], event["started"])

    def end(self, pid: int, started: int, number: int, grace_s: float) -> bool:
        return bool(self._recording.answer(end=[pid, started, number])["to"])

    def marked(self, run: str) -> tuple[tuple[int, int], ...]:
        found = self._recording.answer(marked=run)["found"]
        return tuple((pid, started) for pid, started in found)

    def path_of(self, program: str) -> str:
        return str(self._recording.answer(path_of=program)["to"])

    def allowed_cpus(self) -> frozenset[int]:
        return frozenset(self._recording.answer(allowed_cpus=True)["to"])

    def read(self, path: str) -> bytes:
        event = self._recording.answer(read=path)
        _raise(event)
        return _as_read(path, event["to"])

    def write(self, path: str, content: bytes) -> None:
        _raise(self._recording.answer(write=path, content=_text(content)))

    def exists(self, path: str) -> bool:
        return bool(self._recording.answer(exists=path)["to"])

    def remove(self, path: str) -> None:
        self._recording.answer(remove=path)

    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        return {
            path: _as_read(path, content)
            for pattern in dict.fromkeys(patterns)
            for path, content in self._recording.of_file("read_all", pattern).items()
        }

    def inodes(self, *patterns: str) -> Mapping[str, int]:
        return {
            path: number
            for pattern in dict.fromkeys(patterns)
            for path, number in self._recording.of_file("inodes", pattern).items()
        }

"""The programs of recorded sessions (`sessions`): recorders around the programs of a switch, and
fakes that speak the same protocols with the recorded answers.

A session is a file of JSON lines. A fake takes only the commands, files and questions of its
session: for everything else it ends, or answers as the real program did when it was asked something
unknown. It uses the standard library alone, as it runs as a process of a switch. A session starts
dozens of fakes: what recorders need, recorders import.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import threading
import time
import types
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

Entry = dict[str, Any]

RUN = "/run/x"
"""The folder of a run in a session."""
UNRECORDED = 70
"""The exit status of a fake that was given what its session does not have."""

_SHIM = """\
#!{python} -IS
import sys
sys.path.insert(0, {tests!r})
import {module}
{module}.main({name!r}, {folder!r})
"""
_MODULE = """\
import sys
sys.path.insert(0, {tests!r})
import session_programs
BESS = session_programs.bess_client({folder!r})
"""
TELEMETRY, CLICK, VPP = "dpdk_telemetry.v2", "-click.sock", "-vpp/cli.sock"
BESS = "-bess/grpc.sock"
"""The ends of the paths of the sockets that are asked something."""
CLIENTS = frozenset({"vppctl"})
"""The programs that ask a switch for a driver: their first words are an option and a socket."""
PYTHON = "python3"
"""The Python of a driver's own client, which has the packages that the client needs."""
BESS_MODULES = ("pybess/bess.py", "pybess/builtin_pb/service_pb2_grpc.py")
"""The modules of BESS's client: the one that a driver imports, and one that it looks for."""
_READY = (TELEMETRY, VPP, BESS)
"""The sockets that tell that a switch is ready."""
_PDEATHSIG = 1
_STOPS = {signal.SIGTERM, signal.SIGINT}


# --- folders of programs ----------------------------------------------------------------------


def install(folder: Path, names: Iterable[str], **settings: Any) -> None:
    """Make programs that record or speak a session, as `settings` say: `session` is the file,
    `run` the folder of the run; `real` has the paths of the programs to record, by their names."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(settings))
    words = {"python": sys.executable, "tests": str(Path(__file__).parent), "folder": str(folder)}
    clients = set() if settings.get("real") else {*CLIENTS, PYTHON}
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shim = _MODULE if name in BESS_MODULES else _SHIM
        module = "session_clients" if name in clients else "session_programs"
        (folder / name).write_text(shim.format(name=name, module=module, **words))
        (folder / name).chmod(0o755)


class Folder:
    """A folder of programs: its session, and the names of the run."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.settings = json.loads(Path(path, "settings.json").read_text())
        self.run: str = self.settings["run"]
        self.real: dict[str, str] = self.settings.get("real", {})
        self.session = Path(self.settings["session"])

    def plain(self, text: str) -> str:
        """Return a text with the names of a session."""
        for name, path in self.real.items():
            text = text.replace(path, f"/programs/{name}")
        return text.replace(self.run, RUN).replace(self.path, "/programs")

    def own(self, text: str) -> str:
        """Return a text of a session with the names of this run."""
        return text.replace(RUN, self.run).replace("/programs", self.path)

    def note(self, **entry: Any) -> None:
        """Add an entry to the session that is recorded."""
        line = json.dumps(entry, ensure_ascii=False) + "\n"
        with self.session.open("a") as file:
            file.write(line)

    def entries(self, kind: str) -> list[Entry]:
        """Return the entries of the session that have this member."""
        lines = map(json.loads, self.session.read_text().splitlines())
        return [entry for entry in lines if kind in entry]

    def times(self, what: str) -> int:
        """Return how often something has happened before, and count it."""
        file = Path(self.path, "happened")
        line = json.dumps(what) + "\n"
        with file.open("a+") as happened:
            happened.seek(0)
            before = happened.readlines().count(line)
            happened.write(line)
        return before


def as_text(content: bytes) -> str:
    return content.decode(errors="surrogateescape").encode(errors="backslashreplace").decode()


# --- what both do -----------------------------------------------------------------------------


def main(name: str, folder: str) -> None:
    """Be the program of this name, in the folder of a session."""
    programs = Folder(folder)
    argv = [Path(name).name, *sys.argv[1:]]
    if name in CLIENTS:
        record_client(programs, name, argv)
    elif name == PYTHON and argv[1] != "-c":
        python = programs.real[PYTHON]
        os.execv(python, [python, *argv[1:]])
    else:
        (record if programs.real else fake)(programs, name, argv)


def _given(programs: Folder, argv: list[str]) -> Entry:
    """Return what a program that stays was given: its arguments, the variables that name the run,
    and the files that its arguments name."""
    files = {word: Path(word) for word in argv if word.startswith(programs.run)}
    env = {key: value for key, value in os.environ.items() if programs.run in value}
    return {
        "started": [programs.plain(word) for word in argv],
        "env": {key: programs.plain(value) for key, value in sorted(env.items()) if key != "PWD"},
        "files": {
            programs.plain(word): programs.plain(path.read_text())
            for word, path in files.items()
            if path.is_file() and path.suffix != ".pid"
        },
    }


def _stays(argv: list[str]) -> bool:
    """Return whether a command starts the switch: the others tell a version, or ask."""
    return "--dpdk" in argv or "snsh" in argv or argv[:2] in (["vpp", "-c"], ["bessd", "-f"])


def _question(programs: Folder, asked: list[str]) -> str:
    """Return what a client asks, with the files that it names."""
    words = [programs.plain(word) for word in asked]
    files = _given(programs, asked)["files"]
    return "\n".join([" ".join(words), *(files[word] for word in words if word in files)])


# --- recorders --------------------------------------------------------------------------------


def record(programs: Folder, name: str, argv: list[str]) -> None:
    """Run the real program, and note what it was given and what it answered."""
    import ctypes
    import subprocess

    real = programs.real[name]
    if not _stays(argv):
        done = subprocess.run([real, *argv[1:]], capture_output=True, check=False)
        programs.note(
            ran=[programs.plain(word) for word in argv],
            status=done.returncode,
            out=programs.plain(as_text(done.stdout)),
            err=programs.plain(as_text(done.stderr)),
            files=_given(programs, argv)["files"],
        )
        sys.stdout.buffer.write(done.stdout)
        sys.stderr.buffer.write(done.stderr)
        sys.exit(done.returncode)
    programs.note(**_given(programs, argv))
    # Who killed the recorder has not waited for the program, which dies a moment later.
    while any(_lives(entry["pid"]) for entry in programs.entries("pid")):
        time.sleep(0.01)

    def die_with_parent() -> None:
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)

    child = subprocess.Popen([real, *argv[1:]], preexec_fn=die_with_parent)
    programs.note(pid=child.pid)
    ended: list[int] = []

    def forward(number: int, _: Any) -> None:
        ended.append(number)
        child.send_signal(number)

    for number in _STOPS:
        signal.signal(number, forward)
    stop = threading.Event()
    watch = threading.Thread(target=_interpose, args=(programs, stop), daemon=True)
    watch.start()
    status = child.wait()
    stop.set()
    programs.note(ended=[*map(int, ended)], status=status)
    sys.exit(128 - status if status < 0 else status)


def record_client(programs: Folder, name: str, argv: list[str]) -> None:
    """Run the real client of a switch, and note what it asked and what was answered. `life` is the
    number of the process that answered."""
    import subprocess

    question = _question(programs, argv[3:])
    done = subprocess.run(
        [programs.real[name], *argv[1:]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    at, out, err = (
        programs.plain(text) for text in (argv[2], as_text(done.stdout), as_text(done.stderr))
    )
    if done.returncode:
        programs.note(unanswered=name, status=done.returncode, out=out, err=err)
    else:
        life = len(programs.entries("pid")) - 1
        programs.note(asked=question, at=at, life=life, answer=out, err=err)
    sys.stdout.buffer.write(done.stdout)
    sys.stderr.buffer.write(done.stderr)
    sys.exit(done.returncode)


def bess_client(folder: str) -> type:
    """Return the class `BESS` of BESS's Python client: the real one, whose calls and answers are
    noted, or one that asks the fake."""
    programs = Folder(folder)
    return _recorded_bess(programs) if programs.real else _fake_bess(programs)


def _recorded_bess(programs: Folder) -> type:
    import importlib

    package = types.ModuleType("real_pybess")
    package.__path__ = [programs.real["pybess"]]
    sys.modules[package.__name__] = package
    real: Any = importlib.import_module(f"{package.__name__}.bess").BESS

    class Recorded:
        """Passes every call on. `life` is the number of the process that answered. A daemon that
        cannot be reached yet has answered nothing."""

        Error, RPCError = real.Error, real.RPCError

        def __init__(self) -> None:
            self.real, self.at = real(), ""

        def __getattr__(self, name: str) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                question = programs.plain(json.dumps([name, args, kwargs]))
                if name == "connect":
                    self.at = programs.plain(args[0].removeprefix("unix:"))
                life = len(programs.entries("pid")) - 1
                try:
                    answer = getattr(self.real, name)(*args, **kwargs)
                except real.Error as error:
                    said = programs.plain(json.dumps({"error": error.args}))
                    programs.note(asked=question, at=self.at, life=life, answer=said)
                    raise
                members = {"answer": _members(answer)}
                said = programs.plain(json.dumps(members, separators=(",", ":")))
                programs.note(asked=question, at=self.at, life=life, answer=said)
                return answer

            return call

    return Recorded


def _members(answer: Any) -> Any:
    """Return a message of protobuf as a dictionary with all its fields."""
    if hasattr(answer, "DESCRIPTOR"):
        fields = [field.name for field in answer.DESCRIPTOR.fields]
        return {name: _members(getattr(answer, name)) for name in fields}
    is_plain = answer is None or isinstance(answer, (bool, int, float, str))
    return answer if is_plain else [_members(each) for each in answer]


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _interpose(programs: Folder, stop: threading.Event) -> None:
    """Take the place of the sockets that are asked something, and note what passes."""
    taken: set[str] = set()
    while not stop.wait(0.001):
        for end, kind in ((TELEMETRY, socket.SOCK_SEQPACKET), (CLICK, socket.SOCK_STREAM)):
            for path in Path(programs.run).rglob(f"*{end}"):
                if str(path) in taken or not _listens(str(path), kind):
                    continue
                taken.add(str(path))
                behind = f"{path}.real"
                path.rename(behind)
                listener = socket.socket(socket.AF_UNIX, kind)
                listener.bind(str(path))
                listener.listen()
                arguments = (programs, listener, str(path), behind, kind)
                threading.Thread(target=_relay, args=arguments, daemon=True).start()


def _listens(path: str, kind: socket.SocketKind) -> bool:
    """Return whether a process listens at a path; a killed one has left its socket."""
    with socket.socket(socket.AF_UNIX, kind) as s:
        return s.connect_ex(path) == 0


def _relay(
    programs: Folder, listener: socket.socket, path: str, behind: str, kind: socket.SocketKind
) -> None:
    while True:
        peer, _ = listener.accept()
        threading.Thread(
            target=_relay_one, args=(programs, peer, path, behind, kind), daemon=True
        ).start()


def _relay_one(
    programs: Folder, peer: socket.socket, path: str, behind: str, kind: socket.SocketKind
) -> None:
    with peer, socket.socket(socket.AF_UNIX, kind) as real:
        real.connect(behind)
        name = programs.plain(path)
        if kind == socket.SOCK_STREAM:
            asked = answered = b""

            def forward() -> None:
                nonlocal asked
                with suppress(OSError):  # the end
                    while data := peer.recv(65536):
                        asked += data
                        real.sendall(data)

            threading.Thread(target=forward, daemon=True).start()
            while data := real.recv(65536):
                answered += data
                peer.sendall(data)
            programs.note(asked=as_text(asked), at=name, answer=as_text(answered))
            peer.shutdown(socket.SHUT_RDWR)  # the other thread still reads from it
            return
        greeting = real.recv(1 << 16)
        peer.send(greeting)
        nobody = re.sub(r'"pid":\d+', '"pid":0', as_text(greeting))
        programs.note(asked="", at=name, answer=nobody)
        while question := peer.recv(1 << 16):
            real.send(question)
            answer = real.recv(1 << 16)
            programs.note(asked=as_text(question), at=name, answer=as_text(answer))
            peer.send(answer)


# --- fakes ------------------------------------------------------------------------------------


class Script:
    """The recorded answers, in their order. A question is answered by its next answer, then by its
    last again."""

    def __init__(self, entries: Iterable[tuple[str, str]]) -> None:
        self._answers: dict[str, deque[str]] = defaultdict(deque)
        for question, answer in entries:
            self._answers[question].append(answer)
        self._lock = threading.Lock()

    @property
    def questions(self) -> list[str]:
        """Return all questions that have answers."""
        return list(self._answers)

    def answer(self, question: str) -> str:
        """Return the next answer; raise KeyError if there is none."""
        with self._lock:
            if question not in self._answers:
                raise KeyError(question)
            answers = self._answers[question]
            return answers.popleft() if len(answers) > 1 else answers[0]


def unrecorded(programs: Folder, about: str, given: Any, recorded: Any = "") -> str:
    """Return the words for what a session does not have, and keep them for the test."""
    import difflib

    old, new = (
        json.dumps(each, indent=1, ensure_ascii=False).replace("\\n", "\n").splitlines()
        for each in (recorded, given)
    )
    difference = list(difflib.unified_diff(old, new, n=1, lineterm=""))[2:]
    text = f"the session {programs.session.name} has no such {about}:\n" + "\n".join(difference)
    with Path(programs.path, "unrecorded").open("a") as file:
        file.write(text + "\n")
    return text


def fake(programs: Folder, name: str, argv: list[str]) -> None:
    """Answer a command as recorded, or be the switch."""
    if not _stays(argv):
        _fake_command(programs, argv)
    given = _given(programs, argv)
    starts = programs.entries("started")
    known = next((start for start in starts if {**start, **given} == start), None)
    if known is None:
        recorded = {key: starts[0][key] for key in given} if starts else ""
        sys.exit(_failed(unrecorded(programs, "command", given, recorded)))
    (entry,) = programs.entries("made")
    _Fake(programs, entry["made"]).serve()


def _failed(text: str) -> int:
    print(text, file=sys.stderr)
    return UNRECORDED


def _fake_command(programs: Folder, argv: list[str]) -> None:
    plain = [programs.plain(word) for word in argv]
    ran = programs.entries("ran")
    done = next((entry for entry in ran if entry["ran"] == plain), None)
    if done is None:
        known = [entry["ran"] for entry in ran]
        sys.exit(_failed(unrecorded(programs, "command", plain, known)))
    sys.stdout.write(programs.own(done["out"]))
    sys.stderr.write(programs.own(done["err"]))
    sys.exit(done["status"])


def no_answer(name: str, folder: str, error: OSError) -> None:
    """Fail as the real client did without a switch."""
    programs = Folder(folder)
    words = os.strerror(error.errno or 0)
    failures = programs.entries("unanswered")
    failed = next((entry for entry in failures if words in entry["err"]), None)
    if failed is None:
        sys.exit(_failed(unrecorded(programs, f"failure of {name}", words)))
    sys.stdout.write(programs.own(failed["out"]))
    sys.stderr.write(programs.own(failed["err"]))
    sys.exit(failed["status"])


def _fake_bess(programs: Folder) -> type:
    class Fake:
        """Asks the fake daemon for the answer to every call."""

        class Error(Exception):
            """The daemon refuses: a number and words."""

        class RPCError(Exception):
            """There is no daemon."""

        def __init__(self) -> None:
            self.at = ""

        def connect(self, url: str) -> None:
            """The daemon binds its socket before it listens, so a first try may fail: here it
            does."""
            is_first, self.at = not self.at, url.removeprefix("unix:")
            try:
                if is_first:
                    raise ConnectionRefusedError
                self.ask("connect", url)
            except OSError:
                raise self.RPCError(f"Connection to {url} failed") from None

        def __getattr__(self, name: str) -> Callable[..., Any]:
            return lambda *args, **kwargs: self.ask(name, *args, **kwargs)

        def ask(self, name: str, *args: Any, **kwargs: Any) -> Any:
            question = programs.plain(json.dumps([name, args, kwargs]))
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(self.at)
                s.sendall(question.encode())
                s.shutdown(socket.SHUT_WR)
                with s.makefile("rb") as file:
                    said = json.loads(
                        file.read(), object_hook=lambda members: types.SimpleNamespace(**members)
                    )
            if hasattr(said, "error"):
                raise self.Error(*said.error)
            return said.answer

    return Fake


class _Fake:
    """A process of a switch: the files and sockets that it makes, and its answers."""

    def __init__(self, programs: Folder, made: Entry) -> None:
        self.programs = programs
        self.made = made
        self.scripts: dict[str, Script] = {}
        self.changes = 0
        self.refused: dict[str, str] = {}
        self.life = programs.times("a switch starts")

    def serve(self) -> None:
        """Make everything, and answer until a signal comes."""
        made, own = self.made, self.own
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)  # of its threads, too
        for path, words in made["refuses"].items():
            if os.path.lexists(own(path)):
                sys.exit(_failed("\n".join(map(self.programs.own, words))))
        refused = made.get("refuses_calls", {}).items()
        self.refused = {
            c["asked"]: c["answer"] for path, c in refused if os.path.lexists(own(path))
        }
        for path, text in made["files"].items():
            Path(own(path)).parent.mkdir(parents=True, exist_ok=True)
            Path(own(path)).write_bytes(own(text).encode("latin-1"))
        for path, target in made["links"].items():
            Path(own(path)).parent.mkdir(parents=True, exist_ok=True)
            Path(own(path)).unlink(missing_ok=True)
            Path(own(path)).symlink_to(own(target))
        # Who was told by these that the switch is ready may ask or use the others at once.
        for path in sorted(made["sockets"], key=lambda path: path.endswith(_READY)):
            self._listen(own(path))
        for path in made["last"]:
            Path(own(path)).touch()
        number = signal.sigwait(_STOPS)
        for path in (*made["sockets"], *made["files"], *made["links"], *made["last"]):
            if path not in made["left"]:
                with suppress(OSError):
                    Path(own(path)).unlink()
        os._exit(made["status"] if number == signal.SIGTERM else 1)

    def own(self, text: str) -> str:
        """Return a text of the session with the names and the pid of this process."""
        return self.programs.own(text).replace("${pid}", str(os.getpid()))

    def _listen(self, path: str) -> None:
        kind = socket.SOCK_SEQPACKET if path.endswith(TELEMETRY) else socket.SOCK_STREAM
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        listener = socket.socket(socket.AF_UNIX, kind)
        listener.bind(f"{path}.real")  # a client finds no socket, or one that listens
        listener.listen()
        Path(f"{path}.real").rename(path)
        threading.Thread(target=self._accept, args=(listener, path), daemon=True).start()

    def _accept(self, listener: socket.socket, path: str) -> None:
        while True:
            peer, _ = listener.accept()
            threading.Thread(target=self._answer, args=(peer, path), daemon=True).start()

    def _answer(self, peer: socket.socket, path: str) -> None:
        speaks = {
            TELEMETRY: self._telemetry,
            CLICK: self._click,
            VPP: self._vpp,
            BESS: self._bess,
        }
        for end, speak in speaks.items():
            if path.endswith(end):
                with peer, suppress(BrokenPipeError, ConnectionResetError):
                    speak(peer, self.programs.plain(path))
        # No thread of the real programs ends while a client adds up what their threads have used.
        threading.Event().wait()

    def _script(self, path: str, entries: Callable[[], list[tuple[str, str]]]) -> Script:
        return self.scripts.setdefault(path, Script(entries()))

    def _asked(self, path: str) -> list[Entry]:
        """Return the questions at a socket: where the session tells them apart, those to the
        process of this number."""
        entries = [entry for entry in self.programs.entries("asked") if entry["at"] == path]
        life = min(self.life, max((entry.get("life", 0) for entry in entries), default=0))
        return [entry for entry in entries if entry.get("life", life) == life]

    def _answers(self, path: str) -> list[tuple[str, str]]:
        return [(entry["asked"], entry["answer"]) for entry in self._asked(path)]

    def _telemetry(self, peer: socket.socket, path: str) -> None:
        """DPDK's telemetry: a greeting, then a message for each message."""
        script = self._script(path, lambda: self._answers(path))
        question = ""
        while True:
            try:
                answer = script.answer(question)
            except KeyError:
                unrecorded(self.programs, "question", question)
                return
            if not question:  # the greeting names the process
                answer = re.sub(r'"pid":\d+', f'"pid":{os.getpid()}', answer)
            peer.send(answer.encode(errors="surrogateescape"))
            if not (question := as_text(peer.recv(1 << 16))):
                return

    def _click(self, peer: socket.socket, path: str) -> None:
        """Click's control socket: a line each way, and data of a given length behind `DATA`."""
        script = self._script(
            path, lambda: [line for entry in self._asked(path) for line in _click_lines(entry)]
        )
        peer.sendall(script.answer("").encode())
        rest = b""
        while data := peer.recv(65536):
            *lines, rest = (rest + data).split(b"\r\n")
            for line in map(as_text, lines):
                try:
                    answer = script.answer(line)
                except KeyError:
                    unrecorded(self.programs, "question", line)
                    answer = _click_error(line, script)
                peer.sendall(answer.encode(errors="surrogateescape"))
                if line == "QUIT":
                    return

    def _vpp(self, peer: socket.socket, path: str) -> None:
        """VPP's CLI, from one fake to the other: the words of a client, and the answer."""
        script = self._script(path, lambda: self._answers(path))
        with peer.makefile("rb") as file:
            question = _question(self.programs, json.loads(file.read()))
        try:
            answer = script.answer(question)
        except KeyError:
            command = question.partition("\n")[0]
            alike = [each for each in script.questions if each.partition("\n")[0] == command]
            unrecorded(self.programs, "question", question, (alike or [""])[0])
            answer = script.answer("nosuch").replace("nosuch", command.rpartition(" ")[2])
        peer.sendall(self.programs.own(answer).encode(errors="surrogateescape"))

    def _bess(self, peer: socket.socket, path: str) -> None:
        """BESS's daemon, from one fake to the other: a call, and its answer. A call has an answer
        behind the same changes as in the session. A peer without a question asks who listens."""
        with peer.makefile("rb") as file:
            question = as_text(file.read())
        if not question:
            return
        script = self._script(path, lambda: list(_bess_calls(self._asked(path))))
        call = f"{self.changes} {question}"
        if question in self.refused:
            answer = self.refused[question]
        elif call in script.questions:
            answer = script.answer(call)
            self.changes += _is_change(question)
        else:
            alike = (each for each in script.questions if each.startswith(f"{self.changes} "))
            unrecorded(self.programs, "call", call, max(alike, key=_is_change_at, default=""))
            name, arguments, _ = json.loads(question)
            entries = self.programs.entries("asked")
            refusal: str = next(e["answer"] for e in entries if "nosuch" in e["asked"])
            answer = refusal.replace("nosuch", str((arguments or [name])[0]))
        peer.sendall(self.programs.own(answer).encode())


def _bess_calls(asked: Iterable[Entry]) -> Iterator[tuple[str, str]]:
    """Yield the calls of BESS's client with their answers. A call begins with the number of changes
    before it."""
    changes = 0
    for entry in asked:
        yield f"{changes} {entry['asked']}", entry["answer"]
        changes += _is_change(entry["asked"])


def _is_change(call: str) -> bool:
    """Return whether a call of BESS's client changes what the daemon does."""
    name, *_ = json.loads(call)
    return name != "connect" and not name.startswith("get_")


def _is_change_at(call: str) -> bool:
    return _is_change(call.partition(" ")[2])


def _click_lines(entry: Entry) -> Iterator[tuple[str, str]]:
    """Yield the questions of a connection with their answers; the greeting answers no question."""
    greeting, _, rest = entry["answer"].partition("\r\n")
    yield "", greeting + "\r\n"
    for line in entry["asked"].split("\r\n")[:-1]:
        head, _, rest = rest.partition("\r\n")
        size = 0
        if head.startswith("200 ") and line.startswith("READ"):
            data, _, rest = rest.partition("\r\n")
            head, size = f"{head}\r\n{data}", int(data.removeprefix("DATA "))
        yield line, f"{head}\r\n{rest[:size]}"
        rest = rest[size:]


def _click_error(line: str, script: Script) -> str:
    """Return the answer of Click to a handler that there is not, in the words of the recording."""
    element, _, handler = line.removeprefix("READ ").rpartition(".")
    known, words = ("READ nosuch.count", element) if element else ("READ nosuch", handler)
    with suppress(KeyError):
        return str(script.answer(known)).replace("nosuch", words)
    return "501 Syntax error\r\n"

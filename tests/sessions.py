"""Sessions: what a driver gave to the program of its switch, and what the program answered.

    python tests/sessions.py [NAME...]    record them anew with the real programs (`make sessions`)

The same steps are played with the real programs, behind recorders, and with fakes
(`session_programs`): the driver probes the program, starts it, waits, counts, kills it, restarts it
and ends it. A recording needs the program, which the environment or the host file names, and
`dpdk-testpmd` at the other ends of the ports.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

import pytest

import session_programs
from session_programs import BESS_MODULES, PYTHON, Folder, as_text, install
from switchmark.engines import TABLE as ENGINES
from switchmark.engines.base import traffic_program
from switchmark.errors import SetupFailed
from switchmark.hosts.local import LocalHost
from switchmark.hosts.programs import program_variable
from switchmark.model.plan import Plan, Spawn, Wait
from switchmark.model.topology import Functions, Memory, PortKind, Semantics
from switchmark.model.units import LAYER_2_BYTES
from switchmark.model.version import Version
from switchmark.runs.executor import Executor
from switchmark.runs.workspace import Workspace
from switchmark.switches import TABLE, bess
from switchmark.switches.base import Counters, Switch
from switchmark.switches.changes import Change
from traffic_program import ADDRESS, Program
from wirings import wiring_of

SESSIONS = Path(__file__).parent / "sessions"
_TRAFFIC_S = 0.5
_QUIET_S = 0.3
_FRAMES = 500
_OWN_SOCKET = "-bess/client.sock"
"""The end of the path of the socket of the client that the driver of bess brings itself."""
_START_S = 4.0
"""The time in which a program fails to start, in seconds."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """The session of a switch with ports of a kind."""

    switch: str
    kind: PortKind = PortKind.VHOST_USER
    semantics: Semantics = Semantics.PATCH
    program: str
    """The name of the program, and its folder in the folder that a user names for the switch."""
    others: Sequence[str] = ()
    """The names of other programs and modules that say or answer something, beside companions."""
    unknown: Callable[[Session], None] = lambda session: None
    """Asks the running program what it does not know, so that its answer is recorded."""

    @property
    def name(self) -> str:
        """Return the name of the case and of its file."""
        return f"{self.switch}-{self.kind}-{self.semantics}"

    @property
    def file(self) -> Path:
        """Return the file of the session."""
        return SESSIONS / f"{self.name}.jsonl"

    @property
    def driver(self) -> Switch:
        """Return the driver of the switch."""
        return TABLE[self.switch]

    @property
    def programs(self) -> tuple[str, ...]:
        """Return the names of all programs that say or answer something."""
        return (self.program, *self.driver.companions, *self.others)

    def real(self) -> dict[str, str]:
        """Return the paths of the real programs, by name."""
        path = PurePath(self.driver.path)
        if self.driver.program_file:
            modules = str(path / "pybess")
            return {self.program: str(path / self.program), PYTHON: bess._PYTHON, "pybess": modules}
        beside = {name: str(path.with_name(name)) for name in self.driver.companions}
        return {self.program: str(path), **beside}

    def header(self) -> dict[str, Any]:
        """Return the first line of the session: the version of the program, and the date."""
        header: dict[str, Any] = json.loads(self.file.read_text().partition("\n")[0])
        return header

    def made(self) -> dict[str, Any]:
        """Return what the real program made, and what it refused to start beside."""
        line = self.file.read_text().splitlines()[1]
        made: dict[str, Any] = json.loads(line)["made"]
        return made


def _ask_click(session: Session) -> None:
    (command, *_) = session.driver.counters.commands(session.wiring)
    end = next(i for i, word in enumerate(command.argv) if word.endswith(session_programs.CLICK))
    argv = (*command.argv[: end + 1], "nosuch", "nosuch.count")
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def _ask_vpp(session: Session) -> None:
    (command, *_) = session.driver.counters.commands(session.wiring)
    argv = (*command.argv[:3], "nosuch")
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


_ASK_BESS = """\
import sys, time
sys.path.insert(0, sys.argv[1])
from pybess.bess import BESS
bess = BESS()
for again in range(20):
    try:
        bess.connect(f"unix:{sys.argv[2]}")
        break
    except BESS.RPCError:
        time.sleep(0.1)
try:
    bess.get_link_status("nosuch")
except BESS.Error:
    sys.exit()
sys.exit("it has a port of this name")
"""


def _ask_bess(session: Session) -> None:
    (address,) = (path for path in session.files() if path.endswith(session_programs.BESS))
    python = session.folder.real.get(PYTHON, sys.executable)
    subprocess.run((python, "-c", _ASK_BESS, str(session.programs), address), check=True)


CASES = (
    Case(switch="snabb", program="snabb"),
    Case(switch="snabb", semantics=Semantics.LEARNING, program="snabb"),
    Case(switch="fastclick", program="click", unknown=_ask_click),
    Case(switch="fastclick", semantics=Semantics.LEARNING, program="click", unknown=_ask_click),
    *(
        Case(
            switch="vpp",
            kind=kind,
            semantics=semantics,
            program="vpp",
            unknown=_ask_vpp,
        )
        for kind in (PortKind.VHOST_USER, PortKind.MEMIF)
        for semantics in (Semantics.PATCH, Semantics.LEARNING, Semantics.ROUTED)
    ),
    *(
        Case(
            switch="bess",
            kind=kind,
            program="core/bessd",
            others=(PYTHON, *BESS_MODULES),
            unknown=_ask_bess,
        )
        for kind in (PortKind.VHOST_USER, PortKind.MEMIF)
    ),
)


# --- the steps --------------------------------------------------------------------------------


Frames = dict[str, dict[str, int]]
"""The frames that the other ends sent and received, by port."""


@dataclass
class Played:
    """What a driver found out in a session."""

    version: Version
    frames: Frames = field(default_factory=dict)
    """The frames that the other ends sent and received, by port; empty with a fake."""
    idle: Counters = field(default_factory=Counters)
    """The counters before any traffic."""
    counted: Counters = field(default_factory=Counters)
    """The counters after the traffic."""
    left: dict[str, list[str]] = field(default_factory=dict)
    """The files that the program left, by event."""


class Session:
    """A driver with its programs and a run. `ends` are the other ends of the ports."""

    def __init__(
        self, case: Case, stack: ExitStack, session: Path, real: Mapping[str, str]
    ) -> None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sm-")))
        workspace = Workspace(folder)
        stack.callback(workspace.close)
        self.case, self.driver, self.programs = case, case.driver, folder / "programs"
        install(
            self.programs,
            case.programs,
            session=str(session),
            run=str(workspace.folder),
            real=dict(real),
        )
        self.executor = Executor(
            {"local": LocalHost()},
            workspace,
            inside=lambda node, argv: argv,
            logs_dir=workspace.folder / "logs",
        )
        stack.callback(self.executor.unwind)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        program = self.programs / ("" if case.driver.program_file else case.program)
        patch.setenv(program_variable(case.switch), str(program))
        patch.setattr(bess, "_PYTHON", str(self.programs / PYTHON))
        self.folder = Folder(str(self.programs))
        version = self.driver.probe(LocalHost())
        self.version = Version(version.text, version.mode, program=str(program))
        self.wiring = wiring_of(
            both_ways=True,
            run_dir=str(workspace.folder),
            kind=case.kind,
            semantics=case.semantics,
            memory=Memory("no-huge"),
            # virtio-user connects again only if it is the one that listens.
            functions=Functions(listen=True),
            cores=(0,),
            version=self.version,
        )

    def counters(self) -> Counters:
        """Read the counters of the switch."""
        counting = self.driver.counters
        return counting.parse(self.wiring, self.executor.run(*counting.commands(self.wiring)))

    def files(self) -> list[str]:
        """Return the files, links and sockets of the program: those that it makes where the run and
        the other ends make none, and that somebody reads or a killed program leaves."""
        ends = {end.path for end in self.driver.endpoints(self.wiring).values() if end.server}
        folders = (self.wiring.ports_dir, self.wiring.switch_dir)
        paths = [path for folder in folders for path in Path(folder).rglob("*")]
        kept = {str(path) for path in paths if str(path) not in ends and _is_kept(path)}
        return sorted(kept | {*filter(os.path.lexists, self.driver.leftovers(self.wiring))} - ends)


def _is_kept(path: Path) -> bool:
    if path.is_symlink() or path.is_socket():
        return path.suffix != ".real"
    is_counter = path.suffix == ".counter" and "links" in str(path)
    return is_counter or path.suffix == ".pid" or path.name == "linked"


@contextmanager
def playing(case: Case, session: Path, real: Mapping[str, str] = {}) -> Iterator[Session]:
    """Return a session with the real programs, by name, or with fakes."""
    with ExitStack() as stack:
        yield Session(case, stack, session, real)


Traffic = Callable[[], Frames]
Ends = Callable[["Session"], AbstractContextManager[Traffic]]


def play(session: Session, ends: Ends, *, replace_it: bool = True) -> Played:
    """Play all steps of a session, without those that replace the program unless `replace_it`; the
    program has ended behind it."""
    driver, wiring, executor = session.driver, session.wiring, session.executor
    played = Played(session.version)
    executor.execute(driver.start(wiring))
    with ends(session) as traffic:
        executor.execute((*driver.join(wiring), *driver.settled(wiring)))
        played.idle = session.counters()
        played.frames = traffic()
        played.counted = session.counters()
        session.case.unknown(session)
        for event, change in replacing(session).items() if replace_it else ():
            executor.execute(change.disturb)
            played.left[event] = session.files()
            steps, waits = change.restore, driver.settled_again(wiring)
            spawn = next(i for i, step in enumerate(steps) if isinstance(step, Spawn))
            executor.execute(steps[:spawn])
            assert not executor.can(_at_once(waits)), "a dead program seems to have settled"
            executor.execute((*steps[spawn:], *waits))
            session.counters()
    assert executor.unwind() == ()
    return played


def replacing(session: Session) -> dict[str, Change]:
    """Return the events that replace the program, of those that the driver has."""
    events = session.driver.events(session.wiring)
    return {kind: events[kind] for kind in ("kill", "restart") if kind in events}


def _at_once(waits: Plan) -> Plan:
    """Return Waits that have one try, whatever process they are for."""
    return tuple(
        replace(step, timeout_s=0.0, unless_dead=None) for step in waits if isinstance(step, Wait)
    )


@contextmanager
def no_ends(session: Session) -> Iterator[Traffic]:
    """Return ends for a fake: nobody sends."""
    yield dict


# --- recording --------------------------------------------------------------------------------


@contextmanager
def testpmd_ends(session: Session) -> Iterator[Traffic]:
    """Return a sender at the first port and a receiver at the second."""
    ends = session.driver.endpoints(session.wiring)
    flow = session.driver.addressing(session.wiring)["f0-f1"]
    with ExitStack() as stack:
        processes = []
        for number, (mode, end) in enumerate(zip(("txonly", "rxonly"), ends.values(), strict=True)):
            server = int(end.server)
            device = f"net_virtio_user0,mac={end.mac},path={end.path},server={server}"
            argv = shlex.split(
                "stdbuf -oL dpdk-testpmd --lcores 0@0,1@1 --main-lcore 0 --no-huge -m 256 --no-pci "
                f"--no-telemetry --file-prefix end{number} --vdev {device} -- -i "
                f"--total-num-mbufs=4096 --eth-peer 0,{flow.sent_dst_mac} "
                f"--tx-ip {flow.source_ip},{flow.sink_ip} --forward-mode={mode}"
            )
            pipe = subprocess.PIPE
            process = subprocess.Popen(
                argv,
                stdin=pipe,
                stdout=pipe,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "RUNTIME_DIRECTORY": str(session.programs)},
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes.append(process)
        for process in processes:
            _said(process, "", "testpmd> ")

        def traffic() -> Frames:
            sender, receiver = processes
            _said(receiver, "start", "testpmd> ")
            _said(sender, "start", "testpmd> ")
            time.sleep(_TRAFFIC_S)
            _said(sender, "stop", "testpmd> ")
            time.sleep(_QUIET_S)
            _said(receiver, "stop", "testpmd> ")
            shown = [_said(process, "show port stats 0", "testpmd> ") for process in processes]
            numbers = [
                {
                    word: int(match[1])
                    for word, pattern in (
                        ("sent", r"TX-packets: (\d+)"),
                        ("received", r"RX-packets: (\d+)"),
                    )
                    if (match := re.search(pattern, text))
                }
                for text in shown
            ]
            return dict(zip(ends, numbers, strict=True))

        yield traffic


@contextmanager
def own_ends(session: Session) -> Iterator[Traffic]:
    """Return a sender at the first port and a receiver at the second, in our traffic program: it
    connects to memif ports again."""
    wiring, ends = session.wiring, session.driver.endpoints(session.wiring)
    engine = ENGINES["memif"]
    program = Program(traffic_program())
    try:
        ports = [
            {
                "engine": engine.name,
                "ifname": end.ifname,
                "frame_bytes": wiring.mtu + LAYER_2_BYTES,
                "options": engine.port_options(wiring, wiring.node, list(ends.values()), i, ""),
            }
            for i, end in enumerate(ends.values())
        ]
        roles = ("sender", "receiver")
        tasks = [{"role": role, "ports": [number]} for number, role in enumerate(roles)]
        answer = program.ask("open", ports=ports, threads=[{"tasks": tasks, "yield": True}])
        assert answer["ok"], answer

        def traffic() -> Frames:
            flow = session.driver.addressing(wiring)["f0-f1"]
            address = {
                **ADDRESS,
                "src_mac": flow.sent_src_mac,
                "dst_mac": flow.sent_dst_mac,
                "src_ip": flow.source_ip,
                "dst_ip": flow.sink_ip,
            }
            load = {"frame_bytes": [64], "address": address, "rate_pps": _FRAMES / _TRAFFIC_S}
            armed = program.ask("arm", run=7, longest_ns=10**9, tasks=[load, {}])
            assert armed["ok"], armed
            sent, received = program.trial(round(_TRAFFIC_S * 1e9))["tasks"]
            return {
                "f0": {"sent": sent["sent"]["frames"], "received": 0},
                "f1": {"sent": 0, "received": received["received"]["frames"]},
            }

        yield traffic
    finally:
        program.end()


def _said(process: subprocess.Popen[str], command: str, prompt: str) -> str:
    """Give a command to testpmd, and return what it prints before its next prompt."""
    assert process.stdin
    assert process.stdout
    if command:
        process.stdin.write(command + "\n")
        process.stdin.flush()
    said = ""
    while not said.endswith(prompt):
        character = process.stdout.read(1)
        if not character:
            raise RuntimeError(f"testpmd ended: {said[-500:]}")
        said += character
    return said


def real_ends(session: Session) -> AbstractContextManager[Traffic]:
    """Return the ends for the real program. testpmd waits for the switch at vhost-user ports, so
    that it is connected again."""
    is_vhost = session.case.kind is PortKind.VHOST_USER
    return testpmd_ends(session) if is_vhost else own_ends(session)


def record(case: Case) -> None:
    """Record a case, check what its driver found, and keep it."""
    with tempfile.TemporaryDirectory(prefix="sm-session-") as folder:
        file = Path(folder) / "session.jsonl"
        file.touch()
        with playing(case, file, case.real()) as session:
            made: dict[str, Any] = {}

            @contextmanager
            def ends(session: Session) -> Iterator[Traffic]:
                with real_ends(session) as traffic:

                    def send_and_look() -> Frames:
                        frames = traffic()
                        made.update(_made(session))
                        return frames

                    yield send_and_look

            played = play(session, ends)
            check(played)
            plain = session.folder.plain
            ended = [entry for entry in session.folder.entries("ended") if entry["ended"]]
            status = ended[0]["status"]
            made["status"] = 128 - status if status < 0 else status
            # A process that survives Snabb removes its counters.
            left = played.left.get("restart", ())
            own = (".counter", _OWN_SOCKET)
            made["left"] = [plain(path) for path in left if not path.endswith(own)]
        made["refuses"] = _refused(case)
        made["refuses_calls"] = _refused_calls(case, made["sockets"])
        header = {
            "switch": case.switch,
            "version": played.version.text,
            "mode": played.version.mode,
            "date": str(datetime.now(UTC).date()),
            "frames": played.frames,
        }
        text = [json.dumps(each, ensure_ascii=False) for each in (header, {"made": made})]
        SESSIONS.mkdir(exist_ok=True)
        case.file.write_text("\n".join((*text, *_said_once(file.read_text().splitlines()))) + "\n")


def _said_once(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a session that a fake needs: each start and each failure of a client once,
    all answers to clients, and all other answers that are not those to the same question before."""
    starts: set[str] = set()
    answers: dict[tuple[str, str], str] = {}
    for line in lines:
        entry = json.loads(line)
        if "asked" in entry and "life" not in entry:
            question = entry["at"], entry["asked"]
            is_new = answers.get(question) != entry["answer"]
            answers[question] = entry["answer"]
        else:
            is_again = line in starts and ("started" in entry or "unanswered" in entry)
            is_new = {"ran", "asked", "started", "unanswered"} & {*entry} and not is_again
            starts.add(line)
        if is_new:
            yield line


def _made(session: Session) -> dict[str, Any]:
    """Return the sockets, files and links that the running program has made."""
    made: dict[str, Any] = {"sockets": [], "files": {}, "links": {}, "last": []}
    pid = session.folder.entries("pid")[-1]["pid"]  # of the real program, a child of its recorder

    def plain(text: str) -> str:
        return session.folder.plain(re.sub(rf"\b{pid}\b", "${pid}", text))

    for name in session.files():
        path = Path(name)
        if name.endswith(_OWN_SOCKET):
            continue
        if path.is_symlink():
            made["links"][plain(name)] = plain(str(path.readlink()))
        elif path.is_socket():
            made["sockets"].append(plain(name))
        elif path.name == "linked" or path.is_relative_to("/dev/shm"):
            made["last"].append(plain(name))
        else:
            made["files"][plain(name)] = plain(path.read_bytes().decode("latin-1"))
    return made


def _refused(case: Case) -> dict[str, list[str]]:
    """Kill the real program, start it beside each of the files that it left, and return what it
    said to those beside which it does not start."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sm-session-"))
        file = Path(folder) / "session.jsonl"
        file.touch()
        session = stack.enter_context(playing(case, file, case.real()))
        driver, wiring, executor = session.driver, session.wiring, session.executor
        if "kill" not in replacing(session):
            return {}
        executor.execute(driver.start(wiring))
        with real_ends(session):
            executor.execute((*driver.join(wiring), *driver.settled(wiring)))
            executor.execute(driver.events(wiring)["kill"].disturb)
        left = [path for path in session.files() if not path.endswith(".counter")]
        said = {path: _said_beside(session, path, left) for path in left}
        return {session.folder.plain(path): words for path, words in said.items() if words}


def _refused_calls(case: Case, sockets: Sequence[str]) -> dict[str, dict[str, str]]:
    """Start the real program beside each socket of a port alone, and return the calls that it
    refused, with its answers: bess makes its ports when its client asks for them."""
    calls = {}
    ports = (path for path in sockets if "/ports/" in path and case.driver.program_file)
    for path in ports:
        with tempfile.TemporaryDirectory(prefix="sm-session-") as folder:
            file = Path(folder) / "session.jsonl"
            file.touch()
            with playing(case, file, case.real()) as session:
                with suppress(SetupFailed):
                    start_beside(session, path)
                call = session.folder.entries("asked")[-1]
                if "error" in json.loads(call["answer"]):
                    calls[path] = {"asked": call["asked"], "answer": call["answer"]}
    return calls


def start_beside(session: Session, path: str) -> None:
    """Start the switch beside a file that a driver has not removed."""
    plan = session.driver.start(session.wiring)
    number = next(i for i, step in enumerate(plan) if isinstance(step, Spawn))
    session.executor.execute(plan[:number])
    Path(session.folder.own(path)).parent.mkdir(parents=True, exist_ok=True)
    Path(session.folder.own(path)).touch()
    session.executor.execute(plan[number:])


def _said_beside(session: Session, path: str, left: Sequence[str]) -> list[str]:
    """Start the program beside a file alone, and return its last lines; nothing if it lives."""
    (started, *_) = session.folder.entries("started")
    own, plain = session.folder.own, session.folder.plain
    argv = [session.folder.real[session.case.program], *map(own, started["started"][1:])]
    env = {**os.environ, **{name: own(value) for name, value in started["env"].items()}}
    aside = {Path(other): Path(f"{other}.aside") for other in left if other != path}
    for other, away in aside.items():
        other.rename(away)
    try:
        done = subprocess.run(
            argv, env=env, capture_output=True, stdin=subprocess.DEVNULL, timeout=_START_S
        )
    except subprocess.TimeoutExpired:
        return []
    finally:
        for other, away in aside.items():
            away.rename(other)
    return plain(as_text(done.stderr + done.stdout)).strip().splitlines()[-5:]


def check(played: Played) -> None:
    """Check that the counters are those of the other ends."""
    source, sink = (played.counted.ports[name] for name in ("f0", "f1"))
    sent, received = (played.frames[name] for name in ("f0", "f1"))
    words = f"{played.frames} {played.counted.ports}"
    assert source.rx, words
    assert source.rx <= sent["sent"], words
    assert sink.tx == received["received"], words


def main() -> None:
    words = sys.argv[1:]
    for case in CASES:
        if not words or any(word in case.name for word in words):
            record(case)
            print(f"{case.name}: recorded", flush=True)


if __name__ == "__main__":
    main()

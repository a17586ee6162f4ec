"""These tests compare what a lab does for the tests that visit it with stored texts: in which order
it prepares, calibrates, builds, proves, measures and takes down, and what its records say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from golden_cases import shortened
from recorded import fresh
from reported import SECOND
from switchmark import clock
from switchmark.clock import Clock
from switchmark.errors import HostTooBusy, SetupFailed, SwitchmarkError, TrialFailed, Unavailable
from switchmark.hosts.recording import RecordingHost, RecordingProcess
from switchmark.lab import measure
from switchmark.lab.measure import Lab
from switchmark.lab.running import RunningPath
from switchmark.model.cable import NoCableLatency, NoCalibration
from switchmark.model.cpus import Cpu
from switchmark.model.noise import NoiseCertificate
from switchmark.model.plan import Plan, Spawn
from switchmark.model.record import GateResult, Record, TrialResult, TrialSpec
from switchmark.model.test import Test
from switchmark.model.visit import Visit
from switchmark.path.background import noise_of
from switchmark.path.path import Path as Resolved
from switchmark.path.placement import place
from switchmark.path.resolving import resolve
from switchmark.searches.base import Estimate, LoadBounds, Measure, Search

Golden = Callable[[str, str], None]

CPUS = (Cpu(0), Cpu(1), Cpu(2))
TRIAL = fresh().trials[0]


class Seconds(Clock):
    """A clock that a look advances by a second."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        self.now_ns += SECOND
        return self.now_ns

    def epoch_s(self) -> float:
        return 0.0


class Site:
    """All that a lab works with; each tells what it is asked. What is in `fails` fails when it is
    asked this often; `lacks` are the measurements on cables that are missing."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.text = folder, list[str]()
        self.fails: dict[str, tuple[int, Exception]] = {}
        self.lacks: set[str] = set()
        self.undone: tuple[str, ...] = ()
        self.refused: list[str] = []
        self.dead: set[str] = set()
        self.specs = [TrialSpec(rate_pps=1000, duration_s=1, warmup_s=0.1)]
        self.marks = 0
        self.home = ""
        self.host = RecordingHost()
        self.workspace = SimpleNamespace(run="sm1a2b", folder=folder / "sm1a2b", close=self.closes)
        self.lifetimes = SimpleNamespace(start_s=self.start_s, stop_s=self.stop_s)

    def tell(self, line: str, name: str = "") -> None:
        self.text.append(line)
        if name in self.fails:
            left, error = self.fails[name]
            self.fails[name] = left - 1, error
            if left == 1:
                raise error

    def closes(self) -> None:
        self.tell("workspace closed")

    # --- the executor ---

    def __call__(self, hosts: object, workspace: object, **options: Any) -> Any:
        assert workspace is self.workspace
        self.tell(f"executor with logs in {options['logs_dir'].relative_to(self.folder)}")
        return self

    def mark(self) -> int:
        self.marks += 1
        return self.marks

    def execute(self, plan: Plan) -> None:
        self.tell(f"execute {[step.why for step in plan]}", "execute")

    def can(self, plan: Plan) -> bool:
        return True

    def unwind(self, to: int | None = None) -> tuple[str, ...]:
        self.tell(f"unwind to {to}")
        return self.undone

    def process(self, name: str) -> RecordingProcess:
        status = 3 if name in self.dead else None
        return RecordingProcess(1, (), status=status, last_output="its\nlast words")

    def start_s(self, names: Sequence[str]) -> float:
        self.tell(f"start of {names}")
        return 0.25

    def stop_s(self, names: Sequence[str]) -> float:
        self.tell(f"stop of {names}")
        return 0.125

    # --- the instruments ---

    def locate(self, test: Test) -> Any:
        return SimpleNamespace(
            test=test,
            host=self.host,
            home="near",
            booted=("boot", "cpu"),
            versions=lambda: {"switch": "1"},
            switch=SimpleNamespace(text="6.1", mode="fast"),
        )

    def instruments(self) -> Any:
        def of(name: str, found: object) -> Any:
            def known(basis: Any) -> object:
                self.tell(f"{name} of {shown(basis.path)} {basis.versions} {basis.boot}", name)
                return found

            return SimpleNamespace(
                of=known,
                lacks=lambda basis: name in self.lacks,
                learn=lambda basis, trial: self.tell(f"{name} learns of {shown(basis.path)}"),
            )

        preparation: Any = SimpleNamespace(
            prepare=lambda location: self.tell(f"prepare for {location.test.switch}", "prepare"),
            make_room=lambda location, path: self.tell(f"make room for {shown(path)}"),
            values=lambda location: (),
            restore=lambda: ("a value is left",) if self.undone else (),
        )
        hosts: Any = {"local": self.host}
        probes: Any = SimpleNamespace(locate=self.locate)
        rate = of("rate on a cable", NoCalibration(error="no rate"))
        latency = of("latency on a cable", NoCableLatency(switch="direct", error="no latency"))
        return measure.Instruments(hosts, probes, rate, latency, preparation)

    # --- paths ---

    def draw(self, location: Any, workspace: Any, can: Any, *, captured: bool = False) -> Resolved:
        assert workspace is self.workspace
        self.tell(f"draw {location.test.switch}, captured: {captured}", "draw")
        path = resolve(location.test, prefix="sm1a2b", run_dir="/run/x")
        return path.placed(place(path.cpu_users, CPUS))

    def build_path(self, executor: Any, host: Any, path: Resolved, counting: Any) -> RunningPath:
        assert host is self.host
        mark = self.mark()
        self.tell(f"build {shown(path)} with {counting}", "build")
        trials: Any = SimpleNamespace(
            measure=self.measure,
            turn_to=lambda path: self.tell(f"turn to {shown(path)}", "turn"),
            end=lambda: self.tell("end the trials"),
            keep=None,
        )
        return RunningPath(
            path,
            mark,
            trials,
            processes=lambda: [self.process("f0"), self.process("switch")],
            at_work=lambda: (7,),
            host=self.host,
            daemons=("switch",),
            alive=lambda when: self.tell(f"alive {when}?", "alive"),
        )

    def count(self, host: object) -> str:
        self.tell("count")
        return "counters"

    def measure(self, spec: TrialSpec) -> TrialResult:
        self.tell(f"trial of {spec.duration_s:g} s after {spec.warmup_s:g} s", "trial")
        return TRIAL.model_copy(update={"spec": spec})

    def pass_gate(self, path: Resolved, trials: Any, gate: str) -> GateResult:
        self.tell(f"gate {gate} of {shown(path)}", "gate")
        return GateResult(passed=True, tries=1, frames=98)

    def certificate(self, host: Any, program: str, cpus: Sequence[int]) -> NoiseCertificate:
        assert (host, program) == (self.host, "the tool")
        self.tell(f"noise of CPUs {[*cpus]}", "noise")
        return NoiseCertificate.model_construct(tsc=(str(len(self.text)),))

    def judged(self, host: Any, path: Resolved, cpus: Any, **options: Any) -> Any:
        told = {name: value for name, value in options.items() if name in ("capture", "rerun")}
        gate, calibration = options["gate"], options["calibration"]
        self.tell(f"judge by noise {options['noise'].tsc}, {gate.frames}, {calibration}, {told}")
        assert (cpus, options["there"], options["at_work"]()) == (CPUS, self.host, (7,))

        def measured(trials: Any, spec: TrialSpec) -> TrialResult:
            result: TrialResult = trials.measure(spec)
            trials.keep({"first": 0})
            return result

        def recall(trial: TrialResult) -> TrialResult:
            self.tell("recall a trial")
            return trial

        return SimpleNamespace(measure=measured, recall=recall)

    def search(self, search: Search, measured: Measure, bounds: LoadBounds) -> Estimate:
        self.tell(f"search {search.name}: {bounds.rate_pps}, {bounds.senders} senders", "search")
        found = [measured(spec) for spec in self.specs]
        return Estimate(tuple(found), None)

    def recorded(self, record: Record, estimate: Estimate, running: RunningPath, _: Any) -> Record:
        found = {"trials": estimate.trials, "doubts": ("short",), "gate": running.gate}
        return record.model_copy(update=found)


def shown(path: Resolved) -> str:
    """Return what a path is for, and which CPUs its parts have."""
    pins = (f"{name} {[*pin.cpus]}" for name, pin in path.placement.pins.items())
    return f"{path.test.switch} at {path.test.rate} ({', '.join(pins)})"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    made = Site(tmp_path)
    monkeypatch.setattr(measure, "Workspace", lambda: made.workspace)
    monkeypatch.setattr(measure, "Executor", made)
    for name in ("draw", "build_path", "pass_gate", "certificate", "recorded"):
        monkeypatch.setattr(measure, name, getattr(made, name))
    monkeypatch.setattr(measure, "prepared", made.draw)
    monkeypatch.setattr(measure, "JudgedTrials", made.judged)
    monkeypatch.setattr(measure, "repeat_search", made.search)
    monkeypatch.setattr(measure, "read_cpus", lambda host: CPUS)
    monkeypatch.setattr(measure, "tool_program", lambda: "the tool")
    monkeypatch.setattr(measure, "probe_counters", made.count)
    monkeypatch.setattr(measure, "captures", captures)
    with clock.replaced_by(Seconds()):
        yield made


def captures(folder: Path, logs: Path, path: Resolved, name: str, frames: int | None) -> Plan:
    if not frames:
        return ()
    assert (folder / "captures").is_dir()
    logs.mkdir(parents=True, exist_ok=True)
    (logs / f"capture-{name}-f0").touch()
    return (Spawn(f"{frames} frames of {name} in {logs.name}", "capture", ("tcpdump",)),)


@contextmanager
def opened(site: Site, **options: Any) -> Iterator[Lab]:
    """Open a lab whose instruments tell what they are asked, and tell what it leaves."""
    beside: Any = SimpleNamespace(instruments=site.instruments())
    lab = Lab(site.folder, beside=beside, **options)
    lab._beside = None
    with lab:
        yield lab
    site.tell(f"left {lab.left}, kept {lab.kept}")


def visited(site: Site, lab: Lab, test: Test, **options: Any) -> None:
    """Visit a lab, and tell what its record says."""
    watching: dict[str, Any] = {
        "on_trial": lambda trial: site.tell(f"new trial, round {trial.round}"),
        "on_intervals": lambda spec, intervals: site.tell(f"intervals of {spec.rate_pps}"),
    }
    try:
        record = lab.visit(Visit(test, **watching, **options))
    except (AssertionError, SwitchmarkError) as error:
        site.tell(f"raised {type(error).__name__}: {error}")
        return
    if record is None:
        site.tell("no record yet")
        return
    names = ("status", "error", "doubts", "refused", "switch_version", "switch_mode", "prepared")
    more = ("calibration", "floor", "reused", "setup_s", "start_s", "teardown_s", "stop_s")
    values = {name: getattr(record, name) for name in (*names, *more)}
    told = [f"{name} {value}" for name, value in values.items() if value not in (None, ())]
    if record.noise is not None:
        told.append(f"noise {record.noise.before.tsc} and {record.noise.after.tsc}")
    told.append(f"{len(record.trials)} trials")
    site.text += ["record:", *(f"  {line}" for line in told), f"unbuilt: {lab.unbuilt}"]


PLAIN, SLOW, OTHER = Test(), Test(rate="1k"), Test(switch="macvlan", scenario="v2v")
POLLING = Test(switch="testpmd", engine="dpdk")
LOST = HostTooBusy("the switch died")


def test_tests_that_visit_a_lab(site: Site, golden: Golden) -> None:
    site.text.append("## the lab")
    with opened(site, rerun=2) as lab:
        for name, test, then in (
            ("the first", PLAIN, SLOW),
            ("on the same path", SLOW, OTHER),
            ("on another path", OTHER, PLAIN),
            ("the last of the kernel", PLAIN, None),
            ("a switch that polls", POLLING, POLLING),
            ("the same again", POLLING, None),
        ):
            site.text.append(f"## {name}")
            visited(site, lab, test, then=then, number=3, key="k")
        site.text.append("## a test on its own")
        record = lab.run(PLAIN, then=SLOW)
        site.text += [
            f"{record.status} {record.number} {record.key!r}",
            f"up: {lab.up is not None}",
        ]
        site.text.append("## a calibration")
        lab.calibrate(SLOW)
        site.text.append("## the end")
    golden("visits/alone.txt", shortened("\n".join([*site.text, ""])))


def test_paths_that_are_kept_or_shared(site: Site, golden: Golden) -> None:
    for name, options in (
        ("kept", {"keep": True}),
        ("captured", {"capture": 7, "gate": "doubt", "logs": "turns/1"}),
    ):
        site.text.append(f"## {name}")
        with opened(site, **options) as lab:
            visited(site, lab, PLAIN, then=SLOW)
            for visit in ("second", "third"):
                site.text.append(f"## {name}, the {visit} visit")
                visited(site, lab, SLOW, number=2)
    site.text.append("## another lab")
    with opened(site) as lab:
        for lacks in ("rate on a cable", "latency on a cable"):
            site.text.append(f"## before the {lacks} is missing")
            visited(site, lab, PLAIN, then=SLOW)
            site.text.append(f"## the {lacks} is missing")
            site.lacks = {lacks}
            visited(site, lab, SLOW)
            site.lacks = set()
        site.text.append("## before a port is gone")
        visited(site, lab, PLAIN, then=SLOW)
        site.text.append("## a port is gone")
        site.fails["turn"] = 1, TrialFailed("the port is gone")
        visited(site, lab, SLOW)
    golden("visits/kept.txt", shortened("\n".join([*site.text, ""])))


def test_visits_in_rounds(site: Site, golden: Golden) -> None:
    among = (PLAIN, OTHER)
    spec = site.specs[0]
    site.specs = [spec, spec.model_copy(update={"repeat": 2})]
    first = TRIAL.model_copy(update={"spec": spec})
    site.text.append("## the lab")
    with opened(site) as lab:
        for name, options in (
            ("the first round", {"limit": 1, "round": 1}),
            ("no round is left", {"limit": 0, "round": 2, "stored": (first,)}),
            ("the second round", {"limit": 1, "round": 2, "stored": (first,)}),
            ("after its last round", {"limit": 1, "round": 3}),
        ):
            site.text.append(f"## {name}")
            visited(site, lab, PLAIN, among=among, **options)
        site.text.append("## it died while it rested")
        site.fails["alive"] = 1, TrialFailed("it died")
        visited(site, lab, PLAIN, among=among, limit=1, round=4)
        site.text.append("## the round after it")
        visited(site, lab, PLAIN, among=among, limit=1, round=5)
        site.text.append("## it fails its functional trial after its rest")
        site.fails["gate"] = 1, SetupFailed("frames were lost")
        visited(site, lab, PLAIN, among=among, limit=1, round=6)
        for warmup_s in (0.0, 0.5, 0.499):
            site.text.append(f"## a warm-up of {warmup_s:g} s")
            site.specs = [spec.model_copy(update={"warmup_s": warmup_s})]
            visited(site, lab, OTHER, among=among, limit=1, round=1)
    golden("visits/rounds.txt", shortened("\n".join([*site.text, ""])))


FAILING: Mapping[str, tuple[str, Exception]] = {
    "the host cannot be prepared": ("prepare", Unavailable("no governor", hint="another")),
    "no path can be drawn": ("draw", Unavailable("no RPS")),
    "the noise cannot be read": ("noise", SetupFailed("no tool")),
    "a cable fails": ("rate on a cable", SetupFailed("no cable")),
    "the path cannot be built": ("build", SetupFailed("no link")),
    "the switch forwards nothing": ("gate", LOST),
    "a trial fails": ("trial", LOST),
    "background load cannot be started": ("execute", SetupFailed("no stress")),
    "the search is interrupted": ("search", KeyError("interrupted")),
}


def test_visits_that_fail(site: Site, golden: Golden) -> None:
    for undone in ((), ("could not undo (x): busy",)):
        for name, failing in FAILING.items():
            site.text.append(f"## {name}, left: {undone}")
            site.undone = undone
            site.fails = {failing[0]: (1, failing[1])}
            with opened(site) as lab:
                try:
                    visited(site, lab, PLAIN, then=SLOW)
                    site.text.append(f"## {name}, left: {undone}, the next visit")
                    visited(site, lab, SLOW)
                except KeyError as error:
                    site.text.append(f"raised {error!r}")
                site.undone = ()
    golden("visits/failing.txt", shortened("\n".join([*site.text, ""])))


def test_background_load_and_refused_undos(site: Site, golden: Golden) -> None:
    noisy = Test(noise="cpu:2")
    for dead in ((), ("smtest-noise", "noise")):
        site.dead = {*dead}
        site.text.append(f"## background load, dead: {dead}")
        with opened(site) as lab:
            names: list[str] = []
            load = noise_of(site.draw(site.locate(noisy), site.workspace, None), CPUS)
            names += [step.name for step in load if isinstance(step, Spawn)]
            site.dead = {*names} if dead else set()
            visited(site, lab, noisy)
    site.text.append("## an undo that was refused")
    site.dead = set()
    site.refused = ["refused (DEL): no"]
    with opened(site) as lab:
        visited(site, lab, PLAIN)
        assert site.refused == []
        site.text.append("## an undo that failed")
        site.undone = ("could not undo (x): busy",)
        visited(site, lab, PLAIN)
        site.refused = ["refused (DEL): no"]
    golden("visits/loaded.txt", shortened("\n".join([*site.text, ""])))


def are(count: int, trials: Sequence[TrialResult]) -> bool:
    return len(trials) == count


def test_trials_on_a_cable(site: Site, golden: Golden) -> None:
    spec = TrialSpec(rate_pps=None, duration_s=0.4, warmup_s=0.1)
    placement = site.draw(site.locate(OTHER), site.workspace, None).placement
    seats = replace(placement, policy="none", doubts=())
    with opened(site) as lab:
        for count in (1, 3):
            found = lab._without_switch(PLAIN, seats, spec, partial(are, count))
            assert [trial.spec for trial in found] == [spec] * count
        site.fails["trial"] = 2, LOST
        with pytest.raises(TrialFailed):
            lab._without_switch(Test(noise="cpu:2"), seats, spec, partial(are, 3))
    golden("visits/cables.txt", "\n".join([*site.text, ""]))

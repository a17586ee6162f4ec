"""The lab: brings a test's path up, measures what its search asks for, takes it down again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from switchmark import __version__
from switchmark.campaign.calibration import Calibrations, Mode
from switchmark.campaign.gate import Gate, pass_gate
from switchmark.campaign.layout import Layout, lay_out
from switchmark.campaign.trial import AT_SWITCH, Crew, PathCounters, Trials
from switchmark.campaign.trust import Trust, used_cpus
from switchmark.engines import TABLE as ENGINES
from switchmark.engines.base import traffic_program
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments import inside
from switchmark.errors import NotEquivalent, SetupFailed, TrialFailed, Unavailable, UsageError
from switchmark.functions.traffic import TrafficProcess, process_name
from switchmark.machine.anchor import privileges
from switchmark.machine.cpus import read_cpus
from switchmark.machine.executor import Executor
from switchmark.machine.host import Host, LocalHost
from switchmark.machine.hugepages import can_reserve
from switchmark.machine.nics import lend
from switchmark.machine.noise import certificate
from switchmark.machine.placement import Placement, place
from switchmark.machine.script import describe
from switchmark.machine.workspace import Workspace, default_base
from switchmark.metrics.verdict import verdict
from switchmark.model.plan import Check, Node, Plan, Spawn, Wait
from switchmark.model.record import Record, TrialResult
from switchmark.model.spec import Test, TrialSpec
from switchmark.model.topology import Port, mac_address
from switchmark.model.version import Version
from switchmark.searches import TABLE as SEARCHES
from switchmark.searches.base import LoadBounds
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.base import Counters
from switchmark.switches.links import parse_link_counters

__all__ = ["Lab", "plan"]

_PLAN_PREFIX = "smPLAN"


def plan(test: Test) -> list[str]:
    """The steps of a test as shell lines; touches nothing, needs no privileges.

    The placement is that of this machine, the switch's mode what its probe finds, if it does.
    """
    try:
        mode = SWITCHES[test.switch].probe(LocalHost()).mode
    except Unavailable:
        mode = None
    layout, placement = _prepare(test, _PLAN_PREFIX, f"{default_base()}/{_PLAN_PREFIX}", mode)
    seats = [f"#   {part}: {_seat_in_words(placement, part)}" for part in placement.seats]
    doubts = [f"# doubts: {', '.join(placement.doubts)}"] if placement.doubts else []
    return [
        f"# placement: {placement.policy}",
        *seats,
        *doubts,
        *describe(layout.build(), inside),
    ]


class Lab:
    """Runs tests, one at a time. A context manager: what is up at its end is taken down,
    unless `keep`. `capture` frames of each port go to pcap files in the run folder.

    `calibrate` says whether the traffic program is measured without a switch first, `gate` what
    becomes of a switch that fails the functional trial, `rerun` how often a trial that a passing
    disturbance spoiled is run again."""

    def __init__(
        self,
        folder: Path,
        *,
        keep: bool = False,
        capture: int | None = None,
        calibrate: Mode = "never",
        gate: Gate = "refuse",
        rerun: int = 0,
    ) -> None:
        self._folder = folder
        self._keep = keep
        self._capture = capture
        self._gate: Gate = gate
        self._rerun = rerun
        self._calibrations = Calibrations(calibrate, self._without_switch)
        self._host: Host = LocalHost()
        self._probed: dict[tuple[str, str], Version] = {}
        self._workspace: Workspace
        self._executor: Executor
        self._not_undone: tuple[str, ...] = ()
        self.kept: list[str] = []

    def __enter__(self) -> Self:
        self._workspace = Workspace()
        self._executor = Executor(
            {self._host.name: self._host},
            self._workspace,
            inside=inside,
            logs_dir=self._folder / "logs",
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.kept:
            self._executor.unwind()
        self._workspace.close()

    def versions(self, test: Test) -> Mapping[str, str]:
        """The versions that a figure depends on. Unavailable if something is missing."""
        switch, engine = SWITCHES[test.switch], ENGINES[test.engine]
        probes = {("switch", switch.name): switch.probe, ("engine", engine.name): engine.probe}
        for name in (test.environment, test.switch_environment):
            probes["environment", name] = ENVIRONMENTS[name].probe
        found = {"switchmark": __version__}
        for (what, name), probe in probes.items():
            version = self._probe(what, name, probe)
            found[f"{what} {name}"] = " ".join(filter(None, (version.text, version.mode)))
        return found

    def _probe(self, what: str, name: str, probe: Callable[[Host], Version]) -> Version:
        if (what, name) not in self._probed:
            self._probed[what, name] = probe(self._host)
        return self._probed[what, name]

    def run(
        self,
        number: int,
        key: str,
        test: Test,
        stored: Sequence[TrialResult],
        on_trial: Callable[[TrialResult], None],
    ) -> Record:
        """Run one test. `stored` are trials of an earlier run of it: a search gets them
        again, in order, before it measures anew. Expected failures are in the record."""
        record = Record(
            key=key,
            number=number,
            status="ok",
            error=None,
            test=test,
            started=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        )
        try:
            return self._run(record, list(stored), on_trial)
        except (Unavailable, UsageError) as error:
            return record.model_copy(update={"status": "refused", "error": str(error)})
        except (SetupFailed, TrialFailed) as error:
            reasons = "\n".join((str(error), *self._not_undone))
            doubts = ("not-equivalent",) if isinstance(error, NotEquivalent) else ()
            failed = {"status": "failed", "error": reasons, "doubts": doubts}
            return record.model_copy(update=failed)

    def _run(
        self, record: Record, stored: list[TrialResult], on_trial: Callable[[TrialResult], None]
    ) -> Record:
        test = record.test
        versions = self.versions(test)
        engine = ENGINES[test.engine]
        if engine.privilege == "root" and privileges() != "root":
            raise Unavailable(
                f"engine {engine.name} needs root itself, not that of a user namespace",
                hint="run it with sudo",
            )
        version = self._probe("switch", test.switch, SWITCHES[test.switch].probe)
        layout, placement = _prepare(
            test, self._workspace.run, str(self._workspace.folder), version.mode
        )
        refusal = layout.switch.accepts(layout.wiring)
        if refusal:  # for a reason that only this host gives, such as its memory
            raise Unavailable(refusal)
        trust = Trust(
            layout,
            placement,
            read_cpus(),
            noise=self._noise(placement),
            calibration=self._calibrations.of(test, layout, placement, versions),
            versions=versions,
            rerun=self._rerun,
        )
        before = time.monotonic()
        mark = self._executor.mark()
        self._not_undone = ()
        try:
            with self._path(layout, placement, record.number) as trials:
                setup_s = time.monotonic() - before
                trust.gate = pass_gate(layout, trials, self._gate)

                def measure(spec: TrialSpec) -> TrialResult:
                    if stored:
                        return stored.pop(0)
                    result = trust.measure(trials, spec)
                    on_trial(result)
                    return result

                bounds = LoadBounds(test.rate_pps, test.duration, test.warmup, test.repeat)
                estimate = SEARCHES[test.search].find(measure, bounds)
        finally:
            before = time.monotonic()
            if self._keep:
                self.kept = self._entrances(layout)
            else:
                self._not_undone = self._executor.unwind(to=mark)
        teardown_s = time.monotonic() - before
        modes = dict.fromkeys(
            part.engine_mode
            for trial in estimate.trials
            for part in trial.parts
            if part.engine_mode
        )
        return record.model_copy(
            update={
                "status": "failed" if self._not_undone else "ok",
                "error": "\n".join(self._not_undone) or None,
                "semantics": layout.wiring.semantics,
                "port": ", ".join(sorted({end.kind for end in layout.endpoints.values()})),
                "memory": layout.wiring.memory if layout.engine.own_memory else None,
                "engine_mode": " | ".join(modes) or None,
                "switch_version": version.text,
                "switch_mode": version.mode,
                "verdict": verdict(estimate.trials),
                "doubts": tuple(
                    dict.fromkeys(
                        [doubt for trial in estimate.trials for doubt in trial.doubts]
                        + ["captured"] * bool(self._capture)
                    )
                ),
                "noise": {"before": trust.noise, "after": self._noise(placement)},
                "calibration": trust.calibration,
                "gate": trust.gate,
                "discarded": tuple(trust.discarded),
                "placement": placement.as_dict(),
                "trials": estimate.trials,
                "search": estimate.summary,
                "setup_s": round(setup_s, 3),
                "teardown_s": round(teardown_s, 3),
            }
        )

    def _noise(self, placement: Placement) -> dict[str, Any]:
        """What else happens on the cores of a test, while none of its parts runs."""
        kept = ("switch",) if self.kept else ()
        found = certificate(self._host, traffic_program(), used_cpus(placement, but=kept))
        return dict(found)

    def _without_switch(self, test: Test, placement: Placement, spec: TrialSpec) -> TrialResult:
        """A trial of a test without a switch, on the seats of another one's placement."""
        layout, _ = _prepare(test, self._workspace.run, str(self._workspace.folder), None)
        mark = self._executor.mark()
        try:
            with self._path(layout, placement, 0) as trials:
                return trials.measure(spec)
        finally:
            self._executor.unwind(to=mark)

    @contextmanager
    def _path(self, layout: Layout, placement: Placement, number: int) -> Iterator[Trials]:
        """The path of a layout, up and with its ports open."""
        for port in layout.wiring.ports:
            self._executor.execute(self._lend(layout, port))
        self._executor.execute(layout.construct())
        if self._capture and number:
            self._executor.execute(self._captures(layout, number))
        crews = [
            Crew(
                TrafficProcess(
                    "+".join(part.id for part in parts),
                    self._executor.process(process_name(node)),
                ),
                parts,
            )
            for node, parts in layout.processes()
        ]
        daemons = [
            self._executor.process(step.name)
            for step in layout.switch.start(layout.wiring)
            if isinstance(step, Spawn)
        ]

        def alive() -> None:
            for daemon in daemons:
                if daemon.poll() is not None:
                    raise TrialFailed(
                        f"switch {layout.switch.name} died during the trial"
                        + "".join(f"\n  {line}" for line in daemon.last_words().splitlines())
                    )

        trials = Trials(
            layout,
            placement,
            crews,
            counters=lambda: self._counters(layout),
            switch_ns=lambda: _cpu_ns([daemon.pid for daemon in daemons]) if daemons else None,
            stolen=_Steal(),
            alive=alive,
        )
        trials.daemons = tuple(daemon.pid for daemon in daemons)
        trials.open(
            join=lambda: self._executor.execute(layout.join()),
            settle=lambda: self._executor.execute(layout.settled()),
        )
        yield trials

    def _lend(self, layout: Layout, port: Port) -> Plan:
        if port.nic is None or port.nic_peer is None:
            return ()
        return lend(self._host, port.nic, mac_address(port.index, router=True)) + lend(
            self._host, port.nic_peer, mac_address(port.index)
        )

    def _counters(self, layout: Layout) -> PathCounters:
        """Counters of both ends of every port, by place, and of the switch."""
        found = {}
        counters = Counters()
        outputs = tuple(map(self._executor.run, layout.switch.counters(layout.wiring)))
        if outputs:
            try:
                counters = layout.switch.parse_counters(layout.wiring, outputs)
            except ValueError as garbled:
                name = layout.switch.name
                raise TrialFailed(f"the counters of switch {name} cannot be read: {garbled}") from (
                    garbled
                )
            found = {f"{port}{AT_SWITCH}": each for port, each in counters.ports.items()}
        links = {
            step.at: parse_link_counters(self._executor.run(step))
            for step in layout.part_counters()
        }
        for part in layout.parts:
            for port in part.ports:
                ifname = layout.endpoints[port.id].ifname
                if ifname:
                    found[port.id] = links[layout.nodes[part.id]][ifname]
        return PathCounters(found, counters.busy_cycles, counters.idle_cycles)

    def _captures(self, layout: Layout, number: int) -> Plan:
        """tcpdump at the switch's end of every port, or at the function's where it has none."""
        folder = self._folder / "captures"
        folder.mkdir(exist_ok=True)
        steps: Plan = ()
        for part in layout.parts:
            for port in part.ports:
                endpoint = layout.endpoints[port.id]
                at, ifname = layout.nodes[part.id], endpoint.ifname
                if endpoint.switch_ifname:
                    at, ifname = layout.wiring.at, endpoint.switch_ifname
                steps += self._capture_of(number, port, at, ifname)
        return steps

    def _capture_of(self, number: int, port: Port, at: Node, ifname: str) -> Plan:
        if not ifname:
            raise UsageError(f"port {port.id} is no interface: its frames cannot be captured")
        name = f"capture-{port.id}"
        file = (self._folder / "captures" / f"{number:04d}-{port.id}.pcap").resolve()
        log = (self._folder / "logs" / f"{name}.stderr").resolve()
        return (
            Spawn(
                f"the first {self._capture} frames of {ifname}",
                name,
                (
                    *("tcpdump", "-i", ifname, "-c", str(self._capture), "-w", str(file)),
                    *("-n", "-U", "-Z", "root"),
                ),
                at=at,
            ),
            Wait(
                f"the capture of {ifname} listens",
                Check(("grep", "listening on", str(log))),
                unless_dead=name,
            ),
        )

    def _entrances(self, layout: Layout) -> list[str]:
        """How to enter each node of a path that is kept."""
        nodes = dict.fromkeys((layout.wiring.at, *layout.nodes.values()))
        return [
            " ".join(inside(node, ("bash",)))
            for node in nodes
            if inside(node, ("bash",)) != ("bash",)
        ] + [f"switchmark clean {self._workspace.run}"]


def _prepare(test: Test, prefix: str, run_dir: str, mode: str | None) -> tuple[Layout, Placement]:
    """The layout with its switch on the cores that the placement gives it."""
    layout = lay_out(test, prefix=prefix, run_dir=run_dir, mode=mode)
    cpus = read_cpus()
    placement = place(layout.tenants(), cpus, test.placement)
    used = {cpu for seat in placement.seats.values() for cpu in seat.cpus}
    node = min((cpu.node for cpu in cpus if cpu.id in used), default=0)
    layout = lay_out(
        test,
        prefix=prefix,
        run_dir=run_dir,
        mode=mode,
        cores=placement.seats["switch"].cpus,
        node=node,
        memory="hugepages" if can_reserve(LocalHost(), node) else "no-huge",
    )
    return layout, placement


def _seat_in_words(placement: Placement, part: str) -> str:
    seat = placement.seats[part]
    if not seat.cpus:
        return "no CPU of its own" if part == "switch" else "any CPU"
    cpus = ", ".join(map(str, seat.cpus))
    return f"CPU {cpus}, yielding" if seat.yield_ else f"CPU {cpus}"


def _cpu_ns(pids: Sequence[int]) -> tuple[int, int]:
    """The CPU time that all threads of some processes have used, and the time that they were
    ready to run and did not; 0 once they are gone."""
    ran = waited = 0
    for thread in (path for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/schedstat")):
        try:
            words = thread.read_text().split()
        except OSError:  # the thread has ended
            continue
        ran += int(words[0])
        waited += int(words[1])
    return ran, waited


class _Steal:
    """The share of all CPU time that the hypervisor kept, since the last call."""

    def __init__(self) -> None:
        self._last = self._read()

    def __call__(self) -> float:
        then, self._last = self._last, self._read()
        stolen, total = (now - before for now, before in zip(self._last, then, strict=True))
        return stolen / total if total else 0.0

    @staticmethod
    def _read() -> tuple[int, int]:
        fields = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        return fields[7], sum(fields)

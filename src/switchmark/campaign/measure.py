"""The lab: brings a test's path up, measures what its search asks for, takes it down again.

A path stays up for the next test if that shares it (`expand.path_key`) and nothing has failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from switchmark import __version__
from switchmark.campaign.calibration import Calibrations, Mode
from switchmark.campaign.expand import shares_path
from switchmark.campaign.floor import Floors
from switchmark.campaign.gate import Gate, pass_gate
from switchmark.campaign.layout import Layout, lay_out
from switchmark.campaign.meter import Meter
from switchmark.campaign.trial import AT_SWITCH, Crew, PathCounters, Trials
from switchmark.campaign.trust import Trust, used_cpus
from switchmark.engines import TABLE as ENGINES
from switchmark.engines.base import traffic_program
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments import inside
from switchmark.errors import NotEquivalent, SetupFailed, TrialFailed, Unavailable, UsageError
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.functions.traffic import TrafficProcess, process_name
from switchmark.machine.anchor import privileges
from switchmark.machine.cgroups import check_cpu_limit, cpu_root
from switchmark.machine.cpus import format_cpus, read_cpus
from switchmark.machine.executor import Executor
from switchmark.machine.host import Host, LocalHost, Process
from switchmark.machine.hugepages import can_reserve
from switchmark.machine.nics import lend
from switchmark.machine.noise import certificate
from switchmark.machine.pci import VFIO, Device, find_device, hand_over
from switchmark.machine.perf import Counting
from switchmark.machine.perf import probe as probe_counters
from switchmark.machine.placement import Placement, place
from switchmark.machine.processes import children, in_network
from switchmark.machine.script import describe
from switchmark.machine.workspace import Workspace, default_base
from switchmark.metrics.throughput import is_uncertain, of_latency
from switchmark.metrics.verdict import verdict
from switchmark.model.plan import Check, Node, Plan, Reserve, Spawn, Wait
from switchmark.model.record import Record, TrialResult
from switchmark.model.spec import Test, TrialSpec
from switchmark.model.topology import mac_address
from switchmark.model.units import parse_shares
from switchmark.model.version import Version
from switchmark.noises import TABLE as NOISES
from switchmark.noises import parse_noise
from switchmark.noises.base import Site
from switchmark.searches import TABLE as SEARCHES
from switchmark.searches.base import Estimate, LoadBounds
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.base import Counters
from switchmark.switches.links import parse_link_counters

__all__ = ["Lab", "plan"]

_PLAN_PREFIX = "smPLAN"
_NOISE_S = 60.0


def plan(test: Test, *others: Test) -> list[str]:
    """The steps of a test, and of others that share its path, as shell lines; touches nothing,
    needs no privileges.

    The placement is that of this machine, the switch's mode what its probe finds, if it does.
    """
    layout, placement = _prepare(
        test,
        _PLAN_PREFIX,
        f"{default_base()}/{_PLAN_PREFIX}",
        _mode(SWITCHES[test.switch].probe),
        {name: _mode(ENVIRONMENTS[name].probe) for name in _environments(test)},
        _reservable,
    )
    seats = [f"#   {part}: {_seat_in_words(placement, part)}" for part in placement.seats]
    doubts = [f"# doubts: {', '.join(placement.doubts)}"] if placement.doubts else []
    try:
        lent = describe(_lend(LocalHost(), layout, _devices(LocalHost(), layout)), inside)
    except (Unavailable, UsageError) as error:
        lent = [f"# not possible here: {line}" for line in str(error).splitlines() if line]
    return [
        f"# placement: {placement.policy}",
        *seats,
        *doubts,
        *lent,
        *describe(layout.build(), inside),
        *(
            line
            for each in {each.noise: each for each in (test, *others)}.values()
            for line in describe(_noise(replace(layout, test=each), placement), inside)
        ),
    ]


@dataclass(slots=True)
class _Path:
    """A path that is up: what was built, since which mark of the executor, and the processes
    without which it is dead. `at_work` tells those that do the switch's work, `nics` are those of
    PCI as they were found, by place, `gate` is what the functional trial showed."""

    layout: Layout
    placement: Placement
    mark: int
    trials: Trials
    processes: Sequence[Process]
    at_work: Callable[[], Collection[int]]
    nics: Mapping[str, Device] = field(default_factory=dict)
    gate: dict[str, Any] | None = None


class _Paused(Exception):
    """The search wants more trials than this visit may have."""


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
        self._floors = Floors(calibrate != "never", self._without_switch)
        self._host: Host = LocalHost()
        self._probed: dict[tuple[str, str], Version] = {}
        self._counting: Counting | None = None
        self._workspace: Workspace
        self._executor: Executor
        self._up: _Path | None = None
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
        for name in _environments(test):
            probes["environment", name] = ENVIRONMENTS[name].probe
        if test.noise is not None:
            kind, _ = parse_noise(test.noise)
            probes["noise", kind] = NOISES[kind].probe
        if not FUNCTIONS[test.function].played:
            probes["function", test.function] = FUNCTIONS[test.function].probe
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
        *,
        then: Test | None = None,
    ) -> Record:
        """Run one test to its end: a `visit` without a limit."""
        record = self.visit(number, key, test, stored, on_trial, then=then)
        assert record is not None
        return record

    def visit(
        self,
        number: int,
        key: str,
        test: Test,
        stored: Sequence[TrialResult],
        on_trial: Callable[[TrialResult], None],
        *,
        then: Test | None = None,
        r_plus_pps: float | None = None,
        limit: int | None = None,
    ) -> Record | None:
        """Run one test. `stored` are trials of an earlier run of it: a search gets them
        again, in order, before it measures anew. Expected failures are in the record.

        The path is left up if `then`, the next test, shares it. `r_plus_pps` is what a rate in
        percent is a share of: all that arrives under saturation. None if the search wants more
        new trials than `limit`: those that it had are stored trials of the next call.
        """
        record = Record(
            key=key,
            number=number,
            status="ok",
            error=None,
            test=test,
            r_plus_pps=r_plus_pps,
            started=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        )
        self._not_undone = ()
        try:
            return self._run(record, list(stored), on_trial, then, limit)
        except (Unavailable, UsageError) as error:
            return record.model_copy(update={"status": "refused", "error": str(error)})
        except (SetupFailed, TrialFailed) as error:
            reasons = "\n".join((str(error), *self._not_undone))
            doubts = ("not-equivalent",) if isinstance(error, NotEquivalent) else ()
            failed = {"status": "failed", "error": reasons, "doubts": doubts}
            return record.model_copy(update=failed)

    def _run(
        self,
        record: Record,
        stored: list[TrialResult],
        on_trial: Callable[[TrialResult], None],
        then: Test | None,
        limit: int | None,
    ) -> Record | None:
        test = record.test
        versions = self.versions(test)
        reused = self._goes_on_with(test, versions)
        setup_s = 0.0
        if reused:
            assert self._up is not None
            path = self._up
            layout, placement = path.layout, path.placement
            noise = self._noise(layout, placement)
            calibration = self._calibrations.of(test, layout, placement, versions)
            floor = self._floors.of(test, layout, placement)
        else:
            self._take_down()
            layout, placement = self._drawn(test)
            noise = self._noise(layout, placement)
            calibration = self._calibrations.of(test, layout, placement, versions)
            floor = self._floors.of(test, layout, placement)
            before = time.monotonic()
            path = self._bring_up(layout, placement)
            setup_s = time.monotonic() - before
        trust = Trust(
            layout,
            placement,
            read_cpus(),
            at_work=path.at_work,
            noise=noise,
            calibration=calibration,
            gate=path.gate,
            capture=self._capture,
            rerun=self._rerun,
        )
        down = not self._keep
        estimate: Estimate | None = None
        try:
            with suppress(_Paused):
                estimate = self._estimate(path, trust, record, stored, on_trial, limit)
            down = down and not shares_path(test, then)
        finally:
            before = time.monotonic()
            if down:
                self._take_down()
            elif self._keep:
                self.kept = self._entrances(path.layout)
        teardown_s = time.monotonic() - before if down else 0.0
        if estimate is None and not self._not_undone:
            return None
        estimate = estimate or Estimate((), None)
        version = self._probe("switch", test.switch, layout.switch.probe)
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
                "steering": layout.steering,
                "port": ", ".join(sorted({end.kind for end in layout.endpoints.values()})),
                "memory": layout.wiring.memory if layout.own_memory else None,
                "engine_mode": " | ".join(modes) or None,
                "switch_version": version.text,
                "switch_mode": version.mode,
                "nics": {place: str(nic) for place, nic in path.nics.items()},
                "verdict": estimate.verdict or verdict(estimate.trials),
                "doubts": tuple(
                    dict.fromkeys(
                        [doubt for trial in estimate.trials for doubt in trial.doubts]
                        + ["uncertain"] * is_uncertain(test, estimate.trials)
                    )
                ),
                "noise": {"before": noise, "after": self._noise(layout, placement)},
                "calibration": calibration,
                "floor": floor,
                "gate": path.gate,
                "discarded": tuple(trust.discarded),
                "placement": placement.as_dict(),
                "trials": estimate.trials,
                "search": estimate.summary,
                "reused": reused,
                "setup_s": round(setup_s, 3),
                "teardown_s": round(teardown_s, 3),
            }
        )

    def _estimate(
        self,
        path: _Path,
        trust: Trust,
        record: Record,
        stored: list[TrialResult],
        on_trial: Callable[[TrialResult], None],
        limit: int | None,
    ) -> Estimate:
        """What the test's search finds on a path; what accompanies its trials ends with them.
        _Paused where it wants more new trials than `limit`."""
        test = record.test
        left = [-1 if limit is None else limit]

        def measure(spec: TrialSpec) -> TrialResult:
            if stored and stored[0].spec == spec:
                return trust.recall(stored.pop(0))
            stored.clear()  # of another R+: what follows them is not of this search
            if left[0] == 0:
                raise _Paused
            left[0] -= 1
            result = trust.measure(path.trials, spec)
            self._check_noise(noise)
            on_trial(result)
            return result

        noise = _noise(path.layout, path.placement)
        rate_pps = test.rate_pps
        if test.parsed_rate.share is not None and record.r_plus_pps is not None:
            rate_pps = test.parsed_rate.share * record.r_plus_pps / path.layout.streams
        bounds = LoadBounds(
            rate_pps,
            test.duration,
            test.warmup,
            test.repeat,
            loss_ratio=test.loss_ratio,
            precision=test.precision,
            loads=parse_shares(test.loads),
            until_certain=test.until_certain,
            senders=path.layout.streams,
            latency=of_latency(test),
            judge=verdict,
        )
        mark = self._executor.mark()
        try:
            self._executor.execute(self._captures(path.layout, record.number))
            self._executor.execute(noise)
            return SEARCHES[test.search].find(measure, bounds)
        finally:
            if not self._keep:
                self._not_undone += self._executor.unwind(to=mark)

    def _check_noise(self, noise: Plan) -> None:
        """TrialFailed if a process of it has ended."""
        for step in noise:
            if isinstance(step, Spawn):
                process = self._executor.process(step.name)
                if process.poll() is not None:
                    words = "".join(f"\n  {line}" for line in process.last_words().splitlines())
                    raise TrialFailed(f"{step.why}: it ended during the trial{words}")

    def _goes_on_with(self, test: Test, versions: Mapping[str, str]) -> bool:
        """Turn the path that is up to another test; False if it does not serve or is dead, or
        stands in the way of a calibration or a floor."""
        path = self._up
        if path is None or not shares_path(path.layout.test, test):
            return False
        if any(process.poll() is not None for process in path.processes):
            return False
        layout = replace(path.layout, test=test)
        if self._calibrations.lacks(test, layout, path.placement, versions):
            return False
        if self._floors.lacks(test, layout, path.placement):
            return False
        with suppress(TrialFailed):
            path.layout = layout
            path.trials.turn_to(path.layout)
            return True
        return False

    def _drawn(self, test: Test) -> tuple[Layout, Placement]:
        """What is to be built for a test. Unavailable or UsageError if this host cannot."""
        engine = ENGINES[test.engine]
        if engine.privilege == "root" and privileges() != "root":
            raise Unavailable(
                f"engine {engine.name} needs root itself, not that of a user namespace",
                hint="run it with sudo",
            )
        if test.limits:
            check_cpu_limit(self._host)
        layout, placement = self._prepared(test)
        self._refuse_missing_ports(layout)
        self._refuse_without_memory(layout)
        refusal = layout.switch.accepts(layout.wiring)
        if refusal:  # for a reason that only this host gives, such as its memory
            raise Unavailable(refusal)
        if self._capture:
            self._check_capture(layout)
        return layout, placement

    def _prepared(self, test: Test) -> tuple[Layout, Placement]:
        return _prepare(
            test,
            self._workspace.run,
            str(self._workspace.folder),
            self._probe("switch", test.switch, SWITCHES[test.switch].probe).mode,
            {
                name: self._probe("environment", name, ENVIRONMENTS[name].probe).mode
                for name in _environments(test)
            },
            self._executor.can,
        )

    def _bring_up(self, layout: Layout, placement: Placement) -> _Path:
        """Build a path and let it show that its switch does the work. What fails leaves nothing
        up."""
        mark = self._executor.mark()
        try:
            path = self._path(layout, placement, mark)
            path.gate = pass_gate(layout, path.trials, self._gate)
        except BaseException:
            self._not_undone += self._executor.unwind(to=mark)
            raise
        self._up = path
        return path

    def _take_down(self) -> None:
        """Undo the path that is up, if there is one."""
        if self._up is not None:
            path, self._up = self._up, None
            path.trials.end()
            self._not_undone += self._executor.unwind(to=path.mark)

    def _noise(self, layout: Layout, placement: Placement) -> dict[str, Any]:
        """What else happens on the cores of a test while it rests. What polls on a path that is
        up is no noise: its cores are left out."""
        polling = ["switch", *(part.id for part, _, _ in layout.hosted)]
        cpus = used_cpus(placement, but=polling if self._up or self.kept else ())
        return dict(certificate(self._host, traffic_program(), cpus))

    def _without_switch(self, test: Test, placement: Placement, spec: TrialSpec) -> TrialResult:
        """A trial of a test without a switch, on the seats of another one's placement and beside
        the same noise. No path may be up."""
        layout, _ = self._prepared(test)
        seats = {part: seat.cpus for part, seat in placement.seats.items()}
        layout = replace(layout, seats=seats)
        mark = self._executor.mark()
        try:
            path = self._path(layout, placement, mark)
            self._executor.execute(_noise(layout, placement))
            return path.trials.measure(spec)
        finally:
            self._executor.unwind(to=mark)

    def _refuse_missing_ports(self, layout: Layout) -> None:
        """Unavailable where an environment cannot have such ports on this host."""
        for part in layout.parts:
            name = layout.nodes[part.id].environment
            if part.physical:
                continue
            missing = self._probe("environment", name, ENVIRONMENTS[name].probe).missing
            for port in part.ports:
                if found := missing.get(layout.endpoints[port.id].kind):
                    raise Unavailable(found[0], hint=found[1])

    def _refuse_without_memory(self, layout: Layout) -> None:
        """Unavailable where the machines of a test would not fit into this host's memory."""
        needed, meminfo = layout.guest_megabytes(), self._host.read("/proc/meminfo")
        free = int(meminfo.partition(b"MemAvailable:")[2].split()[0]) // 1024
        if needed > free:
            count = sum(map(layout.own_kernel, layout.parts))
            raise Unavailable(
                f"{count} virtual machines need {needed} MB of memory; {free} MB are available",
                hint="--pairs with a smaller number",
            )

    def _path(self, layout: Layout, placement: Placement, mark: int) -> _Path:
        """The path of a layout, up and with its ports open."""
        nics = _devices(self._host, layout)
        self._executor.execute(_lend(self._host, layout, nics))
        self._executor.execute(layout.construct())
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
        daemons = {
            "switch": (
                f"switch {layout.switch.name}",
                layout.wiring.at,
                self._spawned(layout.switch.start(layout.wiring)),
            ),
            **{
                part.id: (
                    f"function {part.id} ({function.name})",
                    hosted.node,
                    self._spawned(function.start(hosted)),
                )
                for part, function, hosted in layout.hosted
            },
        }

        # What a guest's process takes of its machine is less than the machine takes of this host.
        machines = {
            part.id: boot for part in layout.parts for boot in self._spawned(layout.machine(part))
        }

        def alive() -> None:
            for who, _, processes in daemons.values():
                for process in processes:
                    if process.poll() is not None:
                        raise TrialFailed(
                            f"{who} died during the trial"
                            + "".join(f"\n  {line}" for line in process.last_words().splitlines())
                        )

        def hosted() -> dict[str, Collection[int]]:
            """The processes that do the work of the switch, of functions and of machines."""
            at_work = {
                place: _at_work(at, processes)
                for place, (_, at, processes) in daemons.items()
                if processes
            }
            return {**at_work, **{part: children(boot.pid) for part, boot in machines.items()}}

        @cache  # the traffic program stays, and to look for it in a container takes a while
        def playing() -> dict[str, Collection[int]]:
            return {
                "+".join(part.id for part in parts): _at_work(
                    node, [self._executor.process(process_name(node))]
                )
                for node, parts in layout.processes()
            }

        trials = Trials(
            layout,
            placement,
            crews,
            counters=lambda: self._counters(layout),
            used_ns=lambda: {place: _cpu_ns(pids) for place, pids in hosted().items()},
            stolen=_Steal(),
            alive=alive,
            meter=Meter(
                self._executor,
                str(self._workspace.folder),
                placement,
                cpus=used_cpus(placement) or [cpu.id for cpu in read_cpus()],
                pids=lambda: {**playing(), **hosted()},
                counting=self._counts(),
            ),
        )
        trials.open(
            join=lambda: self._executor.execute(layout.join()),
            settle=lambda: self._executor.execute(layout.settled()),
        )
        programs = [self._executor.process(process_name(node)) for node, _ in layout.processes()]
        others = [process for _, _, processes in daemons.values() for process in processes]
        _, at, of_switch = daemons["switch"]
        return _Path(
            layout,
            placement,
            mark,
            trials,
            processes=[*others, *programs],
            at_work=lambda: _at_work(at, of_switch) if of_switch else (),
            nics=nics,
        )

    def _counts(self) -> Counting:
        """What the processor counts here, looked up once."""
        if self._counting is None:
            self._counting = probe_counters(self._host)
        return self._counting

    def _spawned(self, steps: Plan) -> list[Process]:
        return [self._executor.process(step.name) for step in steps if isinstance(step, Spawn)]

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
                    found[port.id] = links[layout.stack(part)][ifname]
        functions = {}
        for part, function, hosted in layout.hosted:
            outputs = tuple(map(self._executor.run, function.counters(hosted)))
            try:
                functions[part.id] = function.parse_counters(hosted, outputs).ports
            except ValueError as garbled:
                raise TrialFailed(
                    f"the counters of function {part.id} cannot be read: {garbled}"
                ) from garbled
        return PathCounters(found, counters.busy_cycles, counters.idle_cycles, functions)

    def _check_capture(self, layout: Layout) -> None:
        """UsageError if a port of this path cannot be captured."""
        for port in layout.wiring.ports:
            end = layout.endpoints[port.id]
            guest = ENVIRONMENTS[layout.nodes[port.part].environment].own_kernel
            if not (end.switch_ifname or (end.ifname and not guest)):
                raise UsageError(f"port {port.id} is no interface: its frames cannot be captured")

    def _captures(self, layout: Layout, number: int) -> Plan:
        """tcpdump at the switch's end of every port, or at the function's where it has none."""
        if not self._capture:
            return ()
        folder = self._folder / "captures"
        folder.mkdir(exist_ok=True)
        steps: Plan = ()
        for part in layout.parts:
            for port in part.ports:
                endpoint = layout.endpoints[port.id]
                at, ifname = layout.nodes[part.id], endpoint.ifname
                if endpoint.switch_ifname:
                    at, ifname = layout.wiring.at, endpoint.switch_ifname
                steps += self._capture_of(f"{number:04d}-{port.id}", at, ifname)
        return steps

    def _capture_of(self, label: str, at: Node, ifname: str) -> Plan:
        name = f"capture-{label}"
        file = (self._folder / "captures" / f"{label}.pcap").resolve()
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


def _devices(host: Host, layout: Layout) -> Mapping[str, Device]:
    """The NICs that the user names by PCI address, by place. UsageError where one is not there."""
    return {
        place: find_device(host, name)
        for port in layout.wiring.ports
        for place, name in ((f"{port.id}{AT_SWITCH}", port.nic), (port.id, port.nic_peer))
        if port.pci and name
    }


def _lend(host: Host, layout: Layout, devices: Mapping[str, Device]) -> Plan:
    """The NICs that the user names, made ready for the run. UsageError or Unavailable where they
    are in use, or this host cannot lend them."""
    steps: Plan = ()
    for port in layout.wiring.ports:
        for name, router in ((port.nic, True), (port.nic_peer, False)):
            if name and not port.pci:
                steps += lend(host, name, mac_address(port.index, router=router))
    if devices:
        driver = VFIO if layout.test.driver == "auto" else layout.test.driver
        steps += hand_over(host, list(devices.values()), driver, layout.wiring.memory)
    return steps


def _environments(test: Test) -> tuple[str, ...]:
    return tuple(dict.fromkeys((test.environment, test.switch_environment)))


def _mode(probe: Callable[[Host], Version]) -> str | None:
    """The mode that a probe of this machine finds, if it does."""
    try:
        return probe(LocalHost()).mode
    except Unavailable:
        return None


def _prepare(
    test: Test,
    prefix: str,
    run_dir: str,
    mode: str | None,
    modes: Mapping[str, str | None],
    can: Callable[[Plan], bool],
) -> tuple[Layout, Placement]:
    """The layout with its switch on the cores that the placement gives it. `modes` are those of
    the probed environments. `can` says whether steps can be carried out: memory that is up to us
    is hugepages if all of them can be had."""
    layout = lay_out(test, prefix=prefix, run_dir=run_dir, mode=mode)
    cpus = read_cpus()
    placement = place(layout.tenants(), cpus, test.placement)
    used = {cpu for seat in placement.seats.values() for cpu in seat.cpus}
    draw = partial(
        lay_out,
        test,
        prefix=prefix,
        run_dir=run_dir,
        mode=mode,
        cores=placement.seats["switch"].cpus,
        node=min((cpu.node for cpu in cpus if cpu.id in used), default=0),
        cgroups=cpu_root(LocalHost()),
        modes=modes,
        seats={part: seat.cpus for part, seat in placement.seats.items()},
    )
    layout = draw(memory="hugepages")
    pages = tuple(step for step in layout.construct() if isinstance(step, Reserve))
    if test.memory == "auto" and pages and not can(pages):
        layout = draw(memory="no-huge")
    return layout, placement


def _reservable(steps: Plan) -> bool:
    """Whether pages can be reserved on their nodes at all, as far as can be told by looking."""
    return all(can_reserve(LocalHost(), s.node) for s in steps if isinstance(s, Reserve))


def _noise(layout: Layout, placement: Placement) -> Plan:
    """The noise beside a test's trials, on its CPUs."""
    test, wiring = layout.test, layout.wiring
    if test.noise is None:
        return ()
    kind, where = parse_noise(test.noise)
    if isinstance(where, str):
        seats = placement.seats
        of_switch = where == "switch"
        cpus = {cpu for who in seats if (who == "switch") == of_switch for cpu in seats[who].cpus}
        if not cpus:
            raise UsageError(
                f"noise {test.noise}: the {where} have no CPUs of its own here",
                hint=f"--noise {kind}:0",
            )
        where = tuple(sorted(cpus))
    allowed = [cpu.id for cpu in read_cpus()]
    if outside := sorted(set(where) - set(allowed)):
        raise UsageError(
            f"noise {test.noise}: there is no CPU {format_cpus(outside)} here",
            hint=f"--noise {kind}:{allowed[0]}",
        )
    asked_s = (test.warmup + test.duration) * test.repeat
    site = Site(
        prefix=wiring.prefix,
        run_dir=wiring.run_dir,
        cpus=where,
        workers=len(where or allowed),
        seconds=_NOISE_S + 2 * asked_s,
    )
    return NOISES[kind].start(site)


def _seat_in_words(placement: Placement, part: str) -> str:
    seat = placement.seats[part]
    if not seat.cpus:
        return "no CPU of its own" if part == "switch" else "any CPU"
    cpus = ", ".join(map(str, seat.cpus))
    return f"CPU {cpus}, yielding" if seat.yield_ else f"CPU {cpus}"


def _at_work(at: Node, daemons: Sequence[Process]) -> Collection[int]:
    """The processes that do a switch's work. What was started may be but the client of a
    container's runtime: then it is whatever has the network stack of the switch's node."""
    pids = {daemon.pid for daemon in daemons}
    path = ENVIRONMENTS[at.environment].netns(at)
    there = in_network(path) if path else pids
    return pids if pids <= there else there


def _cpu_ns(pids: Collection[int]) -> tuple[int, int]:
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

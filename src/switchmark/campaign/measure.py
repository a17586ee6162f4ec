"""The lab: brings a test's path up, measures what its search asks for, takes it down again.

A path stays up for the next test if that shares it (`expand.path_key`) and nothing has failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self, overload

from switchmark import __version__
from switchmark.campaign.expand import shares_path
from switchmark.campaign.layout import Layout, lay_out
from switchmark.campaign.trial import AT_SWITCH, Crew, PathCounters, Trials
from switchmark.engines import TABLE as ENGINES
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments import inside
from switchmark.errors import SetupFailed, TrialFailed, Unavailable, UsageError
from switchmark.functions.traffic import TrafficProcess, process_name
from switchmark.machine.anchor import privileges
from switchmark.machine.cgroups import check_cpu_limit, cpu_root
from switchmark.machine.cpus import read_cpus
from switchmark.machine.executor import Executor
from switchmark.machine.host import Host, LocalHost
from switchmark.machine.hugepages import can_reserve
from switchmark.machine.nics import lend
from switchmark.machine.placement import Placement, place
from switchmark.machine.script import describe
from switchmark.machine.workspace import Workspace, default_base
from switchmark.metrics.throughput import is_uncertain, is_unstable, of_latency
from switchmark.metrics.verdict import verdict
from switchmark.model.plan import Check, Node, Plan, Spawn, Wait
from switchmark.model.record import Record, TrialResult
from switchmark.model.spec import Test, TrialSpec
from switchmark.model.topology import Port, mac_address
from switchmark.model.units import parse_shares
from switchmark.model.version import Version
from switchmark.searches import TABLE as SEARCHES
from switchmark.searches.base import Estimate, LoadBounds
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


@dataclass(slots=True)
class _Path:
    """A path that is up: what was built, and since which mark of the executor."""

    layout: Layout
    placement: Placement
    mark: int
    trials: Trials
    alive: Callable[[], None]


class _Paused(Exception):
    """The search wants more trials than this visit may have."""


class Lab:
    """Runs tests, one at a time. A context manager: what is up at its end is taken down,
    unless `keep`. `capture` frames of each port go to pcap files in the run folder."""

    def __init__(self, folder: Path, *, keep: bool = False, capture: int | None = None) -> None:
        self._folder = folder
        self._keep = keep
        self._capture = capture
        self._host: Host = LocalHost()
        self._probed: dict[tuple[str, str], Version] = {}
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

    @overload
    def run(
        self,
        number: int,
        key: str,
        test: Test,
        stored: Sequence[TrialResult],
        on_trial: Callable[[TrialResult], None],
        *,
        then: Test | None = None,
        r_plus_pps: float | None = None,
        limit: None = None,
    ) -> Record: ...

    @overload
    def run(
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
    ) -> Record | None: ...

    def run(
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
            return record.model_copy(update={"status": "failed", "error": reasons})

    def _run(
        self,
        record: Record,
        stored: list[TrialResult],
        on_trial: Callable[[TrialResult], None],
        then: Test | None,
        limit: int | None,
    ) -> Record | None:
        test = record.test
        before = time.monotonic()
        reused = self._goes_on_with(test)
        if not reused:
            self._take_down()
            before = time.monotonic()
            self._bring_up(test)
        path = self._up
        assert path is not None
        setup_s = 0.0 if reused else time.monotonic() - before
        down = not self._keep
        estimate: Estimate | None = None
        try:
            with suppress(_Paused):
                estimate = self._estimate(path, record, stored, on_trial, limit)
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
        layout = path.layout
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
                        + ["unstable"] * any(is_unstable(t) for t in estimate.trials)
                        + ["uncertain"] * is_uncertain(test, estimate.trials)
                    )
                ),
                "placement": path.placement.as_dict(),
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
                return stored.pop(0)
            stored.clear()  # of another R+: what follows them is not of this search
            if left[0] == 0:
                raise _Paused
            left[0] -= 1
            result = path.trials.measure(spec)
            on_trial(result)
            return result

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
            return SEARCHES[test.search].find(measure, bounds)
        finally:
            if not self._keep:
                self._not_undone += self._executor.unwind(to=mark)

    def _goes_on_with(self, test: Test) -> bool:
        """Turn the path that is up to another test; False if it does not serve or is dead."""
        path = self._up
        if path is None or not shares_path(path.layout.test, test):
            return False
        with suppress(TrialFailed):
            path.alive()
            path.layout = replace(path.layout, test=test)
            path.trials.turn_to(path.layout)
            return True
        return False

    def _bring_up(self, test: Test) -> None:
        """Build the path of a test. What fails leaves nothing up."""
        self.versions(test)
        engine = ENGINES[test.engine]
        if engine.privilege == "root" and privileges() != "root":
            raise Unavailable(
                f"engine {engine.name} needs root itself, not that of a user namespace",
                hint="run it with sudo",
            )
        if test.limits:
            check_cpu_limit(self._host)
        version = self._probe("switch", test.switch, SWITCHES[test.switch].probe)
        layout, placement = _prepare(
            test, self._workspace.run, str(self._workspace.folder), version.mode
        )
        refusal = layout.switch.accepts(layout.wiring)
        if refusal:  # for a reason that only this host gives, such as its memory
            raise Unavailable(refusal)
        if self._capture:
            self._check_capture(layout)
        mark = self._executor.mark()
        try:
            self._up = self._path(layout, placement, mark)
        except BaseException:
            self._not_undone += self._executor.unwind(to=mark)
            raise

    def _take_down(self) -> None:
        """Undo the path that is up, if there is one."""
        if self._up is not None:
            path, self._up = self._up, None
            self._not_undone += self._executor.unwind(to=path.mark)

    def _path(self, layout: Layout, placement: Placement, mark: int) -> _Path:
        """The path of a layout, up and with its ports open."""
        for port in layout.wiring.ports:
            self._executor.execute(self._lend(layout, port))
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
            busy_ns=lambda: sum(_cpu_ns(daemon.pid) for daemon in daemons) if daemons else None,
            stolen=_Steal(),
            alive=alive,
        )
        trials.open(
            join=lambda: self._executor.execute(layout.join()),
            settle=lambda: self._executor.execute(layout.settled()),
        )
        return _Path(layout, placement, mark, trials, alive)

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

    def _check_capture(self, layout: Layout) -> None:
        """UsageError if a port of this path cannot be captured."""
        for port in layout.wiring.ports:
            end = layout.endpoints[port.id]
            if not (end.ifname or end.switch_ifname):
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
        cgroups=cpu_root(LocalHost()),
    )
    return layout, placement


def _seat_in_words(placement: Placement, part: str) -> str:
    seat = placement.seats[part]
    if not seat.cpus:
        return "no CPU of its own" if part == "switch" else "any CPU"
    cpus = ", ".join(map(str, seat.cpus))
    return f"CPU {cpus}, yielding" if seat.yield_ else f"CPU {cpus}"


def _cpu_ns(pid: int) -> int:
    """The CPU time that all threads of a process have used; 0 once it is gone."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(thread.read_text().split()[0])
        except OSError:  # the thread has ended
            continue
    return total


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

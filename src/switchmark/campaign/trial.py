"""One trial: tells the traffic processes what to do, and adds up what they and the links say.

Warm-up and measured phase are apart: between them the path falls quiet and the counters are
read, so that what is counted in the measured phase is exact (docs/decisions/0003).
"""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Literal

from switchmark.campaign.expand import RX_BURST
from switchmark.campaign.layout import SHARED_PROCESS, UDP_PORT, Layout, frame_sizes
from switchmark.campaign.meter import Meter, Window
from switchmark.engines.base import Engine
from switchmark.errors import SetupFailed, TrialFailed
from switchmark.functions.traffic import TrafficProcess
from switchmark.machine.cgroups import PERIOD_US
from switchmark.machine.cpus import format_cpus
from switchmark.machine.placement import Placement
from switchmark.metrics.latency import from_counts
from switchmark.model.record import FlowCounts, Latency, PartReport, TrialResult
from switchmark.model.spec import TrialSpec
from switchmark.model.topology import Flow, Part, Port, Role, Semantics
from switchmark.model.units import FCS_BYTES, LAYER_2_BYTES
from switchmark.switches.base import PortCounters

__all__ = ["AT_SWITCH", "Crew", "LinkCounters", "PathCounters", "Trials"]

_BROADCAST_MAC, _BROADCAST_IP = "ff:ff:ff:ff:ff:ff", "255.255.255.255"
_INTERVALS = 50  # at least so many in a trial, for its steady part to be found
_INTERVALS_MAX = 60_000
_LEAD_NS = 5_000_000
_LEAD_A_PROCESS_NS = 2_000_000
_QUIET_MS = 20
_QUIET_A_FUNCTION_MS = 30  # where several share a CPU, each may wait for its turn with frames
_QUIET_MAX_MS = 1000
_DRAIN_S = 2.0
_OPEN_S = 20.0
_SHORT_S = 1.0
_STEAL = 0.01
_TAKEN = 0.2
_PHASE_SLACK_S = 10.0
_TTL = 64  # of a frame as it is sent (`traffic/src/frames.h`)

AT_SWITCH = "@switch"
"""Marks the switch's end of a port, where a frame is lost: `f0@switch in`."""

LinkCounters = Mapping[str, PortCounters]
"""Counters of both ends of each port: `f0`, the link at the part, and `f0@switch`."""


@dataclass(frozen=True, slots=True)
class PathCounters:
    """Counters of a path at one moment, or between two; the cycles are those of the switch's
    polling threads, None where it does not tell. `functions` are those of functions that the
    traffic program does not play, by part and port."""

    links: LinkCounters
    busy_cycles: int | None = None
    idle_cycles: int | None = None
    functions: Mapping[str, LinkCounters] = field(default_factory=dict)

    def since(self, before: PathCounters) -> PathCounters:
        """What was counted since `before`."""
        return PathCounters(
            _difference(before.links, self.links),
            _less(before.busy_cycles, self.busy_cycles),
            _less(before.idle_cycles, self.idle_cycles),
            {
                part: _difference(before.functions.get(part, {}), ports)
                for part, ports in self.functions.items()
            },
        )

    def as_dict(self) -> dict[str, dict[str, int | None]]:
        """The counters as a record keeps them: by place, and the cycles under `switch`."""
        found = {place: asdict(each) for place, each in self.links.items()}
        for part, ports in self.functions.items():
            found |= {f"function {part} {port}": asdict(each) for port, each in ports.items()}
        if self.busy_cycles is not None:
            cycles = {"busy_cycles": self.busy_cycles, "idle_cycles": self.idle_cycles}
            return {**found, "switch": cycles}
        return found


@dataclass(frozen=True, slots=True)
class Crew:
    """A traffic process and the parts that it plays."""

    process: TrafficProcess
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class _Job:
    """One task of a process: a role of a part, on one of the queues of its port (a forwarder: of
    both), with `flows` of its flows, from number `first` on."""

    part: Part
    role: Role
    queue: int
    first: int
    flows: int


_Sent = dict[str, tuple[tuple[_Job, dict[str, Any]], ...]]
"""By flow, the tasks that sent it with their reports."""


class Trials:
    """Measures trials on a path that is up. `counters` reads those of the whole path,
    `used_ns` the CPU time that processes besides the traffic program's have used, and the time
    that they were kept waiting for a CPU, by `switch` and part, `stolen` the share of CPU time
    that a hypervisor took since its last call, `alive` raises TrialFailed if the switch or a
    function has died, and `meter` counts what the measured phase cost."""

    def __init__(
        self,
        layout: Layout,
        placement: Placement,
        crews: Sequence[Crew],
        *,
        counters: Callable[[], PathCounters],
        used_ns: Callable[[], Mapping[str, tuple[int, int]]],
        stolen: Callable[[], float],
        alive: Callable[[], None],
        meter: Meter,
    ) -> None:
        self._layout = layout
        self._placement = placement
        self._crews = crews
        self._counters = counters
        self._used_ns = used_ns
        self._stolen = stolen
        self._alive = alive
        self._meter = meter
        self._openings: dict[Crew, dict[str, Any]] = {}
        self._clocks: dict[str, dict[str, int]] = {}
        self._ahead_ns: dict[str, int] = {}
        self._guests = {
            port.id for part in layout.parts if layout.own_kernel(part) for port in part.ports
        }

    # -- before the first trial --------------------------------------------------------

    def open(self, *, join: Callable[[], None], settle: Callable[[], None]) -> None:
        """Open all ports and wait for their links. `join` is called when all are open but those
        that only the switch's joining opens, `settle` when all are. TrialFailed with the
        program's reason."""
        self._openings = {crew: self._opening(crew) for crew in self._crews}
        waiting = [crew for crew in self._crews if self._layout.awaits_switch(crew.parts)]
        for serves in (True, False):  # a client finds its server there
            crews = [crew for crew in self._crews if self._serves(crew) is serves]
            for crew in crews:
                crew.process.send("open", **self._openings[crew])
            for crew in crews:
                if crew not in waiting:
                    crew.process.answer("open", timeout_s=_OPEN_S)
        join()
        for crew in waiting:
            crew.process.answer("open", timeout_s=_OPEN_S)
        settle()
        for crew in self._crews:
            crew.process.ask("ready", timeout_ms=5000)
        self._read_clocks(self._crews)

    def _read_clocks(self, crews: Sequence[Crew]) -> None:
        """The clocks of these processes: all on this host's kernel get one and the same; of
        others, how far CLOCK_MONOTONIC there is ahead of this host's, to some milliseconds."""
        of_host: dict[str, int] | None = None
        for crew in crews:
            name, foreign = crew.process.part, self._foreign(crew)
            if not foreign and of_host is not None:
                self._clocks[name] = of_host
                continue
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            found = crew.process.ask("clock")
            self._clocks[name] = {key: found[key] for key in ("ticks", "ns", "hz")}
            self._ahead_ns[name] = found["ns"] - before if foreign else 0
            of_host = of_host if foreign else self._clocks[name]

    def _foreign(self, crew: Crew) -> bool:
        """Is a process on another kernel than this host's, with another clock?"""
        return any(self._layout.own_kernel(part) for part in crew.parts)

    def _one_way(self, part: Part) -> bool:
        """Do both ends of the flows that a part receives read one clock?"""
        ends = {
            port for flow in self._layout.received_by(part) for port in (flow.source, flow.sink)
        }
        holders = [p for p in self._layout.parts if ends & {port.id for port in p.ports}]
        return not any(map(self._layout.own_kernel, holders))

    def _serves(self, crew: Crew) -> bool:
        return any(self._layout.endpoints[p.id].server for part in crew.parts for p in part.ports)

    def _opening(self, crew: Crew) -> dict[str, Any]:
        """What a process opens: its ports, and the threads with their tasks."""
        played = [port for part in crew.parts for port in part.ports]
        endpoints = [self._layout.endpoints[port.id] for port in played]
        opened = self._opened(crew)
        ports = [
            {
                **self._port(crew, part, port),
                "queue": queue,
                "options": self._layout.engine_of(part).port_options(
                    self._layout.wiring,
                    self._layout.place_of(part),
                    endpoints,
                    played.index(port),
                    self._layout.test.driver,
                ),
            }
            for part, port, queue in opened
        ]
        tasks = [
            [
                {
                    "role": job.role.value,
                    "ports": [opened.index((part, port, job.queue)) for port in part.ports],
                }
                for job in self._jobs(part)
            ]
            for part in crew.parts
        ]
        if self._layout.test.placement == SHARED_PROCESS:
            tasks = [[task for some in tasks for task in some]]
        threads = [
            {**self._seat(part), "tasks": some}
            for part, some in zip(crew.parts, tasks, strict=False)
        ]
        return {"ports": ports, "threads": threads}

    def _jobs(self, part: Part) -> list[_Job]:
        """The tasks of a part. Each queue is sent to by a task of its own, so that a flow stays
        on its queue; what is received is counted by one, which reads all queues."""
        queues = self._layout.wiring.queues
        jobs = []
        flows = max(1, len(self._flows_of(part))) * self._layout.test.flows
        for role in self._layout.roles(part):
            if role is not Role.SENDER:
                jobs.append(_Job(part, role, 0, 0, flows))
                continue
            bounds = [flows * queue // queues for queue in range(queues + 1)]
            jobs += [
                _Job(part, role, queue, first, end - first)
                for queue, (first, end) in enumerate(pairwise(bounds))
            ]
        return jobs

    def _flows_of(self, part: Part) -> tuple[Flow, ...]:
        """The flows that a part sends, or else receives: as many go each way."""
        return _distinct(self._layout.sent_by(part) or self._layout.received_by(part))

    def _opened(self, crew: Crew) -> list[tuple[Part, Port, int]]:
        """The ports that a process opens: a part's, each once for each queue that it uses."""
        return list(
            dict.fromkeys(
                (part, port, job.queue)
                for part in crew.parts
                for job in self._jobs(part)
                for port in part.ports
            )
        )

    def _port(self, crew: Crew, part: Part, port: Port) -> dict[str, Any]:
        test, endpoint = self._layout.test, self._layout.endpoints[port.id]
        engine = self._layout.engine_of(part)
        opened: dict[str, Any] = {
            "engine": engine.name,
            "ifname": endpoint.ifname,
            "burst": max(test.burst, RX_BURST),
            "frame_bytes": self._frame_bytes(engine),
            "flows": test.flows if self._layout.sent_by(part) else 1,
        }
        if engine.needs_ip:
            # With several flows answers and arrivals come from, or go to, other ports too.
            opened |= {**self._addresses(port), "connected": test.flows == 1}
        if len(crew.parts) > 1:
            opened["netns"] = self._layout.netns(part) or ""
        return opened

    def _frame_bytes(self, engine: Engine) -> int:
        """The longest frame that a port is opened for: the longest of the path where it cannot
        be opened anew for each test, as a switch would lose its link."""
        if engine.own_memory:
            return self._layout.wiring.mtu + LAYER_2_BYTES
        return max(frame_sizes(self._layout.test))

    def _addresses(self, port: Port) -> dict[str, Any]:
        for flow in self._layout.flows:
            a = self._layout.addressing[flow.id]
            if port.id in (flow.source, flow.sink):
                own, peer = a.source_ip, a.sink_ip
                if port.id == flow.sink:
                    own, peer = peer, own
                return {
                    "local_ip": own,
                    "remote_ip": peer,
                    "local_port": UDP_PORT,
                    "remote_port": UDP_PORT,
                }
        return {}

    def _seat(self, part: Part) -> dict[str, Any]:
        seat = self._placement.seats[part.id]
        if self._layout.own_kernel(part):  # whose only CPU is pinned as a whole
            return {"cpu": 0, "yield": True}
        pinned = {"cpu": seat.cpus[0]} if len(seat.cpus) == 1 else {}
        return {**pinned, "yield": seat.yield_}

    def turn_to(self, layout: Layout) -> None:
        """Measure another test of the same path from now on. Ports that are opened otherwise for
        it are closed and opened anew."""
        self._layout = layout
        for crew in self._crews:
            opening = self._opening(crew)
            if opening != self._openings[crew]:
                crew.process.ask("close")
                crew.process.ask("open", timeout_s=_OPEN_S, **opening)
                crew.process.ask("ready", timeout_ms=5000)
                self._openings[crew] = opening

    def end(self) -> None:
        """Let all processes end, side by side; each is still to be stopped."""
        for crew in self._crews:
            crew.process.hang_up()

    # -- a trial -----------------------------------------------------------------------

    def measure(self, spec: TrialSpec, *, proving: bool = False) -> TrialResult:
        """Run one trial. TrialFailed if a part of it died or did not answer. `proving`: every byte
        is checked, and the headers are held against what the switch promises to make of them, as
        `evidence["headers"]` tells by flow; nothing is timed."""
        with self._meter.armed(self._layout) as window:
            return self._measured(spec, window, proving)

    def _measured(self, spec: TrialSpec, window: Window, proving: bool) -> TrialResult:
        run = secrets.randbelow(2**32 - 1) + 1
        self._read_clocks([crew for crew in self._crews if self._foreign(crew)])
        for crew in sorted(self._crews, key=self._sends):
            crew.process.ask(
                "arm",
                run=run,
                touch="full" if proving else self._layout.test.touch,
                longest_ns=_longest_ns(spec),
                interval_ns=_interval_ns(spec),
                clock=self._clocks[crew.process.part],
                tasks=[
                    {**self._load(job, spec), **(self._promised(job) if proving else {})}
                    for part in crew.parts
                    for job in self._jobs(part)
                ],
            )
        if spec.warmup_s > 0:
            self._phase("warmup", spec.warmup_s)
        self._alive()
        before = self._counted()
        window.begin()
        spent, since = self._used_ns(), time.monotonic_ns()
        self._stolen()
        self._phase("measured", spec.duration_s)
        self._alive()
        spent_after, until = self._used_ns(), time.monotonic_ns()
        cost = window.end()
        stolen, after = self._stolen(), self._counted()
        reports = [crew.process.ask("report", timeout_s=30.0) for crew in self._crews]
        # They work until the path is quiet, which is after the measured phase.
        window_ns = until - since
        used = {
            place: tuple((b - a) / window_ns for a, b in zip(ns, spent_after[place], strict=True))
            for place, ns in spent.items()
        }
        ticks = [self._clocks[c.process.part]["hz"] for c in self._crews if not self._foreign(c)]
        cost["tsc_hz"] = next(iter(ticks), None)
        result = self._result(spec, reports, after.since(before), used, stolen)
        return result.model_copy(update={"cost": cost})

    def _counted(self) -> PathCounters:
        """The counters. That a switch has died is why it does not tell its own."""
        try:
            return self._counters()
        except SetupFailed:
            self._alive()
            raise

    def _sends(self, crew: Crew) -> bool:
        return any(self._layout.sent_by(part) for part in crew.parts)

    def _load(self, job: _Job, spec: TrialSpec) -> dict[str, Any]:
        test, part, role = self._layout.test, job.part, job.role
        # Nobody but a switch that learns listens to who is where.
        learning = self._layout.wiring.semantics is Semantics.LEARNING
        if role is Role.FORWARDER:
            forward: dict[str, Any] = {
                "burst": RX_BURST,
                "rewrite": self._layout.rewrites(part),
            }
            if learning:
                forward["announce"] = [self._announcement(port) for port in part.ports]
            return forward
        sends = role in (Role.SENDER, Role.CLIENT)
        flows = _distinct(self._layout.sent_by(part) if sends else self._layout.received_by(part))
        load: dict[str, Any] = {
            "first_flow": self._layout.first_flow(flows[0]) + job.first,
            "flows": job.flows,
            "burst": test.burst if sends else RX_BURST,
        }
        if sends:
            load |= {
                "rate_pps": (spec.rate_pps or 0.0) * job.flows / (len(flows) * test.flows),
                "frames": _share_of(spec.frames, job, len(flows) * test.flows),
                "frame_bytes": list(frame_sizes(test)),
                "address": [self._address(flow, job.first) for flow in flows],
            }
            if test.flows > 1:
                load["vary"] = [f"src_{test.flows_by}"]
        if role in (Role.RECEIVER, Role.CLIENT):
            timed = role is Role.CLIENT or self._one_way(part)
            load["latency"] = test.touch != "none" and timed
            load["ipdv"] = timed and test.dimension == "latency"
        if role is not Role.SENDER and learning:
            load["announce"] = self._announcement(part.ports[0])
        return load

    def _address(self, flow: Flow, share: int) -> dict[str, Any]:
        """The addresses of a sender's first flow; `share` is its number among the part's."""
        test, a = self._layout.test, self._layout.addressing[flow.id]
        first = self._layout.first_flow(flow) + share
        address: dict[str, Any] = {
            "src_mac": a.sent_src_mac,
            "dst_mac": a.sent_dst_mac,
            "src_ip": a.source_ip,
            "dst_ip": a.sink_ip,
            "src_port": UDP_PORT + (share if test.flows_by == "port" else 0),
            "dst_port": UDP_PORT,
        }
        # Addresses that vary begin where no port has its own.
        if test.flows > 1 and test.flows_by == "mac":
            address["src_mac"] = f"02:53:4d:80:{first >> 8:02x}:{first & 255:02x}"
        if test.flows > 1 and test.flows_by == "ip":
            address["src_ip"] = f"198.19.{first >> 8}.{first & 255}"
        if test.vlan is not None:
            address["vlan"] = test.vlan
        return address

    def _promised(self, job: _Job) -> dict[str, Any]:
        """The headers that a receiver's frames are to have; nothing where it sees none."""
        layout, part = self._layout, job.part
        answers = job.role is Role.CLIENT
        if not (answers or job.role is Role.RECEIVER) or layout.engine_of(part).needs_ip:
            return {}
        flows = _distinct(layout.sent_by(part) if answers else layout.received_by(part))
        originals = [layout.copies(flow)[0] for flow in flows]
        expect: dict[str, Any] = {"address": [self._seen(flow, answers) for flow in originals]}
        by = layout.test.flows_by
        if layout.test.flows > 1 and not (by == "mac" and self._writes_macs(originals[0])):
            expect["vary"] = [f"dst_{by}" if answers else f"src_{by}"]
        return {"latency": False, "ipdv": False, "expect": expect}

    def _writes_macs(self, flow: Flow) -> bool:
        return self._layout.addressing[flow.id].rewritten

    def _seen(self, flow: Flow, answered: bool) -> dict[str, Any]:
        """The addresses of a flow's first frames where they arrive; or of their answers, which are
        reflected and come back as they went."""
        sent, a = self._address(flow, 0), self._layout.addressing[flow.id]
        if not answered:
            macs = {"src_mac": a.seen_src_mac, "dst_mac": a.seen_dst_mac} if a.rewritten else {}
            return {**sent, **macs, "ttl": _TTL - a.routed}
        back = {
            f"{one}_{what}": sent[f"{other}_{what}"]
            for one, other in (("src", "dst"), ("dst", "src"))
            for what in ("mac", "ip", "port")
        }
        macs = {"dst_mac": a.sent_src_mac} if a.rewritten else {}
        vlan = {"vlan": sent["vlan"]} if "vlan" in sent else {}
        return {**back, **macs, **vlan, "ttl": _TTL - 2 * a.routed}

    def _announcement(self, port: Port) -> dict[str, Any]:
        flow = next(f for f in self._layout.flows if port.id in (f.sink, f.source, *f.hops))
        a = self._layout.addressing[flow.id]
        vlan = {} if self._layout.test.vlan is None else {"vlan": self._layout.test.vlan}
        return {
            "src_mac": self._layout.endpoints[port.id].mac,
            "dst_mac": _BROADCAST_MAC,
            "src_ip": a.sink_ip if port.id == flow.sink else a.source_ip,
            "dst_ip": _BROADCAST_IP,
            "src_port": UDP_PORT,
            "dst_port": UDP_PORT,
            **vlan,
        }

    def _phase(self, phase: str, duration_s: float) -> None:
        """Send for `duration_s`, then wait until the path is quiet."""
        lead_ns = _LEAD_NS + _LEAD_A_PROCESS_NS * len(self._crews)
        at_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + lead_ns
        # Receivers first: they poll before the first frame leaves.
        for crew in sorted(self._crews, key=self._sends):
            crew.process.ask(
                "start",
                phase=phase,
                at_ns=at_ns + self._ahead_ns.get(crew.process.part, 0),
                duration_ns=round(duration_s * 1e9),
            )
        limit_s = duration_s + _PHASE_SLACK_S
        for crew in self._crews:
            limit = {"timeout_ms": round(limit_s * 1000)}
            crew.process.ask("wait", timeout_s=limit_s + 5.0, **limit)
        functions = {hop.rpartition(".")[0] for f in self._layout.flows for hop in f.hops}
        quiet_ms = min(_QUIET_MAX_MS, _QUIET_MS + _QUIET_A_FUNCTION_MS * len(functions))
        if self._layout.test.limits:
            quiet_ms += PERIOD_US // 1000  # who has used up its share stands still until then
        drain = {"quiet_ms": quiet_ms, "timeout_ms": round(_DRAIN_S * 1000)}
        for crew in self._crews:
            crew.process.send("drain", **drain)
        for crew in self._crews:
            crew.process.answer("drain", timeout_s=_DRAIN_S + 5.0)

    # -- what came of it ---------------------------------------------------------------

    def _result(
        self,
        spec: TrialSpec,
        reports: Sequence[dict[str, Any]],
        path: PathCounters,
        used: Mapping[str, tuple[float, ...]],
        stolen: float,
    ) -> TrialResult:
        sums: dict[str, int] = {}
        sent: _Sent = {}
        received: dict[str, dict[str, Any]] = {}
        parts: list[PartReport] = []
        for crew, report in zip(self._crews, reports, strict=True):
            if report["failure"]:
                raise TrialFailed(f"{crew.process.part}: {report['failure']}")
            tasks = iter(report["tasks"])
            for part in crew.parts:
                for job in self._jobs(part):
                    task = next(tasks)
                    if "sent" in task:
                        flow = self._layout.sent_by(part)[0].id
                        sent[flow] = (*sent.get(flow, ()), (job, task["sent"]))
                    if "received" in task:
                        # A client receives the answers to its own flow.
                        flows = self._layout.received_by(part) or self._layout.sent_by(part)
                        received[flows[0].id] = task["received"]
            parts += self._part_reports(crew, report, used)
        for name in ("late", "after_drain", "duplicated", "reordered", "corrupted", "foreign"):
            sums[name] = sum(report[name] for report in received.values())
        stray = sum(report["stray"] for report in received.values())
        tasks_sent = [report for each in sent.values() for _, report in each]
        tx = sum(report["frames"] for report in tasks_sent)
        distinct = sum(r["frames"] - r["after_drain"] for r in received.values())
        elapsed_ns = int(reports[0]["duration_ns"])
        headers = {flow: r["headers"] for flow, r in received.items() if "headers" in r}
        taken = self._taken(spec, reports, used)
        told = {each.part for each in parts}
        for place, (cores, _) in used.items():
            if place in told:
                continue
            role = "switch" if place == "switch" else "function"
            parts.append(PartReport(part=place, roles=(role,), cpu=None, cores=cores))
        return TrialResult(
            spec=spec,
            elapsed_ns=elapsed_ns,
            tx_frames=tx,
            tx_unsent=sum(report["unsent"] for report in tasks_sent),
            rx_frames=distinct + sums["duplicated"],
            rx_bytes=sum(self._wire_bytes(report) for report in received.values()),
            copies=self._layout.test.copies,
            lost=tx * self._layout.test.copies - distinct,
            lost_at=self._lost_at(reports, path, sums, stray),
            late=sums["late"],
            duplicated=sums["duplicated"],
            reordered=sums["reordered"],
            corrupted=sums["corrupted"],
            foreign=sums["foreign"],
            stray=stray,
            interval_ns=_interval_ns(spec),
            intervals=_added([report["intervals"] for report in received.values()]),
            latency=self._latency(list(received.values())),
            parts=tuple(parts),
            per_flow=self._per_flow(sent, received),
            doubts=self._doubts(spec, stolen, sums["foreign"], taken),
            counters=path.as_dict(),
            evidence={"taken": taken} | ({"headers": headers} if headers else {}),
        )

    def _part_reports(
        self, crew: Crew, report: dict[str, Any], used: Mapping[str, tuple[float, ...]]
    ) -> list[PartReport]:
        elapsed_ns = int(report["duration_ns"])
        together = len(crew.parts) > 1
        found = []
        tasks = iter(report["tasks"])
        for index, part in enumerate(crew.parts):
            thread = report["threads"][0 if together else index]
            mine = [next(tasks) for _ in self._jobs(part)]
            cpu = None if thread["cpu"] < 0 else thread["cpu"]
            cores = None if together else thread["cpu_ns"] / elapsed_ns
            if self._layout.own_kernel(part):
                cpu = next(iter(self._layout.seats.get(part.id, ())), None)
                cores = used[part.id][0]
            # What a guest thinks it used is not what its machine took of the host.
            unknown = together or self._layout.own_kernel(part)
            counted = [
                task.get("sent") or task.get("received") or task["forwarded"] for task in mine
            ]
            found.append(
                PartReport(
                    part=part.id,
                    roles=tuple(role.value for role in self._layout.roles(part)),
                    cpu=cpu,
                    cores=cores,
                    user_cores=None if unknown else thread["user_ns"] / elapsed_ns,
                    polls=sum(c["polls"] for c in counted),
                    empty_polls=sum(c["empty_polls"] for c in counted),
                    blocked=sum(c.get("blocked", 0) for c in counted),
                    idle=_mean([c["idle_ns"] / elapsed_ns for c in counted if "idle_ns" in c]),
                    yields=thread["yields"],
                    lag_max_ns=max(c.get("lag_max_ns", 0) for c in counted),
                    engine_mode=report["ports"][self._opened(crew).index((part, part.ports[0], 0))][
                        "mode"
                    ],
                )
            )
        return found

    def _lost_at(
        self,
        reports: Sequence[dict[str, Any]],
        path: PathCounters,
        sums: Mapping[str, int],
        stray: int,
    ) -> dict[str, int]:
        """Each lost frame's place, as far as somebody counted it."""
        places: dict[str, int] = defaultdict(int)
        for crew, report in zip(self._crews, reports, strict=True):
            for (_, port, _), counts in zip(self._opened(crew), report["ports"], strict=True):
                places[f"ring {port.id}"] += counts["rx_ring_drops"]
                places[f"engine {port.id}"] += counts["tx_drops"] + counts["rx_invalid"]
            jobs = [job for part in crew.parts for job in self._jobs(part)]
            for job, task in zip(jobs, report["tasks"], strict=True):
                if job.role is Role.FORWARDER:
                    places[f"function {job.part.id}"] += sum(task["forwarded"]["dropped"])
        for part_id, ports in path.functions.items():
            places[f"function {part_id}"] += sum(
                (each.rx_dropped or 0) + (each.tx_dropped or 0) for each in ports.values()
            )
        for place, counters in path.links.items():
            places[f"{place} out"] = counters.tx_dropped or 0
            # What a veth end has no room for is its peer's; a guest's NIC has no such peer.
            if place.endswith(AT_SWITCH) or place in self._guests:
                places[f"{place} in"] = counters.rx_dropped or 0
        if self._layout.test.copies > 1:  # what does not enter the switch lacks in every copy
            for source in {flow.source for flow in self._layout.flows}:
                for place in (f"{source} out", f"{source}@switch in", f"engine {source}"):
                    places[place] *= self._layout.test.copies
        places["corrupted"] = sums["corrupted"]
        places["stray"] = stray
        places["late"] = sums["after_drain"]
        return {place: frames for place, frames in places.items() if frames}

    def _wire_bytes(self, received: Mapping[str, Any]) -> int:
        """Bytes with headers and FCS, whatever part of a frame the engine sees."""
        headers = 42 if self._layout.receivers.needs_ip else 0
        return int(received["bytes"]) + (headers + FCS_BYTES) * int(received["frames"])

    def _latency(self, received: Sequence[Mapping[str, Any]]) -> Latency | None:
        kind: Literal["rtt", "one-way"] = (
            "rtt" if self._layout.test.dimension == "latency" else "one-way"
        )
        return from_counts(
            kind,
            [report["latency"] for report in received if "latency" in report],
            [report["ipdv"] for report in received if "ipdv" in report],
        )

    def _per_flow(
        self, sent: _Sent, received: Mapping[str, dict[str, Any]]
    ) -> tuple[FlowCounts, ...]:
        test = self._layout.test
        if test.touch == "none":
            return ()
        found = []
        apart = test.flows == 1 and len(sent) > 1
        for flow in self._layout.flows:
            if flow.id not in received:
                continue  # counted with the first flow of its part
            original = self._layout.copies(flow)[0]
            tasks = sent[original.id]
            counts = [
                report["frames"] // job.flows + (number < report["frames"] % job.flows)
                for job, report in tasks
                for number in range(job.flows)
            ]
            names = [
                one.id if test.flows == 1 else f"{one.id}#{number}"
                for one in self._layout.sent_by(tasks[0][0].part)
                for number in range(test.flows)
                if one.sink == flow.sink
            ]
            alone = apart and len(names) == 1
            for name, tx, (rx, duplicated, reordered, corrupted) in zip(
                names, counts, received[flow.id]["flows"], strict=True
            ):
                found.append(
                    FlowCounts(
                        flow=name,
                        tx=tx,
                        rx=rx,
                        lost=tx - rx,
                        duplicated=duplicated,
                        reordered=reordered,
                        corrupted=corrupted,
                        latency=self._latency([received[flow.id]]) if alone else None,
                    )
                )
        return tuple(found)

    def _taken(
        self,
        spec: TrialSpec,
        reports: Sequence[dict[str, Any]],
        used: Mapping[str, tuple[float, ...]],
    ) -> dict[str, float]:
        """By CPU, the share of it that others took: those who poll there were ready to run, and it
        ran none of them. What nobody wanted, and what a CPU limit withheld, was not taken."""
        if self._layout.test.limits:
            return {}
        shares = dict(used)
        seats = {part: seat.cpus for part, seat in self._placement.seats.items() if seat.cpus}
        ended = {part.id for part in self._layout.parts if self._layout.sent_by(part)}
        for crew, report in zip(self._crews, reports, strict=True):
            for parts, thread in zip(self._threads(crew), report["threads"], strict=True):
                if thread["wait_ns"] >= 0 and parts[0].id not in used:
                    ns = (thread["cpu_ns"], thread["wait_ns"])
                    shares["+".join(part.id for part in parts)] = tuple(
                        each / report["duration_ns"] for each in ns
                    )
        found = {}
        groups = sorted(set(seats.values()))
        for cpus in groups:
            if any(set(cpus) & set(other) for other in groups if other != cpus):
                continue  # who waits there may wait for another part
            here = [who for who in shares if seats.get(who.partition("+")[0]) == cpus]
            # A burst ends before its trial does, and its sender with it.
            busy = [who for who in here if not (spec.frames and who in ended)]
            if busy:
                ready = min(sum(shares[who]) for who in busy)
                ran = sum(shares[who][0] for who in here)
                found[format_cpus(cpus)] = round(max(0.0, min(ready - ran, len(cpus) - ran)), 4)
        return found

    def _threads(self, crew: Crew) -> list[tuple[Part, ...]]:
        """The parts of a process by its threads."""
        together = self._layout.test.placement == SHARED_PROCESS
        return [crew.parts] if together else [(part,) for part in crew.parts]

    def _doubts(
        self, spec: TrialSpec, stolen: float, foreign: int, taken: Mapping[str, float]
    ) -> tuple[str, ...]:
        found = list(self._placement.doubts)
        if any(share > _TAKEN for share in taken.values()):
            found.append("host-busy")
        if self._layout.test.dimension == "throughput" and not all(
            self._one_way(part) for part in self._layout.parts
        ):
            found.append("clock")  # one-way latency would compare two of them
        if stolen > _STEAL:
            found.append("cpu-stolen")
        if spec.duration_s < _SHORT_S:
            found.append("short")
        if foreign:
            found.append("foreign-frames")
        return tuple(dict.fromkeys(found))


def _share_of(frames: int | None, job: _Job, flows: int) -> int:
    """A task's part of the frames of a burst; 0 where there is no such end."""
    if frames is None:
        return 0
    return frames * (job.first + job.flows) // flows - frames * job.first // flows


def _distinct(flows: Sequence[Flow]) -> tuple[Flow, ...]:
    """The first of each: copies are made of the frames of one."""
    return tuple({flow.index: flow for flow in reversed(flows)}.values())[::-1]


def _longest_ns(spec: TrialSpec) -> int:
    return round(max(spec.duration_s, spec.warmup_s) * 1e9)


def _interval_ns(spec: TrialSpec) -> int:
    """The intervals in which arrivals are counted: 0.1 s, less in a trial below 5 s."""
    wanted = max(1_000_000, min(100_000_000, round(spec.duration_s * 1e9) // _INTERVALS))
    return max(wanted, _longest_ns(spec) // _INTERVALS_MAX)


def _mean(shares: Sequence[float]) -> float | None:
    return sum(shares) / len(shares) if shares else None


def _less(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else b - a


def _difference(before: LinkCounters, after: LinkCounters) -> LinkCounters:
    return {
        place: PortCounters(
            rx=_less(old.rx, new.rx),
            tx=_less(old.tx, new.tx),
            rx_dropped=_less(old.rx_dropped, new.rx_dropped),
            tx_dropped=_less(old.tx_dropped, new.tx_dropped),
        )
        for place, new in after.items()
        if (old := before.get(place)) is not None
    }


def _added(columns: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(sum(row) for row in zip(*columns, strict=False))

"""One trial: tells the traffic processes what to do, and adds up what they and the links say.

Warm-up and measured phase are apart: between them the path falls quiet and the counters are
read, so that what is counted in the measured phase is exact (docs/decisions/0003).
"""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from switchmark.campaign.layout import SHARED_PROCESS, UDP_PORT, Layout, frame_sizes
from switchmark.errors import TrialFailed
from switchmark.functions.traffic import TrafficProcess
from switchmark.machine.placement import Placement
from switchmark.metrics.latency import from_counts
from switchmark.model.record import FlowCounts, Latency, PartReport, TrialResult
from switchmark.model.spec import TrialSpec
from switchmark.model.topology import Flow, Part, Port, Role
from switchmark.model.units import FCS_BYTES
from switchmark.switches.base import PortCounters

__all__ = ["AT_SWITCH", "Crew", "LinkCounters", "PathCounters", "Trials"]

_BROADCAST_MAC, _BROADCAST_IP = "ff:ff:ff:ff:ff:ff", "255.255.255.255"
_RX_BURST = 64
_INTERVALS = 10  # at least so many in a trial
_INTERVALS_MAX = 60_000
_LEAD_NS = 5_000_000
_LEAD_A_PROCESS_NS = 2_000_000
_QUIET_MS = 20
_DRAIN_S = 2.0
_OPEN_S = 20.0
_SHORT_S = 1.0
_STEAL = 0.01
_ALONE = 0.8
_PHASE_SLACK_S = 10.0

AT_SWITCH = "@switch"
"""Marks the switch's end of a port, where a frame is lost: `f0@switch in`."""

LinkCounters = Mapping[str, PortCounters]
"""Counters of both ends of each port: `f0`, the link at the part, and `f0@switch`."""


@dataclass(frozen=True, slots=True)
class PathCounters:
    """Counters of a path at one moment, or between two; the cycles are those of the switch's
    polling threads, None where it does not tell."""

    links: LinkCounters
    busy_cycles: int | None = None
    idle_cycles: int | None = None

    def since(self, before: PathCounters) -> PathCounters:
        """What was counted since `before`."""
        return PathCounters(
            _difference(before.links, self.links),
            _less(before.busy_cycles, self.busy_cycles),
            _less(before.idle_cycles, self.idle_cycles),
        )

    def as_dict(self) -> dict[str, dict[str, int | None]]:
        """The counters as a record keeps them: by place, and the cycles under `switch`."""
        found = {place: asdict(each) for place, each in self.links.items()}
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
    """One task of a process: a role of a part, on one of the queues of its port, with `flows`
    of its flows, from number `first` on."""

    part: Part
    role: Role
    queue: int
    first: int
    flows: int


_Sent = dict[str, tuple[tuple[_Job, dict[str, Any]], ...]]
"""By flow, the tasks that sent it with their reports."""


class Trials:
    """Measures trials on a path that is up. `counters` reads those of the whole path,
    `switch_ns` the CPU time that the switch's own processes have used, and the time that they
    were kept waiting for a CPU (None: it has none),
    `stolen` the share of CPU time that a hypervisor took since its last call, and `alive`
    raises TrialFailed if the switch has died."""

    def __init__(
        self,
        layout: Layout,
        placement: Placement,
        crews: Sequence[Crew],
        *,
        counters: Callable[[], PathCounters],
        switch_ns: Callable[[], tuple[int, int] | None],
        stolen: Callable[[], float],
        alive: Callable[[], None],
    ) -> None:
        self._layout = layout
        self._placement = placement
        self._crews = crews
        self._counters = counters
        self._switch_ns = switch_ns
        self._stolen = stolen
        self._alive = alive
        self._clock: dict[str, int] = {}
        self.daemons: tuple[int, ...] = ()
        """The switch's own processes, by pid."""

    # -- before the first trial --------------------------------------------------------

    def open(self, *, join: Callable[[], None], settle: Callable[[], None]) -> None:
        """Open all ports and wait for their links. `join` is called when all are open but those
        that only the switch's joining opens, `settle` when all are. TrialFailed with the
        program's reason."""
        waiting = [crew for crew in self._crews if self._layout.awaits_switch(crew.parts)]
        # A client finds its server there.
        for crew in sorted(self._crews, key=lambda crew: not self._serves(crew)):
            crew.process.send("open", **self._opening(crew))
            if crew not in waiting:
                crew.process.answer("open", timeout_s=_OPEN_S)
        join()
        for crew in waiting:
            crew.process.answer("open", timeout_s=_OPEN_S)
        settle()
        for crew in self._crews:
            crew.process.ask("ready", timeout_ms=5000)
        found = self._crews[0].process.ask("clock")
        self._clock = {name: found[name] for name in ("ticks", "ns", "hz")}

    def _serves(self, crew: Crew) -> bool:
        return any(self._layout.endpoints[p.id].server for part in crew.parts for p in part.ports)

    def _opening(self, crew: Crew) -> dict[str, Any]:
        """What a process opens: its ports, and the threads with their tasks."""
        played = [part.ports[0] for part in crew.parts]
        endpoints = [self._layout.endpoints[port.id] for port in played]
        opened = self._opened(crew)
        ports = [
            {
                **self._port(crew, part, part.ports[0]),
                "queue": queue,
                "options": self._layout.engine_of(part).port_options(
                    self._layout.wiring,
                    self._layout.place_of(part),
                    endpoints,
                    crew.parts.index(part),
                    self._layout.test.driver,
                ),
            }
            for part, queue in opened
        ]
        tasks = [
            [
                {"role": job.role.value, "ports": [opened.index((part, job.queue))]}
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
        flows, queues = self._layout.test.flows, self._layout.wiring.queues
        jobs = []
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

    def _opened(self, crew: Crew) -> list[tuple[Part, int]]:
        """The ports that a process opens: a part's, once for each queue that it uses."""
        return list(
            dict.fromkeys((part, job.queue) for part in crew.parts for job in self._jobs(part))
        )

    def _port(self, crew: Crew, part: Part, port: Port) -> dict[str, Any]:
        test, endpoint = self._layout.test, self._layout.endpoints[port.id]
        engine = self._layout.engine_of(part)
        opened: dict[str, Any] = {
            "engine": engine.name,
            "ifname": endpoint.ifname,
            "burst": max(test.burst, _RX_BURST),
            "frame_bytes": max(frame_sizes(test)),
            "flows": test.flows if self._layout.sent_by(part) else 1,
        }
        if engine.needs_ip:
            # With several flows answers and arrivals come from, or go to, other ports too.
            opened |= {**self._addresses(port), "connected": test.flows == 1}
        if len(crew.parts) > 1:
            opened["netns"] = self._layout.netns(part) or ""
        return opened

    def _addresses(self, port: Port) -> dict[str, Any]:
        for flow in self._layout.wiring.flows:
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
        pinned = {"cpu": seat.cpus[0]} if len(seat.cpus) == 1 else {}
        return {**pinned, "yield": seat.yield_}

    # -- a trial -----------------------------------------------------------------------

    def measure(self, spec: TrialSpec) -> TrialResult:
        """Run one trial. TrialFailed if a part of it died or did not answer."""
        run = secrets.randbelow(2**32 - 1) + 1
        for crew in sorted(self._crews, key=self._sends):
            crew.process.ask(
                "arm",
                run=run,
                touch=self._layout.test.touch,
                longest_ns=_longest_ns(spec),
                interval_ns=_interval_ns(spec),
                clock=self._clock,
                tasks=[self._load(job, spec) for part in crew.parts for job in self._jobs(part)],
            )
        if spec.warmup_s > 0:
            self._phase("warmup", spec.warmup_s)
        self._alive()
        before, spent = self._counters(), self._switch_ns()
        self._stolen()
        self._phase("measured", spec.duration_s)
        self._alive()
        stolen, spent_after, after = self._stolen(), self._switch_ns(), self._counters()
        reports = [crew.process.ask("report", timeout_s=30.0) for crew in self._crews]
        switch_ns = None
        if spent is not None and spent_after is not None:
            switch_ns = spent_after[0] - spent[0], spent_after[1] - spent[1]
        return self._result(spec, reports, after.since(before), switch_ns, stolen)

    def _sends(self, crew: Crew) -> bool:
        return any(self._layout.sent_by(part) for part in crew.parts)

    def _load(self, job: _Job, spec: TrialSpec) -> dict[str, Any]:
        test, part, role = self._layout.test, job.part, job.role
        sends = role in (Role.SENDER, Role.CLIENT)
        flow = (self._layout.sent_by(part) if sends else self._layout.received_by(part))[0]
        load: dict[str, Any] = {
            "first_flow": self._layout.first_flow(flow) + job.first,
            "flows": job.flows,
            "burst": test.burst if sends else _RX_BURST,
        }
        if sends:
            load |= {
                "rate_pps": (spec.rate_pps or 0.0) * job.flows / test.flows,
                "frame_bytes": list(frame_sizes(test)),
                "address": self._address(flow, job.first),
            }
            if test.flows > 1:
                load["vary"] = [f"src_{test.flows_by}"]
        if role in (Role.RECEIVER, Role.CLIENT):
            load["latency"] = test.touch != "none"
        if role is not Role.SENDER:
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

    def _announcement(self, port: Port) -> dict[str, Any]:
        flow = next(f for f in self._layout.wiring.flows if port.id in (f.sink, f.source))
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
            crew.process.ask("start", phase=phase, at_ns=at_ns, duration_ns=round(duration_s * 1e9))
        limit_s = duration_s + _PHASE_SLACK_S
        for crew in self._crews:
            limit = {"timeout_ms": round(limit_s * 1000)}
            crew.process.ask("wait", timeout_s=limit_s + 5.0, **limit)
        drain = {"quiet_ms": _QUIET_MS, "timeout_ms": round(_DRAIN_S * 1000)}
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
        switch_ns: tuple[int, int] | None,
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
            parts += self._part_reports(crew, report)
        for name in ("late", "after_drain", "duplicated", "reordered", "corrupted", "foreign"):
            sums[name] = sum(report[name] for report in received.values())
        stray = sum(report["stray"] for report in received.values())
        tasks_sent = [report for each in sent.values() for _, report in each]
        tx = sum(report["frames"] for report in tasks_sent)
        distinct = sum(r["frames"] - r["after_drain"] for r in received.values())
        elapsed_ns = int(reports[0]["duration_ns"])
        waited = 0.0
        if switch_ns is not None:
            cores, waited = switch_ns[0] / elapsed_ns, switch_ns[1] / elapsed_ns
            parts.append(PartReport(part="switch", roles=("switch",), cpu=None, cores=cores))
        return TrialResult(
            spec=spec,
            elapsed_ns=elapsed_ns,
            tx_frames=tx,
            tx_unsent=sum(report["unsent"] for report in tasks_sent),
            rx_frames=distinct + sums["duplicated"],
            rx_bytes=sum(self._wire_bytes(report) for report in received.values()),
            lost=tx - distinct,
            lost_at=self._lost_at(reports, path.links, sums, stray),
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
            doubts=self._doubts(spec, stolen, sums["foreign"], parts, waited),
            counters=path.as_dict(),
        )

    def _part_reports(self, crew: Crew, report: dict[str, Any]) -> list[PartReport]:
        elapsed_ns = int(report["duration_ns"])
        together = len(crew.parts) > 1
        found = []
        tasks = iter(report["tasks"])
        for index, part in enumerate(crew.parts):
            thread = report["threads"][0 if together else index]
            mine = [next(tasks) for _ in self._jobs(part)]
            counted = [
                task.get("sent") or task.get("received") or task["forwarded"] for task in mine
            ]
            found.append(
                PartReport(
                    part=part.id,
                    roles=tuple(role.value for role in self._layout.roles(part)),
                    cpu=None if thread["cpu"] < 0 else thread["cpu"],
                    cores=None if together else thread["cpu_ns"] / elapsed_ns,
                    user_cores=None if together else thread["user_ns"] / elapsed_ns,
                    polls=sum(c["polls"] for c in counted),
                    empty_polls=sum(c["empty_polls"] for c in counted),
                    blocked=sum(c.get("blocked", 0) for c in counted),
                    yields=thread["yields"],
                    lag_max_ns=max(c.get("lag_max_ns", 0) for c in counted),
                    engine_mode=report["ports"][self._opened(crew).index((part, 0))]["mode"],
                )
            )
        return found

    def _lost_at(
        self,
        reports: Sequence[dict[str, Any]],
        links: LinkCounters,
        sums: Mapping[str, int],
        stray: int,
    ) -> dict[str, int]:
        """Each lost frame's place, as far as somebody counted it."""
        places: dict[str, int] = defaultdict(int)
        for crew, report in zip(self._crews, reports, strict=True):
            for (part, _), port in zip(self._opened(crew), report["ports"], strict=True):
                places[f"ring {part.id}"] += port["rx_ring_drops"]
                places[f"engine {part.id}"] += port["tx_drops"] + port["rx_invalid"]
        for place, counters in links.items():
            places[f"{place} out"] = counters.tx_dropped or 0
            if place.endswith(AT_SWITCH):
                places[f"{place} in"] = counters.rx_dropped or 0
        places["corrupted"] = sums["corrupted"]
        places["stray"] = stray
        places["late"] = sums["after_drain"]
        return {place: frames for place, frames in places.items() if frames}

    def _wire_bytes(self, received: Mapping[str, Any]) -> int:
        """Bytes with headers and FCS, whatever part of a frame the engine sees."""
        headers = 42 if self._layout.receivers.needs_ip else 0
        return int(received["bytes"]) + (headers + FCS_BYTES) * int(received["frames"])

    def _latency(self, received: Sequence[Mapping[str, Any]]) -> Latency | None:
        histograms = [report["latency"] for report in received if "latency" in report]
        if self._layout.test.dimension == "latency":
            return from_counts("rtt", histograms)
        return from_counts("one-way", histograms)

    def _per_flow(
        self, sent: _Sent, received: Mapping[str, dict[str, Any]]
    ) -> tuple[FlowCounts, ...]:
        test = self._layout.test
        if test.touch == "none":
            return ()
        found = []
        for flow, tasks in sent.items():
            counts = [
                report["frames"] // job.flows + (number < report["frames"] % job.flows)
                for job, report in tasks
                for number in range(job.flows)
            ]
            for number, (tx, (rx, duplicated, reordered, corrupted)) in enumerate(
                zip(counts, received[flow]["flows"], strict=True)
            ):
                found.append(
                    FlowCounts(
                        flow=flow if test.flows == 1 else f"{flow}#{number}",
                        tx=tx,
                        rx=rx,
                        lost=tx - rx,
                        duplicated=duplicated,
                        reordered=reordered,
                        corrupted=corrupted,
                    )
                )
        return tuple(found)

    def _doubts(
        self,
        spec: TrialSpec,
        stolen: float,
        foreign: int,
        parts: Sequence[PartReport],
        waited: float,
    ) -> tuple[str, ...]:
        """`waited` is how long the switch's threads waited for a CPU, over the elapsed time."""
        found = list(self._placement.doubts)
        # Not all of its threads need be busy: those that waited wanted to be.
        if self._switch_is_alone() and waited > 1 - _ALONE:
            found.append("host-busy")
        for part in parts:
            alone = part.cpu is not None and not self._placement.seats[part.part].yield_
            # It polls: what its core did not give to it went to somebody else on this host.
            if alone and part.cores is not None and part.cores < _ALONE:
                found.append("host-busy")
        if stolen > _STEAL:
            found.append("cpu-stolen")
        if spec.duration_s < _SHORT_S:
            found.append("short")
        if foreign:
            found.append("foreign-frames")
        return tuple(dict.fromkeys(found))

    def _switch_is_alone(self) -> bool:
        """Does it poll, on CPUs that the placement gives to nobody else?"""
        seats = self._placement.seats
        own = set(seats["switch"].cpus)
        others = {cpu for part, seat in seats.items() if part != "switch" for cpu in seat.cpus}
        return bool(own) and not own & others


def _longest_ns(spec: TrialSpec) -> int:
    return round(max(spec.duration_s, spec.warmup_s) * 1e9)


def _interval_ns(spec: TrialSpec) -> int:
    """The intervals in which arrivals are counted: 0.1 s, less in a short trial."""
    wanted = max(1_000_000, min(100_000_000, round(spec.duration_s * 1e9) // _INTERVALS))
    return max(wanted, _longest_ns(spec) // _INTERVALS_MAX)


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

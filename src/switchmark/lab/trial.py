"""One trial: tells the traffic processes what to do, and reads what is counted meanwhile.

Warm-up and measured phase are apart: between them the path falls quiet and the counters are
read, so that what is counted in the measured phase is exact (docs/decisions/0003).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from switchmark.engines.base import Engine
from switchmark.errors import SetupFailed
from switchmark.lab.crew import Crew, Job, distinct, jobs_of, opened_by, reads_one_clock
from switchmark.lab.meter import Meter, Window
from switchmark.lab.outcome import Outcome, PathCounters
from switchmark.layout.assembly import awaits_switch
from switchmark.layout.layout import UDP_PORT, Layout, frame_sizes
from switchmark.layout.needs import netns_of
from switchmark.layout.roles import engine_of, own_kernel, place_of, rewrites_of
from switchmark.layout.sharing import RX_BURST
from switchmark.machine.cgroups import PERIOD_US
from switchmark.machine.placement import Placement
from switchmark.model.record import TrialResult
from switchmark.model.spec import TrialSpec
from switchmark.model.topology import Endpoint, Flow, Part, Port, Role, Semantics
from switchmark.model.units import LAYER_2_BYTES

__all__ = ["Trials"]

_BROADCAST_MAC, _BROADCAST_IP = "ff:ff:ff:ff:ff:ff", "255.255.255.255"
_INTERVALS = 50  # at least so many in a trial, for its steady part to be found
_INTERVALS_MAX = 60_000
_LEAD_NS = 5_000_000
_LEAD_A_PROCESS_NS = 2_000_000
_LEAD_TO_A_GUEST_NS = 50_000_000  # an emulated processor was 32 ms late (two cores, both busy)
_QUIET_MS = 20
_QUIET_A_FUNCTION_MS = 30  # where several share a CPU, each may wait for its turn with frames
_QUIET_MAX_MS = 1000
_DRAIN_S = 2.0
_OPEN_S = 20.0
_PHASE_SLACK_S = 10.0
_TTL = 64  # of a frame as it is sent (`traffic/src/frames.h`)


class Trials:
    """Measures trials on a path that is up. `counters` reads those of the whole path,
    `used_ns` the CPU time that processes besides the traffic program's have used, and the time
    that they were kept waiting for a CPU, by `switch` and part, `stolen` the share of CPU time
    that a hypervisor took since its last call, `alive` raises TrialFailed if the switch or a
    function has died, and `meter` counts what the measured phase cost. Counters that are told
    `lag_s` late are waited for."""

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
        self.lag_s = 0.0
        self._openings: dict[Crew, dict[str, Any]] = {}
        self._clocks: dict[str, dict[str, int]] = {}
        self._ahead_ns: dict[str, int] = {}

    # -- before the first trial --------------------------------------------------------

    def open(self, *, join: Callable[[], None], settle: Callable[[], None]) -> None:
        """Open all ports and wait for their links. `join` is called when all are open but those
        that only the switch's joining opens, `settle` when all are. TrialFailed with the
        program's reason."""
        self._openings = {crew: self._opening(crew) for crew in self._crews}
        waiting = [crew for crew in self._crews if awaits_switch(self._layout, crew.parts)]
        left = list(self._crews)
        while left:  # side by side, but for those that another has to listen for
            ready = [crew for crew in left if not self._connects(crew, left)] or left[:1]
            for crew in ready:
                crew.process.send("open", **self._openings[crew])
            for crew in ready:
                if crew not in waiting:
                    crew.process.answer("open", timeout_s=_OPEN_S)
            left = [crew for crew in left if crew not in ready]
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
        return any(own_kernel(self._layout, part) for part in crew.parts)

    def _connects(self, crew: Crew, others: Sequence[Crew]) -> bool:
        """Does a process connect to a socket on which one of the others listens?"""
        listening = {end.path for other in others for end in self._ends(other) if end.server}
        return any(end.path in listening for end in self._ends(crew) if end.path and not end.server)

    def _ends(self, crew: Crew) -> list[Endpoint]:
        return [self._layout.endpoints[port.id] for part in crew.parts for port in part.ports]

    def _opening(self, crew: Crew) -> dict[str, Any]:
        """What a process opens: its ports, and the threads with their tasks."""
        played = [port for part in crew.parts for port in part.ports]
        endpoints = [self._layout.endpoints[port.id] for port in played]
        opened = opened_by(self._layout, crew)
        ports = [
            {
                **self._port(crew, part, port),
                "queue": queue,
                "options": engine_of(self._layout, part).port_options(
                    self._layout.wiring,
                    place_of(self._layout, part),
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
                for job in jobs_of(self._layout, part)
            ]
            for part in crew.parts
        ]
        if self._layout.together:
            tasks = [[task for some in tasks for task in some]]
        threads = [
            {**self._seat(part), "tasks": some}
            for part, some in zip(crew.parts, tasks, strict=False)
        ]
        return {"ports": ports, "threads": threads}

    def _port(self, crew: Crew, part: Part, port: Port) -> dict[str, Any]:
        test, endpoint = self._layout.test, self._layout.endpoints[port.id]
        engine = engine_of(self._layout, part)
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
            opened["netns"] = netns_of(self._layout, part) or ""
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
        if own_kernel(self._layout, part):  # whose only CPU is pinned as a whole
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
                    for job in jobs_of(self._layout, part)
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
        layout = self._layout
        if proving:  # whatever is touched else
            layout = replace(layout, test=layout.test.model_copy(update={"touch": "full"}))
        result = Outcome(layout, self._placement, self._crews).result(
            spec, _interval_ns(spec), reports, after.since(before), used, stolen
        )
        return result.model_copy(update={"cost": cost})

    def _counted(self) -> PathCounters:
        """The counters. That a switch has died is why it does not tell its own."""
        if self.lag_s:
            time.sleep(self.lag_s)
        try:
            return self._counters()
        except SetupFailed:
            self._alive()
            raise

    def _sends(self, crew: Crew) -> bool:
        return any(self._layout.sent_by(part) for part in crew.parts)

    def _load(self, job: Job, spec: TrialSpec) -> dict[str, Any]:
        test, part, role = self._layout.test, job.part, job.role
        # Nobody but a switch that learns listens to who is where.
        learning = self._layout.wiring.semantics is Semantics.LEARNING
        if role is Role.FORWARDER:
            forward: dict[str, Any] = {
                "burst": RX_BURST,
                "rewrite": rewrites_of(self._layout, part),
            }
            if learning:
                forward["announce"] = [self._announcement(port) for port in part.ports]
            return forward
        sends = role in (Role.SENDER, Role.CLIENT)
        flows = distinct(self._layout.sent_by(part) if sends else self._layout.received_by(part))
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
                "stagger": self._stagger(job),
            }
            if test.flows > 1:
                load["vary"] = [f"src_{test.flows_by}"]
        if role in (Role.RECEIVER, Role.CLIENT):
            timed = role is Role.CLIENT or reads_one_clock(self._layout, part)
            load["latency"] = test.touch != "none" and timed
            load["ipdv"] = timed and test.dimension == "latency"
        if role is not Role.SENDER and learning:
            load["announce"] = self._announcement(part.ports[0])
        return load

    def _stagger(self, job: Job) -> float:
        """The share of a period by which a task's bursts are due after those of the first sender:
        at a fixed rate they take turns, as all at one moment would be one burst at the switch."""
        jobs = [j for crew in self._crews for p in crew.parts for j in jobs_of(self._layout, p)]
        senders = [one for one in jobs if one.role in (Role.SENDER, Role.CLIENT)]
        return senders.index(job) / len(senders)

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

    def _promised(self, job: Job) -> dict[str, Any]:
        """The headers that a receiver's frames are to have."""
        layout, part = self._layout, job.part
        answers = job.role is Role.CLIENT
        if not (answers or job.role is Role.RECEIVER):
            return {}
        flows = distinct(layout.sent_by(part) if answers else layout.received_by(part))
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
        # The kernel of a server makes the headers of its answers anew.
        crossed = 1 if self._layout.engine.needs_ip else 2
        return {**back, **macs, **vlan, "ttl": _TTL - crossed * a.routed}

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
        lead_ns += _LEAD_TO_A_GUEST_NS * any(map(self._foreign, self._crews))
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


def _share_of(frames: int | None, job: Job, flows: int) -> int:
    """A task's part of the frames of a burst; 0 where there is no such end."""
    if frames is None:
        return 0
    return frames * (job.first + job.flows) // flows - frames * job.first // flows


def _longest_ns(spec: TrialSpec) -> int:
    return round(max(spec.duration_s, spec.warmup_s) * 1e9)


def _interval_ns(spec: TrialSpec) -> int:
    """The intervals in which arrivals are counted: 0.1 s, less in a trial below 5 s."""
    wanted = max(1_000_000, min(100_000_000, round(spec.duration_s * 1e9) // _INTERVALS))
    return max(wanted, _longest_ns(spec) // _INTERVALS_MAX)

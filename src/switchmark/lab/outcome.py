"""The result of a trial, from the reports of the traffic processes, the ports and the host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from switchmark.errors import TrialFailed
from switchmark.lab.losses import counted_places
from switchmark.lab.workers import Worker
from switchmark.metrics.latency import from_counts, lags_of, stamps_of
from switchmark.model.counters import PathCounters
from switchmark.model.cpus import format_cpus
from switchmark.model.evidence import ClockEvidence, Evidence
from switchmark.model.latency import Latency
from switchmark.model.noise import BUSY
from switchmark.model.objects import Message
from switchmark.model.place import Place, PlaceKind
from switchmark.model.record import FlowCounts, PartReport, TrialResult, TrialSpec
from switchmark.model.series import GAPS_MAX, Gap, TimeSeries
from switchmark.model.test import Test
from switchmark.model.topology import Flow, Role
from switchmark.model.units import FCS_BYTES
from switchmark.path.path import Part, Path
from switchmark.searches.base import Search, least_repeats

_SHORT_S, _SHORTEST_S = 1.0, 0.1
_STEAL = 0.01
_COUNTED = (
    *("late", "after_drain", "beyond", "duplicated", "reordered", "corrupted", "foreign", "stray"),
)
_ADDED = {name: name for name in ("early", "after_end", "mixed", "unfollowed", "ties")}
_ADDED["left_over"] = "other_phase"
_CLOCKS_FAIL_NS = 5_000_000  # with a larger clock error, latency is meaningless
_STARTED_LATE = 1e-4
"""The tolerated delay, as a share of the measured phase. A smaller delay does not change the first
three digits of a rate, and delays too few frames to affect the 99.9th percentile."""

_Sent = dict[str, tuple[Message, ...]]
"""The reports of the sending tasks, by flow."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Computes the result of a trial from the reports of the workers of a path."""

    path: Path
    """The path."""
    workers: Sequence[Worker]
    """The processes that sent, received and forwarded."""
    clocks: Mapping[str, ClockEvidence]
    """The clocks of other kernels, with their error, by name."""

    def result(
        self,
        spec: TrialSpec,
        interval_ns: int,
        reports: Sequence[Message],
        counted: PathCounters,
        used: Mapping[str, tuple[float, ...]],
        stolen: float,
        load: Mapping[str, float],
        series: TimeSeries | None = None,
    ) -> TrialResult:
        sums: dict[str, int] = {}
        sent: _Sent = {}
        received: dict[str, Message] = {}
        parts: list[PartReport] = []
        announced = astray = 0
        for worker, report in zip(self.workers, reports, strict=True):
            if report["failure"]:
                raise TrialFailed(f"{worker.process.part}: {report['failure']}")
            tasks = iter(report["tasks"])
            for part in worker.parts:
                for _ in part.jobs:
                    task = next(tasks)
                    announced += task["announced"]
                    astray += task.get("forwarded", {}).get("stray", 0)
                    if "sent" in task:
                        flow = part.sent[0].id
                        sent[flow] = (*sent.get(flow, ()), task["sent"])
                    if "received" in task:
                        # A client receives the answers to the flow that it sends.
                        flows = part.received or part.sent
                        received[flows[0].id] = task["received"]
            parts += self._part_reports(worker, report, used)
        for name in _COUNTED:
            sums[name] = sum(report[name] for report in received.values())
        sums["stray"] += astray  # servers do not answer frames for other parts
        tasks_sent = [report for reports in sent.values() for report in reports]
        tx = sum(report["frames"] for report in tasks_sent)
        distinct = sum(report["frames"] for report in received.values())
        lost = tx * self.path.test.copies - distinct
        elapsed_ns = int(reports[0]["duration_ns"])
        others = {
            "announced": announced,
            "headers": {flow: r["headers"] for flow, r in received.items() if "headers" in r},
            "clocks": self.clocks,
            "unsure_ns": self._unsure_ns,
            **{
                name: sum(r.get(member, 0) for r in received.values())
                for name, member in _ADDED.items()
            },
            "stamps": stamps_of(received),
            "lag": lags_of(sent),
        }
        taken = self._taken(spec, reports, used, load)
        started_late = self._started_late(reports)
        part_ids = {part.part for part in parts}
        for place, (cores, _) in used.items():
            if place in part_ids:
                continue
            role = "switch" if place.startswith("switch") else "function"
            parts.append(PartReport(part=place, roles=(role,), cpu=None, cores=cores))
        return TrialResult(
            spec=spec,
            elapsed_ns=elapsed_ns,
            tx_frames=tx,
            tx_unsent=sum(report["unsent"] for report in tasks_sent),
            rx_frames=distinct + sums["duplicated"],
            rx_bytes=sum(self._wire_bytes(report) for report in received.values()),
            copies=self.path.test.copies,
            lost=lost,
            lost_at=self._lost_at(reports, counted, sums, lost),
            late=sums["late"],
            duplicated=sums["duplicated"],
            reordered=sums["reordered"],
            corrupted=sums["corrupted"],
            foreign=sums["foreign"],
            stray=sums["stray"],
            interval_ns=interval_ns,
            intervals=_added([report["intervals"] for report in received.values()]),
            latency=self._latency(list(received.values())),
            parts=tuple(parts),
            series=series and self._with_gaps(series, sent, received, reports[0]["start_ns"]),
            per_flow=self._per_flow(sent, received),
            doubts=self._doubts(spec, stolen, sums["foreign"], taken, started_late, others),
            counters=counted,
            evidence=Evidence(
                taken=taken,
                started_late_ns=started_late,
                **{name: count for name, count in others.items() if count},
            ),
        )

    def _part_reports(
        self, worker: Worker, report: Message, used: Mapping[str, tuple[float, ...]]
    ) -> list[PartReport]:
        opened = worker.plays.opened
        elapsed_ns = int(report["duration_ns"])
        together = len(worker.parts) > 1
        part_reports = []
        tasks = iter(report["tasks"])
        for index, part in enumerate(worker.parts):
            thread = report["threads"][0 if together else index]
            mine = [next(tasks) for _ in part.jobs]
            cpu = None if thread["cpu"] < 0 or thread["cores"] > 1 else thread["cpu"]
            cores = None if together else thread["cpu_ns"] / elapsed_ns
            if part.separate_kernel:
                cpu = next(iter(part.cpus), None)
                cores = used[part.id][0]
            # The CPU time that a guest measures is not what its machine takes of the host.
            unknown = together or part.separate_kernel
            counted = [
                task.get("sent") or task.get("received") or task["forwarded"] for task in mine
            ]
            part_reports.append(
                PartReport(
                    part=part.id,
                    roles=tuple(role.value for role in part.roles),
                    cpu=cpu,
                    cores=cores,
                    user_cores=None if unknown else thread["user_ns"] / elapsed_ns,
                    polls=sum(c["polls"] for c in counted),
                    empty_polls=sum(c["empty_polls"] for c in counted),
                    blocked=sum(c.get("blocked", 0) for c in counted),
                    idle=_mean([c["idle_ns"] / elapsed_ns for c in counted if "idle_ns" in c]),
                    yields=thread["yields"],
                    lag_max_ns=max(c.get("lag_max_ns", 0) for c in counted),
                    engine_mode=report["ports"][opened.index((part, part.ports[0], 0))]["mode"],
                )
            )
        return part_reports

    def _lost_at(
        self, reports: Sequence[Message], counted: PathCounters, sums: Mapping[str, int], lost: int
    ) -> dict[Place, int]:
        """Return the places where frames were lost, as far as a counter shows them."""
        places: dict[Place, int] = defaultdict(int)
        for worker, report in zip(self.workers, reports, strict=True):
            for (_, port, _), counts in zip(worker.plays.opened, report["ports"], strict=True):
                places[Place.ring(port.id)] += counts["rx_ring_drops"]
                places[Place.engine(port.id)] += counts["tx_drops"] + counts["rx_invalid"]
            jobs = [(part, job) for part in worker.parts for job in part.jobs]
            for (part, job), task in zip(jobs, report["tasks"], strict=True):
                if job.role is Role.FORWARDER:
                    places[Place.function(part.id)] += sum(task["forwarded"]["dropped"])
        for source in {flow.source for flow in self.path.flows}:
            places[Place.engine(source)] *= self.path.test.copies
        for place, frames in counted_places(self.path, counted).items():
            places[place] += frames
        places[Place(PlaceKind.CORRUPTED)] = sums["corrupted"]
        # A flooded frame arrives, and only its copy goes astray.
        places[Place(PlaceKind.STRAY)] = min(sums["stray"], max(0, lost))
        places[Place(PlaceKind.LATE)] = sums["after_drain"]
        places[Place(PlaceKind.BEYOND)] = sums["beyond"]
        return {place: frames for place, frames in places.items() if frames}

    def _wire_bytes(self, received: Message) -> int:
        """Return the bytes received, with headers and FCS, even if the engine sees only the
        payload."""
        headers = 42 if self.path.drivers.receiver.needs_ip else 0
        return int(received["bytes"]) + (headers + FCS_BYTES) * int(received["frames"])

    def _latency(self, received: Sequence[Message]) -> Latency | None:
        if self._unsure_ns > _CLOCKS_FAIL_NS:
            return None
        there_and_back = self.path.test.dimension == "latency"
        kind: Literal["rtt", "one-way"] = "rtt" if there_and_back else "one-way"
        return from_counts(
            kind,
            [report["latency"] for report in received if "latency" in report],
            [report["ipdv"] for report in received if "ipdv" in report],
            [report["stamps"]["earliest"] for report in received if "stamps" in report],
        )

    def _per_flow(self, sent: _Sent, received: Mapping[str, Message]) -> tuple[FlowCounts, ...]:
        test = self.path.test
        if test.touch == "none":
            return ()
        flows = []
        for flow in self.path.flows:
            if flow.id not in received:
                continue  # counted with the first flow of its part
            first = self.path.copies(flow)[0]
            named = self._sent_by_flow(first, flow, sent[first.id])
            alone = test.flow_numbers == len(named) == 1 < len(sent)
            for (name, tx), (rx, duplicated, reordered, corrupted) in zip(
                named, received[flow.id]["flows"], strict=True
            ):
                flows.append(
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
        return tuple(flows)

    def _with_gaps(
        self, series: TimeSeries, sent: _Sent, received: Mapping[str, Message], start_ns: int
    ) -> TimeSeries:
        """Return a series with the gaps of all flows. A flow whose last frames are missing ends
        with a gap."""
        gaps: list[Gap] = []
        silences: list[Gap] = []
        ends: list[Gap] = []
        for flow in self.path.flows:
            report = received.get(flow.id, {}).get("gaps")
            if report is None:
                continue
            first = self.path.copies(flow)[0]
            named = self._sent_by_flow(first, flow, sent[first.id])
            gaps += [_gap(named[number][0], start_ns, *gap) for number, *gap in report["longest"]]
            silences += [
                _gap(named[number][0], start_ns, *gap) for number, *gap in report["silences"]
            ]
            for number, *gap in filter(None, (report["earliest"], report["latest"])):
                ends.append(_gap(named[number][0], start_ns, *gap))
            for (name, frames), (following, *times) in zip(named, report["ends"], strict=True):
                if following < frames:
                    end = _gap(name, start_ns, following, frames - following, *times, 0, 0)
                    gaps.append(end)
                    ends.append(end)
        if not any("gaps" in report for report in received.values()):
            return series
        found = {
            "gaps": tuple(sorted(gaps, key=lambda gap: -gap.lost)[:GAPS_MAX]),
            "silences": tuple(sorted(silences, key=lambda gap: -(gap.arrival_ns or 0))[:GAPS_MAX]),
            "earliest_gap": min(ends, key=_begins_ns, default=None),
            "latest_gap": max(ends, key=_begins_ns, default=None),
        }
        return series.model_copy(update=found)

    def _sent_by_flow(
        self, first: Flow, flow: Flow, reports: Sequence[Message]
    ) -> list[tuple[str, int]]:
        """Return the names of the flows that arrive with `flow`, and the number of frames sent in
        every flow. Every sending core cycles through its share of the flows. `first` is the flow
        whose copy is `flow`, or `flow` itself."""
        counts = [
            frames // flows + (number < frames % flows)
            for report in reports
            for flows, frames in report["cores"]
            for number in range(flows)
        ]
        several = self.path.test.flow_numbers
        sender = next(part for part in self.path.parts if first in part.sent)
        names = [
            one.id if several == 1 else f"{one.id}#{number}"
            for one in sender.sent
            for number in range(several)
            if one.sink == flow.sink
        ]
        return list(zip(names, counts, strict=True))

    @property
    def _unsure_ns(self) -> int:
        """Return the maximum error of one-way latency if its ends read two clocks."""
        one_way = self.path.test.dimension != "latency"
        if not one_way or all(_reads_one_clock(self.path, part) for part in self.path.parts):
            return 0
        return sum(sorted(clock.unsure_ns for clock in self.clocks.values())[-2:])

    def _taken(
        self,
        spec: TrialSpec,
        reports: Sequence[Message],
        used: Mapping[str, tuple[float, ...]],
        load: Mapping[str, float],
    ) -> dict[str, float]:
        """Return the share of every CPU that other processes took. In that time, a polling part was
        ready to run and no part ran. Time that no part asked for does not count as taken, and
        neither does time withheld by a CPU limit.

        On many kernels, a process that has used up its CPU limit counts as waiting, like a process
        that waits for the CPU. The share taken is therefore at most the rest of the limit, and at
        most the time that the CPU was busy (`load`).
        """
        shares = dict(used)
        cpus_of = {part: pin.cpus for part, pin in self.path.placement.pins.items() if pin.cpus}
        if "switch" not in shares:  # a switch in the kernel has no thread that waits for CPUs
            cpus_of.pop("switch", None)
        ended = {part.id for part in self.path.parts if part.sent}
        for worker, report in zip(self.workers, reports, strict=True):
            for parts, thread in zip(self._threads(worker), report["threads"], strict=True):
                if thread["wait_ns"] >= 0 and parts[0].id not in used:
                    ns = (thread["cpu_ns"], thread["wait_ns"])
                    shares["+".join(part.id for part in parts)] = tuple(
                        taken_ns / report["duration_ns"] for taken_ns in ns
                    )
        by_cpu = {}
        groups = sorted(set(cpus_of.values()))
        for cpus in groups:
            if any(set(cpus) & set(other) for other in groups if other != cpus):
                continue  # a part there may wait for another part
            here = [user for user in shares if cpus_of.get(user.partition("+")[0]) == cpus]
            # A burst ends before its trial ends, and so does its sender.
            busy = [user for user in here if not (spec.frames and user in ended)]
            if busy:
                ready = min(sum(shares[user]) for user in busy)
                ran = sum(shares[user][0] for user in here)
                most = float(len(cpus))
                limits = [self._limit(user) for user in busy]
                if None not in limits:
                    idle = sum(shares[user][0] for user in here if user not in busy)
                    allowed = idle + sum(limit for limit in limits if limit is not None)
                    worked = sum(load.get(str(cpu), 1.0) for cpu in cpus)
                    most = min(most, allowed, worked)
                by_cpu[format_cpus(cpus)] = round(max(0.0, min(ready, most) - ran), 4)
        return by_cpu

    def _limit(self, user: str) -> float | None:
        """Return the CPU limit of a part or the switch, in cores; None without a limit."""
        kind = {part.id: None if part.physical else "function" for part in self.path.parts}
        blamed = kind.get(user.partition("+")[0], "switch")
        percent = self.path.test.limits.get(blamed) if blamed else None
        return None if percent is None else percent / 100

    def _started_late(self, reports: Sequence[Message]) -> dict[str, int]:
        """Return the delay of every part that began the measured phase late, in ns."""
        late = {}
        for worker, report in zip(self.workers, reports, strict=True):
            for parts, thread in zip(self._threads(worker), report["threads"], strict=True):
                if thread["started_late_ns"]:
                    late["+".join(part.id for part in parts)] = thread["started_late_ns"]
        return late

    def _threads(self, worker: Worker) -> list[tuple[Part, ...]]:
        """Return the parts of a process, by thread."""
        return [worker.parts] if self.path.together else [(part,) for part in worker.parts]

    def _doubts(
        self,
        spec: TrialSpec,
        stolen: float,
        foreign: int,
        taken: Mapping[str, float],
        started_late: Mapping[str, int],
        others: Mapping[str, object],
    ) -> tuple[str, ...]:
        late_ns = max(started_late.values(), default=0)
        reasons: dict[str, object] = {
            "host-busy": any(share > BUSY for share in taken.values()),
            "clock": self._unsure_ns > _CLOCKS_FAIL_NS,
            "cpu-stolen": stolen > _STEAL,
            "started-late": late_ns > _STARTED_LATE * spec.duration_s * 1e9,
            "short": _is_short(self.path.test, self.path.drivers.search, spec),
            "foreign-frames": foreign,
            "flows-mixed": others["unfollowed"] or others["ties"],
        }
        return (*self.path.placement.doubts, *(name for name, so in reasons.items() if so))


def _begins_ns(gap: Gap) -> int:
    """Return the due time of the last frame before a gap."""
    return 0 if gap.before_due_ns is None else gap.before_due_ns


def _gap(flow: str, start_ns: int, first: int, lost: int, *times: int) -> Gap:
    """Return a gap from the traffic program's numbers: the due time and the arrival of the frame
    before it, and of the frame after it; 0 for no frame."""
    since = [time_ns - start_ns if time_ns else None for time_ns in times]
    names = ("before_due_ns", "before_ns", "after_due_ns", "after_ns")
    return Gap(flow=flow, first=first, lost=lost, **dict(zip(names, since, strict=True)))


def _reads_one_clock(path: Path, part: Part) -> bool:
    """Return whether a part's received flows have both ends on one clock."""
    ends = {port for flow in part.received for port in (flow.source, flow.sink)}
    holders = (part for part in path.parts if ends & {port.id for port in part.ports})
    return len({part.clock for part in holders}) <= 1


def _is_short(test: Test, search: Search, spec: TrialSpec) -> bool:
    """Return whether a trial is too short, alone or together with the other repeats at its load if
    every trial is a repeat."""
    repeats = 1
    if search.independent and spec.duration_s == test.duration:
        repeats = least_repeats(test.repeat, test.until_certain)
    return spec.duration_s < _SHORTEST_S or spec.duration_s * repeats < _SHORT_S


def _mean(shares: Sequence[float]) -> float | None:
    return sum(shares) / len(shares) if shares else None


def _added(columns: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(sum(row) for row in zip(*columns, strict=False))

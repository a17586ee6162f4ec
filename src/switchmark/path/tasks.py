"""This module lists the tasks of the parts that the traffic program plays, and the ports that they
open. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from switchmark.model.evidence import ClockEvidence
from switchmark.model.objects import Message
from switchmark.model.topology import Flow, Part, Port, Role
from switchmark.path.layout import Layout
from switchmark.path.roles import clock_of, roles_of


@dataclass(frozen=True, slots=True)
class Job:
    """A job is one task of a process: a role of a part, on one of the queues of its port (a
    forwarder: of both), with `flows` of its flows, from number `first` on."""

    part: Part
    role: Role
    queue: int
    first: int
    flows: int


def jobs_of(layout: Layout, part: Part) -> list[Job]:
    """Return the tasks of a part. Each queue is sent to by a task of its own, so that a flow stays
    on its queue; what is received is counted by one, which reads all queues."""
    # On several cores each has a queue and a share of the flows: the program sees to that.
    queues = layout.wiring.queues if layout.test.function_cores == 1 else 1
    jobs = []
    flows = max(1, len(_flows_of(layout, part))) * layout.test.flow_numbers
    for role in roles_of(layout, part):
        if role is not Role.SENDER:
            jobs.append(Job(part, role, 0, 0, flows))
            continue
        bounds = [flows * queue // queues for queue in range(queues + 1)]
        jobs += [
            Job(part, role, queue, first, end - first)
            for queue, (first, end) in enumerate(pairwise(bounds))
        ]
    return jobs


def _flows_of(layout: Layout, part: Part) -> tuple[Flow, ...]:
    """Return the flows that a part sends, or else receives: as many go each way."""
    return distinct(layout.sent_by(part) or layout.received_by(part))


def opened_by(layout: Layout, parts: Sequence[Part]) -> list[tuple[Part, Port, int]]:
    """Return the ports that a process of these parts opens: each once for each queue that it
    uses."""
    return list(
        dict.fromkeys(
            (part, port, job.queue)
            for part in parts
            for job in jobs_of(layout, part)
            for port in part.ports
        )
    )


def reads_one_clock(layout: Layout, part: Part) -> bool:
    """Say whether both ends of the flows that a part receives read one clock."""
    ends = {port for flow in layout.received_by(part) for port in (flow.source, flow.sink)}
    holders = [p for p in layout.parts if ends & {port.id for port in p.ports}]
    return len({clock_of(layout, part) for part in holders}) <= 1


def sent_by_flow(
    layout: Layout, flow: Flow, reports: Sequence[tuple[Job, Message]]
) -> list[tuple[str, int]]:
    """Return the names of the flows that arrive where this one does, and how many frames were sent
    of each, by the reports of the tasks that sent them: each core sent its own in turn."""
    counts = [
        frames // flows + (number < frames % flows)
        for _, report in reports
        for flows, frames in report["cores"]
        for number in range(flows)
    ]
    several = layout.test.flow_numbers
    names = [
        one.id if several == 1 else f"{one.id}#{number}"
        for one in layout.sent_by(reports[0][0].part)
        for number in range(several)
        if one.sink == flow.sink
    ]
    return list(zip(names, counts, strict=True))


def unsure_ns(layout: Layout, clocks: Mapping[str, ClockEvidence]) -> int:
    """Return by how much one-way latency is wrong at most where its ends read two clocks."""
    one_way = layout.test.dimension == "throughput"
    if not one_way or all(reads_one_clock(layout, part) for part in layout.parts):
        return 0
    return sum(sorted(clock.unsure_ns for clock in clocks.values())[-2:])


def distinct(flows: Sequence[Flow]) -> tuple[Flow, ...]:
    """Return the flows without copies, which are made of the frames of the first."""
    return tuple({flow.index: flow for flow in reversed(flows)}.values())[::-1]

"""This module reads at one moment what kernels have counted of the processes of a path, on all of
its hosts side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from switchmark.hosts.base import Host
from switchmark.observe.softirq import SoftirqTimes, softirq_files
from switchmark.observe.taken import taken_at_once
from switchmark.observe.threads import (
    Switches,
    cpu_ns,
    cpu_time_files,
    switch_files,
    thread_switches,
)

Pids = Mapping[str, Collection[int]]
"""The processes of a path by place: `switch`, a function, or the parts that one process plays,
joined by `+`."""


@dataclass(frozen=True, slots=True)
class KernelCounts:
    """These are the counts up to a moment: of CPUs, of the `switches` of threads, and of how long
    some processes `ran` and waited for a CPU, in ns, by place."""

    softirq: SoftirqTimes
    switches: Mapping[str, Switches]
    ran: Mapping[str, tuple[int, int]]

    @classmethod
    def read(
        cls,
        host: Host,
        cpus: Collection[int],
        hosts: Mapping[str, Host],
        pids: Pids,
        timed: Collection[str],
    ) -> KernelCounts:
        """Read them: of the CPUs of one host, and of the processes of each place on its own. The
        time of those at `timed` places is read, too."""
        files = defaultdict(list, {host: softirq_files(host, cpus)})
        for place, each in pids.items():
            files[hosts[place]] += switch_files(each)
            files[hosts[place]] += cpu_time_files(each) if place in timed else ()
        taken = taken_at_once(files)
        return cls(
            SoftirqTimes.read(host, cpus, taken[host]),
            {place: thread_switches(taken[hosts[place]], each) for place, each in pids.items()},
            {place: cpu_ns(taken[hosts[place]], pids[place]) for place in timed},
        )

    def used_since(self, before: KernelCounts) -> dict[str, tuple[float, float]]:
        """Return by place the cores that its processes used since then, and those that they waited
        for."""
        elapsed_ns = 1e9 * (self.softirq.at_s - before.softirq.at_s)
        used = {}
        for place, (ran, waited) in self.ran.items():
            ran_before, waited_before = before.ran[place]
            used[place] = (ran - ran_before) / elapsed_ns, (waited - waited_before) / elapsed_ns
        return used

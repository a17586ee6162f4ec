"""The processor's counters, read by `perf stat`: which events this host can count, and the counts
for the threads of processes or for whole CPUs, in a time window.

`perf` itself suffices, without calls to perf_event_open: it takes `enable` and `disable` on its
stdin within 0.1 ms, and starts in 20 to 50 ms, which the warm-up covers (measured, 6.1).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from signal import SIGINT

from switchmark.errors import TrialFailed, Unavailable
from switchmark.hosts.base import Host, Process
from switchmark.model.cpus import format_cpus
from switchmark.model.plan import Spawn

EVENTS = ("cycles", "ref-cycles", "instructions", "cache-misses")
"""`ref-cycles` tick like the TSC, but only while the CPU is not halted."""

_PROGRAM = ("perf", "stat", "-x", ";")
MENDED_BY = "apt-get install linux-perf"
_ANSWER_S = 5.0
_NO_COUNTERS = "no hardware counters on this host"
_SOURCES = "/sys/bus/event_source/devices/*"
_SOFTWARE = {"breakpoint", "kprobe", "msr", "software", "tracepoint", "uprobe"}
"""The event sources that every host has; with these alone, the host has no hardware counters."""

# A count, its unit and its event, after its thread or CPU. Hybrid processors name their type of
# core (`cpu_core/cycles/`); `:u` excludes the kernel's work.
_COUNT = re.compile(
    r"^(?:(?P<whose>.*?);)??(?P<count>[\d.]+|<not counted>|<not supported>);[^;\n]*;"
    r"(?:cpu_\w+/)?(?P<event>[a-z][\w-]*)/?(?P<modifier>:\w+)?;",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class CountableEvents:
    """The events that a host can count."""

    events: tuple[str, ...] = ()
    """The names of the events, out of EVENTS."""
    by_cpu: bool = False
    """Whether whole CPUs can be counted."""
    user_only: bool = False
    """Whether the kernel's work is excluded."""
    missing: str | None = None
    """The reason why no event can be counted."""
    hint: str | None = None
    """The cure for that reason, if there is any."""


def probe(host: Host) -> CountableEvents:
    """Try every event once, on all CPUs, or otherwise on a child process. This takes some 30 ms, or
    no time if the kernel has no source of such events, as in many virtual machines."""
    sources = {PurePath(path).name for path in host.inodes(_SOURCES)}
    if sources and sources <= _SOFTWARE:
        return CountableEvents(missing=_NO_COUNTERS)
    refused = ""
    for way in (("-a",), ()):
        try:
            completed = host.run((*_PROGRAM, "-e", ",".join(EVENTS), *way, "--", "true"))
        except Unavailable:
            return CountableEvents(missing="perf is not installed", hint=MENDED_BY)
        if completed.status:
            refused = _reason(completed.stderr)
            continue
        rows = list(_COUNT.finditer(completed.stderr.decode(errors="replace")))
        counted = {row["event"] for row in rows if row["count"] != "<not supported>"}
        if not counted:
            return CountableEvents(missing=_NO_COUNTERS)
        return CountableEvents(
            tuple(event for event in EVENTS if event in counted),
            by_cpu=bool(way),
            user_only=all(row["modifier"] == ":u" for row in rows),
        )
    limited = "access" in refused.lower()
    return CountableEvents(
        missing=f"perf cannot count: {refused}",
        hint="sysctl kernel.perf_event_paranoid=1" if limited else None,
    )


def _reason(stderr: bytes) -> str:
    lines = [line for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    return next((line.strip() for line in lines if line != "Error:"), "no reason is known")


def of_threads(name: str, events: Collection[str], pids: Collection[int], file: str) -> Spawn:
    """Return the step that starts perf, paused, for every current thread of some processes."""
    target = ("--per-thread", "-p", ",".join(map(str, sorted(pids))))
    return _counter(name, "counters of the parts' threads", events, target, file)


def of_cpus(name: str, events: Collection[str], cpus: Collection[int], file: str) -> Spawn:
    """Return the step that starts perf, paused, for whole CPUs."""
    return _counter(name, "counters of CPUs", events, ("-A", "-C", format_cpus(cpus)), file)


def _counter(
    name: str, why: str, events: Collection[str], target: tuple[str, ...], file: str
) -> Spawn:
    paused = ("-D", "-1", "--control", "fd:0,1")
    argv = (*_PROGRAM, *paused, "-o", file, "-e", ",".join(events), *target)
    return Spawn(why, name, argv, stop=(SIGINT, _ANSWER_S))


def control(process: Process, word: str) -> None:
    """Send `ping`, `enable` or `disable` to perf, and wait for its answer. Raise TrialFailed with
    perf's last output if the answer does not come."""
    process.send(word)
    # The NUL at the end of perf's answer arrives with the next answer.
    answer = (process.receive(_ANSWER_S) or "").strip("\0")
    if answer != "ack":
        raise TrialFailed(f"perf did not answer to '{word}': {process.last_words(1)}")


def parse_counts(text: str) -> Mapping[int, Mapping[str, int]]:
    """Return the count of each event by the number of the thread or CPU (`comm-TID`, `CPU0`);
    clocks count in ns. Uncounted events are missing; the count is 0 if the thread did not run."""
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    for row in _COUNT.finditer(text):
        number = re.search(r"\d+$", row["whose"] or "")
        if number is None or row["count"] == "<not supported>":
            continue
        of_whom = counts[int(number[0])]
        count = 0.0 if row["count"] == "<not counted>" else float(row["count"])
        if row["event"].endswith("-clock"):
            count *= 1e6
        of_whom[row["event"]] = of_whom.get(row["event"], 0) + round(count)
    return counts


def added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of counts by event; `_` replaces `-` in the names, as in records."""
    total: dict[str, int] = defaultdict(int)
    for one_count in counts:
        for event, count in one_count.items():
            total[event.replace("-", "_")] += count
    return dict(total)

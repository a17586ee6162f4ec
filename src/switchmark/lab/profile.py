"""Profiles of the kernel: CPU samples by `perf record`, grouped by kernel function.

Profiles need no debugging symbols, only the kernel's table of function names. The overhead of a
sample is measured: a busy loop shows the gaps that samples cause.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from signal import SIGINT

from switchmark import clock
from switchmark.errors import SwitchmarkError, TrialFailed, Unavailable
from switchmark.hosts.base import Host
from switchmark.model.cost import Profile, Shares
from switchmark.model.cpus import format_cpus
from switchmark.model.noise import Jitter
from switchmark.model.plan import Spawn
from switchmark.model.printable import last_lines
from switchmark.model.version import Version
from switchmark.observe.noise import probe_jitter
from switchmark.observe.perf import MENDED_BY, control
from switchmark.observe.perf import probe as probe_counters
from switchmark.runs.executor import Executor

_CLOCK = "cpu-clock"
_RECORD = ("perf", "record", "-q", "--no-buildid", "--no-buildid-cache")
_FIELDS = "period,sample,cpu,pid,sym"
_NAME = "perf-profile"
_REPORT_S, _ANSWER_S = 120.0, 10.0

_LEAST, _MOST = 0.001, 40
_TRIED_HZ, _TRIED_MS = 2000, 50
_GAPS_NS = range(1_000, 256_000)
"""The gaps that an interrupt causes. A process that gets the CPU causes longer gaps."""

_ROW = re.compile(
    r"^ *(?P<period>\d+) *; *(?P<samples>\d+) *; *(?P<cpu>\d+) *; *(?P<tid>\d+):[^;]*;"
    r"\[(?P<kind>.)\] (?P<symbol>[^;]*?) *$",
    re.MULTILINE,
)
_LOST = re.compile(r"^# Total Lost Samples: (\d+)", re.MULTILINE)
_IDLE = re.compile(r"_idle|safe_halt|^cpuidle_|^cpu_startup_entry$")
_SUFFIX = re.compile(r"\.(?:isra|constprop|part|cold|llvm)\b.*")

GROUPS = {
    "context_switch": r"(__)?schedule|__switch_to\w*|(finish|prepare)_task_switch|context_switch"
    r"|pick_(next|task|eevdf)\w*|switch_(mm|fpu)\w*|(de|en)queue_(task|entity|entities)\w*"
    r"|put_prev_\w+|set_next_\w+|try_to_wake_up|ttwu_\w+|update_(curr|rq_clock|load_avg)\w*"
    r"|do_sched_yield|yield_task\w*|check_preempt\w*|select_task_rq\w*|__wake_up\w*"
    r"|wakeup_preempt\w*|(save|restore)_fpregs\w*",
    "virtual_queues": r"(virtio|virtnet|virtqueue|vring|vhost|tun|tap|veth|ptr_ring)_\w+"
    r"|handle_(tx|rx)\w*",
    "sending": r"_*dev_(queue_xmit|hard_start_xmit|direct_xmit)\w*|validate_xmit\w*|sch_direct_xmit"
    r"|_*qdisc_run\w*|pfifo_\w+|dql_\w+|ovs_vport_send|do_output|\w+_xmit(_\w+)?"
    r"|\w+_tx_(map|queue_\w+)",
    "user_copy": r"_*(copy_(to|from)_(user|iter)\w*|copy_user_\w+|arch_copy_\w+|copy_mc_\w+)"
    r"|copyin|copyout|rep_movs_alternative|copy_page_(to|from)_iter\w*|raw_copy_\w+"
    r"|\w*skb_copy_datagram\w*|simple_copy_to_iter",
    "locks": r"_raw_\w*lock\w*|(native_|__pv_|pv_)?queued_\w*lock\w*|_*mutex_\w+|rwsem_\w+"
    r"|(up|down)_(read|write)\w*|osq_(un)?lock",
    "buffers": r"_*kmem_cache_\w+|_*kmalloc\w*|kfree\w*|_*slab_\w+|\w*(alloc|build|free)_skb\w*"
    r"|skb_(release|clone|copy|put|push|pull)\w*|_*consume_skb\w*|sock_(alloc_send|wfree)\w*"
    r"|page_(pool|frag)_\w+|napi_(consume|skb_free)\w*|_*alloc_pages\w*|get_page_from_freelist",
    "softirq": r"(__do|do|handle|raise|run)_k?softirq\w*|net_[rt]x_action|_*napi_\w+"
    r"|process_backlog|_*netif_r\w+|enqueue_to_backlog|__local_bh_\w+|irq_(enter|exit)\w*",
    "system_calls": r"entry_SYSCALL\w*|(do_)?syscall_\w+|_+x64_sys_\w+|_+sys_\w+|el0_svc\w*"
    r"|exit_to_user_mode\w*",
    "network": r"_*(dev|skb|sock|sk|packet|netif|ip|ipv4|udp|eth|nf|qdisc|sch|fib|br|fdb|xdp)_\w+"
    r"|\w*netdev\w*|sendmsg\w*|recvmsg\w*",
}
"""Groups of kernel functions by purpose. The first group that matches a function gets it. An
inlined function counts as its caller."""

_PATTERNS = {group: re.compile(pattern) for group, pattern in GROUPS.items()}
_NOT_KERNEL = {".": "user", "g": "guest", "u": "guest"}


@dataclass(frozen=True, slots=True)
class Sample:
    """A row of the report: the samples of a thread in a function on a CPU."""

    period: int
    """The sum of the sampled time, in the unit of the event."""
    samples: int
    """The number of samples."""
    cpu: int
    """The CPU."""
    tid: int
    """The thread."""
    symbol: str | None
    """The name of the function; None if perf does not know it."""
    group: str | None
    """The kind of code; None if the CPU was idle."""


def group_of(symbol: str) -> str:
    """Return the group of a kernel function, or `other` if no group matches."""
    return next((name for name, pattern in _PATTERNS.items() if pattern.fullmatch(symbol)), "other")


def parse_report(text: str) -> Iterator[Sample]:
    """Yield the rows of a `perf report` with the fields period, sample, cpu, pid and sym."""
    for row in _ROW.finditer(text):
        tid, group = int(row["tid"]), _NOT_KERNEL.get(row["kind"])
        symbol = None if group else _SUFFIX.sub("", row["symbol"])
        if symbol is not None:
            idle = tid == 0 and _IDLE.search(symbol)
            group = None if idle else group_of(symbol)
        period, samples, cpu = (int(row[name]) for name in ("period", "samples", "cpu"))
        yield Sample(period, samples, cpu, tid, symbol, group)


def shares(rows: Sequence[Sample], roles: tuple[str, ...] = ()) -> Shares:
    """Return the totals of some rows, without idle samples."""
    groups: Counter[str] = Counter()
    symbols: Counter[str] = Counter()
    working = [row for row in rows if row.group is not None]
    for row in working:
        groups[row.group or ""] += row.period
        if row.symbol is not None:
            symbols[row.symbol] += row.period
    whole = groups.total() or 1
    return Shares(
        **({"roles": roles} if roles else {}),
        samples=sum(row.samples for row in working),
        groups={name: period / whole for name, period in groups.most_common()},
        symbols={
            name: period / whole
            for name, period in symbols.most_common(_MOST)
            if period >= _LEAST * whole
        },
    )


@cache
def probe(host: Host) -> Version:
    """Return the version of perf, with the sampled event as the mode. Raise Unavailable if perf may
    not sample whole CPUs, or if the kernel hides the names of its functions."""
    try:
        version = host.run(("perf", "--version"))
        counting = probe_counters(host)
        event = "cycles" if counting.by_cpu and "cycles" in counting.events else _CLOCK
        argv = (*_RECORD, "-e", event, "-F", "99", "-a", "-o", "/dev/null", "--", "true")
        completed, first = host.run(argv), host.run(("head", "-c", "16", "/proc/kallsyms"))
    except Unavailable as missing:
        raise Unavailable(
            "perf is not installed: there is no profile without it", hint=MENDED_BY
        ) from missing
    if completed.status:
        raise Unavailable(
            f"perf may not sample the CPUs of this host: {last_lines(completed.stderr, 1).strip()}",
            hint="run it with sudo, or sysctl kernel.perf_event_paranoid=-1",
        )
    if not first.stdout.strip(b"0 "):
        raise Unavailable(
            "the kernel hides the names of its functions from this user",
            hint="run it with sudo, or sysctl kernel.kptr_restrict=0",
        )
    return Version(version.stdout.decode(errors="replace").rpartition(" ")[2].strip(), event)


@cache
def sample_ns(host: Host, program: str, event: str, cpu: int) -> float | None:
    """Return the time that one sample takes of its CPU: the gaps of a busy loop with sampling,
    minus those without, per sample. `program` is the traffic program. This takes 0.15 s."""
    calm = probe_jitter(host, program, [cpu], _TRIED_MS)
    sampled = (*_RECORD, "-e", event, "-F", str(_TRIED_HZ), "-C", str(cpu), "-o", "/dev/null", "--")
    torn = probe_jitter(host, program, [cpu], _TRIED_MS, before=sampled)
    if not calm or not torn:
        return None
    before, after = calm[str(cpu)], torn[str(cpu)]
    rates = [_gaps_ns(profile) / ((1 - (profile.lost or 0.0)) or 1) for profile in (before, after)]
    return max(rates[1] - rates[0], 0.0) / (_TRIED_HZ * _TRIED_MS / 1e3)


def _gaps_ns(jitter: Jitter) -> float:
    """Return the total time in gaps of an interrupt's length. The average length in a class is 1.5
    times its minimum."""
    return sum(1.5 * least * count for least, count in jitter.gaps if least in _GAPS_NS)


class Profiler:
    """Samples the CPUs of a test while a window is open. Without `hz` it does nothing.

    If it fails, the profile gives the reason and the trial stays valid. The profiler ends when the
    executor unwinds.
    """

    def __init__(
        self,
        host: Host,
        executor: Executor,
        folder: str,
        cpus: Collection[int],
        hz: int | None,
        program: str,
    ) -> None:
        self._host, self._executor, self._cpus, self._hz = host, executor, cpus, hz
        self._file, self._program = f"{folder}/{_NAME}", program
        self._event = _CLOCK
        self._sample_ns: float | None = None
        self._missing: str | None = None
        if hz is not None:
            self._try(lambda: self._start(hz))

    def ready(self) -> None:
        """Wait until perf has started."""
        self._command("ping")

    def begin(self) -> None:
        """Start sampling."""
        self._command("enable")

    def end(self) -> None:
        """Stop sampling."""
        self._command("disable")

    def result(
        self, places: Mapping[int, str], roles: Mapping[str, Sequence[str]]
    ) -> dict[str, Profile]:
        """End perf, and return the profile as a field of the trial's cost, split by place through
        `places` (thread to place), with the roles of every place. Empty without `hz`."""
        if self._hz is None:
            return {}
        self._command("stop")
        text: list[str] = []
        self._try(lambda: text.append(self._report()))
        head = {"event": self._event, "hz": self._hz}
        if self._missing is not None:
            return {"profile": Profile(missing=self._missing, **head)}
        rows = list(parse_report(text[0]))
        lost = _LOST.search(text[0])
        working = sum(row.period for row in rows if row.group is not None)
        of_part = {
            place: shares(
                [row for row in rows if places.get(row.tid) == place], tuple(roles[place])
            )
            for place in dict.fromkeys(places.values())
        }
        profile = Profile(
            **head,
            lost=int(lost[1]) if lost else 0,
            sample_ns=self._sample_ns,
            busy=working / (sum(row.period for row in rows) or 1)
            if self._event == _CLOCK
            else None,
            whole=shares(rows),
            cpus={str(cpu): shares([row for row in rows if row.cpu == cpu]) for cpu in self._cpus},
            parts=of_part,
        )
        return {"profile": profile}

    def _start(self, hz: int) -> None:
        self._event = probe(self._host).mode or _CLOCK
        self._sample_ns = sample_ns(self._host, self._program, self._event, min(self._cpus))
        paused = ("-D", "-1", "--control", "fd:0,1")
        target = ("-e", self._event, "-F", str(hz), "-C", format_cpus(self._cpus))
        argv = (*_RECORD, *paused, "-o", self._file, *target)
        self._executor.execute((Spawn("samples of CPUs", _NAME, argv, stop=(SIGINT, _ANSWER_S)),))

    def _command(self, word: str) -> None:
        if self._hz is not None:
            self._try(lambda: control(self._executor.process(_NAME), word))

    def _report(self) -> str:
        # A signal may end perf before it has written all samples (perf 6.1).
        deadline = clock.monotonic() + _ANSWER_S
        while self._executor.process(_NAME).poll() is None:
            if clock.monotonic() > deadline:
                raise TrialFailed("perf record does not end")
            clock.sleep(0.01)
        argv = ("perf", "report", "-i", self._file, "--stdio", "-t", ";", "-F", _FIELDS)
        completed = self._host.run(argv, env={"DEBUGINFOD_URLS": ""}, timeout_s=_REPORT_S)
        self._host.run(("rm", "-f", self._file))
        if completed.status or b"# Samples:" not in completed.stdout:
            raise TrialFailed(f"perf report: {last_lines(completed.stderr, 1).strip()}")
        return completed.stdout.decode(errors="replace")

    def _try(self, action: Callable[[], None]) -> None:
        if self._missing is None:
            try:
                action()
            except (SwitchmarkError, OSError) as error:
                self._missing = f"perf failed: {str(error).partition(chr(10))[0]}"

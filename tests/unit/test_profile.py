"""These tests check what samples of CPUs tell: perf's report, groups of functions, and what taking
them weighed."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pytest

from switchmark import clock
from switchmark.errors import Unavailable
from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost, RecordingProcess
from switchmark.lab.profile import (
    GROUPS,
    Profiler,
    Sample,
    group_of,
    parse_report,
    probe,
    sample_ns,
    shares,
)
from switchmark.metrics.named import METRICS, metric
from switchmark.metrics.profile import weighs
from switchmark.model.cost import InterruptCost, PerfCost, Profile, Shares, TrialCost
from switchmark.model.plan import Plan, Spawn
from switchmark.model.record import Record, TrialResult
from switchmark.observe.perf import MENDED_BY
from switchmark.report.json import to_object

STORED = Path(__file__).parent / "data" / "records-schema-1.jsonl"
RECORD = Record.model_validate(json.loads(STORED.read_text().splitlines()[0])["record"])

# Output of perf 6.1, apart from the last rows.
REPORT = """\
# To display the perf.data header info, please use --header/--header-only options.
#
# Total Lost Samples: 3
#
# Samples: 2K of event 'cpu-clock'
#
#       Period;     Samples;CPU;    Pid:Command        ;Symbol          \n\
 358358358  ; 358        ;001;   4146:python         ;[.] _PyEval_EvalFrameDefault        \n\
 101101101  ; 101        ;000;   5077:ovs-vswitchd-dp;[k] _copy_to_iter
 79079079   ; 79         ;000;   5135:switchmark-traf;[k] do_sched_yield
 49049049   ; 49         ;001;   5131:pmd-c01/id:8   ;[.] __vdso_clock_gettime
 47047047   ; 47         ;001;   4146:python         ;[.] 0x00000000000fee7a
 20020020   ; 20         ;001;   5135:CPU 0/KVM      ;[g] 0xffffffff81000000
 10010010   ; 10         ;000;      0:swapper        ;[k] finish_task_switch.isra.0
 500000000  ; 500        ;000;      0:swapper        ;[k] pv_native_safe_halt
"""


def test_a_report_is_read_row_by_row() -> None:
    rows = list(parse_report(REPORT))
    assert [(row.tid, row.cpu, row.samples, row.symbol, row.group) for row in rows] == [
        (4146, 1, 358, None, "user"),
        (5077, 0, 101, "_copy_to_iter", "user_copy"),
        (5135, 0, 79, "do_sched_yield", "context_switch"),
        (5131, 1, 49, None, "user"),
        (4146, 1, 47, None, "user"),
        (5135, 1, 20, None, "guest"),
        (0, 0, 10, "finish_task_switch", "context_switch"),
        (0, 0, 500, "pv_native_safe_halt", None),
    ]
    assert list(parse_report("")) == []


@pytest.mark.parametrize(
    ("kind", "group", "symbol"),
    [
        (".", "user", None),
        ("g", "guest", None),
        ("u", "guest", None),
        ("k", "network", "ip_rcv"),
        ("H", "network", "ip_rcv"),
    ],
)
def test_code_that_is_not_the_kernels_is_of_a_user_or_a_guest(
    kind: str, group: str, symbol: str | None
) -> None:
    row = f" 20 ; 2 ;001; 5135:CPU 0/KVM ;[{kind}] ip_rcv.isra.0 \n"
    assert list(parse_report(row)) == [Sample(20, 2, 1, 5135, symbol, group)]


def test_shares_are_of_the_time_at_work() -> None:
    totals = shares(list(parse_report(REPORT)))
    assert totals.samples == 664
    assert sum(totals.groups.values()) == pytest.approx(1)
    assert next(iter(totals.groups)) == "user"
    assert totals.groups["user_copy"] == pytest.approx(101 / 664)
    assert list(totals.symbols) == ["_copy_to_iter", "do_sched_yield", "finish_task_switch"]
    assert shares([]).groups == {}


def test_the_functions_of_a_profile_are_the_forty_that_took_most() -> None:
    rows = [Sample(100 + number, 1, 0, 7, f"f{number}", "other") for number in range(50)]
    rare = Sample(6, 1, 0, 7, "rare", "other")
    found = shares([*rows, rare], ("switch",))
    assert list(found.symbols) == [f"f{number}" for number in range(49, 9, -1)]
    assert (found.samples, found.roles) == (51, ("switch",))
    for period, told in ((9_990, True), (9_991, False)):  # a thousandth, and less
        least = Sample(10, 1, 0, 7, "least", "other")
        found = shares([Sample(period, 1, 0, 7, "most", "other"), least])
        assert ("least" in found.symbols) is told


NAMED = {
    "context_switch": "schedule context_switch pick_next_entity enqueue_task put_prev_task"
    " update_curr do_sched_yield __wake_up wakeup_preempt_idle restore_fpregs_from_user",
    "virtual_queues": "virtio_poll ptr_ring_consume handle_rx_net",
    "sending": "dev_hard_start_xmit sch_direct_xmit __qdisc_run pfifo_fast_dequeue dql_completed"
    " do_output tcp_v4_xmit_skb e1000_tx_map ixgbe_xmit_frame",
    "user_copy": "copy_from_user copy_mc_fragile copyin rep_movs_alternative raw_copy_to_user"
    " skb_copy_datagram_from_iter simple_copy_to_iter",
    "locks": "_raw_spin_unlock queued_read_lock_slowpath __mutex_lock rwsem_wake up_write osq_lock",
    "buffers": "kmem_cache_alloc build_skb __alloc_skb skb_put __consume_skb_many sock_wfree"
    " page_frag_alloc napi_consume_skb __alloc_pages get_page_from_freelist",
    "softirq": "run_ksoftirqd net_rx_action __napi_poll process_backlog netif_rx"
    " enqueue_to_backlog __local_bh_enable_ip irq_exit_rcu",
    "system_calls": "entry_SYSCALL_64 syscall_trace_enter __x64_sys_recvmsg __sys_sendto el0_svc"
    " exit_to_user_mode_loop",
    "network": "dev_gro_receive xdp_do_flush alloc_netdev_mqs sendmsg_copy_msghdr recvmsg_copy",
    "other": "schedule2 xhandle_tx ring_buffer_lock_x",
}
"""Functions of each group, which its pattern names first, last and in between."""


@pytest.mark.parametrize(
    ("symbol", "group"),
    [
        ("__switch_to", "context_switch"),
        ("__schedule", "context_switch"),
        ("vhost_get_vq_desc", "virtual_queues"),
        ("virtqueue_add_split", "virtual_queues"),
        ("veth_xmit", "virtual_queues"),
        ("tun_do_read", "virtual_queues"),
        ("rep_movs_alternative", "user_copy"),
        ("copy_user_enhanced_fast_string", "user_copy"),
        ("__skb_datagram_iter", "network"),
        ("_raw_spin_lock_irqsave", "locks"),
        ("native_queued_spin_lock_slowpath", "locks"),
        ("__alloc_skb", "buffers"),
        ("__do_softirq", "softirq"),
        ("do_syscall_64", "system_calls"),
        ("__dev_queue_xmit", "sending"),
        ("ixgbe_xmit_frame_ring", "sending"),
        ("ovs_vport_send", "sending"),
        ("ip_rcv", "network"),
        ("clear_page_erms", "other"),
        *((name, group) for group, names in NAMED.items() for name in names.split()),
    ],
)
def test_a_function_is_of_one_group(symbol: str, group: str) -> None:
    assert group_of(symbol) == group


def test_every_group_has_a_metric() -> None:
    assert {f"profile.{group}" for group in (*GROUPS, "user", "guest", "kernel")} <= set(METRICS)


# --- what this host lets perf do --------------------------------------------------------------

PERF: dict[tuple[str, ...], Completed] = {
    ("perf", "--version"): Completed(0, b"perf version 6.1.187\n", b""),
    ("perf", "stat"): Completed(0, b"", b"<not supported>;;cycles;0;100.00;;\n"),
    ("perf", "record"): Completed(0, b"", b""),
    ("head",): Completed(0, b"ffffffff81000000", b""),
}
COUNTED: dict[tuple[str, ...], Completed] = {
    ("perf", "stat"): Completed(0, b"", b"1000;;cycles;1;100.00;;\n")
}


def test_the_clock_is_sampled_where_there_are_no_counters() -> None:
    assert (probe(RecordingHost(PERF)).text, probe(RecordingHost(PERF)).mode) == (
        "6.1.187",
        "cpu-clock",
    )
    assert probe(RecordingHost(PERF | COUNTED)).mode == "cycles"


@pytest.mark.parametrize(
    ("answers", "message", "hint"),
    [
        (
            {("perf", "record"): Completed(255, b"", b"Error:\nAccess to it is limited.\n")},
            "Access to it is limited",
            "perf_event_paranoid=-1",
        ),
        ({("head",): Completed(0, b"0000000000000000", b"")}, "hides the names", "kptr_restrict=0"),
    ],
)
def test_what_perf_may_not_do_is_told(
    answers: dict[tuple[str, ...], Completed], message: str, hint: str
) -> None:
    with pytest.raises(Unavailable, match=message) as refused:
        probe(RecordingHost(PERF | answers))
    assert hint in (refused.value.hint or "")


def test_there_is_no_profile_without_perf() -> None:
    class Bare(RecordingHost):
        def run(self, argv: tuple[str, ...], **options: Any) -> Completed:
            if argv[0] == "perf":
                raise Unavailable("there is no perf")
            return super().run(argv, **options)

    with pytest.raises(Unavailable) as refused:
        probe(Bare())
    assert refused.value.message == "perf is not installed: there is no profile without it"
    assert refused.value.hint == MENDED_BY


def test_perf_is_asked_how_it_may_sample() -> None:
    for answers, event in ((PERF, "cpu-clock"), (PERF | COUNTED, "cycles")):
        host = RecordingHost(answers)
        probe(host)
        words = f"-e {event} -F 99 -a -o /dev/null -- true"
        tried = f"perf record -q --no-buildid --no-buildid-cache {words}"
        ran = [" ".join(argv) for argv in host.ran]
        assert ran[0] == "perf --version"
        assert ran[-2:] == [tried, "head -c 16 /proc/kallsyms"]


def test_a_sample_takes_what_it_adds_to_the_gaps_of_a_busy_loop() -> None:
    def jitter(*gaps: list[int], lost_ns: int) -> Completed:
        cpu = {"cpu": 1, "lost_ns": lost_ns, "elapsed_ns": 10**8, "max_ns": 1, "histogram": gaps}
        return Completed(0, json.dumps({"cpus": [cpu]}).encode(), b"")

    host = RecordingHost(
        {
            ("traffic", "jitter"): jitter([2000, 10], [1_024_000, 5], lost_ns=0),
            ("perf", "record"): jitter([2000, 10], [16_000, 100], lost_ns=0),
        }
    )
    assert sample_ns(host, "traffic", "cpu-clock", 1) == pytest.approx(1.5 * 16_000)
    for program in host.answers:  # the traffic program fails, with samples or without
        failing = RecordingHost({**host.answers, program: Completed(1, b"", b"no such CPU")})
        assert sample_ns(failing, "traffic", "cpu-clock", 1) is None


# --- while a trial runs -----------------------------------------------------------------------


class Profiled:
    """An executor whose perf answers, and writes samples; it ends when it is to stop."""

    def __init__(self, answers: Sequence[str] = ("ack",) * 5) -> None:
        self.plans: list[Plan] = []
        self.perf = RecordingProcess(7, (), list(answers), last_output="no events")
        self.perf.status = 0

    def execute(self, plan: Plan) -> None:
        self.plans.append(plan)

    def process(self, name: str) -> RecordingProcess:
        assert name == "perf-profile"
        return self.perf


def profiler(
    executor: Profiled,
    report: Completed,
    monkeypatch: pytest.MonkeyPatch,
    answers: Mapping[tuple[str, ...], Completed] = MappingProxyType({}),
) -> tuple[Profiler, RecordingHost]:
    host = RecordingHost({**PERF, **answers, ("perf", "report"): report})
    tried: list[object] = []

    def sample(*asked: object) -> float:
        tried.append(asked)
        return 1500.0

    monkeypatch.setattr("switchmark.lab.profile.sample_ns", sample)
    made = Profiler(host, cast(Any, executor), "/run/x", (1, 0), 99, "traffic")
    assert tried == [(host, "traffic", "cycles" if answers else "cpu-clock", 0)]
    return made, host


def test_cycles_are_sampled_where_they_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Profiled()
    report = Completed(0, REPORT.encode(), b"")
    made, _ = profiler(executor, report, monkeypatch, COUNTED)
    ((step,),) = executor.plans
    assert isinstance(step, Spawn)
    assert step.argv[step.argv.index("-e") + 1] == "cycles"
    profile = made.result({}, {})["profile"]
    assert (profile.event, profile.busy) == ("cycles", None)


def test_the_cpus_of_a_test_are_sampled_while_a_window_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executor = Profiled()
    made, host = profiler(executor, Completed(0, REPORT.encode(), b""), monkeypatch)
    ((step,),) = executor.plans
    assert step == Spawn(
        "samples of CPUs",
        "perf-profile",
        tuple(
            "perf record -q --no-buildid --no-buildid-cache -D -1 --control fd:0,1"
            " -o /run/x/perf-profile -e cpu-clock -F 99 -C 0-1".split()
        ),
        stop=(signal.SIGINT, 10.0),
    )
    made.ready()
    made.begin()
    made.end()
    places = {4146: "f0", 5077: "switch", 4: "f1"}
    roles = {"f0": ["sender"], "switch": ["switch"], "f1": ["receiver"]}
    profile = made.result(places, roles)["profile"]
    assert executor.perf.sent == ["ping", "enable", "disable", "stop"]
    file = "/run/x/perf-profile"
    assert [argv for argv in host.ran if argv[:2] == ("perf", "report")] == [
        tuple(f"perf report -i {file} --stdio -t ; -F period,sample,cpu,pid,sym".split())
    ]
    assert host.ran[-1] == ("rm", "-f", file)
    assert (profile.event, profile.hz, profile.lost) == ("cpu-clock", 99, 3)
    assert (profile.sample_ns, profile.missing) == (1500.0, None)
    rows = list(parse_report(REPORT))
    assert profile.whole == shares(rows)
    assert profile.busy == pytest.approx(664664664 / 1164664664)
    assert list(profile.cpus) == ["1", "0"]
    assert profile.cpus["1"] == shares([row for row in rows if row.cpu == 1])
    assert profile.parts == {
        "f0": shares([row for row in rows if row.tid == 4146], ("sender",)),
        "switch": shares([row for row in rows if row.tid == 5077], ("switch",)),
        "f1": shares([], ("receiver",)),
    }


@pytest.mark.parametrize(
    ("answers", "report", "why"),
    [
        (
            ("ack",) * 5,
            Completed(1, b"# Samples: 3", b"first\ncannot read it\n"),
            "perf failed: perf report: cannot read it",
        ),
        (("ack",) * 5, Completed(0, b"", b"no rows\n"), "perf failed: perf report: no rows"),
        (
            ("ack", "nack"),
            Completed(0, REPORT.encode(), b""),
            "perf failed: perf did not answer to 'enable': no events",
        ),
    ],
)
def test_a_profiler_that_fails_says_why_and_asks_nothing_more(
    answers: Sequence[str], report: Completed, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = Profiled(answers)
    made, _ = profiler(executor, report, monkeypatch)
    made.ready()
    made.begin()
    made.end()
    profile = made.result({}, {})["profile"]
    assert (profile.missing, profile.event, profile.hz) == (why, "cpu-clock", 99)
    assert executor.perf.sent == ["ping", "enable", "disable", "stop"][: len(answers)]


@pytest.mark.parametrize("ends", [True, False])
def test_perf_has_ten_seconds_to_write_its_samples(
    ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    now = [0.0]

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += 2.5
        if ends and len(pauses) == 3:
            executor.perf.status = 0

    monkeypatch.setattr(clock, "sleep", sleep)
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    executor = Profiled()
    made, host = profiler(executor, Completed(0, REPORT.encode() + b"\xff", b""), monkeypatch)
    executor.perf.status = None
    for step in (made.ready, made.begin, made.end):
        step()
    profile = made.result({}, {})["profile"]
    assert pauses == [0.01] * (3 if ends else 5)
    assert profile.missing == (None if ends else "perf failed: perf record does not end")
    assert (("rm", "-f", "/run/x/perf-profile") in host.ran) is ends


def test_a_profiler_that_nobody_asked_for_does_nothing() -> None:
    executor, host = Profiled(), RecordingHost()
    made = Profiler(host, cast(Any, executor), "/run/x", (1,), None, "traffic")
    made.ready()
    made.begin()
    made.end()
    assert made.result({}, {}) == {}
    assert (executor.plans, executor.perf.sent, host.ran) == ([], [], [])


# --- of a test --------------------------------------------------------------------------------


def profiled(**changes: Any) -> TrialResult:
    expected = {
        "event": "cpu-clock",
        "hz": 99,
        "sample_ns": 2000.0,
        "whole": Shares(samples=100, groups={"user": 0.75, "locks": 0.25}, symbols={"a": 0.2}),
        "cpus": {"0": Shares(samples=100, groups={"user": 1.0}, symbols={})},
        "parts": {"f0": Shares(roles=("sender",), samples=50, groups={"user": 1.0}, symbols={})},
    }
    profile = Profile(**{**expected, **changes})
    cost = TrialCost(
        elapsed_ns=1,
        softirq=InterruptCost(cpus={}),
        perf=PerfCost(user_only=False, parts={}),
        profile=profile,
    )
    return RECORD.trials[0].model_copy(update={"cost": cost})


def test_a_test_has_the_shares_of_its_trials_by_their_samples() -> None:
    other = Shares(
        samples=300, groups={"user": 0.25, "buffers": 0.75}, symbols={"a": 0.4, "b": 0.1}
    )
    record = RECORD.model_copy(update={"trials": (profiled(), profiled(whole=other, lost=2))})
    content = to_object(record)["cost"]["profile"]
    assert content["lost"] == 2
    assert content["whole"]["samples"] == 400
    assert content["whole"]["groups"] == {"buffers": 0.5625, "user": 0.375, "locks": 0.0625}
    assert content["parts"]["sender"] == {
        "roles": ["sender"],
        "samples": 100,
        "groups": {"user": 1},
        "symbols": {},
    }
    assert metric("profile.kernel").of(record) == pytest.approx(0.625)
    assert metric("profile.locks").samples(record) == [0.25, 0.0]
    assert metric("profile.symbol.a").of(record) == pytest.approx(0.35)
    assert metric("profile.symbol.absent").of(record) == 0.0


def test_what_virtual_machines_ran_is_no_share_of_the_kernel() -> None:
    groups = {"user": 0.5, "guest": 0.2, "locks": 0.3}
    trial = profiled(whole=Shares(samples=10, groups=groups, symbols={}))
    record = RECORD.model_copy(update={"trials": (trial,)})
    assert metric("profile.kernel").of(record) == pytest.approx(0.3)
    assert metric("profile.guest").of(record) == pytest.approx(0.2)


def test_all_of_a_profile_may_be_of_the_kernel() -> None:
    trial = profiled(whole=Shares(samples=10, groups={"locks": 1.0}, symbols={}))
    record = RECORD.model_copy(update={"trials": (trial,)})
    assert metric("profile.kernel").of(record) == 1.0
    assert metric("profile.guest").of(record) == 0.0


def test_a_profile_that_failed_says_why_and_tells_no_share() -> None:
    failed = profiled(missing="perf failed: gone", whole=None, cpus={}, parts={})
    record = RECORD.model_copy(update={"trials": (failed,)})
    assert to_object(record)["cost"]["profile"]["missing"] == "perf failed: gone"
    assert metric("profile.kernel").of(record) is None
    assert weighs(failed) is None


def test_sampling_is_doubted_where_it_weighs() -> None:
    assert weighs(profiled()) is None
    assert weighs(profiled(hz=999, sample_ns=35_000.0)) == {"share": 0.035, "lost": 0}
    assert weighs(profiled(lost=50)) == {"share": 0.0002, "lost": 50}
    assert weighs(RECORD.trials[0]) is None

"""These tests check what samples of CPUs tell: perf's report, groups of functions, and what taking
them weighed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from switchmark.errors import Unavailable
from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.lab.profile import GROUPS, group_of, parse_report, probe, sample_ns, shares
from switchmark.metrics.named import METRICS, metric
from switchmark.metrics.profile import weighs
from switchmark.model.cost import InterruptCost, PerfCost, Profile, Shares, TrialCost
from switchmark.model.record import Record, TrialResult
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


def test_shares_are_of_the_time_at_work() -> None:
    totals = shares(list(parse_report(REPORT)))
    assert totals.samples == 664
    assert sum(totals.groups.values()) == pytest.approx(1)
    assert next(iter(totals.groups)) == "user"
    assert totals.groups["user_copy"] == pytest.approx(101 / 664)
    assert list(totals.symbols) == ["_copy_to_iter", "do_sched_yield", "finish_task_switch"]
    assert shares([]).groups == {}


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


def test_the_clock_is_sampled_where_there_are_no_counters() -> None:
    assert (probe(RecordingHost(PERF)).text, probe(RecordingHost(PERF)).mode) == (
        "6.1.187",
        "cpu-clock",
    )
    counted: dict[tuple[str, ...], Completed] = {
        ("perf", "stat"): Completed(0, b"", b"1000;;cycles;1;100.00;;\n")
    }
    assert probe(RecordingHost(PERF | counted)).mode == "cycles"


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

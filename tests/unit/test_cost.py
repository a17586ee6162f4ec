"""These tests check what a frame costs: perf's output, the kernel's interrupts, and where two
counters disagree."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.metrics.cpu import cost
from switchmark.metrics.named import metric
from switchmark.model.cost import SchedulerFigures
from switchmark.model.record import PartReport, Record, TrialResult
from switchmark.observe.perf import EVENTS, CountableEvents, parse_counts, probe
from switchmark.observe.softirq import SoftirqTimes, within_threads
from switchmark.report.notes import footnotes
from switchmark.report.sections import sections

STORED = Path(__file__).parent / "data" / "records-schema-1.jsonl"
RECORD = Record.model_validate(json.loads(STORED.read_text().splitlines()[0])["record"])

# --- perf ------------------------------------------------------------------------------------

# As perf 6.1 printed them on a virtual machine without hardware counters.
UNSUPPORTED = b"".join(b"<not supported>;;%s;0;100.00;;\n" % e.encode() for e in EVENTS)
OF_THREADS = """\
# started on Sat Nov 21 10:58:09 2026

switchmark-traf-30513;<not counted>;;context-switches;0;100.00;;
switchmark-traf-30517;372;;context-switches;92110000;100.00;4.039;K/sec
switchmark-traf-30513;<not counted>;msec;task-clock;0;100.00;;
switchmark-traf-30517;92.11;msec;task-clock;92110000;100.00;0.263;CPUs utilized
switchmark-traf-30517;<not supported>;;cycles;0;100.00;;
"""
OF_CPUS = """\
CPU0;712;;context-switches;200254761;100.00;3.555;K/sec
CPU1;72;;context-switches;200254580;100.00;359.545;/sec
CPU0;200.25;msec;cpu-clock;200253069;100.00;0.979;CPUs utilized
CPU1;200.26;msec;cpu-clock;200253549;100.00;0.979;CPUs utilized
CPU0;<not supported>;;cycles;0;100.00;;
"""
# The form that perf's manual gives for hybrid processors, and for users without privileges.
HYBRID = "CPU3;100;;cpu_core/cycles/;1;100.00;;\nCPU3;20;;cpu_atom/cycles/;1;100.00;;\n"
USER_ONLY = b"".join(b"1000;;%s:u;575849;100.00;;\n" % event.encode() for event in EVENTS[:2])


def test_counts_are_told_by_thread_and_by_cpu() -> None:
    assert parse_counts(OF_THREADS) == {
        30513: {"context-switches": 0, "task-clock": 0},
        30517: {"context-switches": 372, "task-clock": 92_110_000},
    }
    assert parse_counts(OF_CPUS) == {
        0: {"context-switches": 712, "cpu-clock": 200_250_000},
        1: {"context-switches": 72, "cpu-clock": 200_260_000},
    }
    assert parse_counts(HYBRID) == {3: {"cycles": 120}}
    assert parse_counts("") == {}


def test_perf_is_not_asked_where_the_kernel_has_no_source_of_such_events() -> None:
    sources = "/sys/bus/event_source/devices"
    answers: dict[tuple[str, ...], bytes | Completed] = {
        ("perf",): Completed(0, b"", b"9;;instructions;1;100.00;1.2;x\n")
    }
    none = {f"{sources}/{name}": b"" for name in ("msr", "software", "tracepoint")}
    without = RecordingHost(answers, files=none)
    assert probe(without).missing == "no hardware counters on this host"
    assert not without.ran
    other = RecordingHost(answers, files={**none, f"{sources}/armv8_pmuv3_0": b""})
    assert probe(other).events == ("instructions",)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({("perf",): Completed(0, b"", UNSUPPORTED)}, ((), False, False, "no hardware counters")),
        (
            {
                ("perf",): Completed(0, b"", USER_ONLY),
                (*("perf", "stat", "-x", ";", "-e", ",".join(EVENTS)), "-a"): Completed(
                    255, b"", b"Error:\n"
                ),
            },
            (EVENTS[:2], False, True, ""),
        ),
        (  # as perf 6.1 says to a user without privileges
            {
                ("perf",): Completed(
                    255, b"", b"Error:\nAccess to performance monitoring is limited.\n"
                )
            },
            ((), False, False, "perf cannot count: Access to performance"),
        ),
        (
            {("perf",): Completed(0, b"", UNSUPPORTED + b"9;;instructions;1;100.00;1.2;x\n")},
            (("instructions",), True, False, ""),
        ),
    ],
)
def test_what_can_be_counted_is_tried(
    answers: dict[tuple[str, ...], Completed], expected: tuple[Any, ...]
) -> None:
    events, by_cpu, user_only, why = expected
    found = probe(RecordingHost(answers))
    assert (found.events, found.by_cpu, found.user_only) == (events, by_cpu, user_only)
    assert (found.missing or "").startswith(why)
    assert (found.missing is None) == (not why)
    assert (found.hint is None) == ("Access" not in why)


# --- interrupts ------------------------------------------------------------------------------


def host(irq: int, softirq: int, daemon_ns: int, **files: bytes) -> RecordingHost:
    usual = {
        "/proc/stat": f"cpu 9 0 0 9 0 0 0 0\ncpu1 9 0 0 9 0 {irq} {softirq} 0 0 0\n",
        "/proc/22/comm": "ksoftirqd/1\n",
        "/proc/22/schedstat": f"{daemon_ns} 5 1\n",
        "/proc/sys/kernel/osrelease": "6.1.0\n",
    }
    return RecordingHost(files={path: text.encode() for path, text in usual.items()} | files)


def test_interrupts_are_counted_once() -> None:
    before, after = (
        SoftirqTimes.read(reader, (1,), reader) for reader in (host(1, 2, 0), host(2, 6, 10**7))
    )
    elapsed = after.at_s - before.at_s
    within, apart = (after.since(before, within=flag) for flag in (True, False))
    assert within.cpus["1"].softirq == pytest.approx(0.04 / elapsed)
    assert within.outside == pytest.approx(0.01 / elapsed)  # what ksoftirqd did
    assert apart.outside == pytest.approx(0.05 / elapsed)  # all of it
    assert after.since(before, within=None).outside is None
    assert before.since(before, within=None).outside == 0


def test_a_cpu_is_at_work_unless_it_is_idle_or_kept_by_the_hypervisor() -> None:
    def stat(*ticks: int) -> SoftirqTimes:
        line = f"cpu1 {' '.join(map(str, ticks))}\n".encode()
        machine = RecordingHost(files={"/proc/stat": line})
        return SoftirqTimes.read(machine, (1,), machine)

    before, after = stat(9, 0, 0, 9, 0, 0, 0, 0, 0, 0), stat(29, 10, 10, 49, 5, 3, 7, 5, 0, 0)
    assert after.loads_since(before) == {"1": pytest.approx(0.5)}
    assert before.loads_since(before) == {}


def test_a_kernel_says_whether_threads_pay_for_interrupts() -> None:
    cases: dict[str, dict[str, bytes]] = {
        "unknown": {},
        "apart": {"/boot/config-6.1.0": b"CONFIG_IRQ_TIME_ACCOUNTING=y\n"},
        "within": {"/proc/config.gz": gzip.compress(b"# CONFIG_IRQ_TIME_ACCOUNTING is not set\n")},
        "off": {"/proc/cmdline": b"quiet tsc=noirqtime", "/proc/pressure/irq": b""},
        "on": {"/proc/pressure/irq": b""},
        "cut off": {"/proc/config.gz": gzip.compress(b"CONFIG_IRQ_TIME_ACCOUNTING=y\n")[:-9]},
    }
    results = {name: within_threads(host(0, 0, 0, **files)) for name, files in cases.items()}
    expected = {"unknown": None, "apart": False, "within": True, "off": True, "on": False}
    assert results == {**expected, "cut off": None}


# --- of a frame ------------------------------------------------------------------------------


def measured(counters: dict[str, Any], trial_cost: dict[str, Any], cores: float) -> Record:
    """Return one trial of a second in which a million frames were sent, and half of them
    arrived."""
    parts = (
        PartReport(part="f0", roles=("sender",), cpu=0, cores=0.5),
        PartReport(part="switch", roles=("switch",), cpu=None, cores=cores),
    )
    trial = TrialResult.model_validate(
        {
            **RECORD.trials[0].model_dump(),
            "elapsed_ns": 10**9,
            "tx_frames": 10**6,
            "rx_frames": 500_000,
            "duplicated": 0,
            "parts": parts,
            "counters": counters,
            "cost": trial_cost,
        }
    )
    return RECORD.model_copy(update={"trials": (trial,), "doubts": (), "verdict": "switch"})


def counted(
    perf: dict[str, Any], *, outside: float | None = 0.25, missing: str | None = None
) -> dict[str, Any]:
    return {
        "elapsed_ns": 10**9,
        "softirq": {
            "cpus": {"0": {"irq": 0.0, "softirq": 0.3, "ksoftirqd": 0.25}},
            "within_threads": True,
            "outside": outside,
        },
        "scheduler": {
            "f0": {"roles": ["sender"], "context_switches": 7, "migrations": 1},
            "f2": {"roles": ["sender"], "context_switches": 1, "migrations": None},
        },
        "perf": {"missing": missing, "user_only": False, "parts": perf},
        "tsc_hz": 2 * 10**9,
    }


def test_counters_are_divided_by_the_frames_of_a_part() -> None:
    sender = {"cycles": 3 * 10**9, "ref_cycles": 10**9, "instructions": 6 * 10**9}
    perf = {
        "f0": {"by": "thread", "roles": ["sender"], **sender},
        "cpus": {"by": "cpu", "cpus": [0, 1], "roles": [], "cache_misses": 10**6},
    }
    found = cost(measured({}, counted(perf), 1.0))
    assert found is not None
    assert found.perf is not None
    of_sender, of_cpus = found.perf.parts["sender"], found.perf.parts["cpus"]
    assert (of_sender.cycles_per_frame, of_sender.instructions_per_frame) == (3000, 6000)
    assert (of_sender.instructions_per_cycle, of_sender.cycle_cores) == (2, 0.5)
    assert of_sender.cache_misses is of_sender.cache_misses_per_frame is None
    assert (of_cpus.cpus, of_cpus.cache_misses_per_frame) == ((0, 1), 2)
    assert found.scheduler == {"sender": SchedulerFigures(context_switches=8, migrations=None)}
    assert "cycles per frame: sender 3000" in footnotes([measured({}, counted(perf), 1.0)])[0]


def test_the_scheduler_and_the_cycles_of_all_cpus_stand_side_by_side() -> None:
    perf = {"cpus": {"by": "cpu", "cpus": [0, 1], "roles": [], "ref_cycles": 3 * 10**9}}
    counts = counted(perf) | {"load": {"0": 0.4, "1": 0.6}}
    record = measured({}, counts, 1.0)
    found = cost(record)
    assert found is not None
    assert (found.scheduler_load, found.cycles_load) == (0.5, 0.75)
    (apart,) = found.disagreements
    assert (apart.part, apart.scheduler_cores, apart.cycle_cores) == ("cpus", 1.0, 1.5)
    assert metric("cost.scheduler_load").of(record) == 0.5
    assert metric("cost.cycles_load").samples(record) == [0.75]
    half = cost(measured({}, counted(perf) | {"load": {"0": 0.4}}, 1.0))
    assert half is not None
    assert (half.scheduler_load, half.disagreements) == (0.4, ())
    old = cost(measured({}, counted(perf), 1.0))
    assert old is not None
    assert (old.scheduler_load, old.disagreements) == (None, ())


def test_the_kernels_share_is_in_the_cores_of_a_frame_once() -> None:
    found = cost(measured({}, counted({}), 1.0))
    assert found is not None
    assert found.mpps_per_core == pytest.approx(0.5 / (0.5 + 1.0 + 0.25))
    assert found.kernel_softirq is not None
    assert found.kernel_softirq.by_cpu == {"0": 0.3}
    unknown = cost(measured({}, counted({}, outside=None), 1.0))
    assert unknown is not None
    assert unknown.mpps_per_core is None
    before = cost(measured({}, {}, 1.0))  # a record of before it was read
    assert before is not None
    assert before.mpps_per_core == pytest.approx(0.5 / 1.5)


def test_what_is_missing_is_said() -> None:
    found = cost(measured({}, counted({}, missing="no hardware counters on this host"), 1.0))
    assert found is not None
    assert found.perf is not None
    assert found.perf.missing == "no hardware counters on this host"
    assert found.perf.parts == {}
    assert CountableEvents().missing is None


# Of ovs-dpdk 3.1, which got half of a CPU and forwarded 2000 frames/s for 1 s.
IDLE = {"switch": {"busy_cycles": 58_209_164, "idle_cycles": 2_681_915_132}}


def test_both_figures_are_shown_where_the_scheduler_and_the_cycles_disagree() -> None:
    polling = measured(IDLE, {}, 0.4962304617451541)
    found = cost(polling)
    assert found is not None
    (disagreement,) = found.disagreements
    assert disagreement.cycle_cores == found.switch_busy_cores == pytest.approx(0.0212432568)
    assert (disagreement.part, disagreement.scheduler_cores) == ("switch", found.switch_cores)
    cells = cores(polling)
    assert cells == {"cores sender": "0.50", "switch": "0.50 (0.02)"}
    note = "switch 0.50 cores by the scheduler, 0.02 by the cycle counter of the switch"
    assert any(line.endswith(note) for line in footnotes([polling]))


def test_cycles_of_the_processor_are_held_against_the_scheduler_too() -> None:
    perf = {"switch": {"by": "thread", "roles": ["switch"], "ref_cycles": 10**9}}
    halted = cost(measured({}, counted(perf), 1.0))
    assert halted is not None
    (disagreement,) = halted.disagreements
    assert (disagreement.cycle_cores, disagreement.counted_by) == (0.5, "perf")
    agreeing = cost(measured({}, counted(perf), 0.55))
    assert agreeing is not None
    assert agreeing.disagreements == ()


def test_interrupts_are_told_beside_the_cores() -> None:
    figures = measured({}, counted({}), 1.0)
    assert cores(figures) == {"cores sender": "0.50", "switch": "1.00", "softirq": "0.30"}
    assert "softirq time is included in the CPU use of the processes" in (footnotes([figures]))


def cores(record: Record) -> dict[str, str]:
    """Return the cells of a record from the sender's cores on, without the verdict."""
    columns = sections([record], wide=True)[0].columns
    names = [column.name for column in columns]
    return {
        column.name: column.cells[0]
        for column in columns[names.index("cores sender") :]
        if column.name != "verdict" and column.above != "seconds"
    }

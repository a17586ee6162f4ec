"""The verdict on a trial: the part that limited it, with the evidence (docs/guide/trust.md)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev
from typing import Literal

from switchmark.metrics.throughput import loss_ratio
from switchmark.model.cable import Calibration
from switchmark.model.evidence import Blamed, VerdictEvidence
from switchmark.model.place import PlaceKind
from switchmark.model.record import TrialResult, Verdict

_KEPT_UP = 0.001
"""The share of unsent or lost frames up to which a switch keeps up with the offered load."""

_MATTERS = 0.05
"""The share of lost frames above which losses decide the limit of a trial at full rate."""

_STOLEN = 0.05
_BELOW_DIRECT = 0.9
_FAR_BELOW, _AT_TIMES = 0.5, 0.02
"""If a sender was sometimes blocked and its rate is below that share of the baseline, the switch
limited it. A sender that yields its CPU while blocked polls rarely, so few polls find no room."""

_BUSY_POLLS = 0.05
"""The share of empty polls below which a receiver is busy all the time."""

_IDLE_POLLS = 0.5
_NEVER_WAITS = 0.2
"""The share of a trial that a busy receiver may spend without a frame."""

_BLOCKED = 0.2

_NOT_TAKEN_OUT = {PlaceKind.RING, PlaceKind.FROM_SWITCH}
_BEHIND_SWITCH = {(PlaceKind.OUT, True), (PlaceKind.IN, False)}
"""The sides of a port, with a flag for the switch's end, at which a frame has left the switch."""

_BY_SWITCH = {
    *(PlaceKind.OUT, PlaceKind.IN, PlaceKind.TO_SWITCH, PlaceKind.INSIDE_SWITCH),
    *(PlaceKind.STRAY, PlaceKind.CORRUPTED, PlaceKind.CABLE),
}

_SAMPLED_NS = 40_000_000
"""The least CPU time for which the kernel's share is known. Many kernels divide CPU time by samples
at clock ticks, and 40 ms has 10 ticks of 4 ms. In one case, all of 13 ms was reported as user time
although the program sent by system calls."""


def verdict(trials: Sequence[TrialResult]) -> Verdict:
    """Return the verdict of a test: the verdict of all its trials. `unknown` if they differ, unless
    all trials but those with verdict `offered-load` agree."""
    verdicts = {trial.verdict for trial in trials}
    named = verdicts - {"offered-load"} or verdicts
    return named.pop() if len(named) == 1 else "unknown"


def judge(
    trial: TrialResult,
    calibration: Calibration | None,
    *,
    dedicated_core: bool,
    cable: bool = False,
    together: bool = False,
) -> tuple[Verdict, VerdictEvidence]:
    """Return the verdict and its evidence.

    `calibration` is the baseline (see `lab.calibration`): the same traffic on a cable.
    `dedicated_core` says that the switch has cores to itself, so it takes no CPU time from the
    sender. `cable` says that there is no switch, as in the calibration. `together` says that sender
    and receiver take turns on one thread.
    """
    evidence = _evidence(trial, calibration)
    blamed, rule = _by_own_time(trial, evidence, calibration)
    if blamed is None:
        blamed, rule = _by_place(trial, evidence)
    if blamed is None:
        busy = _is_busy_receiver(trial, evidence, together)
        blamed, rule = _by_calibration(trial, evidence, calibration, dedicated_core, cable, busy)
    return blamed, evidence.model_copy(update={"rule": rule})


def rate_interval(trial: TrialResult) -> tuple[float, float, float]:
    """Return the low end, mean and high end of the received rate in frames per second: two standard
    errors of the steady intervals each way. With too few intervals, all three are the rate of the
    whole trial."""
    within = trial.intervals[: trial.elapsed_ns // trial.interval_ns][1:-1]
    if len(within) < 3:
        pps = trial.distinct * 1e9 / trial.elapsed_ns
        return pps, pps, pps
    scale = 1e9 / trial.interval_ns
    middle, error = mean(within) * scale, 2 * stdev(within) * scale / len(within) ** 0.5
    return middle - error, middle, middle + error


def own_ns(trial: TrialResult, role: str) -> tuple[float, float] | None:
    """Return the CPU time per frame of the senders or the receivers in nanoseconds: outside the
    kernel, and in total. None if it is unknown or too short for a reliable division."""
    parts = [part for part in trial.parts if role in part.roles]
    # Late frames do not count: a receiver that stopped after its first burst spent its time on
    # fewer frames.
    frames = trial.tx_frames if role == "sender" else max(trial.distinct - trial.late, 1)
    if not parts or not frames:
        return None
    user = [part.user_cores for part in parts if part.user_cores is not None]
    cores = [part.cores for part in parts if part.cores is not None]
    if len(user) < len(parts) or len(cores) < len(parts):
        return None
    if sum(cores) * trial.elapsed_ns < _SAMPLED_NS:
        return None
    return sum(user) * trial.elapsed_ns / frames, sum(cores) * trial.elapsed_ns / frames


def _evidence(trial: TrialResult, calibration: Calibration | None) -> VerdictEvidence:
    """Return the evidence of a verdict, without its rule."""
    offered = trial.tx_frames + trial.tx_unsent
    window = trial.evidence.window
    return VerdictEvidence(
        unsent_share=trial.tx_unsent / offered if offered else 0.0,
        lost_share=loss_ratio([trial]),
        lost_by=_frames_by_blamed(trial),
        sender_blocked=_share(trial, "sender", "blocked"),
        sender_ns=own_ns(trial, "sender"),
        receiver_ns=own_ns(trial, "receiver"),
        receiver_empty_polls=_share(trial, "receiver", "empty_polls"),
        receiver_idle=_idle(trial),
        switch_busy=trial.counters.busy(trial.elapsed_ns),
        stolen=None if window is None else window.stolen,
        rate_pps=rate_interval(trial),
        sent_pps=trial.tx_frames * 1e9 / trial.elapsed_ns,
        direct_pps=None if calibration is None else calibration.rate_pps,
        direct_sent_pps=None if calibration is None else calibration.sent_pps,
        **_beside_ends(calibration),
    )


def _beside_ends(calibration: Calibration | None) -> dict[str, tuple[float, float, float]]:
    """Return the rates of additional baselines, which only some tests have."""
    if calibration is None:
        return {}
    calibrated = {"functions_pps": calibration.functions, "apart_pps": calibration.apart}
    return {name: rate.rate_pps for name, rate in calibrated.items() if rate is not None}


def _share(trial: TrialResult, role: str, name: str) -> float | None:
    """Return the share of blocked or empty polls over all parts of a role."""
    polling = [part for part in trial.parts if role in part.roles and part.polls]
    polls = sum(part.polls for part in polling)
    return sum(getattr(part, name) for part in polling) / polls if polls else None


def _idle(trial: TrialResult) -> float | None:
    """Return the largest idle share of a receiver in the trial."""
    idle_shares = [part.idle for part in trial.parts if "receiver" in part.roles]
    return max((idle for idle in idle_shares if idle is not None), default=None)


def _frames_by_blamed(trial: TrialResult) -> dict[Blamed, int]:
    """Return the lost frames by the part at fault. A full queue at a port is the fault of the part
    that reads it, the receiver or a function."""
    functions = {part.part for part in trial.parts if {"forwarder", "function"} & {*part.roles}}
    frames_by: dict[Blamed, int] = {}
    for place, frames in trial.lost_at.items():
        blamed: Blamed
        if place.kind is PlaceKind.FUNCTION:
            blamed = "function"
        elif place.of_uplink:  # between the two instances of the switch
            blamed = "switch"
        elif place.kind in _NOT_TAKEN_OUT or (place.kind, place.at_switch) in _BEHIND_SWITCH:
            blamed = "function" if place.part in functions else "receiver"
        elif place.kind in _BY_SWITCH:
            blamed = "switch"
        else:
            continue
        frames_by[blamed] = frames_by.get(blamed, 0) + frames
    return frames_by


def _saturates(trial: TrialResult) -> bool:
    """Return whether the sender sent at full rate for the whole trial."""
    return trial.spec.rate_pps is None and trial.spec.frames is None


def _by_own_time(
    trial: TrialResult, evidence: VerdictEvidence, calibration: Calibration | None
) -> tuple[Verdict | None, str]:
    """Return the role in the traffic program that is the limit on any host, because its work per
    frame takes far longer than in the baseline. Also return the rule.

    The role must never wait, because polling an empty or a full ring takes CPU time without being
    the limit. The effect must also show: frames wait for the receiver, or no frames are lost behind
    the sender.
    """
    if calibration is None or not _saturates(trial):
        return None, ""
    expected = trial.tx_frames * trial.copies
    behind = evidence.lost_by.get("receiver", 0) + trial.late
    elsewhere = trial.lost - evidence.lost_by.get("receiver", 0)
    if "cores-shared" in trial.doubts:
        # A receiver that is always busy takes CPU time from a function on its core.
        elsewhere -= evidence.lost_by.get("function", 0)
    blocked, idle = evidence.sender_blocked, evidence.receiver_idle
    busy = {
        "sender": blocked is not None
        and blocked < _BLOCKED
        and trial.lost + trial.late <= _MATTERS * expected,
        "receiver": idle is not None
        and idle < _NEVER_WAITS
        and behind > _MATTERS * expected
        and behind > elsewhere,
    }
    roles: tuple[Literal["receiver", "sender"], ...] = ("receiver", "sender")
    spent = {
        "receiver": (evidence.receiver_ns, calibration.receiver_ns),
        "sender": (evidence.sender_ns, calibration.sender_ns),
    }
    for role in roles:
        mine, there = spent[role]
        if not (busy[role] and mine and there):
            continue
        # The kernel time of a sender includes the work of the switch; in the baseline, it is the
        # sender's alone. A baseline receiver may have waited, so its time is not subtracted.
        excess = mine[1] - (there[1] if role == "sender" else 0.0)
        if 2 * (mine[0] - there[0]) > excess > (1 - _BELOW_DIRECT) * mine[1]:
            return role, f"the {role}'s own work on a frame takes far longer than on direct"
    return None, ""


def _by_place(trial: TrialResult, evidence: VerdictEvidence) -> tuple[Verdict | None, str]:
    """Return the verdict that the trial shows without a calibration."""
    saturated = _saturates(trial)
    if not saturated and loss_ratio([trial], unsent=True) <= _KEPT_UP:
        return "offered-load", "what was offered was carried"
    if "host-busy" in trial.doubts:
        return "host", "something else ran on a core of the test"
    if (evidence.stolen or 0.0) > _STOLEN:
        return "host", f"the hypervisor kept more than {_STOLEN:.0%} of the CPU time"
    if evidence.lost_share > (_MATTERS if saturated else _KEPT_UP):
        for blamed, frames in evidence.lost_by.items():
            if 2 * frames < trial.lost:
                continue
            idle = (evidence.receiver_empty_polls or 0.0) > _IDLE_POLLS
            if blamed == "receiver" and idle and "cores-shared" in trial.doubts:
                return "host", "the receiver had time, but on a shared core not its turn"
            return blamed, "most of the lost frames were lost there"
    return None, ""


def _is_busy_receiver(trial: TrialResult, evidence: VerdictEvidence, together: bool) -> bool:
    """Return whether the receiver was busy all the time. A receiver that takes turns with the
    sender finds a burst at every poll even if it keeps up, so there only frames that waited longer
    count."""
    behind = evidence.lost_by.get("receiver", 0) + trial.late
    if together and behind <= _MATTERS * trial.tx_frames * trial.copies:
        return False
    empty = evidence.receiver_empty_polls
    return empty is not None and empty < _BUSY_POLLS


def _by_calibration(
    trial: TrialResult,
    evidence: VerdictEvidence,
    calibration: Calibration | None,
    dedicated_core: bool,
    cable: bool,
    busy_receiver: bool,
) -> tuple[Verdict, str]:
    if calibration is None:
        return "unknown", "no calibration on direct"
    if trial.spec.frames is not None:
        return "unknown", "a burst has no rate to hold against direct"
    nowhere = 2 * trial.unaccounted
    if nowhere > trial.tx_frames * trial.copies * _MATTERS and nowhere > trial.lost:
        return "unknown", "most of the lost frames are nowhere accounted for"
    end: Verdict = "receiver" if busy_receiver else "sender"
    blocked = (evidence.sender_blocked or 0.0) > _BLOCKED
    chained = any({"forwarder", "function"} & {*part.roles} for part in trial.parts)
    if cable:
        if chained and _below(trial, calibration.rate_pps):
            return "function", f"below {_BELOW_DIRECT} of the ends alone, and there is no switch"
        return end, "there is no switch on a cable"
    if dedicated_core and blocked:
        return "switch", "the sender found no room in the switch's port"
    if dedicated_core and not chained:
        if busy_receiver:
            return "receiver", "the receiver had no time left"
        at_times = (evidence.sender_blocked or 0.0) > _AT_TIMES
        if at_times and _below(trial, calibration.rate_pps, share=_FAR_BELOW):
            return "switch", f"no room at times, and below {_FAR_BELOW} of direct"
        return "sender", "the switch took all that the sender could send"
    if not _below(trial, calibration.rate_pps):
        if busy_receiver:
            return "receiver", "as fast as on direct, and the receiver had no time left"
        return "sender", "as fast as on direct"
    return _by_rest(trial, calibration, chained)


def _by_rest(trial: TrialResult, calibration: Calibration, chained: bool) -> tuple[Verdict, str]:
    """Return the part that makes a test slower than its sender and receiver: the switch or a
    function."""
    if chained:
        functions = calibration.functions
        if functions is None:
            return "unknown", "slower than its ends, and no cable joins its functions"
        if _below(trial, functions.rate_pps):
            return "switch", f"below {_BELOW_DIRECT} of the same functions on cables"
        return "function", "as fast as the functions on cables, which are slower than the ends"
    if trial.copies > 1 and "cores-shared" in trial.doubts:
        # Additional receivers use CPU time of the sender; the baseline has only one.
        apart = calibration.apart
        if apart is None or not _below(trial, apart.rate_pps, trial.copies):
            return "unknown", "slower than the ends of one copy, not than a sender for each"
        return "switch", f"below {_BELOW_DIRECT} of a sender and a cable for each copy"
    return "switch", f"below {_BELOW_DIRECT} of direct, with intervals apart"


def _below(
    trial: TrialResult,
    on_cables: tuple[float, float, float],
    cables: int = 1,
    share: float = _BELOW_DIRECT,
) -> bool:
    """Return whether the rate of a trial is below a share of the baseline, with separate intervals.
    With copies, rates are per copy."""
    _, middle, high = (pps / trial.copies for pps in rate_interval(trial))
    low, there, _ = (pps / cables for pps in on_cables)
    return bool(middle < share * there and high < low)

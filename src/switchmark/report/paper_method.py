"""How an experiment of a paper was measured here, and what differs from the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from switchmark.metrics.cpu import cost
from switchmark.metrics.doubts import is_doubtful
from switchmark.metrics.named import metric
from switchmark.model.axis import field_name
from switchmark.model.record import Record
from switchmark.model.test import AXES
from switchmark.model.topology import PortKind
from switchmark.papers.experiment import Drawn, Experiment
from switchmark.papers.points import At, Point, Scalar
from switchmark.report.headline import days, host_words, method
from switchmark.report.judged import Judged
from switchmark.report.paper_words import axis_words

_OVERCOMMITTED = "cores-overcommitted"
_NICS = {PortKind.NIC_KERNEL, PortKind.NIC_PCI, PortKind.VF, PortKind.VF_PCI}
_IN_USER_SPACE = {PortKind.VHOST_USER, PortKind.MEMIF}


def paper_method(result: Judged) -> str:
    """Return a paragraph about the method, for a publication; empty if nothing was measured."""
    records = result.measured
    if not records:
        return ""
    sentences = [method(records)]
    policies = dict.fromkeys(r.placement.policy for r in records if r.placement)
    if policies:
        sentences.append(f"Placement of the parts: {', '.join(policies)}.")
    environments = dict.fromkeys(str(record.test.environment) for record in records)
    sentences.append(f"Environment of the functions: {', '.join(environments)}.")
    run = result.asked and " ".join(
        ["switchmark paper", result.experiment.name]
        + ["--quick"] * result.asked.quick
        + ["--as-published"] * result.asked.as_published
        + [f"{AXES[name].option} {value}" for name, value in result.asked.axes.items()]
    )
    sentences += [f"Command: {run}."] if run else []
    doubted = sum(is_doubtful(record.doubts) for record in records)
    if doubted:
        sentences.append(f"{doubted} of {len(records)} results may be wrong.")
    return " ".join(sentences)


def measured_how(result: Judged, among: At) -> str:
    """Return in words how the measured points of a figure were measured; empty if there are
    none."""
    records = [
        record
        for point, record in zip(result.points, result.records, strict=True)
        if record is not None and point.measured and point.is_at(among)
    ]
    if not records:
        return ""
    runs = max(len(point.measured.repeats) for point in result.points if point.measured is not None)
    trials = sorted({len(record.trials) // runs for record in records})
    durations = sorted({record.test.duration for record in records})
    text = f"median of {_range(trials)} trials of {_range(durations)} s"
    text = (
        text if runs == 1 else f"median of {runs} runs, each with {text.removeprefix('median of ')}"
    )
    text += " (--quick)" if result.asked and result.asked.quick else ""
    text = ", ".join([text, *host_words(records)[:2], days(records)])
    doubted = sum(is_doubtful(record.doubts) for record in records)
    return text + (f"; {doubted} of {len(records)} results may be wrong" if doubted else "")


def missing_metrics(figure: Drawn, measured: Sequence[tuple[Point, Record]]) -> tuple[str, ...]:
    """Return a sentence for each metric of a figure that none of its measured points has, with the
    reason."""
    if figure.kind in ("cdf", "percentiles") or not measured:
        return ()
    known = {name for point, _ in measured for name in point.figures}
    missing = [name for name in (figure.y, figure.y2) if name and name not in known]
    return tuple(_missing_metric(name, [record for _, record in measured]) for name in missing)


def _missing_metric(name: str, records: Sequence[Record]) -> str:
    quantity = metric(name).description.partition(",")[0]
    return f"Not shown: {quantity} ({name}), because {_why(name, records)}."


def _why(name: str, records: Sequence[Record]) -> str:
    costs = [figures for record in records if (figures := cost(record)) is not None]
    if name.startswith("profile."):
        missing = [f.profile.missing for f in costs if f.profile and f.profile.missing]
        return missing[0] if missing else "no profile was taken"
    if name == "cost.scheduler_load":
        return "the kernel's load of the CPUs was not read"
    if name.startswith("cost."):
        missing = [f.perf.missing for f in costs if f.perf and f.perf.missing]
        return missing[0] if missing else "the processor's counters did not cover these CPUs"
    if name.startswith("cpu."):
        return "parts shared a process, so their CPU time is not known separately"
    if name.startswith("latency."):
        return "these tests measured no latency"
    return "these tests did not measure it"


# --- what differs from the paper -------------------------------------------------------------


def departures(result: Judged) -> list[str]:
    """Return what differs from the paper's experiment, in sentences without a full stop."""
    return [
        *_of_options(result),
        *departures_of_modes(result),
        *_of_nics(result),
        *_of_cores(result),
    ]


def _of_options(result: Judged) -> Iterator[str]:
    """Yield the settings that `--quick`, the scale and the command line changed."""
    asked, owner = result.asked, result.experiment.owner
    if asked is None:
        return
    changed: dict[str, tuple[Scalar | list[Scalar], str]] = {}
    if not asked.as_published:
        changed |= {
            axis: (value, "shares of this host's R+")
            for axis, value in owner.scale.items()
            if axis == "rate"
        }
        changed |= {
            axis: (value, f"{asked.cores} CPUs of this host")
            for axis, value in owner.scale.items()
            if owner.grows(axis, asked.cores)
        }
    if asked.quick:
        changed |= {
            axis: (value, "--quick")
            for axis, value in owner.quick.axes.items()
            if field_name(axis) not in asked.axes
        }
    for axis, (value, why) in changed.items():
        in_paper, here = _values(owner, axis), value if isinstance(value, list) else [value]
        is_changed = axis in _written(owner) or AXES[field_name(axis)].of == "method"
        more = [_text(item) for item in here if _text(item) not in in_paper]
        if not is_changed or in_paper == [_text(value)]:
            continue
        if len(more) + len(in_paper) == len(here):
            yield f"{axis_words(axis)} also {', '.join(more)} ({why})"
        else:
            yield f"{axis_words(axis)} {_text(value)} instead of {', '.join(in_paper)} ({why})"
    for axis, value in owner.quick.keep.items() if asked.quick else ():
        if field_name(axis) not in asked.axes:
            yield f"only {axis_words(axis)} {_text(value)} (--quick)"
    for name, text in asked.axes.items():
        if name == "prepare":  # no departure: papers prepare their hosts, and say so in prose
            continue
        axis = AXES[name].key
        yield f"{axis_words(axis)} {text} instead of {', '.join(_values(owner, axis))} (option)"


def _written(owner: Experiment) -> set[str]:
    """Return the axes that a campaign names."""
    blocks = owner.campaign.get("tests", [])
    return {axis for block in (owner.campaign, *blocks) for axis in block}


def _values(owner: Experiment, axis: str) -> list[str]:
    """Return the distinct values of an axis in a campaign as written, or its default."""
    blocks = [owner.campaign, *owner.campaign.get("tests", [])]
    values = [_text(block[axis]) for block in blocks if axis in block]
    described = AXES[field_name(axis)]
    unit = f" {described.unit}" if isinstance(described.default, float) else ""
    return list(dict.fromkeys(values)) or [f"{_text(described.default)}{unit}".rstrip()]


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return "none" if value is None else str(value)


def departures_of_modes(result: Judged) -> list[str]:
    """Return in which modes switches ran, if the paper's claims are about another mode."""
    wanted = {claim.needs.switch_mode for claim in result.experiment.claims} - {None}
    ran = dict.fromkeys(
        f"{record.test.switch} ran in mode {record.switch_mode}, and the paper is about mode "
        f"{', '.join(map(str, wanted))}"
        for record in result.measured
        if wanted and record.switch_mode and record.switch_mode not in wanted
    )
    return list(ran)


def _of_nics(result: Judged) -> Iterator[str]:
    """Yield how frames passed NICs, if the paper's frames did and these did not, or if the kernel
    opened the NICs of a switch in user space."""
    if result.experiment.source.link_gbps is None:
        return
    virtual: dict[str, None] = {}
    through: dict[str, None] = {}
    for record in result.measured:
        kinds = set((record.port or "").split(", "))
        is_remote = record.test.locality == "remote"
        if not is_remote and record.test.scenario != "v2v" and not kinds & _NICS:
            virtual |= dict.fromkeys(sorted(kinds - {""}))
        by_kernel = (is_remote and not record.nics) or PortKind.NIC_KERNEL in kinds
        if kinds & _IN_USER_SPACE and by_kernel:
            through[record.test.switch] = None
    if virtual:
        yield f"ports of kind {', '.join(virtual)} instead of NICs"
    if through:
        yield (
            f"NICs opened by packet sockets (AF_PACKET) instead of a driver of DPDK for "
            f"{', '.join(through)}"
        )


def _of_cores(result: Judged) -> Iterator[str]:
    crowded = sum(_OVERCOMMITTED in record.doubts for record in result.measured)
    if crowded:
        yield f"too few CPUs, so that parts of {crowded} results shared some"
    together = [
        r for r in result.measured if r.placement and r.placement.policy == "shared-process"
    ]
    if together:
        yield "sender and receiver in one process (placement shared-process)"


def _range(values: Sequence[float]) -> str:
    ends = dict.fromkeys(f"{value:g}" for value in (values[0], values[-1]))
    return " to ".join(ends)

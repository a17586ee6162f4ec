"""The head of a report: its title, a line with host and date, and a paragraph about the method for
publications."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from switchmark import __version__
from switchmark.metrics.statistics import MIN_OF_INTERVAL
from switchmark.model.cable import CABLE
from switchmark.model.preparation import TABLE
from switchmark.model.record import Record
from switchmark.report.caption import caption
from switchmark.report.phrases import listed, listed_all

_SEPARATOR = " · "


def headline(records: Sequence[Record]) -> str:
    """Return the title of a report: the switches without the baseline, and the quantities."""
    all_switches = list(dict.fromkeys(record.test.switch for record in records))
    switches = [switch for switch in all_switches if switch != CABLE] or all_switches
    quantities = list(dict.fromkeys(record.test.dimension for record in records))
    return f"{listed(switches)}: {listed_all(quantities)}" if switches else "No tests"


def circumstances(records: Sequence[Record]) -> str:
    """Return one line with the host, the date and the number of tests and trials."""
    return _SEPARATOR.join(filter(None, (*host_words(records), days(records), _counted(records))))


def provenance(records: Sequence[Record], *, brief: bool = False) -> list[str]:
    """Return the lines below the title of a picture: where and when it was measured, and unless
    `brief`, what was measured and by which version. Without records there are none."""
    if not records:
        return []
    place = _SEPARATOR.join(filter(None, (*host_words(records), days(records))))
    return [place] if brief else [caption(records), f"{place}{_SEPARATOR}switchmark {__version__}"]


def method(records: Sequence[Record]) -> str:
    """Return a paragraph about the method of measurement, for a publication."""
    measured = [record for record in records if record.trials]
    if not measured:
        return ""
    durations = sorted({record.test.duration for record in measured})
    warmups = sorted({record.test.warmup for record in measured})
    place = f" on one host ({', '.join(host_words(records))})" if host_words(records) else ""
    sentences = [
        f"switchmark {__version__} measured {_counted(measured)} on {days(measured)}{place}.",
        f"A trial took {_range(durations)} s after {_range(warmups)} s of warm-up.",
    ]
    if prepared := _prepared(measured):
        sentences.append(prepared)
    if any(record.turns and record.turns.kept for record in measured):
        sentences.append("Compared switches took turns, with one trial of every switch per round.")
    if any(len(record.trials) >= MIN_OF_INTERVAL for record in measured):
        sentences.append(
            "Intervals are 95 % confidence intervals of the median over the trials, by the sign "
            "test."
        )
    versions = dict.fromkeys(
        " ".join(filter(None, (record.test.switch, record.switch_version, record.switch_mode)))
        for record in measured
    )
    sentences.append(f"Versions: {', '.join(versions)}.")
    return " ".join(sentences)


def bibtex(records: Sequence[Record]) -> str:
    """Return a BibTeX entry for switchmark, with the year of the measurement."""
    day = next((record.started for record in records if record.started), "")
    return (
        "@misc{switchmark,\n"
        "  title = {switchmark: the reference benchmark for virtual switches in {NFV}},\n"
        "  author = {{The switchmark authors}},\n"
        f"  year = {{{day[:4]}}},\n"
        f"  note = {{version {__version__}}}\n"
        "}"
    )


def preparation_words(records: Sequence[Record]) -> str:
    """Return how the host was prepared (`--prepare`), in a few words; empty if it was not."""
    asked = dict.fromkeys(record.test.prepare for record in records)
    each = [listed_all(names.split(",")) for names in asked if names]
    return f"prepared: {'; '.join(each)}{' (some tests)' * (None in asked)}" if each else ""


def _prepared(records: Sequence[Record]) -> str:
    """Return a sentence on what was set on the host, and what it was before; empty for nothing."""
    before: dict[str, dict[str, None]] = {}
    for value in (value for record in records for value in record.prepared or ()):
        values = before.setdefault(value.preparation, {})
        if value.now != value.was:
            values[value.was] = None
    if not before:
        return ""
    states = [
        TABLE[name].effect + (f" (before: {', '.join(values)})" if values else "")
        for name, values in before.items()
        if name in TABLE
    ]
    return f"The host was prepared for the run: {'; '.join(states)}."


def host_words(records: Sequence[Record]) -> list[str]:
    """Return the processor, the CPUs, whether it is a virtual machine, the kernel, and how the host
    was prepared."""
    origin = next((record.origin for record in records if record.origin), None)
    host = origin.host if origin else {}
    cpus = host.get("cores_usable")
    parts = [
        host.get("cpu_model"),
        f"{cpus} CPU{'s' * (cpus > 1)}" if isinstance(cpus, int) else None,
        "virtual machine" if host.get("virtual") else None,
        f"kernel {host['kernel']}" if host.get("kernel") else None,
        preparation_words(records) or None,
    ]
    return [str(part) for part in parts if part]


def days(records: Sequence[Record]) -> str:
    """Return the dates of the first and the last test, for example 24 November 2026."""
    days = sorted({record.started[:10] for record in records if record.started})
    dates = [f"{datetime.fromisoformat(day):%-d %B %Y}" for day in days]
    return " to ".join(dict.fromkeys(dates[:1] + dates[-1:]))


def _counted(records: Sequence[Record]) -> str:
    counts = sorted({len(record.trials) for record in records if record.trials})
    tests = f"{len(records)} test{'s' * (len(records) != 1)}"
    if not counts:
        return tests
    trials = f"{_range(counts)} trial{'s' * (counts[-1] > 1)}"
    return f"{tests} with {trials}" + " each" * (len(records) > 1)


def _range(values: Sequence[float]) -> str:
    ends = dict.fromkeys(f"{value:g}" for value in (values[0], values[-1]))
    return " to ".join(ends)

"""Bundles of runs for reviewers: an archive with the records, the commands, the host, a report, and
instructions to repeat the run.

The bundle is itself a run folder. The same run gives the same archive, byte by byte.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from switchmark.errors import RecordFailed, UsageError
from switchmark.metrics.throughput import confidence
from switchmark.model.labels import label, telling
from switchmark.model.record import Record
from switchmark.model.test import AXES
from switchmark.plots.render import svg
from switchmark.plots.vega import specification
from switchmark.regular_file import read_within
from switchmark.report.cells import in_markdown
from switchmark.report.drawn import Side, paper_charts
from switchmark.report.figures import sure_rate
from switchmark.report.files import write_file
from switchmark.report.json import to_object
from switchmark.report.judged import Judged
from switchmark.report.page import page
from switchmark.report.paper import as_object, claims_in_markdown
from switchmark.report.paper_page import sections_of
from switchmark.report.paper_values import values_as_csv
from switchmark.report.remarks import semantics
from switchmark.report.schema import SCHEMAS, schema

_SUMS = "SHA256SUMS"
_LINES = ("records.jsonl", "trials.jsonl")
_EARLIEST = datetime(1980, 1, 1, tzinfo=UTC)  # the earliest time in a zip file


def packed(
    folder: Path, records: Sequence[Record], rows: str, experiments: Sequence[Judged] = ()
) -> dict[str, bytes]:
    """Return the files of a bundle by name: the files of the run folder, with complete lines only,
    and the files generated from them. `rows` are its tests as CSV, and `experiments` the results of
    the experiments that the run was made for."""
    name = folder.resolve().name
    held = sorted(folder.rglob("*"))
    if links := [path for path in held if path.is_symlink()]:
        raise RecordFailed(
            f"{links[0]} is a symbolic link: a bundle could include any file that you can read",
            hint=f"rm '{links[0]}', or replace it with a file",
        )
    names = [
        path.relative_to(folder).as_posix()
        for path in held
        if path.is_file() and not path.name.endswith((*_FORMS, "report.html"))
    ]
    try:
        files = {path: read_within(folder, path) for path in names}
    except OSError as error:
        raise RecordFailed(f"{folder} cannot be read: {error.strerror}") from error
    for path in _LINES:
        if path in files:
            files[path] = files[path][: files[path].rfind(b"\n") + 1]
    versions = {
        str(record.number): record.origin.versions if record.origin else {} for record in records
    }
    contents = {
        "README.md": _readme(name, records, files, experiments),
        "report.html": page(
            [(name, records)],
            {name: _steps(files)},
            sections_of=partial(sections_of, experiments) if experiments else None,
        ),
        **_of_experiments(experiments),
        "tests.csv": rows,
        "versions.json": json.dumps(versions, indent=2) + "\n",
        **{
            f"schemas/{kind}.schema.json": json.dumps(schema(kind), indent=1) + "\n"
            for kind in SCHEMAS
        },
    }
    files |= {path: text.encode() for path, text in contents.items()}
    files[_SUMS] = "".join(
        f"{hashlib.sha256(content).hexdigest()}  {path}\n"
        for path, content in sorted(files.items())
        if path != _SUMS
    ).encode()
    return dict(sorted(files.items()))


def _of_experiments(experiments: Sequence[Judged]) -> dict[str, str]:
    """Return the claims and figures of experiments as JSON and CSV, and their charts as SVG."""
    if not experiments:
        return {}
    charts = (
        chart
        for result in experiments
        for figure in paper_charts([Side("", result)])
        for chart in (figure.absolute, figure.relative)
        if chart is not None
    )
    claims = [as_object(result) for result in experiments]
    return {
        "claims.json": json.dumps(claims, indent=1) + "\n",
        "figures.csv": values_as_csv(experiments),
        **{
            f"figures/{chart.name.replace('/', '-')}.svg": svg(specification(chart))
            for chart in charts
        },
    }


def _steps(files: Mapping[str, bytes]) -> str:
    return files.get("logs/steps.sh", b"").decode(errors="replace")


def write_bundle(path: Path, name: str, files: Mapping[str, bytes], made_at: datetime) -> None:
    """Write an archive with the files in a folder of that name, all with the same modification
    time. Raise UsageError for an unknown suffix."""
    forms = [form for suffix, form in _FORMS.items() if path.name.endswith(suffix)]
    if not forms:
        raise UsageError(
            f"'{path.name}' has no suffix of an archive\n  known: {', '.join(_FORMS)}",
            hint=f"-o {name}.tar.gz",
        )
    write_file(path, forms[0](name, files, max(made_at.astimezone(UTC), _EARLIEST)))


def time_of(records: Sequence[Record]) -> datetime:
    """Return the start time of the latest test, as the modification time of the files of a
    bundle."""
    times = [datetime.fromisoformat(record.started) for record in records if record.started]
    return max(times, default=_EARLIEST)


def _tar(name: str, files: Mapping[str, bytes], made_at: datetime) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(f"{name}/{path}")
            member.size, member.mtime, member.mode = len(content), int(made_at.timestamp()), 0o644
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(stream.getvalue(), mtime=0)


def _zip(name: str, files: Mapping[str, bytes], made_at: datetime) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            member = zipfile.ZipInfo(f"{name}/{path}", made_at.timetuple()[:6])
            member.compress_type, member.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            member.create_system = 3
            archive.writestr(member, content)
    return stream.getvalue()


_FORMS: Mapping[str, Callable[[str, Mapping[str, bytes], datetime], bytes]] = {
    ".tar.gz": _tar,
    ".tgz": _tar,
    ".zip": _zip,
}

# --- README ----------------------------------------------------------------------------------

_FILES = {
    "campaign.yaml": "the campaign: all axes of all tests",
    "host.json": "the host: processor, cores, kernel and its parameters, mitigations, hugepages",
    "versions.json": "the versions that the figures depend on, by test number",
    "records.jsonl": "one line per finished test, with its trials, placement and evidence",
    "trials.jsonl": "one line per finished trial, including intermediate trials of searches",
    "logs/steps.sh": "the executed commands in order, with their reasons",
    "logs/": "the standard error of the programs",
    "tests.csv": "one row per test",
    "report.html": "the report",
    "experiment.json": "the experiments that the run was made for, and the options of `paper`",
    "experiment/": "the files of these experiments, with the paper's values and claims",
    "claims.json": "the answers to the paper's claims, with the figures that they compare",
    "figures.csv": "measured and published figures, and their ratios",
    "figures/": "the paper's figures",
    "schemas/": "JSON Schemas of the lines of these files",
    _SUMS: "checksums of all other files",
}


_EXPERIMENT_FILES = ("experiment.json", "experiment/", "claims.json", "figures.csv", "figures/")


def _readme(
    name: str,
    records: Sequence[Record],
    files: Mapping[str, bytes],
    experiments: Sequence[Judged],
) -> str:
    """Return the README: the files, the results, and how to repeat the run."""
    statuses = Counter(record.status for record in records)
    outcome = ", ".join(f"{count} {status}" for status, count in statuses.items()) or "none"
    versions = {
        version
        for record in records
        if record.origin and (version := record.origin.versions.get("switchmark"))
    }
    there = {
        path: content
        for path, content in _FILES.items()
        if path not in ("campaign.yaml", "host.json", *_LINES, "logs/steps.sh", "logs/")
        or any(file.startswith(path) for file in files)
        if experiments or path not in _EXPERIMENT_FILES
    }
    lines = [
        f"# {in_markdown(name)}",
        "",
        f"A run of switchmark {in_markdown(', '.join(sorted(versions))) or '(version unknown)'}."
        f" Tests: {outcome}.",
        "",
        "## Files",
        "",
        "| file | content |",
        "|---|---|",
        *(f"| `{path}` | {content} |" for path, content in there.items()),
        "",
        "## Results",
        "",
        *_results(records),
        "",
        "`!` marks a figure that may be wrong, `✗` a figure that must not be used; `report.html`",
        "explains why. `>=` marks a lower bound: the traffic generator was the limit.",
        *map(in_markdown, semantics(records)),
        "",
        *claims_in_markdown(experiments),
        "## How to verify the results",
        "",
        "```sh",
        "sha256sum --check SHA256SUMS        # the files are unchanged",
        "switchmark report .                 # the tables from the records",
        *_repeat(experiments),
        "switchmark compare . runs/NEW       # compare both runs",
        "```",
        "",
        "This folder is a run folder, so all commands that read runs accept it. Figures depend on",
        "the host. A repeated run should show the same significant differences and limits.",
    ]
    return "\n".join(lines) + "\n"


def _repeat(experiments: Sequence[Judged]) -> list[str]:
    """Return the commands that judge the run again, and that repeat it."""
    if not experiments:
        return ["switchmark run campaign.yaml        # the same tests on your host"]
    axes = experiments[0].asked
    options = " --quick" * bool(axes and axes.quick)
    options += " --as-published" * bool(axes and axes.as_published)
    options += "".join(f" {AXES[n].option} {v}" for n, v in axes.axes.items()) if axes else ""
    return [
        "switchmark paper --from .           # the claims and the tables again",
        "switchmark paper --from . -o again/ # the figures again, for a publication",
        *(f"switchmark paper {result.experiment.name}{options}" for result in experiments),
    ]


def _results(records: Sequence[Record]) -> list[str]:
    axes = telling([record.test for record in records])
    sure = " [95 %]" * any(confidence(record) for record in records if record.trials)
    lines = [f"| test | outcome | received{sure} | limit | doubts |", "|---|---|---|---|---|"]
    for record in records:
        content = to_object(record)
        cells = (
            f"{record.number}: {label(record.test, axes)}",
            record.status if record.error is None else f"{record.status}: {record.error}",
            sure_rate(record, content) if content["rx"] else "-",
            record.verdict,
            ", ".join(record.doubts) or "-",
        )
        lines.append(f"| {' | '.join(map(in_markdown, cells))} |")
    return lines

"""Files of experiments from papers: a page, a picture, or a folder for a publication."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from switchmark.errors import RecordFailed, UsageError
from switchmark.plots.chart import Chart
from switchmark.plots.render import pdf, svg
from switchmark.plots.vega import specification
from switchmark.report.drawn import Mode, Side, experiment_charts, paper_charts
from switchmark.report.files import picture_of, write_file
from switchmark.report.headline import bibtex
from switchmark.report.judged import Judged
from switchmark.report.latex import escape as in_latex
from switchmark.report.paper import as_object
from switchmark.report.paper_page import paper_page
from switchmark.report.paper_values import values_as_csv, values_as_latex
from switchmark.report.paper_words import bibtex_of

_PAGES, _PICTURES = (".html", ".htm"), (".svg", ".pdf", ".png")
_WIDTH = 430
"""The width of a picture for LaTeX, in points: about the text width of a page."""


def check_drawing(output: Path | None) -> None:
    """Raise UsageError for a file with an unknown suffix, before anything is measured. A path
    without a suffix, or of a folder, is a folder."""
    if output is None or _is_folder(output) or output.suffix.lower() in (*_PAGES, *_PICTURES):
        return
    raise UsageError(
        f"'{output.name}' has no suffix of a page or a picture",
        hint=f"-o {output.stem or 'paper'}.html, .svg, .pdf or .png, or -o {output.stem}/ for a "
        "folder with all of them, tables and BibTeX",
    )


def _is_folder(output: Path) -> bool:
    return output.is_dir() or not output.suffix


def write_papers(output: Path, results: Sequence[Judged], mode: Mode | None = None) -> None:
    """Write experiments to an HTML page, their figures to one picture, or everything to a folder.

    Pictures have the charts in this mode; the default is the preferred mode of each chart.
    """
    if _is_folder(output):
        _write_folder(output, results)
    elif output.suffix.lower() in _PAGES:
        write_file(output, paper_page(results))
    else:
        drawn = [chart for result in results for chart in experiment_charts(result, mode)]
        write_file(output, picture_of(output, drawn))


def _write_folder(folder: Path, results: Sequence[Judged]) -> None:
    """Write the page, the charts as SVG and PDF without titles, their captions for LaTeX, the
    values as CSV and LaTeX, the claims as JSON, and BibTeX entries."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordFailed(f"{folder} cannot be made: {error.strerror}") from error
    for name, content in publication(results).items():
        write_file(folder / name, content)


def publication(results: Sequence[Judged]) -> dict[str, str | bytes]:
    """Return the files of such a folder by name."""
    files: dict[str, str | bytes] = {"index.html": paper_page(results)}
    captions = []
    for result in results:
        for figure in paper_charts([Side("", result)]):
            for chart in filter(None, (figure.absolute, figure.relative)):
                name = chart.name.replace("/", "-")
                drawn = specification(replace(chart, title=""), _WIDTH, whole=True)
                files |= {f"{name}.svg": svg(drawn), f"{name}.pdf": pdf(drawn)}
                captions.append(_in_latex(chart, name))
    sources = {result.experiment.paper: result.experiment.source for result in results}
    measured = [record for result in results for record in result.measured]
    entries = [bibtex_of(source, paper) for paper, source in sources.items()]
    entries += [bibtex(measured)] if measured else []
    claims = [as_object(result) for result in results]
    return files | {
        "figures.tex": "% needs \\usepackage{graphicx}\n" + "\n".join(captions),
        "values.tex": values_as_latex(results),
        "values.csv": values_as_csv(results),
        "claims.json": json.dumps(claims, indent=1) + "\n",
        "references.bib": "\n\n".join(entries) + "\n",
    }


def _in_latex(chart: Chart, name: str) -> str:
    caption = in_latex(f"{chart.title}. {chart.says}")
    return "\n".join(
        [
            r"\begin{figure}",
            r"  \centering",
            f"  \\includegraphics[width=\\linewidth]{{{name}.pdf}}",
            f"  \\caption{{{caption}}}",
            f"  \\label{{fig:{name}}}",
            r"\end{figure}",
            "",
        ]
    )

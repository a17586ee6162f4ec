"""Adds a stored run to the gallery of the site.

    make gallery RUN=runs/nightly NAME=nightly TITLE="A night" CHARTS=figures

docs/gallery/NAME.md has the host, the date, the charts and the output of `switchmark report` with
its doubts. The charts of a run of `paper` are the figures of its paper. docs/gallery/README.md
lists all pages. A run replaces an earlier one of its name.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.pictures import where

from switchmark.campaign.store import read_records

REPOSITORY = Path(__file__).resolve().parents[2]
GALLERY = REPOSITORY / "docs/gallery"
MOST_BYTES = 1_000_000
"""All files of the gallery together."""

PICTURE = re.compile(r"^!\[.+\]\((.+\.svg)\)$", re.MULTILINE)
HEAD = """# Gallery

Runs on real hosts: charts of the stored records, and all that `switchmark report` prints, with
every doubt. `make gallery` adds a run.

| run | where and when |
|---|---|
"""


def add(name: str, title: str, run: Path, charts: Sequence[str], folder: Path = GALLERY) -> Path:
    """Write the page of a run and its pictures, and return the page. ValueError if the run measured
    nothing or has no such chart."""
    records = read_records(run)
    if not any(record.origin and record.started for record in records):
        raise ValueError(f"{run} measured nothing")
    measured = where(records)
    folder.mkdir(exist_ok=True)
    page = folder / f"{name}.md"
    pictures = []
    with tempfile.TemporaryDirectory() as drawn:
        of_paper = (run / "experiment.json").exists()
        if of_paper:  # its figures, as the paper drew them
            switchmark("paper", "--from", str(run), "--output", f"{drawn}/")
        else:
            switchmark("report", str(run), "--output", f"{drawn}/", "--chart", ",".join(charts))
        found = {path.stem: path for path in sorted(Path(drawn).glob("*.svg"))}
        if missing := [chart for chart in charts if chart not in found]:
            raise ValueError(f"{run} has no chart {', '.join(missing)}: {', '.join(found)}")
        for old in PICTURE.findall(page.read_text()) if page.exists() else ():
            (folder / old).unlink(missing_ok=True)
        for chart in charts:
            picture = folder / f"{name}-{chart}.svg"
            picture.write_bytes(found[chart].read_bytes())
            words = title if of_paper else f"{title}: {chart.replace('-', ' ')}"
            pictures.append(f"![{words}]({picture.name})\n")
    report = switchmark("report", str(run)).partition("\n\n")[2].rstrip()
    head = (f"# {title}\n", f"{measured[:1].upper()}{measured[1:]}.\n")
    page.write_text("\n".join((*head, *pictures, f"```\n{report}\n```\n")))
    (folder / "README.md").write_text(index(folder))
    return page


def index(folder: Path = GALLERY) -> str:
    """Return the table of contents of the gallery, the latest run first."""
    rows = []
    for page in folder.glob("*.md"):
        if page.name != "README.md":
            title, _, rest = page.read_text().partition("\n")
            measured = re.search(r"^Measured ((\S+) .*)\.$", rest, re.MULTILINE)
            if measured is None:
                raise ValueError(f"{page} does not say where and when it was measured")
            rows.append((measured[2], page.name, title.removeprefix("# "), measured[1]))
    lines = [f"| [{title}]({name}) | {words} |\n" for _, name, title, words in sorted(rows)[::-1]]
    return HEAD + "".join(lines)


def switchmark(*arguments: str) -> str:
    """Return the output of a command, in lines of 80 characters."""
    command = str(Path(sys.executable).with_name("switchmark"))
    env = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run((command, *arguments), capture_output=True, text=True, env=env)
    if done.returncode != 0:
        raise ValueError(done.stderr.strip())
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("name", help="of its files")
    parser.add_argument("title", help="of its page")
    parser.add_argument("charts", metavar="CHART,...", help="names as in `report` or `paper`")
    options = parser.parse_args()
    try:
        print(add(options.name, options.title, options.run, options.charts.split(",")))
    except ValueError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())

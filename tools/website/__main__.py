"""Builds the site: guide, reference, gallery, decisions and changes, with search, for a browser
without a network.

    make site [SITE=folder]

The Markdown files of the repository are copied into build/site/pages with the links that they need
there, zensical turns them into build/site/html, and `built` looks at the result.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tools.website.built import faults
from tools.website.pages import REPOSITORY, moved, navigation, place, sources

FOLDER = REPOSITORY / "build/site"
GENERATOR = FOLDER / "venv/bin/zensical"
HERE = Path(__file__).parent

FOREIGN_SHIM = 'src="https://unpkg.com/iframe-worker/shim"'
"""The script of the generator that makes the search work in a page opened from a folder."""


def write(folder: Path, repository: Path = REPOSITORY) -> None:
    """Write the pages, the other files and the settings of the site into `folder`."""
    shutil.rmtree(folder / "pages", ignore_errors=True)
    for path in sources(repository):
        target = folder / "pages" / place(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".md"):
            target.write_text(moved((repository / path).read_text(), path))
        else:
            shutil.copyfile(repository / path, target)
    for name in ("site.css", "site.js"):
        shutil.copyfile(HERE / name, folder / "pages" / name)
    head, project, rest = (HERE / "zensical.toml").read_text().partition("[project]\n")
    (folder / "zensical.toml").write_text(head + project + navigation(repository) + rest)


def build(folder: Path) -> list[str]:
    """Turn the pages of `folder` into HTML, and return its faults."""
    shutil.rmtree(folder / "html", ignore_errors=True)
    argv = (GENERATOR, "build", "--clean", "--config-file", folder / "zensical.toml")
    done = subprocess.run(
        argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        return [f"zensical: {line}" for line in done.stdout.splitlines()]
    finish(folder / "html")
    return faults(folder / "html")


def finish(html: Path) -> None:
    """Make the site complete without a network, and at any address."""
    for path in html.rglob("*.html"):
        root = "../" * (len(path.relative_to(html).parts) - 1)
        path.write_text(path.read_text().replace(FOREIGN_SHIM, f'src="{root}site.js"'))
    # These are right only at the root of a server with a known name.
    for name in ("404.html", "sitemap.xml"):
        (html / name).unlink()
    # The site contains scripts of its generator, and so the licence of the generator.
    for notice in GENERATOR.parent.parent.glob("lib/python3*/site-packages/zensical-*/licenses/*"):
        shutil.copyfile(notice, html / "assets" / notice.name)


def main() -> int:
    write(FOLDER)
    found = build(FOLDER)
    for fault in found:
        print(f"site: {fault}", file=sys.stderr)
    if not found:
        print(f"site: {FOLDER / 'html/index.html'}")
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())

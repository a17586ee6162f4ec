"""Prints the copyright file of the Debian package: the licences of switchmark and of the Python
packages in its virtual environment, with their texts.

`python tools/deb/copyright.py TREE`
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution
from pathlib import Path

TOP = Path(__file__).parents[2]
COMMON = Path("/usr/share/common-licenses")
"""The licences that every Debian system has. A package points to them."""
HEAD = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: switchmark

Files: *
Copyright: 2026 The switchmark authors
License: Apache-2.0
 On Debian systems, the text of the Apache License, Version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
 .
{notice}
"""


def indented(text: str) -> str:
    """Return a text as the continuation of a field."""
    lines = (line.expandtabs().rstrip() for line in text.strip("\n").splitlines())
    return "\n".join(f" {line}" if line.strip() else " ." for line in lines)


def shortened(text: str) -> str:
    """Return a text with the whole texts of common licences replaced by their paths."""
    for name, first in (("Apache-2.0", "TERMS"), ("GPL-3", "GNU")):
        # Copies differ in margins, and from the last line on.
        words = (COMMON / name).read_text().split()
        pattern = r"\s+".join(map(re.escape, words[words.index(first) : words.index("END")]))
        pattern += r"(\s+END\s+OF\s+TERMS\s+AND\s+CONDITIONS)?"
        text = re.sub(pattern, f"(the text is in {COMMON / name})", text)
    return text


def stanza(folder: Path) -> str:
    """Return what the metadata and the licence files of a Python package say."""
    package = Distribution.at(folder)
    data, name = package.metadata.json, package.metadata["Name"]
    licence = str(data.get("license_expression") or data.get("license") or "").strip()
    first = licence.splitlines()[0].strip() if licence else "as-below"
    files = [file for file in sorted(folder.rglob("*")) if _is_licence(file)]
    text = shortened("\n\n".join(file.read_text(errors="replace") for file in files))
    author = str(data.get("author") or data.get("author_email") or f"the authors of {name}")
    return (
        f"Files: usr/lib/switchmark/lib/*/{name}*\n"
        f"Copyright: {' '.join(author.split())}\n"
        f"License: {first[:60].replace(' ', '-')}-of-{name}\n"
        f"{indented(text or licence or 'See its home page.')}\n"
    )


def _is_licence(file: Path) -> bool:
    return file.is_file() and file.name.upper().startswith(("LICEN", "COPYING", "NOTICE"))


def main() -> None:
    """Print the file for the tree that the command names."""
    (site,) = Path(sys.argv[1]).glob("lib/python*/site-packages")
    print(HEAD.format(notice=indented((TOP / "NOTICE").read_text())))
    for folder in sorted(site.glob("*.dist-info")):
        if not folder.name.startswith("switchmark-"):
            print(stanza(folder))


if __name__ == "__main__":
    main()

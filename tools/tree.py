"""Makes the tree of an installation from the programs and packages of `make setup`.

`python tools/tree.py ROOT FOLDER` writes ROOT/FOLDER: a virtual environment for the Python of the
system, with the Python packages that switchmark requires, as they are pinned, and its programs. In
it, everything is found as in a clone: programs are in the folder of the Python.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Collection, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

PYTHON = "/usr/bin/python3"
PROGRAMS = ("agent", "pcap-bridge", "tool", "traffic")
EXTRAS = ("plots", "query")
"""The extras of switchmark that an installation has."""
_REQUIRED = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([a-z]+)['"]""")


def required(name: str, found: dict[str, Distribution], extras: Collection[str] = ()) -> None:
    """Collect a distribution and the distributions that it requires, with these extras."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in found:
        return
    try:
        found[key] = distribution(name)
    except PackageNotFoundError:
        return  # of another platform, or an older Python
    for requirement in found[key].requires or ():
        words, _, marker = requirement.partition(";")
        match, extra = _REQUIRED.match(words.strip()), _EXTRA.search(marker)
        if match and (extra is None or extra[1] in extras):
            required(match[0], found)


def files_of(package: Distribution) -> Iterator[Path]:
    """Yield the files of a distribution inside site-packages."""
    for file in package.files or ():
        if not file.is_absolute() and ".." not in file.parts and "__pycache__" not in file.parts:
            yield Path(str(file))


def copy_packages(target: Path) -> None:
    """Copy switchmark and the distributions that it requires."""
    found: dict[str, Distribution] = {}
    required("switchmark", found, EXTRAS)
    for package in found.values():
        for file in files_of(package):
            source = Path(str(package.locate_file(file)))
            if not source.is_file() or file.name in ("RECORD", "INSTALLER", "direct_url.json"):
                continue
            place = target / file
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, place)
            place.chmod(0o644)


def main() -> None:
    """Write the tree that the command names."""
    root, folder = Path(sys.argv[1]), Path(sys.argv[2])
    tree = root / folder.relative_to("/")
    shutil.rmtree(tree, ignore_errors=True)
    binaries = tree / "bin"
    binaries.mkdir(parents=True)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    home = Path(PYTHON).parent
    (tree / "pyvenv.cfg").write_text(
        f"home = {home}\ninclude-system-site-packages = false\nversion = {version}\n"
    )
    up = Path("/".join([".."] * len((folder / "bin").relative_to("/usr").parts)))
    (binaries / "python3").symlink_to(up / Path(PYTHON).relative_to("/usr"))
    copy_packages(tree / f"lib/python{version}/site-packages")
    here = Path(sys.executable).parent
    for name in PROGRAMS:
        program = here / f"switchmark-{name}"
        if program.exists():
            shutil.copy(program, binaries)
    start = binaries / "switchmark"
    start.write_text(f'#!/bin/sh\nexec {folder}/bin/python3 -m switchmark "$@"\n')
    start.chmod(0o755)


if __name__ == "__main__":
    main()

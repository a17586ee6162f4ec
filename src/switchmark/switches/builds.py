"""Builds of switches that no distribution packages: what a build must have, and where builds are.

Drivers declare a `Build`; `doctor` shows it, and looks for builds in the usual folders of a host.
"""

from __future__ import annotations

from dataclasses import dataclass

from switchmark.hosts.base import Host

_FOLDERS = ("$PWD", "$HOME", "$HOME/src", "$HOME/git", "/opt", "/usr/src", "/usr/local/src", "/srv")
"""The folders that usually hold source trees and installations."""

_LOOK = """\
for tree in {trees}; do
  [ -d "$tree" ] || continue
  program=
  for file in {programs}; do
    [ -f "$file" ] && [ -x "$file" ] && program=$file && break
  done
  echo "$tree//$program"
done
"""


@dataclass(frozen=True, slots=True)
class Build:
    """What a user must know who builds a switch, or looks for a package of it."""

    needs: str
    """The least that a build must have, in words."""
    trees: tuple[str, ...]
    """The usual names of its source tree or installation, as shell patterns."""
    places: tuple[str, ...]
    """The places of the program in such a folder, as shell patterns."""
    packages: str = ""
    """The packages that its project publishes, in words; empty if there are none."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A folder on a host that looks like the source tree or the installation of a switch."""

    tree: str
    """The folder."""
    program: str
    """The program in it; empty if it has none."""


def builds_on(host: Host, build: Build) -> list[Seen]:
    """Return the folders of a switch in the usual places of a host."""
    look = _LOOK.format(
        trees=" ".join(f'"{folder}"/{tree}' for folder in _FOLDERS for tree in build.trees),
        programs=" ".join(f'"$tree"/{place}' for place in build.places),
    )
    lines = host.run(("sh", "-c", look)).stdout.decode(errors="surrogateescape").splitlines()
    pairs = (line.partition("//") for line in lines)
    return list(dict.fromkeys(Seen(tree, program) for tree, _, program in pairs))

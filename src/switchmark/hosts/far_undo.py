"""This module undoes what a dead run left on a host that is reached by ssh, with nothing but a
shell."""

from __future__ import annotations

from typing import Protocol

from switchmark.errors import SetupFailed
from switchmark.hosts.base import Completed
from switchmark.hosts.local_process import last_lines
from switchmark.hosts.processes import MARK

_UNDO_S = 120.0

UNDO = f"""\
d=$1 r=$2
for i in 1 2 3; do
  for u in $(ls "$d/undo" 2>/dev/null | sort -rn); do sh "$d/undo/$u" >/dev/null 2>&1; done
  p=$(grep -lszx "{MARK}=$r" /proc/[0-9]*/environ | cut -d/ -f3)
  # What becomes another program just now has no mark for a moment.
  [ -n "$p" ] || {{ [ $i = 1 ] || break; sleep 0.1; continue; }}
  for s in TERM TERM KILL; do kill -s $s $p 2>/dev/null; sleep 0.3; done
done
for n in $(ip netns list 2>/dev/null | cut -d' ' -f1 | grep "^$r-"); do ip netns del "$n"; done
for n in $(ip -o link 2>/dev/null | cut -d: -f2 | cut -d@ -f1 | grep "^ *$r-"); do
  ip link del "$n" 2>/dev/null
done
rm -rf "$d"
"""
"""It ends what a run left on its host: `$1` is its folder, `$2` its id."""


class Far(Protocol):
    """A far host runs commands."""

    name: str

    def run(self, argv: tuple[str, ...], *, timeout_s: float = 10.0) -> Completed: ...


def undo_there(host: Far, run: str, folder: str) -> None:
    """Undo what a dead run left on a host. SetupFailed where it fails."""
    for each in (f"{folder}/far-{host.name}", folder):
        script = f'[ -d "$1/undo" ] || exit 0\n{UNDO}'
        done = host.run(("sh", "-c", script, "sh", each, run), timeout_s=_UNDO_S)
        if done.status:
            raise SetupFailed(f"run {run} on host {host.name}: {last_lines(done.stderr, 1)}")


_RUNS = """\
for d in /run/switchmark/sm????/ /run/switchmark/sm????/far-*/; do
  d=${d%/}
  [ -d "$d/undo" ] || continue
  if flock -n "$d/journal" true; then echo "dead $d"; else echo "live $d"; fi
done
"""


def runs_there(host: Far) -> list[tuple[str, str, bool]]:
    """Return the id and the folder of each run that was led from another host and has something on
    this one, and whether it is dead."""
    done = host.run(("sh", "-c", _RUNS))
    runs = []
    for line in done.stdout.decode(errors="replace").splitlines():
        state, _, folder = line.partition(" ")
        runs.append((folder.split("/")[3], folder, state == "dead"))
    return runs

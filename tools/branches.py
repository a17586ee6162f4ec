"""Prints which share of the branches of some folders the fast tests take: `make coverage`.

`python tools/branches.py REPORT ROOM...` reads a report of coverage.py in JSON. A branch is a jump
from one line to another; it is taken if a test goes that way.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

_COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def table(files: dict[str, Any], rooms: list[str]) -> str:
    """Return a table with a row for each folder of the package."""
    of_rooms = {room: Counter[str]() for room in rooms}
    for path, file in files.items():
        room = Path(path).parts[-2]
        if room in of_rooms:
            of_rooms[room].update({name: file["summary"][name] for name in _COUNTS})
    lines = ["| folder | statements | executed | branches | taken |", "|---|---|---|---|---|"]
    for room, counts in of_rooms.items():
        statements, executed, branches, taken = (counts[name] for name in _COUNTS)
        lines.append(
            f"| {room} | {statements:,} | {executed / statements:.1%} "
            f"| {branches:,} | {taken / branches:.1%} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text())["files"], sys.argv[2:]))

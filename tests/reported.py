"""Reports of the traffic program, as it writes them at the end of a trial."""

from __future__ import annotations

from typing import Any

SECOND = 10**9
EMPTY = {"count": 0, "min": 0, "max": 0, "sum": 0, "counts": []}


def sent(frames: int = 100, **members: Any) -> dict[str, Any]:
    """Return the traffic program's report of a sender."""
    counts = {"cores": [[1, frames]], "frames": frames, "unsent": 0, "lag": EMPTY}
    return {**counts, "polls": 50, "empty_polls": 5, "blocked": 2, "lag_max_ns": 9, **members}


def received(frames: int = 100, **members: Any) -> dict[str, Any]:
    """Return the traffic program's report of a receiver."""
    names = ("early", "after_end", "late", "after_drain", "duplicated", "reordered", "beyond")
    kinds = ("corrupted", "foreign", "stray", "other_phase")
    return {
        **dict.fromkeys((*names, *kinds), 0),
        "frames": frames,
        "bytes": 60 * frames,
        "flows": [[frames, 0, 0, 0]],
        "intervals": [frames // 2, frames // 2],
        "polls": 80,
        "empty_polls": 40,
        "idle_ns": SECOND // 4,
        **members,
    }


def report(*tasks: dict[str, Any], **members: Any) -> dict[str, Any]:
    """Return the report of a process whose tasks say this."""
    port = {"mode": "qdisc", "rx_ring_drops": 0, "rx_invalid": 0, "tx_drops": 0}
    thread = {"cpu": 3, "cores": 1, "cpu_ns": SECOND // 2, "user_ns": SECOND // 5}
    used = {"wait_ns": -1, "yields": 7, "started_late_ns": 0}
    return {
        "failure": None,
        "duration_ns": SECOND,
        "tasks": [{"announced": 0, **task} for task in tasks],
        "ports": [{**port, **members.pop("port", {})}],
        "threads": [{**thread, **used, **members.pop("thread", {})}],
        **members,
    }

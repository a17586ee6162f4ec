"""Keys say which results belong together, and what a run folder or a cache has is found by them. So
what they are made of stays the same from version to version, and this module says of what."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from switchmark.model.spec import AXES, Test


def axes_in_key(test: Test) -> dict[str, Any]:
    """Return the axes of a test as keys have them."""
    axes = {
        name: value
        for name, value in test.model_dump(mode="json").items()
        if not (AXES[name].later and value == AXES[name].default)
    }
    # What is `auto` now was 1 before 1 could be asked for.
    cores = axes["switch_cores"]
    return {**axes, "switch_cores": {"auto": 1, 1: "1"}.get(cores, cores)}


def key_of_content(content: Mapping[str, Any]) -> str:
    """Return the hash of what a result depends on."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

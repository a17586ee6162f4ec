"""This module says how far each switch was verified: what `verified.toml` beside it has, which
`make verify` writes. What is not in that file is not verified."""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, ConfigDict, TypeAdapter

from switchmark.model.version import Verified

FILE = Path(__file__).with_name("verified.toml")

_LEAST: Verified = "not verified"
_ORDER: tuple[Verified, ...] = get_args(Verified)
"""From the least to the most."""


class Verification(BaseModel):
    """This record says how the ports of one kind of a switch were last tried with real frames."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    state: Verified
    """How far they are verified: not at all if anything failed."""

    date: datetime.date
    """When they were tried."""

    version: str
    """The version of the switch."""

    host: str
    """Where: the kernel, the distribution, the processor."""

    passed: tuple[str, ...] = ()
    """The semantics, scenarios and what else was measured, where the gate was passed and every
    frame accounted for."""

    failed: tuple[str, ...] = ()
    """Those where it was not."""

    why: str = ""
    """Why none was tried, where its plans alone are known to be what they were."""


_Content = Mapping[str, Mapping[str, Verification]]
"""By switch, and by kind of its ports; in a mode of the switch that was tried apart by both, as
`key_of` writes them."""


@cache
def verifications() -> _Content:
    """Return what the file has, by the names of switches and of their kinds of ports."""
    return TypeAdapter(_Content).validate_python(tomllib.loads(FILE.read_text()))


def key_of(kind: str, mode: str | None) -> str:
    """Return what the file calls a kind of port of a switch in a mode that was tried apart."""
    return f"{kind}, {mode}" if mode else kind


def verified(
    name: str, kinds: Collection[str], mode: str | None = None
) -> tuple[Verified, Mapping[str, Verified]]:
    """Return how far a switch was verified at best, and its kinds of ports that were less so; in a
    mode of its own where that was tried apart."""
    known = verifications().get(name.partition("@")[0], {})
    apart = {kind: known.get(key_of(kind, mode)) for kind in map(str, kinds)}
    entries = apart if any(apart.values()) else {kind: known.get(kind) for kind in apart}
    states = {kind: each.state if each else _LEAST for kind, each in entries.items()}
    best = max(states.values(), key=_ORDER.index, default=_LEAST)
    return best, {kind: state for kind, state in states.items() if state != best}

"""The verification state of each switch, from `verified.toml` in this folder, which `make verify`
writes. Switches without an entry are not verified."""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, ConfigDict, TypeAdapter

from switchmark.model.version import Verified, plain_name

FILE = Path(__file__).with_name("verified.toml")

_LEAST: Verified = "not verified"
_ORDER: tuple[Verified, ...] = get_args(Verified)
"""In rising order."""


class Verification(BaseModel):
    """The last test of a switch's ports of one kind with real frames."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    state: Verified
    """The degree of verification: `not verified` if any test failed."""

    date: datetime.date
    """The date of the test."""

    version: str
    """The version of the switch."""

    host: str
    """The host: kernel, distribution, processor."""

    passed: tuple[str, ...] = ()
    """The semantics, scenarios and other measurements that passed: the gate passed, and every frame
    was accounted for."""

    failed: tuple[str, ...] = ()
    """The semantics, scenarios and other measurements that failed."""

    why: str = ""
    """Why no test ran, if only the plans are checked."""


_Content = Mapping[str, Mapping[str, Verification]]
"""By switch and kind of port; if a mode was tested separately, by switch and `key_of` kind and
mode."""


@cache
def verifications() -> _Content:
    """Return the content of the file, by switch and kind of port."""
    return TypeAdapter(_Content).validate_python(tomllib.loads(FILE.read_text(encoding="utf-8")))


def key_of(kind: str, mode: str | None) -> str:
    """Return the file's key for a kind of port, in a mode that was tested separately."""
    return f"{kind}, {mode}" if mode else kind


def verified(
    name: str, kinds: Collection[str], mode: str | None = None
) -> tuple[Verified, Mapping[str, Verified]]:
    """Return the best verification state of a switch, and the kinds of ports with a lower state;
    for the given mode if that was tested separately."""
    recorded = verifications().get(plain_name(name), {})
    apart = {kind: recorded.get(key_of(kind, mode)) for kind in map(str, kinds)}
    entries = apart if any(apart.values()) else {kind: recorded.get(kind) for kind in apart}
    states = {kind: entry.state if entry else _LEAST for kind, entry in entries.items()}
    best = max(states.values(), key=_ORDER.index, default=_LEAST)
    return best, {kind: state for kind, state in states.items() if state != best}

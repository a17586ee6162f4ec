"""What a probe of a switch, an environment or an engine found on a host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Verified", "Version"]

Verified = Literal["verified", "verified in a VM", "plan-only"]


@dataclass(frozen=True, slots=True)
class Version:
    """`text` is the version as the tool prints it; `mode` names a variant that matters to a
    number, such as the datapath; `verified` is how far the driver was verified."""

    text: str
    mode: str | None = None
    verified: Verified = "verified"

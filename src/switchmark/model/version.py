"""What a probe of a switch, an environment or an engine found on a host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Verified = Literal["not verified", "plan-only", "verified in a VM", "verified"]


@dataclass(frozen=True, slots=True)
class Version:
    """What a probe found: paths are as they are on the host of the probe."""

    text: str
    """The version as the tool prints it."""
    mode: str | None = None
    """A variant that matters to a number, such as the datapath."""
    verified: Verified = "not verified"
    """How far the driver was verified."""
    missing: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Why kinds of ports cannot be had on this host, each with a hint."""
    verified_ports: Mapping[str, Verified] = field(default_factory=dict)
    """How far kinds of ports were verified that are behind the rest of the driver."""
    program: str = ""
    """The path of the program that was asked; empty for the kernel."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Paths of other files of its installation, by name."""

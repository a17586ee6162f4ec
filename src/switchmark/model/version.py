"""The result of a probe of a switch, an environment or an engine on a host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Verified = Literal["not verified", "plan-only", "verified in a VM", "verified"]


@dataclass(frozen=True, slots=True)
class Version:
    """The result of a probe. Paths are paths on the probed host."""

    text: str
    """The version as the tool prints it."""
    mode: str | None = None
    """A variant that matters for the figures, such as the datapath."""
    verified: Verified = "not verified"
    """How far the driver was verified."""
    missing: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Reasons and hints for the kinds of ports that this host does not support, by kind."""
    verified_ports: Mapping[str, Verified] = field(default_factory=dict)
    """How far a kind of port was verified, for kinds behind the rest of the driver."""
    program: str = ""
    """The path of the probed program; empty for the kernel."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Paths of other files of its installation, by name."""

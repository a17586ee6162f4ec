"""This module holds what a probe of a switch, an environment or an engine found on a host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Verified = Literal["not verified", "plan-only", "verified in a VM", "verified"]


@dataclass(frozen=True, slots=True)
class Version:
    """A version is what a probe found: `text` is the version as the tool prints it; `mode` names a
    variant that matters to a number, such as the datapath; `verified` is how far the driver was
    verified, which it is not until it says so, `verified_ports` that of kinds of ports of which
    less was. `missing` says of kinds of ports why they cannot be had on this host, with a hint.
    `program` is the path of the program that was asked, and `beside` are the paths of other files
    of its installation, by name: both as they are on the host of the probe."""

    text: str
    mode: str | None = None
    verified: Verified = "not verified"
    missing: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    verified_ports: Mapping[str, Verified] = field(default_factory=dict)
    program: str = ""
    beside: Mapping[str, str] = field(default_factory=dict)

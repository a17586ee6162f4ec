"""The result of a probe of a switch, an environment or an engine on a host, and the parts of a
switch's name on the command line: `NAME`, `NAME@VERSION` or `NAME:/FILE`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

Verified = Literal["not verified", "plan-only", "verified in a VM", "verified"]

VERSION_SEPARATOR, FILE_SEPARATOR = "@", ":"
_NAME = re.compile(rf"([^{VERSION_SEPARATOR}{FILE_SEPARATOR}]*)(.?)(.*)", re.DOTALL)


def name_parts(name: str) -> tuple[str, str, str]:
    """Return the name of a switch's driver, the separator, and the requested version or file. The
    last two are empty for a plain name."""
    match = _NAME.fullmatch(name)
    assert match  # any part may be empty
    return match[1], match[2], match[3]


def plain_name(name: str) -> str:
    """Return the name of a switch's driver, without the requested version or file."""
    return name_parts(name)[0]


@dataclass(frozen=True, slots=True)
class Image:
    """A container image that holds the program of a switch. Paths are paths in the image."""

    engine: str
    """The engine that has it: docker or podman."""
    name: str
    """Its name, as the user wrote it."""
    id: str = ""
    """Its id, the digest of its configuration; empty before a probe."""
    digests: tuple[str, ...] = ()
    """Its names in registries with the digest of its manifest; empty for an image made here."""
    env: Mapping[str, str] = field(default_factory=dict)
    """The environment variables that it sets for its programs."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """Its programs that a plan runs, by the name that the plan uses: a path, or a name that PATH
    leads to."""

    @property
    def key(self) -> str:
        """Return a short name for it that fits in names of files and containers."""
        return sha256(f"{self.engine}:{self.name}".encode()).hexdigest()[:8]


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
    image: Image | None = None
    """The container image that holds the program; None for a program of the host."""

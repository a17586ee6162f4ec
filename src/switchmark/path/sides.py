"""This module decides on which host a test is, and of two on which each part is. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from switchmark.errors import UsageError
from switchmark.model.plan import HOST
from switchmark.model.test import Test
from switchmark.model.topology import Topology

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_HINT = "--hosts a,b, by the names of the host file"


def environments_of(test: Test) -> tuple[str, ...]:
    """Return the environments of a test's functions and of its switch, each once."""
    return tuple(dict.fromkeys((test.environment, test.switch_environment)))


def hosts_of(test: Test) -> tuple[str, ...]:
    """Return the names of the two hosts of a remote test, the sender's first; that of the host of a
    local one, or none where it is on this host. UsageError where they are too many or too few."""
    names = tuple(name.strip() for name in (test.hosts or "").split(",") if name.strip())
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(f"'{name}' is no name of a host", hint=_HINT, axes=("hosts",))
    if test.locality == "local":
        if len(names) > 1:
            raise UsageError(
                f"hosts {test.hosts}: both ends of a local test are on one host",
                hint="--locality remote",
                axes=("hosts", "locality"),
            )
        return names if names != (HOST.host,) else ()
    if not names:
        raise UsageError(
            "locality remote is between two hosts", hint=_HINT, axes=("hosts", "locality")
        )
    if len(set(names)) != 2 or len(names) != 2:
        raise UsageError(
            f"hosts '{test.hosts}': locality remote is between two hosts",
            hint=_HINT,
            axes=("hosts",),
        )
    return names


def home_of(test: Test) -> str:
    """Return the name of the host that commands of a test run on which name none: that of a local
    test, else this one."""
    names = hosts_of(test)
    return names[0] if len(names) == 1 else HOST.host


def sides_of(topology: Topology) -> Mapping[str, int]:
    """Return the side of each part: 0 where the first flow of a pair begins, 1 where it ends.
    UsageError for functions between."""
    sides: dict[str, int] = {}
    parts = {port.id: port.part for port in topology.ports}
    for flow in topology.flows:
        if flow.hops:
            raise UsageError(
                "between two hosts frames go from one end to the other, through no functions",
                hint="--scenario v2v, p2p, p2v or v2p, with --chain 1",
                axes=("locality", "scenario", "chain"),
            )
        if parts[flow.source] not in sides:
            sides[parts[flow.source]] = 0
            sides[parts[flow.sink]] = 1
        sides.setdefault(parts[flow.sink], 1)
    return sides

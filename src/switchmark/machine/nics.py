"""This module lends a run the real NICs of a user: refused if they are in use, given back as they
were."""

from __future__ import annotations

import json
import re
from typing import Any

from switchmark.errors import Unavailable, UsageError
from switchmark.machine.host import Host
from switchmark.model.plan import Plan, Run, Step

__all__ = ["lend", "unused_link"]

_FEATURES = {
    "tx-checksumming": "tx",
    "scatter-gather": "sg",
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
    "tx-udp-segmentation": "tx-udp-segmentation",
}
"""What a run turns off: the name that `ethtool -k` prints, and the one that -K takes."""


def lend(host: Host, name: str, mac: str) -> Plan:
    """Return the steps that give the NIC the MAC `mac`, and whose undos restore MAC, features and
    state.

    UsageError if there is no such NIC or it is in use (`unused_link`).
    """
    link = unused_link(host, name)
    steps: list[Step] = []
    if "UP" in link.get("flags", []):
        up = ("ip", "link", "set", name, "up")
        steps.append(Run(f"{name} is up, and will be again", ("true",), undo=up))
    features = _features(host, name)
    if features:
        back = ("ethtool", "-K", name, *features)
        steps.append(Run(f"the features of {name} will be restored", ("true",), undo=back))
    steps.append(
        Run(
            f"the MAC of {name} for this run",
            ("ip", "link", "set", name, "address", mac),
            undo=("ip", "link", "set", name, "address", link["address"]),
        )
    )
    return tuple(steps)


def unused_link(host: Host, name: str) -> dict[str, Any]:
    """Return what `ip` tells of a NIC that nobody uses. UsageError if there is none of that name,
    or it carries a default route, has an address, or belongs to a bridge or bond."""
    link = _link(host, name)
    routes = _json(host, ("ip", "-j", "route", "show", "default"))
    routes += _json(host, ("ip", "-j", "-6", "route", "show", "default"))
    if any(route.get("dev") == name for route in routes):
        raise UsageError(f"the NIC {name} carries the default route: a run would cut this host off")
    addresses = [a["local"] for a in link.get("addr_info", []) if a.get("scope") == "global"]
    if addresses:
        raise UsageError(f"the NIC {name} is in use: it has the address {', '.join(addresses)}")
    if "master" in link:
        raise UsageError(f"the NIC {name} is in use: it belongs to {link['master']}")
    return link


def _link(host: Host, name: str) -> dict[str, Any]:
    done = host.run(("ip", "-j", "address", "show", "dev", name))
    if done.status:
        raise UsageError(f"there is no NIC named {name}", hint="ip link")
    link: dict[str, Any] = json.loads(done.stdout)[0]
    return link


def _json(host: Host, argv: tuple[str, ...]) -> list[dict[str, Any]]:
    done = host.run(argv)
    if done.status:
        raise Unavailable(f"{' '.join(argv)} failed: {done.stderr.decode(errors='replace')}")
    objects: list[dict[str, Any]] = json.loads(done.stdout or b"[]")
    return objects


def _features(host: Host, name: str) -> list[str]:
    """Return the features that are on now and can be turned, as words for ethtool -K."""
    done = host.run(("ethtool", "-k", name))
    words: list[str] = []
    for feature, value in re.findall(r"^\s*([a-z0-9-]+): (on|off)$", done.stdout.decode(), re.M):
        if feature in _FEATURES:
            words += [_FEATURES[feature], value]
    return words

"""Network configuration lists of CNI, the Container Network Interface, as its specification 1.0.0
defines them (https://www.cni.dev/docs/spec/). This module is pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from switchmark.model.topology import PortKind, Semantics

_KINDS = {"macvlan": PortKind.MACVLAN, "ipvlan": PortKind.IPVLAN}
_SEMANTICS = {
    "bridge": Semantics.LEARNING,
    "macvlan": Semantics.STATIC,
    "ipvlan": Semantics.STATIC,
}
_DEFAULT_MTU = 1500


@dataclass(frozen=True, slots=True)
class Conflist:
    """A network configuration list: the plugins that connect a pod, in order."""

    name: str
    """The name of the network."""
    plugins: tuple[Mapping[str, Any], ...]
    """The configuration of each plugin, with the name and the version that all of them share."""
    digest: str
    """The first digits of the SHA-256 of the file."""

    @property
    def types(self) -> tuple[str, ...]:
        """Return the names of the plugins, which are those of their programs."""
        return tuple(plugin["type"] for plugin in self.plugins)

    @property
    def programs(self) -> tuple[str, ...]:
        """Return the names of all programs that the list needs, including those that assign
        addresses."""
        assigning = [ipam["type"] for ipam in self._ipams if isinstance(ipam.get("type"), str)]
        return tuple(dict.fromkeys((*self.types, *assigning)))

    @property
    def kind(self) -> PortKind:
        """Return the kind of the interface that the first plugin creates in a pod."""
        return _KINDS.get(self.types[0], PortKind.VETH)

    @property
    def semantics(self) -> Semantics:
        """Return how the network forwards. A network of another plugin promises no more than routes
        to the addresses of pods."""
        return _SEMANTICS.get(self.types[0], Semantics.ROUTED)

    @property
    def mtu(self) -> int | None:
        """Return the MTU of the pods' interfaces, in bytes; None if it is that of the master."""
        set_by = [plugin["mtu"] for plugin in self.plugins if isinstance(plugin.get("mtu"), int)]
        usual = _DEFAULT_MTU if self.kind is PortKind.VETH else None
        return min([mtu for mtu in set_by if mtu > 0], default=usual)

    @property
    def masters(self) -> tuple[str, ...]:
        """Return the interfaces of the node that plugins build on. The plugins macvlan and ipvlan
        take the interface of the default route if the list names none."""
        named = [plugin["master"] for plugin in self.plugins if plugin.get("master")]
        if not named and self.kind is not PortKind.VETH:
            return ("eth0",)
        return tuple(dict.fromkeys(map(str, named)))

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the folders for state that the list names."""
        return tuple(
            dict.fromkeys(
                part["dataDir"].rstrip("/")
                for part in (*self.plugins, *self._ipams)
                if isinstance(part.get("dataDir"), str) and part["dataDir"].startswith("/")
            )
        )

    @property
    def _ipams(self) -> Iterator[Mapping[str, Any]]:
        for plugin in self.plugins:
            if isinstance(plugin.get("ipam"), Mapping):
                yield plugin["ipam"]


def parse_conflist(content: bytes) -> Conflist:
    """Return the list in a file. A file with the configuration of a single plugin is a list of one,
    as runtimes treat it. Raise ValueError with the reason if it is neither."""
    try:
        config = json.loads(content)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise ValueError("it is not a JSON object")
    plugins = config.get("plugins", [config])
    if not isinstance(plugins, list) or not plugins:
        raise ValueError("'plugins' is not a list of plugins")
    for number, plugin in enumerate(plugins):
        kind = plugin.get("type") if isinstance(plugin, dict) else None
        if not isinstance(kind, str) or not kind or "/" in kind:
            raise ValueError(f"plugin {number} has no 'type', the name of its program")
    name = config.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError("it has no 'name'")
    shared = {"cniVersion": config.get("cniVersion", "0.2.0"), "name": name}
    whole: Sequence[Mapping[str, Any]] = [{**plugin, **shared} for plugin in plugins]
    return Conflist(name, tuple(whole), hashlib.sha256(content).hexdigest()[:8])

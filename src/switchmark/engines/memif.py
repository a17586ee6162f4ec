"""memif ports without DPDK: the traffic program shares memory with the switch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from switchmark.engines.base import Engine
from switchmark.model.plan import Node, Plan
from switchmark.model.topology import Endpoint, PortKind, Wiring

_SLOTS = 1024
_BUFFER_BYTES = 2048
_SLOT_BYTES = 16
_SPREAD_BYTES = 64  # a cache line more, so that buffers lie in different sets of a cache
_LAYER_2_BYTES = 14 + 4
_PAGE_MB = 2


@dataclass(frozen=True, slots=True)
class Memif(Engine):
    """The end that connects owns the memory of a port: rings and buffers."""

    def prepare(self, wiring: Wiring, node: Node, endpoints: Sequence[Endpoint]) -> Plan:
        megabytes = sum(_megabytes(wiring) for end in endpoints if not end.server)
        if not megabytes:
            return ()
        return wiring.memory.reserve(f"memory for the frames of {node.name}", megabytes)

    def port_options(
        self, wiring: Wiring, node: Node, endpoints: Sequence[Endpoint], index: int, driver: str
    ) -> Mapping[str, Any]:
        end = endpoints[index]
        return {
            "socket": end.path,
            "role": "server" if end.server else "client",
            "queues": wiring.queues,
            "ring": wiring.descriptors or _SLOTS,
            "memory": wiring.memory.kind,
        }


def _megabytes(wiring: Wiring) -> int:
    """Return the size of a port's memory, sized as in traffic/engines/memif_talk.c."""
    buffer = max(_BUFFER_BYTES, -(-(wiring.mtu + _LAYER_2_BYTES) // 64) * 64)
    stride = buffer + _SPREAD_BYTES
    slots = 2 * wiring.queues * (wiring.descriptors or _SLOTS)
    return _PAGE_MB * -(-slots * (stride + 2 * _SLOT_BYTES) // (_PAGE_MB << 20))


ENGINE = Memif(
    name="memif",
    summary="memif without DPDK: frames in memory shared with the switch",
    port_kinds=frozenset({PortKind.MEMIF}),
    resources=frozenset({"queues", "descriptors", "function_cores"}),
    queue_a_core=True,
    user_memory=True,
    reconnects=True,
    capabilities=frozenset(),
)

"""AF_XDP sockets: native mode if the driver supports it, zero-copy if available."""

from __future__ import annotations

from dataclasses import dataclass

from switchmark.engines.base import Engine
from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.model.topology import PortKind
from switchmark.model.version import Version

_PROTOCOLS = "/proc/net/protocols"


@dataclass(frozen=True, slots=True)
class Xdp(Engine):
    """The engine needs a kernel with AF_XDP."""

    def probe(self, host: Host) -> Version:
        version = Engine.probe(self, host)
        if b"\nXDP " not in host.read(_PROTOCOLS):
            raise Unavailable(
                f"the kernel of {host.name} has no AF_XDP: {_PROTOCOLS} does not list XDP",
                hint="use a kernel with CONFIG_XDP_SOCKETS, or --engine mmap",
            )
        return version


ENGINE = Xdp(
    name="xdp",
    summary="AF_XDP",
    privilege="root",
    capabilities=frozenset({"NET_RAW", "NET_ADMIN", "BPF", "IPC_LOCK"}),
    resources=frozenset({"function_cores"}),
    queue_a_core=True,
    # Longer frames need Linux 6.6 and an XDP program that takes several buffers: a umem chunk of
    # one page holds these with their headroom.
    chosen_frame_max=3524,
    # A socket serves one queue: NICs and virtual functions may deliver frames to other queues.
    chosen_for=frozenset({PortKind.VETH, PortKind.TAP, PortKind.MACVLAN}),
    # Linux 6.18, veth behind a bridge: the tag stays in the skb metadata, invisible to XDP
    # programs.
    sees_tags=False,
)

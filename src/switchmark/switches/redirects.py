"""The family of kernel switches that are BPF wires: frames that arrive at one interface leave from
another. `switchmark-tool redirect` loads the program (traffic/src/redirect.bpf.c).

The module is independent of any single switch: drivers name the kernel hook of the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from switchmark.hosts.programs import tool_program
from switchmark.model.topology import Port, Wiring
from switchmark.switches.links import KernelSwitch, switch_ifname


def redirect(hook: Literal["xdp", "tc"], near: str, far: str) -> tuple[str, ...]:
    """Return the command that redirects all frames from one interface to another."""
    return (tool_program(), "redirect", hook, near, far)


def wires(wiring: Wiring) -> Iterator[tuple[Port, str, str]]:
    """Yield every forwarding path: the ingress port, its interface, and the egress interface."""
    for source, sinks in wiring.ways.items():
        for sink in sinks:
            near = wiring.port(source)
            yield near, switch_ifname(wiring, near), switch_ifname(wiring, wiring.port(sink))


class RedirectingSwitch(KernelSwitch):
    """A BPF program is the wire from each port to its peer. The sender's context does the work.
    Loading a program needs root in the initial user namespace."""

    capabilities = frozenset({"BPF", "PERFMON"})

    def accepts(self, wiring: Wiring) -> str | None:
        for port, sinks in wiring.ways.items():
            if len(sinks) > 1:
                return (
                    f"{self.name} connects ports in pairs: port {port} can send to one other "
                    f"port, not to {len(sinks)}\n\nhint: --switch linux-bridge"
                )
        return None

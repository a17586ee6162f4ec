"""tc redirects frames from one interface to another with a BPF program at ingress, as soon as they
are skbs and before the rest of the network stack sees them."""

from __future__ import annotations

from switchmark.hosts.base import Host
from switchmark.model.plan import Check, Plan, Run, Wait
from switchmark.model.topology import Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches import links
from switchmark.switches.changes import Change
from switchmark.switches.kernel_probes import CABLE, probe_kernel
from switchmark.switches.redirects import RedirectingSwitch, redirect, wires

_NO_HOOK = r"\A(?![\s\S]*clsact)"


class TcRedirect(RedirectingSwitch):
    """The qdisc `clsact` runs a program that calls `bpf_redirect()`."""

    name = "tc-redirect"
    semantics = (Semantics.PATCH,)
    port_kinds = links.PORT_KINDS
    resources = frozenset({"switch_cores"})
    counters = links.COUNTERS

    def probe(self, host: Host) -> Version:
        hook = ("tc", "qdisc", "add", "dev", "sm-a", "clsact")
        tried = (CABLE, hook, redirect("tc", "sm-a", "sm-b"))
        return Version(probe_kernel(host, *tried))

    def start(self, wiring: Wiring) -> Plan:
        steps: Plan = ()
        for port in wiring.ports:
            steps += links.add_port(wiring, port)
        return steps + self._redirected(wiring)

    def remade(self, wiring: Wiring) -> Change:
        disturb: Plan = ()
        for _, near, _ in wires(wiring):
            remove, show = (("tc", "qdisc", verb, "dev", near) for verb in ("del", "show"))
            disturb += (
                Run(f"no program at {near}", (*remove, "clsact"), at=wiring.node),
                Wait(f"no program is seen at {near}", Check(show, wiring.node, _NO_HOOK)),
            )
        return Change(disturb, self._redirected(wiring))

    def _redirected(self, wiring: Wiring) -> Plan:
        steps: Plan = ()
        for port, near, far in wires(wiring):
            hook = ("tc", "qdisc", "add", "dev", near, "clsact")
            undo = ("tc", "qdisc", "del", "dev", near, "clsact") if port.nic else None
            why = f"frames received at {near} leave at {far}"
            steps += (
                Run(
                    f"programs can process the frames received at {near}",
                    hook,
                    at=wiring.node,
                    undo=undo,
                ),
                Run(why, redirect("tc", near, far), at=wiring.node),
            )
        return steps


SWITCH = TcRedirect()

"""The kernel routes IPv4 frames, in the sender's context."""

from __future__ import annotations

from switchmark.hosts.base import Host
from switchmark.model.version import Version
from switchmark.switches.kernel_probes import CABLE, probe_kernel
from switchmark.switches.routers import FORWARDING, KernelRouter


class IpForward(KernelRouter):
    """The kernel's router without extensions."""

    name = "ip-forward"

    def probe(self, host: Host) -> Version:
        return Version(probe_kernel(host, CABLE, FORWARDING))


SWITCH = IpForward()

"""The table of switches: to add a switch, add its file and one line here.

Third-party switches register under the entry-point group `switchmark.switches`; the table checks
every switch against the contract at registration.
"""

from __future__ import annotations

from switchmark.plugins import load_plugins
from switchmark.switches import (
    basicfwd,
    bess,
    cni,
    direct,
    fastclick,
    ip_forward,
    ipvlan,
    l2fwd,
    linux_bridge,
    macvlan,
    netkit,
    nft_flowtable,
    null,
    ovs,
    ovs_dpdk,
    pod_network,
    snabb,
    sriov,
    t4p4s,
    tc_redirect,
    testpmd,
    vale,
    vpp,
    vxlan,
    xdp_redirect,
)
from switchmark.switches.base import Switch
from switchmark.switches.versions import Switches

_MEMBERS = load_plugins(
    "switchmark.switches",
    Switch,  # type: ignore[type-abstract]
    (
        direct.SWITCH,
        linux_bridge.SWITCH,
        ip_forward.SWITCH,
        nft_flowtable.SWITCH,
        macvlan.SWITCH,
        ipvlan.SWITCH,
        sriov.SWITCH,
        tc_redirect.SWITCH,
        xdp_redirect.SWITCH,
        netkit.SWITCH,
        vxlan.SWITCH,
        vale.SWITCH,
        ovs.SWITCH,
        ovs_dpdk.SWITCH,
        vpp.SWITCH,
        bess.SWITCH,
        t4p4s.SWITCH,
        snabb.SWITCH,
        fastclick.SWITCH,
        testpmd.SWITCH,
        basicfwd.SWITCH,
        l2fwd.SWITCH,
        cni.SWITCH,
        pod_network.SWITCH,
        null.SWITCH,
    ),
)

TABLE = Switches(_MEMBERS, _MEMBERS.unusable)

"""The network that CNI plugins make for pods, as container runtimes and Kubernetes call them.

Each function is a pod: a network namespace, which the plugins of a network configuration list join
to the network (`ADD`) and remove from it (`DEL`), unmodified and in the order of the list
(https://www.cni.dev/docs/spec/). Plugins make their bridges, rules and sysctls in the network
namespace that they run in. Here that is the node of the switch, and folders of the run stand in for
the folders of the host in which plugins keep their state.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from switchmark.environments import netns_of, network_stack
from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.host_file import LOCAL
from switchmark.hosts.programs import on_other, require_programs
from switchmark.model.addresses import Addressing, mac_address
from switchmark.model.plan import Folder, Node, Plan, Run, Write
from switchmark.model.topology import Endpoint, Port, PortKind, Wiring
from switchmark.model.version import Version
from switchmark.runs.anchor import privileges
from switchmark.switches import links
from switchmark.switches.base import Counters, Counting, Switch
from switchmark.switches.conflists import Conflist, parse_conflist
from switchmark.switches.kernel_options import require_options
from switchmark.switches.kernel_probes import CABLE, probe_kernel
from switchmark.switches.pod_addresses import ADDRESSES, ROUTES, PodNetwork, read_pods

_USUAL = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "198.18.0.0/16"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
    ],
}
"""The network without a file: a bridge with an address, as most runtimes make it."""

_IFNAME = "eth0"
"""The interface of a pod, by the name that Kubernetes gives it."""

_PLUGIN_FOLDERS = ("/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")
"""The folders of plugins: of Kubernetes, of Debian's package, of Fedora's."""

_PACKAGE = "containernetworking-plugins"
_STATE_FOLDERS = ("/var/lib/cni", "/run/cni")
"""The folders in which plugins keep state: leases of addresses, old values of sysctls."""

_LOOK = r"""
"$1" 2>&1 | sed -n 's/^CNI .* plugin v\{0,1\}\([0-9][^ ]*\).*/\1/p'
dpkg-query -W -f '${Version}' "$2" 2>/dev/null
"""
"""Prints the version of a plugin, then that of the package. Debian's plugins do not know theirs."""

_CALL = r"""# COMMAND POD PROGRAM NETNS STATE FOLDER...: run a CNI plugin, with its configuration
# as the input, and with folders below STATE in place of each FOLDER
set -eu
command=$1 pod=$2 program=$3 netns=$4 state=$5
shift 5
for folder; do
  mkdir -p "$state$folder"
  mount --bind "$state$folder" "$folder"
done
config=$(cat)
[ ! -s "$state/$pod" ] || config="${config%?},\"prevResult\":$(cat "$state/$pod")}"
export CNI_COMMAND="$command" CNI_CONTAINERID="$pod" CNI_NETNS="$netns" CNI_IFNAME=eth0
export CNI_PATH="${program%/*}" CNI_ARGS=IgnoreUnknown=1
# no plugin finds the host's firewalld
export DBUS_SYSTEM_BUS_ADDRESS="unix:path=$state/no-bus"
status=0
printf %s "$config" | "$program" >"$state/$pod.printed" || status=$?
if [ "$status" -ne 0 ]; then
  tr -s ' \t\n' ' ' <"$state/$pod.printed" >&2
elif [ "$command" = ADD ]; then
  mv "$state/$pod.printed" "$state/$pod"
fi
exit "$status"
"""
"""How a runtime calls a plugin: later plugins, and `DEL`, get the result of the last `ADD`."""

_UNHEARD = ("iptables", "-t", "raw", "-A", "PREROUTING", "-j", "DROP")
"""Keeps frames from the IP stack of a pod: it would answer test frames, which no socket receives.
Packet sockets and AF_XDP get a frame before this rule does, and ARP goes on."""


def _state(wiring: Wiring) -> str:
    return f"{wiring.switch_dir}/plugins"


def _network(wiring: Wiring) -> PodNetwork:
    """Return the network of the pods, from the outputs of the driver's `asks`."""
    node, *pods = wiring.answers
    return read_pods([port.id for port in wiring.ports], node, pods)


def _parse_counters(wiring: Wiring, outputs: tuple[bytes, ...]) -> Counters:
    """Return the counters of the near ends of the pods' veth pairs. The children of one interface
    share it, so their ports have no counters."""
    counted = links.parse_link_counters(outputs[0])
    if not wiring.answers:
        return Counters()
    network = _network(wiring)
    near = network.cables
    try:
        # The kernel counts a drop at a full end at the other end, too.
        return Counters(
            {port: replace(counted[link.name], rx_dropped=None) for port, link in near.items()}
        )
    except KeyError as missing:
        raise ValueError(f"ip printed no link {missing}") from missing


class Cni(Switch):
    """The network of a network configuration list of CNI; without a file, a bridge with an address
    and addresses of 198.18.0.0/16."""

    name = "cni"
    described_by = "network configuration list of CNI"
    counters = Counting(links.link_counters, _parse_counters)
    private_stack = True
    network: Conflist = parse_conflist(json.dumps(_USUAL).encode())
    """The list that the plugins get."""
    semantics = (network.semantics,)
    port_kinds = (network.kind,)

    def described(self, content: bytes) -> Switch:
        described = copy.copy(self)
        described.network = parse_conflist(content)
        described.semantics = (described.network.semantics,)
        described.port_kinds = (described.network.kind,)
        return described

    def probe(self, host: Host) -> Version:
        if host.is_local and privileges() != "root":
            raise Unavailable(
                "CNI plugins need real root, not root in a user namespace", hint="run it with sudo"
            )
        folder = _plugin_folder(host, self.network.programs)
        if self.network.kind is PortKind.IPVLAN:
            require_options(host, "CONFIG_IPVLAN")
        require_programs(host, {"iptables": "iptables"})
        probe_kernel(host, CABLE, _UNHEARD)
        program = f"{folder}/{self.network.types[0]}"
        printed = host.run(("sh", "-c", _LOOK, "sh", program, _PACKAGE)).stdout.split()
        version = printed[0].decode(errors="replace") if printed else "of unknown version"
        made = f"{'+'.join(self.network.types)} {self.network.digest}"
        return Version(f"plugins {version}, {made}", beside={"plugins": folder})

    def accepts(self, wiring: Wiring) -> str | None:
        if any(port.physical for port in wiring.ports):
            return "cni connects pods, and a physical port is none\n\nhint: --scenario v2v"
        if len({port.part for port in wiring.ports}) < len(wiring.ports):
            return "cni gives a pod one interface\n\nhint: --scenario v2v"
        if not (wiring.node.isolated and wiring.node.reaches):
            return (
                "the plugins of cni run in a network namespace of this host\n\nhint: "
                "--switch-environment netns"
            )
        if any(not port.node.isolated or netns_of(port.node) is None for port in wiring.ports):
            return "the pods of cni are network namespaces\n\nhint: --environment netns"
        if self.network.mtu is not None and wiring.mtu > self.network.mtu:
            return (
                f"the interfaces of network {self.network.name} have an MTU of {self.network.mtu} "
                f'bytes, and these frames need {wiring.mtu}\n\nhint: "mtu": {wiring.mtu} in its '
                "configuration"
            )
        if wiring.functions.napi or wiring.functions.queues > 1:
            return (
                "cni leaves the interfaces of pods as the plugins make them: with one queue, "
                "and without polling\n\nhint: --engine raw-mmsg --function-cores 1"
            )
        if self.network.kind is PortKind.IPVLAN and not wiring.functions.ip_stack:
            return (
                "ipvlan forwards by the IP addresses of interfaces, so frames have to pass the "
                "IP stacks of pods\n\nhint: --engine udp-mmsg"
            )
        return None

    def endpoints(self, wiring: Wiring) -> Mapping[str, Endpoint]:
        network = _network(wiring) if wiring.answers else PodNetwork({}, ())
        pods, near = network.pods, network.cables
        return {
            port.id: Endpoint(
                kind=self.network.kind,
                mac=pods[port.id].link.mac if pods else mac_address(port.index),
                ifname=_IFNAME,
                switch_ifname=near[port.id].name if near else "",
                staged=_IFNAME,
                in_place=True,
                addressed=True,
                mtu=wiring.mtu,
            )
            for port in wiring.ports
        }

    def addressing(self, wiring: Wiring) -> Mapping[str, Addressing]:
        """Return the addresses of the pods. A frame for a pod on the link goes to its MAC; any
        other frame goes to the router, which rewrites MACs and decrements the TTL."""
        if not wiring.answers:
            return super().addressing(wiring)
        network = _network(wiring)
        found = {}
        for flow in wiring.flows:
            source, sink = network.pods[flow.source], network.pods[flow.sink]
            there, back = (
                network.hop(flow.source, flow.sink),
                network.hop(flow.sink, flow.source),
            )
            found[flow.id] = Addressing(
                sent_src_mac=source.link.mac,
                sent_dst_mac=there.mac,
                seen_src_mac=back.mac if there.routed else source.link.mac,
                seen_dst_mac=sink.link.mac,
                source_ip=source.ip,
                sink_ip=sink.ip,
                prefix=source.address.network.prefixlen,
                gateway=there.ip if there.routed else None,
                routed=int(there.routed),
            )
        return found

    def start(self, wiring: Wiring) -> Plan:
        folders = (*_STATE_FOLDERS, *self.network.folders)
        # A bridge that snoops joins the group of all snoopers and reports it for seconds.
        quiet = {"net.ipv4.igmp_link_local_mcast_reports": "0"}
        steps: Plan = (
            *links.set_sysctls(wiring, "no IGMP reports: nothing but test frames", quiet),
            *(
                Folder(f"a mount point for what plugins keep in {folder}", folder)
                for folder in folders
            ),
            Write("how plugins are called", f"{_state(wiring)}.sh", _CALL.encode()),
            Run("what plugins keep stays in the run's folder", ("mkdir", "-p", _state(wiring))),
        )
        for number, master in enumerate(self.network.masters):
            steps += self._add_master(wiring, number, master)
        for port in wiring.ports:
            for plugin in self.network.plugins:
                steps += (self._call(wiring, port, plugin, folders),)
        return steps

    def _call(
        self, wiring: Wiring, port: Port, plugin: Mapping[str, Any], folders: tuple[str, ...]
    ) -> Run:
        """Return the call of a plugin that joins a pod to the network."""
        program = f"{wiring.version.beside.get('plugins', '/usr/lib/cni')}/{plugin['type']}"
        place = (netns_of(port.node) or "", _state(wiring))
        config = json.dumps(plugin, separators=(",", ":")).encode()

        def call(command: str) -> tuple[str, ...]:
            script = ("unshare", "--mount", "sh", f"{_state(wiring)}.sh")
            return (*script, command, port.node.name, program, *place, *folders)

        return Run(
            f"{plugin['type']} of network {self.network.name} joins pod {port.part}",
            call("ADD"),
            at=wiring.node,
            stdin=config,
            undo=call("DEL"),
            undo_stdin=config,
            undo_refusable=True,
            timeout_s=60.0,
        )

    def _add_master(self, wiring: Wiring, number: int, master: str) -> Plan:
        """Return the steps that add the interface that plugins build on: one end of a veth pair, as
        it stands for a NIC elsewhere. It has the default route, which plugins look for if the list
        names no interface."""
        far = wiring.name(f"up{number}")
        macs = (mac_address(2 * number + index, router=True) for index in (0, 1))
        ends = (master, far)
        return (
            *links.add_veth(wiring, *ends, *macs),
            *(Run(f"{end} up", ("ip", "link", "set", end, "up"), at=wiring.node) for end in ends),
            Run(
                f"plugins find {master} by the default route",
                ("ip", "route", "append", "default", "dev", master),
                at=wiring.node,
            ),
        )

    def asks(self, wiring: Wiring) -> tuple[Run, ...]:
        return (
            Run("the interfaces of the network", ADDRESSES, at=wiring.node),
            *(
                Run(f"{what} of pod {port.part}", (*look, "dev", _IFNAME), network_stack(port.node))
                for port in wiring.ports
                for what, look in (("the addresses", ADDRESSES), ("the routes", ROUTES))
            ),
        )

    def join(self, wiring: Wiring) -> Plan:
        """Return the steps that keep ARP and the IP stacks of pods from affecting a trial. The
        neighbours are known once the plugins have chosen the addresses."""
        steps: Plan = ()
        if wiring.answers:
            network = _network(wiring)
            for source, sinks in wiring.ways.items():
                for sink in sinks:
                    hop = network.hop(source, sink)
                    stack = network_stack(wiring.port(source).node)
                    steps += (_neighbour(hop.ip, hop.mac, _IFNAME, stack),)
                    near = network.towards(source)
                    if hop.routed and near:
                        pod = network.pods[source]
                        steps += (_neighbour(pod.ip, pod.link.mac, near.name, wiring.node),)
        if not wiring.functions.ip_stack:
            for port in wiring.ports:
                why = f"the IP stack of pod {port.part} hears no test frame"
                steps += (Run(why, _UNHEARD, at=network_stack(port.node)),)
        return steps


def _neighbour(ip: str, mac: str, ifname: str, node: Node) -> Run:
    return Run(
        f"a neighbour entry for {ip}: no ARP during a trial",
        ("ip", "neighbour", "replace", ip, "lladdr", mac, "dev", ifname, "nud", "permanent"),
        at=node,
    )


def _plugin_folder(host: Host, programs: tuple[str, ...]) -> str:
    """Return the folder that has all these plugins on a host. CNI_PATH names more folders on this
    host. Raise Unavailable if no folder has them all."""
    named = os.environ.get("CNI_PATH", "") if host.name == LOCAL else ""
    folders = [folder for folder in (*named.split(":"), *_PLUGIN_FOLDERS) if folder]
    lacking = {
        folder: [name for name in programs if not host.exists(str(PurePath(folder, name)))]
        for folder in dict.fromkeys(folders)
    }
    for folder, missing in lacking.items():
        if not missing:
            return folder
    nearest, missing = min(lacking.items(), key=lambda item: len(item[1]))
    if len(missing) == len(programs):
        why = f"no CNI plugin {', '.join(missing)} is in {', '.join(lacking)}"
    else:
        why = f"{nearest} has no CNI plugin {', '.join(missing)}"
    raise Unavailable(why + on_other(host), hint=f"apt-get install {_PACKAGE}")


SWITCH = Cni()

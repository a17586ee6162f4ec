"""A private instance of Open vSwitch: its folder, database and daemons, and the argv of its tools.

The module is independent of datapaths and ports: drivers pass the daemon and configure the bridge.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from signal import SIGTERM

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.programs import programs_beside, require_programs
from switchmark.model.plan import Check, Plan, Run, Spawn, Wait
from switchmark.model.topology import Port, Wiring
from switchmark.switches.changes import Change

_PROGRAMS = {
    "ovsdb-tool": "openvswitch-common",
    "ovsdb-server": "openvswitch-common",
    "ovs-appctl": "openvswitch-common",
    "ovs-ofctl": "openvswitch-common",
    "ovs-vsctl": "openvswitch-switch",
}
"""The programs of an instance in addition to the switch's daemon, and the packages that contain
them."""

_DPCTL = "ovs-dpctl"
COMPANIONS = (*_PROGRAMS, _DPCTL)
"""The programs of an instance in addition to the switch's daemon."""

_SCHEMA = "vswitch.ovsschema"
_USUAL_SCHEMA = f"/usr/share/openvswitch/{_SCHEMA}"
_BUILT = ("bin", "sbin", "utilities", "ovsdb", "share/openvswitch")
"""The folders of its files, in an installation and in a build tree."""


def require_instance(host: Host, daemon: str, hint: str) -> Mapping[str, str]:
    """Return the paths of the programs and files that an instance needs in addition to its daemon,
    by name, as far as they come from the same installation. A daemon on PATH uses the tools on
    PATH. Unavailable, with `hint`, if the host lacks one of them."""
    beside = programs_beside(host, daemon, (*_PROGRAMS, _DPCTL, _SCHEMA), _BUILT)
    schema = beside.get(_SCHEMA, _USUAL_SCHEMA)
    if not host.exists(schema):
        raise Unavailable(f"the schema {schema} is missing", hint=hint)
    require_programs(host, {beside.get(name, name): package for name, package in _PROGRAMS.items()})
    return beside


def _tool(wiring: Wiring, name: str) -> str:
    """Return the path of a tool of the same version as the daemon."""
    return wiring.version.beside.get(name, name)


def instance_dir(wiring: Wiring) -> str:
    """Return the folder of the instance, which holds its database and its sockets."""
    return f"{wiring.switch_dir}/{wiring.prefix}-ovs"


def daemon_name(wiring: Wiring) -> str:
    """Return the daemon's name in the plan."""
    return f"{wiring.prefix}-vswitchd"


def pidfile(wiring: Wiring) -> str:
    """Return the path of the daemon's PID file, which holds the PID as seen where the switch
    runs."""
    return f"{instance_dir(wiring)}/vswitchd.pid"


def _control(wiring: Wiring) -> str:
    return f"{instance_dir(wiring)}/vswitchd.ctl"


def _env(wiring: Wiring) -> dict[str, str]:
    return {f"OVS_{kind}DIR": instance_dir(wiring) for kind in ("RUN", "DB", "LOG", "SYSCONF")}


def vsctl(wiring: Wiring, *arguments: str) -> tuple[str, ...]:
    """Return the argv of `ovs-vsctl` on this instance's database; it fails if the database does not
    answer."""
    tool = _tool(wiring, "ovs-vsctl")
    return (tool, "--timeout=10", f"--db=unix:{instance_dir(wiring)}/db.sock", *arguments)


def appctl(wiring: Wiring, *arguments: str) -> tuple[str, ...]:
    """Return the argv of `ovs-appctl` for this instance's switch."""
    return (_tool(wiring, "ovs-appctl"), "-t", _control(wiring), *arguments)


def bridge_name(wiring: Wiring) -> str:
    """Return the name of the instance's bridge, which is also an interface: unique to the run if it
    is in the host's network stack."""
    return "br0" if wiring.node.isolated else wiring.name("br0")


def on_host(wiring: Wiring, datapath: str) -> Plan:
    """Create the interfaces of an instance in the host's network stack, so that the undo removes
    them; in a node they disappear with the node. The step fails if another instance has a datapath
    of this type there: `system` (the kernel's) or `netdev`.

    The interface of a datapath has the same name in every instance and outlives its daemon. The
    daemon creates the interface of the kernel's datapath itself, and takes over all existing
    datapaths of the kernel.
    """
    if wiring.node.isolated:
        return ()
    name, bridge = f"ovs-{datapath}", bridge_name(wiring)
    if datapath == "system":
        dpctl = shlex.quote(_tool(wiring, _DPCTL))
        none = f'dps=$({dpctl} dump-dps) && echo $dps >&2 && test -z "$dps"'
        there = f"ip link show dev {name} > /dev/null 2>&1"
        delete = f"if {there}; then {dpctl} del-dp {name}; fi"
        return (
            Run("the kernel has no other datapath", ("sh", "-c", none)),
            Run(f"{name} belongs to this run", ("true",), undo=("sh", "-c", delete)),
        )
    first, second = wiring.name("dp"), wiring.name("datapath")
    return (
        _tap("its datapath's interface", first),
        Run(
            "an alternative name, by which the undo finds it",
            ("ip", "link", "property", "add", "dev", first, "altname", second),
            undo=("ip", "link", "del", second),
        ),
        Run(
            "its usual name, unless another interface has it",
            ("ip", "link", "set", first, "name", name),
        ),
        _tap("its bridge's interface", bridge),
    )


def _tap(why: str, name: str) -> Run:
    return Run(
        why, ("ip", "tuntap", "add", "dev", name, "mode", "tap"), undo=("ip", "link", "del", name)
    )


def database(wiring: Wiring) -> Plan:
    """Create the folder, and start a database server with an empty configuration."""
    home, env, server = instance_dir(wiring), _env(wiring), f"{wiring.prefix}-ovsdb"
    schema = wiring.version.beside.get(_SCHEMA, _USUAL_SCHEMA)
    create = (_tool(wiring, "ovsdb-tool"), "create", f"{home}/conf.db", schema)
    return (
        Run("a folder for this instance", ("mkdir", "-p", home), undo=("rm", "-rf", home)),
        Run("its database", create),
        Spawn(
            "the database's server",
            server,
            (
                *(
                    _tool(wiring, "ovsdb-server"),
                    f"{home}/conf.db",
                    f"--remote=punix:{home}/db.sock",
                ),
                *(f"--unixctl={home}/ovsdb.ctl", "--log-file=/dev/null"),
            ),
            at=wiring.node,
            env=env,
            stop=(SIGTERM, 3.0),
        ),
        Wait(
            "the database answers",
            Check((_tool(wiring, "ovs-appctl"), "-t", f"{home}/ovsdb.ctl", "version"), env=env),
            unless_dead=server,
        ),
        Run("an empty configuration", vsctl(wiring, "--no-wait", "init")),
    )


def daemon(
    wiring: Wiring, why: str, argv: tuple[str, ...], env: Mapping[str, str] | None = None
) -> Plan:
    """Start the switch's daemon and wait until it answers; `argv` is the program, with a prefix
    that pins it."""
    return (
        Spawn(
            why,
            daemon_name(wiring),
            (
                *(*argv, f"unix:{instance_dir(wiring)}/db.sock"),
                *(f"--unixctl={_control(wiring)}", f"--pidfile={pidfile(wiring)}"),
                *("--log-file=/dev/null", "-vconsole:warn"),
            ),
            at=wiring.node,
            env={**_env(wiring), **(env or {})},
            stop=(SIGTERM, 5.0),
        ),
        Wait(
            "the switch answers",
            Check(appctl(wiring, "version"), env=_env(wiring)),
            unless_dead=daemon_name(wiring),
        ),
    )


def configured_again(wiring: Wiring) -> Run:
    """Wait until a new daemon has applied the configuration in the database, of which the state of
    links is part. `ovs-vsctl` waits for that after a change."""
    change = f"external_ids:switchmark=${{{daemon_name(wiring)}}}"
    return Run(
        "the new daemon has applied its configuration",
        vsctl(wiring, "set", "Open_vSwitch", ".", change),
    )


def spare_port(wiring: Wiring) -> Change:
    """Return the plan that adds an internal port to the bridge and removes it."""
    bridge, name = bridge_name(wiring), wiring.name("x0")
    added = ("add-port", bridge, name, "--", "set", "Interface", name, "type=internal")
    seen = Check(vsctl(wiring, "get", "Interface", name, "ofport"), pattern=r"^\d")
    return Change(
        (Run("a spare port", vsctl(wiring, *added)), Wait("the switch has the spare port", seen)),
        (Run("the spare port is removed", vsctl(wiring, "del-port", bridge, name)),),
    )


def port_number(port: Port) -> int:
    """Return the port's OpenFlow number, which starts at 1."""
    return port.index + 1


def static_refusal(wiring: Wiring, name: str) -> str | None:
    """Return the reason why static rules do not support a wiring, or None."""
    copied = {flow.source for flow in wiring.flows if len(wiring.copies(flow)) > 1}
    for port_id, sinks in wiring.ways.items():
        if len(sinks) > 1 and None in sinks.values() and port_id not in copied:
            return (
                f"{name} has one static rule per port: port {port_id} must have one peer, not "
                f"{len(sinks)}\n\nhint: --semantics learning"
            )
    return None


def add_static_rules(wiring: Wiring) -> Plan:
    """Add rules that forward frames from a port only to its peer; by source MAC if chains share the
    port."""
    outputs: dict[tuple[str, str | None], list[str]] = {}
    for port_id, sinks in wiring.ways.items():
        for sink, mac in sorted(sinks.items()):
            outputs.setdefault((port_id, mac), []).append(
                f"output:{port_number(wiring.port(sink))}"
            )
    rules = [
        f"in_port={port_number(wiring.port(port_id))}"
        + (f",dl_src={mac}" if mac else "")
        + f",actions={','.join(actions)}\n"
        for (port_id, mac), actions in outputs.items()
    ]
    bridge = f"unix:{instance_dir(wiring)}/{bridge_name(wiring)}.mgmt"
    return (
        Run(
            "frames received at a port leave at its peer",
            (_tool(wiring, "ovs-ofctl"), "--timeout=10", "add-flows", bridge, "-"),
            stdin="".join(rules).encode(),
        ),
    )

"""This module runs a private instance of Open vSwitch: its folder, its database, its daemons, its
tools' argv.

It knows no datapath and no port: each switch gives its daemon and configures its own bridge.
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

_PROGRAMS = {
    "ovsdb-tool": "openvswitch-common",
    "ovsdb-server": "openvswitch-common",
    "ovs-appctl": "openvswitch-common",
    "ovs-ofctl": "openvswitch-common",
    "ovs-vsctl": "openvswitch-switch",
}
"""The programs of an instance, beside its switch's daemon, and the packages that they are in."""

_DPCTL = "ovs-dpctl"
_SCHEMA = "vswitch.ovsschema"
_USUAL_SCHEMA = f"/usr/share/openvswitch/{_SCHEMA}"
_BUILT = ("bin", "sbin", "utilities", "ovsdb", "share/openvswitch")
"""The folders of its files, of an installation and of a tree in which it was built."""


def require_instance(host: Host, daemon: str, hint: str) -> Mapping[str, str]:
    """Return the paths of what an instance with this daemon needs beside it on a host, by name, as
    far as they are of the daemon's own installation: a daemon on PATH has its like there.
    Unavailable, with `hint`, where the host lacks something."""
    beside = programs_beside(host, daemon, (*_PROGRAMS, _DPCTL, _SCHEMA), _BUILT)
    schema = beside.get(_SCHEMA, _USUAL_SCHEMA)
    if not host.exists(schema):
        raise Unavailable(f"the schema {schema} is missing", hint=hint)
    require_programs(host, {beside.get(name, name): package for name, package in _PROGRAMS.items()})
    return beside


def _tool(wiring: Wiring, name: str) -> str:
    """Return the path of a program of the same version as the daemon."""
    return wiring.version.beside.get(name, name)


def instance_dir(wiring: Wiring) -> str:
    """Return the folder of the instance, which holds its database and its sockets."""
    return f"{wiring.own_dir}/{wiring.prefix}-ovs"


def daemon_name(wiring: Wiring) -> str:
    """Return the name by which the plan starts the switch's daemon."""
    return f"{wiring.prefix}-vswitchd"


def pidfile(wiring: Wiring) -> str:
    """Return the path where the daemon writes its process id, as it is where the switch runs."""
    return f"{instance_dir(wiring)}/vswitchd.pid"


def _control(wiring: Wiring) -> str:
    return f"{instance_dir(wiring)}/vswitchd.ctl"


def _env(wiring: Wiring) -> dict[str, str]:
    return {f"OVS_{kind}DIR": instance_dir(wiring) for kind in ("RUN", "DB", "LOG", "SYSCONF")}


def vsctl(wiring: Wiring, *words: str) -> tuple[str, ...]:
    """Return the argv of `ovs-vsctl` on this instance's database; one that gets no answer ends in
    an error."""
    tool = _tool(wiring, "ovs-vsctl")
    return (tool, "--timeout=10", f"--db=unix:{instance_dir(wiring)}/db.sock", *words)


def appctl(wiring: Wiring, *words: str) -> tuple[str, ...]:
    """Return the argv of `ovs-appctl` to this instance's switch."""
    return (_tool(wiring, "ovs-appctl"), "-t", _control(wiring), *words)


def bridge_name(wiring: Wiring) -> str:
    """Return the name of the instance's bridge, which is an interface too: on the host's own
    network stack one of this run."""
    return "br0" if wiring.at.isolated else wiring.name("br0")


def on_host(wiring: Wiring, datapath: str) -> Plan:
    """Make what an instance has on the host's own network stack, so that it goes with the run; a
    node's stack is new, and ends with its node. It fails where another instance has such a datapath
    there: `system`, the kernel's, or `netdev`.

    The datapath has an interface of one name in every instance, which outlives its daemon. That of
    the kernel is the daemon's to make; it takes all such datapaths for its own.
    """
    if wiring.at.isolated:
        return ()
    name, bridge = f"ovs-{datapath}", bridge_name(wiring)
    if datapath == "system":
        dpctl = shlex.quote(_tool(wiring, _DPCTL))
        none = f'dps=$({dpctl} dump-dps) && echo $dps >&2 && test -z "$dps"'
        there = f"ip link show dev {name} > /dev/null 2>&1"
        delete = f"if {there}; then {dpctl} del-dp {name}; fi"
        return (
            Run("the kernel has no other datapath", ("sh", "-c", none)),
            Run(f"{name} will be this run's", ("true",), undo=("sh", "-c", delete)),
        )
    first, second = wiring.name("dp"), wiring.name("datapath")
    return (
        _tap("its datapath's interface", first),
        Run(
            "a second name, by which it is found",
            ("ip", "link", "property", "add", "dev", first, "altname", second),
            undo=("ip", "link", "del", second),
        ),
        Run(
            "the name that it has in every instance, unless another has it",
            ("ip", "link", "set", first, "name", name),
        ),
        _tap("its bridge's interface", bridge),
    )


def _tap(why: str, name: str) -> Run:
    return Run(
        why, ("ip", "tuntap", "add", "dev", name, "mode", "tap"), undo=("ip", "link", "del", name)
    )


def database(wiring: Wiring) -> Plan:
    """Make the folder, and start a server with an empty configuration."""
    home, env, server = instance_dir(wiring), _env(wiring), f"{wiring.prefix}-ovsdb"
    schema = wiring.version.beside.get(_SCHEMA, _USUAL_SCHEMA)
    create = (_tool(wiring, "ovsdb-tool"), "create", f"{home}/conf.db", schema)
    return (
        Run("a place for this instance", ("mkdir", "-p", home), undo=("rm", "-rf", home)),
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
            at=wiring.at,
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
    """Start the switch's daemon and wait until it answers; `argv` is its program and what pins
    it."""
    return (
        Spawn(
            why,
            daemon_name(wiring),
            (
                *(*argv, f"unix:{instance_dir(wiring)}/db.sock"),
                *(f"--unixctl={_control(wiring)}", f"--pidfile={pidfile(wiring)}"),
                *("--log-file=/dev/null", "-vconsole:warn"),
            ),
            at=wiring.at,
            env={**_env(wiring), **(env or {})},
            stop=(SIGTERM, 5.0),
        ),
        Wait(
            "the switch answers",
            Check(appctl(wiring, "version"), env=_env(wiring)),
            unless_dead=daemon_name(wiring),
        ),
    )


def port_number(port: Port) -> int:
    """Return the port's number in OpenFlow, which counts from 1."""
    return port.index + 1


def static_refusal(wiring: Wiring, name: str) -> str | None:
    """Return the reason why static rules cannot make a wiring, or None."""
    copied = {flow.source for flow in wiring.flows if len(wiring.copies(flow)) > 1}
    for port_id, sinks in wiring.ways.items():
        if len(sinks) > 1 and None in sinks.values() and port_id not in copied:
            return (
                f"{name} has one static rule for a port: port {port_id} must have one peer, not "
                f"{len(sinks)}\n\nhint: --semantics learning"
            )
    return None


def add_static_rules(wiring: Wiring) -> Plan:
    """Add the rules by which frames from one port go out at its peer, and nowhere else; by source
    MAC where chains share the port."""
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
            "what comes in at a port goes out at its peer",
            (_tool(wiring, "ovs-ofctl"), "--timeout=10", "add-flows", bridge, "-"),
            stdin="".join(rules).encode(),
        ),
    )

"""The command `doctor`: what this host can do, what is missing, and the command that fixes it.

It changes nothing on the host. It tries commands in a temporary network namespace.
"""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from switchmark.cli.listing import Thing, listed
from switchmark.errors import SwitchmarkError
from switchmark.extras import EXTRAS
from switchmark.hosts.base import Host
from switchmark.hosts.images import ANY_ENGINE
from switchmark.hosts.local import LocalHost
from switchmark.hosts.programs import command_path, find_program, tool_program
from switchmark.lab.host_preparation import state_on
from switchmark.model.cpus import format_cpus
from switchmark.model.noise import BUSY
from switchmark.model.preparation import TABLE as PREPARATIONS
from switchmark.model.preparation import option
from switchmark.observe.cpus import read_cpus
from switchmark.observe.facts import host_facts
from switchmark.observe.noise import LONG_JITTER_MS, NEEDED_CPUS, Steal, certificate
from switchmark.observe.perf import probe as probe_counters
from switchmark.observe.softirq import within_threads
from switchmark.runs.anchor import privileges
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.builds import builds_on
from switchmark.switches.versions import probe_asked

TOOLS = {
    "ip": ("iproute2", True),
    "ethtool": ("ethtool", True),
    "sysctl": ("procps", True),
    "unshare": ("util-linux", True),
    "setpriv": ("util-linux", True),
    "tcpdump": ("tcpdump", False),
}
"""Programs, with their Debian package and whether every run needs them."""

_LINKS = {
    "veth": "type veth peer name sm-peer",
    "bridge": "type bridge",
    "macvlan": "link sm-base type macvlan mode bridge",
}
"""Kinds of link, with the end of the command that makes them."""

_MARKS = "✓ available   - missing, optional   ! makes figures unreliable   ✗ missing, required"

_HOST = LocalHost()
_AF_XDP = 44
_STEAL_WINDOW_S = 0.3
_STEAL_LIMIT = 0.01
_LOST_LIMIT = 0.01
_PRESSURE_LIMIT = 0.1


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    area: str
    """The heading of the section that shows it."""
    name: str
    """The subject of the check."""
    ok: bool
    """Whether the check passed. A failed check that is not `needed` and does not spoil figures
    matters only to runs that use the feature."""
    found: str
    """The finding in words."""
    mend: str | None = None
    """The command or the parameter that fixes it."""
    needed: bool = False
    """Whether its failure prevents every run."""
    spoils: bool = False
    """Whether its failure makes figures unreliable."""

    @property
    def mark(self) -> str:
        """Return the mark that is printed before the finding."""
        return "✓" if self.ok else "✗" if self.needed else "!" if self.spoils else "-"


def examine(host: Host = _HOST) -> list[Finding]:
    """Run all checks on a host and return the findings, the most basic first."""
    findings: list[Finding] = []
    for area in (
        *(_privileges, _tools, _extras, _kernel, _cores, _preparations, _noise, _memory),
        _drivers,
    ):
        findings += area(host)
    return findings


def print_findings(findings: Sequence[Finding], stream: IO[str]) -> None:
    """Print whether this host can measure, then a line for each finding, by area, with a fix."""
    print(f"{_verdict(findings)}\n", file=stream)
    width = max(len(finding.name) for finding in findings)
    area = ""
    for finding in findings:
        if finding.area != area:
            area = finding.area
            print(area, file=stream)
        first, *rest = finding.found.splitlines() or [""]
        print(f"  {finding.mark} {finding.name:{width}}  {first}", file=stream)
        for line in rest:
            print(f"    {'':{width}}  {line}", file=stream)
        if finding.mend and not finding.ok:
            print(f"    {'':{width}}  fix: {finding.mend}", file=stream)
    print(f"\n{_MARKS}", file=stream)


def _verdict(findings: Sequence[Finding]) -> str:
    """Return one line that says whether this host can measure."""
    names: dict[str, list[str]] = {}
    for finding in findings:
        names.setdefault(finding.mark, []).append(finding.name)
    if missing := names.get("✗"):
        return f"✗ This host cannot run tests: {', '.join(missing)} missing."
    if spoilt := names.get("!"):
        return f"! Tests run here, but their figures are unreliable now: see {', '.join(spoilt)}."
    return "✓ This host is fit to measure."


def _privileges(host: Host) -> Iterator[Finding]:
    if host is not _HOST:
        root = host.run(("id", "-u")).stdout.strip() == b"0"
        mend = None if root else f'address = "root@..." in [hosts.{host.name}] of the host file'
        text = "root" if root else "not root, which a run on this host needs"
        yield Finding("privileges", "namespaces", root, text, mend, needed=True)
        return
    try:
        available = privileges()
    except SwitchmarkError as error:
        yield Finding("privileges", "namespaces", False, error.message, error.hint, needed=True)
    else:
        text = "root" if available == "root" else "not root; runs live in a user namespace"
        yield Finding("privileges", "namespaces", True, text, needed=True)


def _tools(host: Host) -> Iterator[Finding]:
    for tool, (package, needed) in TOOLS.items():
        path = find_program(tool) if host is _HOST else _found(host, tool)
        mend = None if path else f"apt-get install {package}"
        yield Finding("tools", tool, path is not None, path or "not installed", mend, needed)


def _extras(host: Host) -> Iterator[Finding]:
    if host is _HOST:
        for extra in EXTRAS:
            yes = extra.installed
            text = extra.purpose if yes else f"not installed: {extra.purpose}"
            yield Finding("extras", extra.name, yes, text, None if yes else extra.install)


def _kernel(host: Host) -> Iterator[Finding]:
    for kind, rest in _LINKS.items():
        command = f"ip link add sm-base type veth peer name sm-end && ip link add sm-probe {rest}"
        yield _tried(host, "kernel", f"link {kind}", ("sh", "-c", command), f"modprobe {kind}")
    if host is _HOST:
        yield _af_xdp()
    tun = host.exists("/dev/net/tun")
    yield Finding("kernel", "tun", tun, "available" if tun else "no /dev/net/tun", "modprobe tun")


def _af_xdp() -> Finding:
    try:
        socket.socket(_AF_XDP, socket.SOCK_RAW, 0).close()
    except PermissionError:
        return Finding("kernel", "AF_XDP", True, "available; needs root")
    except OSError as error:
        return Finding(
            "kernel", "AF_XDP", False, str(error.strerror), "boot a kernel with XDP_SOCKETS"
        )
    return Finding("kernel", "AF_XDP", True, "available")


def _found(host: Host, tool: str) -> str | None:
    path = command_path(host, tool)
    return path if "/" in path else None


def _tried(host: Host, area: str, name: str, argv: tuple[str, ...], mend: str) -> Finding:
    try:
        root = host is not _HOST or os.geteuid() == 0
        user = () if root else ("--user", "--map-root-user")
        completed = host.run(("unshare", *user, "--net", *argv))
    except SwitchmarkError as error:
        return Finding(area, name, False, error.message, error.hint)
    if completed.status == 0:
        return Finding(area, name, True, "available")
    return Finding(area, name, False, completed.stderr.decode(errors="replace").strip(), mend)


def _cores(host: Host) -> Iterator[Finding]:
    facts = host_facts(host)
    cpus = read_cpus(host)
    enough = len(cpus) >= NEEDED_CPUS
    yield Finding(
        "cores",
        "usable",
        enough,
        f"{len(cpus)} ({format_cpus([cpu.id for cpu in cpus])}), {facts['cpu_model'] or 'unknown'}",
        None if enough else f"use a host with {NEEDED_CPUS} CPUs: for sender, receiver and switch",
    )
    isolated = [cpu.id for cpu in cpus if cpu.isolated]
    yield Finding(
        "cores",
        "isolated",
        bool(isolated),
        format_cpus(isolated) or "none",
        None if isolated else "boot with isolcpus=... for the cores of the traffic",
    )
    steal = Steal(host)
    time.sleep(_STEAL_WINDOW_S)
    stolen = steal()
    yield Finding(
        "cores",
        "steal",
        stolen < _STEAL_LIMIT,
        f"{stolen:.1%} in {_STEAL_WINDOW_S} s",
        None if stolen < _STEAL_LIMIT else "give this virtual machine dedicated cores",
        spoils=True,
    )
    steady = len(facts["tsc"]) == 2
    text = "constant, nonstop" if steady else "not constant or not nonstop"
    yield Finding("cores", "TSC", steady, text, spoils=True)
    counting = probe_counters(host)
    events = ", ".join(counting.events) + (", outside of the kernel" if counting.user_only else "")
    yield Finding(
        "cores", "counters", not counting.missing, counting.missing or events, counting.hint
    )
    within = within_threads(host)
    texts = {
        True: "is in the CPU time of threads",
        False: "is counted separately",
        None: "is unknown",
    }
    yield Finding("cores", "softirq", within is not None, f"its time {texts[within]}")


def _preparations(host: Host) -> Iterator[Finding]:
    """Return the state of everything that `--prepare` sets, and what it would do."""
    for name, each in PREPARATIONS.items():
        entries = state_on(host, each)
        values = Counter(entry.value for entry in entries)
        text = ", ".join(f"{value} ({n} files)" * (n > 1) or value for value, n in values.items())
        would = f"{option([name])} sets: {each.effect}"
        if not entries:
            yield Finding("preparation", name, False, each.lacking, each.fix)
        elif each.of_test:
            yield Finding("preparation", name, True, f"{len(entries)} files; {would}")
        elif all(entry.is_set for entry in entries):
            yield Finding("preparation", name, True, f"{text}: {each.effect}")
        else:
            text = f"{each.what}: {text}"
            yield Finding("preparation", name, False, text, would, spoils=each.spoils)


def _noise(host: Host) -> Iterator[Finding]:
    """Return the noise certificate of every usable CPU, as in the record of a test."""
    cpus = [cpu.id for cpu in read_cpus(host)]
    noise = certificate(host, tool_program(), cpus, LONG_JITTER_MS)
    if noise.jitter is None:
        yield Finding("noise", "jitter", False, "switchmark-tool cannot be run", "make setup")
    for cpu, jitter in (noise.jitter or {}).items():
        lost, longest = jitter.lost or 0.0, jitter.max_ns / 1e6
        quiet = lost < _LOST_LIMIT
        skew = ""
        if jitter.skew_ns is not None:
            skew = f"; its counter is {jitter.skew_ns} ns ahead, +- {jitter.skew_within_ns}"
        yield Finding(
            "noise",
            f"CPU {cpu}",
            quiet,
            f"other work took {lost:.2%} of a busy loop, at most {longest:.3f} ms at once; "
            f"{noise.interrupts_per_s.get(cpu, 0):g} device interrupts/s{skew}",
            None if quiet else "stop other programs, or boot with isolcpus=",
            spoils=lost > BUSY,
        )
    pressure = noise.pressure
    if pressure is not None:
        text = f"processes waited for a CPU {min(pressure, 1.0):.0%} of the time"
        yield Finding("noise", "pressure", pressure < _PRESSURE_LIMIT, text)


def _memory(host: Host) -> Iterator[Finding]:
    pages: dict[str, Any] = host_facts(host)["hugepages"]
    total = pages["total"] or 0
    yield Finding(
        "memory",
        "hugepages",
        total > 0,
        f"{pages['free'] or 0} of {total} free, {pages['size_kib'] or 0} KiB each",
        None if total else "sysctl vm.nr_hugepages=512",
    )


def _drivers(host: Host) -> Iterator[Finding]:
    for thing in (Thing.ENGINES, Thing.ENVIRONMENTS, Thing.SWITCHES):
        for entry in listed(thing, host=host):
            parts = (entry["version"], entry["mode"]) if entry["usable"] else (entry["why_not"],)
            text = ", ".join(filter(None, parts)) or "available"
            if thing is Thing.SWITCHES and not entry["usable"]:
                text = "\n".join((text, *_of_builds(host, entry["name"])))
            yield Finding(str(thing), entry["name"], entry["usable"], text, entry["hint"])


def _of_builds(host: Host, name: str) -> Iterator[str]:
    """Yield what a build of a missing switch must have, who publishes packages of it, and which
    builds of it are in the usual folders."""
    switch = SWITCHES.get(name)
    if switch is None or switch.build is None:
        return
    yield f"a build needs {switch.build.needs}"
    if switch.build.packages:
        yield switch.build.packages
    if not switch.program_file:
        yield f"or use an image that has it: --switch {name}@{ANY_ENGINE}:IMAGE"
    for seen in builds_on(host, switch.build):
        if not seen.program:
            places = " or ".join(switch.build.places)
            yield f"{seen.tree} is not built: it has no {places}"
            continue
        build = f"{name}@{seen.tree if switch.program_file else seen.program}"
        try:
            version = probe_asked(SWITCHES[build], host)
        except SwitchmarkError as error:
            first, *_ = error.message.splitlines()
            yield f"{seen.program} cannot be used: {first}"
        else:
            words = " ".join(filter(None, (version.text, version.mode)))
            yield f"{seen.program} is {words}: --switch {build}"

"""This tool tries a switch with real frames in a fixed matrix, and keeps what passed, for
`switchmark list switches` and the reference.

`python tools/verify.py NAME...` as root. Every kind of port and every semantics of the switch meets
every scenario, and of v2v both directions, long frames and round trips; the first semantics meet
functions in containers (`v2v to docker`), and the switch is in one (`v2v in docker`), of the
runtimes that are here. A test passes if the gate before it does and every frame is accounted for.
NICs by their kernel interfaces are veth pairs here; NICs by PCI address are left as the file has
them.
"""

from __future__ import annotations

import datetime
import itertools
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from switchmark.engines.base import KERNEL_PORTS
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.errors import SwitchmarkError, Unavailable
from switchmark.lab.measure import Lab
from switchmark.layout.resolve import check
from switchmark.machine.facts import host_facts
from switchmark.machine.host import LocalHost
from switchmark.model.record import Record
from switchmark.model.spec import Test
from switchmark.model.topology import PortKind
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.base import Switch
from switchmark.switches.verified import FILE, Verification, verifications

HEAD = (
    "# How far each switch was verified, by kind of port. Written by `make verify SWITCH=NAME`.\n"
    "# What is verified in a VM was tried there by hand: NICs past the kernel (nic-pci), and what\n"
    "# this kernel lacks.\n"
)
GOLDEN = Path(__file__).parents[1] / "tests/golden"

USUAL = {"duration": 0.15, "warmup": 0.05, "rate": "20k"}
TRIES = 3
"""Of each test: on a busy host a sender may have no turn."""

MORE: Mapping[str, dict[str, Any]] = {
    "v2v bi": {"scenario": "v2v", "direction": "bi"},
    "v2v 1500": {"scenario": "v2v", "frame_size": 1500},
    "v2v latency": {"scenario": "v2v", "dimension": "latency", "rate": "1000"},
}
"""What is tried besides each scenario one way with frames of 64 bytes."""

RUNTIMES = ("lxc", "docker", "podman")
ENDS = ({"environment": "netns"}, {"environment": "vm"})
ENGINES = ("raw-mmsg", "udp-mmsg", "dpdk", "null")
"""The first of each that joins a kind of port is taken: sockets are for DPDK's ends, and the IP
stack is for switches that look at addresses of IP."""

NICS = ("smver0", "smver1", "smver2", "smver3")
OF_NICS = {"p2p": "a0=smver0:smver1,b0=smver2:smver3", "p2v": "a0=smver0:smver1"}
"""The tests of a switch's NICs."""


def contained(runtimes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the tests of containers: those of the functions, and the switch's own."""
    tests: dict[str, dict[str, Any]] = {}
    for name in runtimes:
        tests[f"v2v to {name}"] = {"scenario": "v2v", "environment": name}
        tests[f"v2v in {name}"] = {"scenario": "v2v", "switch_environment": name}
    return tests


def matrix(
    switch: Switch, kind: PortKind, runtimes: Sequence[str] = RUNTIMES
) -> Iterator[tuple[str, Test]]:
    """Yield the tests that a kind of port can be in, each with its name."""
    scenarios = {name: {"scenario": name} for name in SCENARIOS}
    engines = ENGINES if kind in KERNEL_PORTS else ENGINES[2:]
    for number, semantics in enumerate(switch.semantics):
        inside = {} if number else contained(runtimes)
        for name, axes in {**scenarios, **MORE, **inside}.items():
            if kind is PortKind.NIC_KERNEL and name not in OF_NICS:
                continue
            ports = {"nic": OF_NICS[name]} if kind is PortKind.NIC_KERNEL else {"port": kind}
            what = {"switch": switch.name, "semantics": semantics}
            tests = (
                Test.model_validate({**USUAL, **end, **axes, **ports, **what, "engine": engine})
                for end, engine in itertools.product(ENDS, engines)
            )
            if fitting := next((test for test in tests if not check(test)), None):
                yield f"{semantics} {name}", fitting


def fault_of(record: Record) -> str | None:
    """Return what a record shows that should not be; None if every frame is accounted for."""
    if record.status != "ok":
        return (record.error or record.status).partition("\n")[0]
    nowhere = record.test.port == PortKind.NULL
    sent = sum(trial.tx_frames for trial in record.trials)
    received = sum(trial.rx_frames for trial in record.trials)
    if not sent or not (received or nowhere):
        return f"{sent} frames sent, {received} received"
    if nowhere:
        return None
    counts = {
        name: sum(abs(getattr(trial, name)) for trial in record.trials)
        for name in ("unaccounted", "duplicated", "reordered", "corrupted", "stray", "foreign")
    }
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count) or None


def usable(runtime: str) -> bool:
    """Say whether this host has a runtime of containers."""
    try:
        ENVIRONMENTS[runtime].probe(LocalHost())
    except Unavailable:
        return False
    return True


def tried(switch: Switch, kind: PortKind, where: str) -> Verification | None:
    """Return what the tests of a kind of port show; None where it can be in none of them."""
    passed: list[str] = []
    failed: list[str] = []
    versions = set()
    for name, test in matrix(switch, kind, [name for name in RUNTIMES if usable(name)]):
        fault: str | None = "not tried"
        for _ in range(TRIES):
            with tempfile.TemporaryDirectory() as folder, Lab(Path(folder)) as lab:
                record = lab.run(test)
            if (fault := fault_of(record)) is None:
                break
        versions.add(" ".join(filter(None, (record.switch_version, record.switch_mode))))
        print(f"{switch.name} {kind} {name}: {fault or 'passed'}", flush=True)
        (failed if fault else passed).append(name)
    if not passed and not failed:
        return None
    return Verification(
        state="not verified" if failed or not passed else "verified",
        date=datetime.datetime.now(datetime.UTC).date(),
        version=own_words(min(versions - {""}, default="")),
        host=where,
        passed=tuple(passed),
        failed=tuple(failed),
    )


def own_words(text: str) -> str:
    """Return a version without what only one builder of a kernel calls it."""
    return re.sub(r"^(\d+\.\d+\.\d+)-\S+", r"\1", text)


def place() -> str:
    """Say what this host is."""
    facts = host_facts(LocalHost())
    kernel = f"Linux {own_words(facts['kernel'])}, {facts['distribution']}"
    cores = f"{facts['cores_usable']} CPUs of {facts['cpu_model']}"
    return ", ".join((kernel, cores, *["virtual"] * bool(facts["virtual"])))


@contextmanager
def nics() -> Iterator[None]:
    """Make two pairs of interfaces that stand for NICs and what is at the other ends of them."""
    cables = (NICS[:2], NICS[2:])
    try:
        for one, other in cables:
            add = ["ip", "link", "add", one, "type", "veth", "peer", "name", other]
            subprocess.run(add, check=True)
            # A veth takes what is sent by XDP redirect only where its peer polls; NICs always do.
            subprocess.run(["ethtool", "-K", other, "gro", "on"], check=True)
        yield
    finally:
        for one, _ in cables:
            subprocess.run(["ip", "link", "del", one], check=False)


def verify(name: str) -> dict[str, Verification]:
    """Return what is known of a switch by kind of port: what this host can try is tried anew."""
    switch = SWITCHES[name]
    known = dict(verifications().get(name, {}))
    where = place()
    try:
        switch.probe(LocalHost())
    except Unavailable as error:
        if switch.program or known or not golden_plans(name):
            raise
        return {str(kind): plan_only(error, where) for kind in switch.port_kinds}
    with nics():
        for kind in switch.port_kinds:
            if kind is not PortKind.NIC_PCI and (result := tried(switch, kind, where)):
                known[str(kind)] = result
    return known


def golden_plans(name: str) -> list[Path]:
    """Return the golden files that hold the plans of a switch."""
    return [*GOLDEN.glob(f"{name}/*.txt"), *GOLDEN.glob(f"variants/{name}-*.txt")]


def plan_only(error: Unavailable, where: str) -> Verification:
    """Return what is known of a switch of the kernel that this one lacks: its plans, which golden
    files hold."""
    why = re.sub(r"^the kernel (\S+)", lambda name: f"Linux {own_words(name[1])}", error.message)
    today = datetime.datetime.now(datetime.UTC).date()
    return Verification(
        state="plan-only", date=today, version="", host=where, why=why.partition("\n")[0]
    )


def text_of(content: Mapping[str, Mapping[str, Verification]]) -> str:
    """Write the file: switches in the order of their table, then those of plug-ins by name."""
    order = [*SWITCHES, *sorted(set(content) - set(SWITCHES))]
    tables = [
        "\n".join(
            [
                f"[{name}.{_bare(kind)}]",
                f'state = "{each.state}"',
                f"date = {each.date}",
                f'version = "{each.version}"',
                f'host = "{each.host}"',
                *_list("passed", each.passed),
                *_list("failed", each.failed),
                *([f'why = "{each.why}"'] if each.why else []),
            ]
        )
        for name in order
        for kind, each in content.get(name, {}).items()
    ]
    return "\n\n".join((HEAD.rstrip("\n"), *tables)) + "\n"


def _bare(kind: str) -> str:
    return f'"{kind}"' if " " in kind else kind


def _list(name: str, words: tuple[str, ...]) -> list[str]:
    return [f"{name} = [", *(f'    "{word}",' for word in words), "]"] if words else []


def main() -> None:
    """Try the switches that are named, one after the other, and keep each at once."""
    content = {name: dict(kinds) for name, kinds in verifications().items()}
    status = 0
    for name in sys.argv[1:]:
        if name not in SWITCHES:
            sys.exit(f"there is no switch named '{name}': {', '.join(SWITCHES)}")
        try:
            content[name] = verify(name)
        except SwitchmarkError as error:
            print(f"{name}: {error}", file=sys.stderr)
            status = 1
            continue
        status |= any(each.failed for each in content[name].values())
        FILE.write_text(text_of(content))
    sys.exit(status)


if __name__ == "__main__":
    main()

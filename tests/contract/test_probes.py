"""These tests check what drivers ask of a host before they say that it can be used: every program
of their plans."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pytest

from switchmark.cli import doctor
from switchmark.engines import TABLE as ENGINES
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments.base import Attachment, Needs
from switchmark.errors import Unavailable
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.model.plan import Node, Plan, Run, Wait
from switchmark.model.test import Test
from switchmark.model.topology import Endpoint, PortKind
from switchmark.model.version import Version
from switchmark.noises import TABLE as NOISES
from switchmark.noises.base import Site
from switchmark.path.resolving import resolve
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.base import Switch

TABLES: tuple[Mapping[str, Any], ...] = (SWITCHES, ENGINES, ENVIRONMENTS, FUNCTIONS, NOISES)
HERE = Node("sm0000-f0", "netns", run_dir="/run/x/sm0000")
END = Endpoint(PortKind.VETH, "02:00:00:00:00:01", ifname="sm0000-e0", staged="sm0000-e0")
NEEDS = Needs(attachments=(Attachment(END, HERE),))


class Quiet(RecordingHost):
    """On this host every program tells the same of itself."""

    def run(self, argv: tuple[str, ...], **options: Any) -> Completed:
        engines = ", ".join(f'{{"name": "{name}"}}' for name in ENGINES)
        if argv[1:] == ("engines",):
            return Completed(0, f'{{"version": "1", "engines": [{engines}]}}'.encode(), b"")
        if argv[0] == "sh":
            return Completed(0, b"", b"")
        if argv[:2] == ("ip", "-j"):
            return Completed(0, b"[{}]", b"")
        if argv[:2] == ("docker", "-H"):
            return Completed(1, b"", b"no daemon of the user's")
        text = b"ovs-vswitchd (Open vSwitch) 1\nDPDK 1\nRTE Version: 'DPDK 1'\nversion 1, nginx/1"
        text += b"\nvpp v1 built\nsnabb 1\nversion:\n1\n"
        return Completed(0, text, b"")

    def exists(self, path: str) -> bool:
        return True

    def read(self, path: str) -> bytes:
        if path == "/proc/net/protocols":
            return b"protocol\nXDP  1\n"
        return b"0" if path.endswith("/sriov_numvfs") else b"1"

    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        nics = (
            pattern.replace("*", "nic")
            for pattern in patterns
            if pattern.endswith("/sriov_totalvfs")
        )
        return dict.fromkeys(nics, b"7")


def test_only_what_says_so_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver is listed as not verified until it says otherwise, which all drivers of this project
    do. For switches, a file says it (`switches.verified`), and for functions that are switches."""
    assert Version("1").verified == "not verified"
    monkeypatch.setattr("switchmark.environments.containers.privileges", lambda: "root")
    for table in TABLES:
        for name, driver in table.items():
            if isinstance(driver, Switch):
                assert driver.probe(Quiet()).verified == "not verified", name
            elif name not in SWITCHES and hasattr(driver, "probe"):
                verified = driver.probe(Quiet()).verified
                assert verified == "verified", f"{name} was not tried with real frames: its probe"


ESSENTIAL = {
    *("cat", "cp", "echo", "env", "find", "grep", "install", "ln", "ls", "mkdir", "mount"),
    "nsenter",
    *("printf", "readlink", "rm", "rmdir", "sh", "sleep", "tar", "taskset", "tee", "test", "true"),
    *doctor.TOOLS,
    *("bridge", "ss", "tc"),  # of the package of `ip`
    *("mktemp", "umount", PurePosixPath(sys.executable).name),
}
"""Programs that every Debian has, or whose lack `doctor` names."""


def programs_of(plan: Plan) -> set[str]:
    """Return the programs that a plan starts, without what starts them."""
    found = set()
    for step in plan:
        argv = step.check.argv if isinstance(step, Wait) else getattr(step, "argv", ())
        arguments = [word for word in argv if "=" not in word and not word.startswith("-")]
        while arguments and arguments[0] in ("env", "nsenter", "taskset"):
            arguments = [
                word for word in arguments[1:] if not re.fullmatch(r"[\d,-]+|\$\{.*\}", word)
            ]
        found |= {PurePosixPath(arguments[0]).name} if arguments else set()
    return found - ESSENTIAL


class Lacking(Quiet):
    """This host lacks one program."""

    def __init__(self, program: str) -> None:
        super().__init__()
        self.program = program

    def run(self, argv: tuple[str, ...], **options: Any) -> Completed:
        if PurePosixPath(argv[0]).name == self.program:
            raise Unavailable(f"the program '{argv[0]}' is not installed", hint="switchmark doctor")
        if argv[0] == "sh" and self.program in argv:
            return Completed(0, f"{self.program}\n".encode(), b"")
        return super().run(argv, **options)


def plans() -> Iterator[tuple[str, Any, Plan]]:
    """Yield what every switch, environment and noise may do, with its name."""
    for name, switch in SWITCHES.items():
        for semantics in switch.semantics:
            w = resolve(
                Test(switch=name, semantics=semantics, engine="null" if name == "null" else "raw"),
                prefix="sm0000",
                run_dir="/run/x",
            ).wiring
            for mode in (None, "kernel"):
                w = replace(w, version=replace(w.version, mode=mode))
                steps = (*switch.start(w), *switch.join(w), *switch.settled(w))
                yield name, switch, (*steps, *switch.counters.commands(w))
    for name, environment in ENVIRONMENTS.items():
        node = replace(HERE, environment=name)
        way = Run("inside", environment.inside(node, ("true",)))
        yield name, environment, (*environment.create(node, NEEDS), way)
    for name, noise in NOISES.items():
        yield name, noise, noise.start(Site("sm0000", "/run/x", (0,), 1))


def test_every_program_of_a_plan_is_probed_and_a_missing_one_has_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("switchmark.environments.containers.privileges", lambda: "root")
    looked_at = set()
    for name, driver, plan in plans():
        for program in programs_of(plan):
            looked_at.add(program)
            if program.startswith("switchmark-"):
                continue  # of this package: its engines are probed
            with pytest.raises(Unavailable) as refused:
                driver.probe(Lacking(program))
                pytest.fail(f"{name} does not ask for {program}")
            hint = refused.value.hint or ""
            found = hint.startswith(("apt-get install", "make setup")) or "SWITCHMARK_" in hint
            assert found, (name, program, hint)
    assert looked_at > {"ovsdb-tool", "ovs-ofctl", "ovs-vsctl", "docker", "lxc-start", "podman"}

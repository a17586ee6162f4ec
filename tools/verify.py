"""This tool tries a switch with real frames in a fixed matrix.

With `--write` it keeps what passed, for `switchmark list switches` and the reference.

`python tools/verify.py [--host HOST [--host-file FILE]] [--more] [--write] NAME...` as root;
`NAME.KIND` is one kind of the switch's ports. Every kind of port and
every semantics of the switch meets every scenario, and of v2v both directions, long frames and
round trips; the first semantics meet functions in containers (`v2v to docker`), and the switch is
in one (`v2v in docker`), of the runtimes that are here. A test passes if the gate before it does,
every frame is accounted for, and a switch that tells of its fast path used it. NICs by their kernel
interfaces are veth pairs here; NICs by PCI address are left as the file has them. With `--more`
what passed on that host with this version of the switch today or yesterday, as the file has it, is
not tried again.

With `--host` all this is done on a host of the host file, at a rate that an emulated processor
bears where its processor is emulated. What was verified on this host stays: what another kernel
shows is then kept apart, by the switch's mode or by that kernel.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from switchmark.engines.base import KERNEL_PORTS
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.errors import SwitchmarkError, Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.host_file import LOCAL, VARIABLE, host_entries
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.local import LocalHost
from switchmark.hosts.qemu import qemu
from switchmark.lab.measure import Lab
from switchmark.model.record import Record
from switchmark.model.test import Test
from switchmark.model.topology import PortKind
from switchmark.model.version import Verified
from switchmark.observe.facts import host_facts
from switchmark.path.refusals import check
from switchmark.runs.own_run import OwnRun
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.base import Switch
from switchmark.switches.verified import FILE, Verification, key_of, verifications
from switchmark.switches.versions import probe_asked

HEAD = (
    "# How far each switch was verified, by kind of port. Written by `make verify SWITCH=NAME\n"
    "# WRITE=1`, in a VM with HOST=MACHINE. Of NICs past the kernel (nic-pci) alone they were\n"
    "# written by hand: `switchmark run --nic`, some 1000 frames a test, none lost, in a VM that\n"
    "# was booted by hand (docs/guide/kernel-bypass.md).\n"
)
GOLDEN = Path(__file__).parents[1] / "tests/golden"

USUAL = {"duration": 0.15, "warmup": 0.05, "rate": "20k"}
EMULATED = {"duration": 0.4, "warmup": 0.1, "rate": "500"}
"""What a processor that is emulated bears."""
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
ENGINES = ("raw-mmsg", "udp-mmsg", "dpdk", "netmap", "null")
"""The first of each that joins a kind of port is taken: sockets are for DPDK's ends, and the IP
stack is for switches that look at addresses of IP."""

NICS = ("smver0", "smver1", "smver2", "smver3")
OF_NICS = {"p2p": "a0=smver0:smver1,b0=smver2:smver3", "p2v": "a0=smver0:smver1"}
"""The tests of a switch's NICs."""


@dataclass(frozen=True)
class Place:
    """A place is the host where switches are tried, and its name in the host file."""

    name: str = LOCAL
    host: Host = field(default_factory=LocalHost)
    containers: Sequence[str] | None = None
    """The runtimes that are tried: those that it has, none of them on an emulated processor, on
    which a daemon of containers takes minutes."""

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """Return the facts of the host."""
        return host_facts(self.host)

    @property
    def kernel(self) -> str:
        """Return the name of its kernel."""
        return f"Linux {own_words(self.facts['kernel'])}"

    @property
    def emulated(self) -> bool:
        """Say whether its processor is emulated."""
        return bool(self.host.emulated)

    @property
    def axes(self) -> Mapping[str, Any]:
        """Return what each test there has."""
        where = {} if self.name == LOCAL else {"hosts": self.name}
        return {**where, **(EMULATED if self.emulated else {})}

    @property
    def words(self) -> str:
        """Say what the host is."""
        system = f"{self.kernel}, {self.facts['distribution']}"
        if self.host.is_machine:
            told = LocalHost().run((qemu(), "--version")).stdout.decode(errors="replace")
            version = re.search(r"version (\S+)", told)
            models = {nic.model for nic in host_entries()[self.name].nics.values() if nic.model}
            nics = f" ({', '.join(sorted(models))})" * bool(models)
            runs_on = f"{self.host.emulated or 'KVM'}, QEMU {version[1] if version else ''}{nics}"
            return f"{system}, in a VM, {runs_on}"
        cores = f"{self.facts['cores_usable']} CPUs of {self.facts['cpu_model']}"
        return ", ".join((system, cores, *["virtual"] * bool(self.facts["virtual"])))

    def has(self, environment: str) -> bool:
        """Say whether nodes of an environment can be made there."""
        try:
            ENVIRONMENTS[environment].probe(self.host)
        except Unavailable:
            return False
        return True

    @cached_property
    def runtimes(self) -> Sequence[str]:
        """Return the runtimes of containers that are tried there."""
        if self.containers is not None:
            return self.containers
        return [name for name in RUNTIMES if not self.emulated and self.has(name)]

    @cached_property
    def ends(self) -> Sequence[Mapping[str, Any]]:
        """Return the ends of tests that it can have."""
        return [end for end in ENDS if self.has(end["environment"])]


def contained(runtimes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the tests of containers: those of the functions, and the switch's own."""
    tests: dict[str, dict[str, Any]] = {}
    for name in runtimes:
        tests[f"v2v to {name}"] = {"scenario": "v2v", "environment": name}
        tests[f"v2v in {name}"] = {"scenario": "v2v", "switch_environment": name}
    return tests


def matrix(
    switch: Switch,
    kind: PortKind,
    runtimes: Sequence[str] = RUNTIMES,
    ends: Sequence[Mapping[str, Any]] = ENDS,
    there: Mapping[str, Any] = {},
) -> Iterator[tuple[str, Test]]:
    """Yield the tests that a kind of port can be in, each with its name; each has the axes `there`,
    whatever it has else."""
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
                Test.model_validate(
                    {**USUAL, **end, **axes, **ports, **what, "engine": engine, **there}
                )
                for end, engine in itertools.product(ends, engines)
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
    if "slow-path" in record.doubts:
        return "frames took the slow path"
    counts = {
        name: sum(abs(getattr(trial, name)) for trial in record.trials)
        for name in ("unaccounted", "duplicated", "reordered", "corrupted", "stray", "foreign")
    }
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count) or None


def tried(
    switch: Switch, kind: PortKind, place: Place, known: Verification | None = None
) -> Iterator[tuple[str | None, Verification]]:
    """Yield the switch's mode, and what the tests of a kind of port show, without those that are
    known to pass: at the end, and where each takes minutes after each of them. Nothing where it can
    be in none of them."""
    passed: list[str] = []
    failed: list[str] = []
    versions = {known.version} if known else set()
    mode = None
    hosts = Hosts(OwnRun, {place.name: place.host})
    best: Verified = "verified in a VM" if place.host.is_machine else "verified"

    def shown() -> tuple[str | None, Verification]:
        return mode, Verification(
            state="not verified" if failed or not passed else best,
            date=today(),
            version=own_words(min(versions - {""}, default="")),
            host=place.words,
            passed=tuple(passed),
            failed=tuple(failed),
        )

    tests = dict(matrix(switch, kind, place.runtimes, place.ends, place.axes))
    passed += [name for name in tests if known and name in known.passed]
    with tempfile.TemporaryDirectory() as folder, Lab(Path(folder), hosts=hosts) as lab:
        for name, test in tests.items():
            if name in passed:
                continue
            fault: str | None = "not tried"
            for _ in range(TRIES):
                record = lab.run(test)
                if (fault := fault_of(record)) is None:
                    break
            mode = mode or record.switch_mode
            versions.add(" ".join(filter(None, (record.switch_version, record.switch_mode))))
            print(f"{switch.name} {kind} {name}: {fault or 'passed'}", flush=True)
            (failed if fault else passed).append(name)
            if place.emulated:
                yield shown()
    if tests and not place.emulated:
        yield shown()


def today() -> datetime.date:
    """Return the date that entries of now have."""
    return datetime.datetime.now(datetime.UTC).date()


def own_words(text: str) -> str:
    """Return a version without what only one builder of a kernel calls it."""
    return re.sub(r"^(\d+\.\d+\.\d+)-\S+", r"\1", text)


@contextmanager
def nics(host: Host) -> Iterator[None]:
    """Make two pairs of interfaces on a host that stand for NICs and what is at the other ends of
    them."""
    cables = (NICS[:2], NICS[2:])
    try:
        for one, other in cables:
            add = ("ip", "link", "add", one, "type", "veth", "peer", "name", other)
            # A veth takes what is sent by XDP redirect only where its peer polls; NICs always do.
            for argv in (add, ("ethtool", "-K", other, "gro", "on")):
                if (done := host.run(argv)).status:
                    sys.exit(f"{' '.join(argv)}: {done.stderr.decode(errors='replace')}")
        yield
    finally:
        for one, _ in cables:
            host.run(("ip", "link", "del", one))


def still_known(known: Verification | None, version: str, where: str) -> Verification | None:
    """Return what is known if it is of this host, this version of the switch, and of today or
    yesterday: on an emulated processor it takes hours, some of them past midnight."""
    if known is None or (known.version, known.host) != (version, where):
        return None
    return known if today() - known.date <= datetime.timedelta(days=1) else None


def verify(
    name: str, only: str, place: Place, *, more: bool
) -> Iterator[Mapping[str, Verification]]:
    """Yield what is known anew of a switch by kind of port: what a host can try is tried, of one
    kind only if one is named, and what is still known only unless `more` is asked for."""
    switch = SWITCHES[name]
    known = dict(verifications().get(name, {}))
    try:
        probed = probe_asked(switch, place.host)
    except Unavailable as error:
        if switch.program or known or not golden_plans(name):
            raise
        yield {str(kind): plan_only(error, place.words) for kind in switch.port_kinds}
        return
    version = own_words(" ".join(filter(None, (probed.text, probed.mode))))
    with nics(place.host):
        for kind in switch.port_kinds:
            if kind is PortKind.NIC_PCI or only not in ("", kind):
                continue
            key = key_there(known, kind, probed.mode, place)
            before = still_known(known.get(key), version, place.words) if more else None
            for mode, result in tried(switch, kind, place, before):
                yield {key_there(known, kind, mode, place): result}


def key_there(known: Mapping[str, Verification], kind: str, mode: str | None, place: Place) -> str:
    """Return by which key what a VM shows of a kind of port is kept: beside what was verified on a
    host that is none."""
    before = known.get(kind)
    if before is None or before.state != "verified" or not place.host.is_machine:
        return str(kind)
    apart = mode if mode and not before.version.endswith(mode) else place.kernel
    return key_of(kind, apart)


def golden_plans(name: str) -> list[Path]:
    """Return the golden files that hold the plans of a switch."""
    return [*GOLDEN.glob(f"{name}/*.txt"), *GOLDEN.glob(f"variants/{name}-*.txt")]


def plan_only(error: Unavailable, where: str) -> Verification:
    """Return what is known of a switch of the kernel that this one lacks: its plans, which golden
    files hold."""
    why = re.sub(r"^the kernel (\S+)", lambda name: f"Linux {own_words(name[1])}", error.message)
    return Verification(
        state="plan-only", date=today(), version="", host=where, why=why.partition("\n")[0]
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


def asked(word: str) -> tuple[str, str]:
    """Return the switch and the kind of ports that a word names; of a switch alone every kind."""
    name, _, kind = word.partition(".")
    if name not in SWITCHES:
        raise argparse.ArgumentTypeError(f"there is no switch named '{name}'")
    if kind not in ("", *SWITCHES[name].port_kinds):
        kinds = ", ".join(SWITCHES[name].port_kinds)
        raise argparse.ArgumentTypeError(f"{name} has no ports of kind '{kind}': {kinds}")
    return name, kind


def keep(name: str, found: Mapping[str, Verification]) -> None:
    """Write what was found of a switch beside what others, that run meanwhile, have written."""
    verifications.cache_clear()
    every = verifications()
    FILE.write_text(text_of({**every, name: {**every.get(name, {}), **found}}))


def main() -> None:
    """Try the switches that are named, one after the other; say what was found of each, and keep it
    at once where that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="+", type=asked, metavar="NAME[.KIND]")
    parser.add_argument("--more", action="store_true", help="not what passed there since yesterday")
    parser.add_argument("--write", action="store_true", help=f"keep what passed in {FILE.name}")
    parser.add_argument("--host", default=LOCAL, help="a host of the host file")
    parser.add_argument("--host-file", type=Path, help=f"another than {VARIABLE} or the usual one")
    parser.add_argument(
        "--containers", action="append", choices=RUNTIMES, help="on an emulated host: none without"
    )
    given = parser.parse_args()
    if given.host_file:
        os.environ[VARIABLE] = str(given.host_file.absolute())
    status = 0
    with Hosts(OwnRun) as hosts:
        for name, kind in given.names:
            try:
                place = Place(given.host, hosts[given.host], given.containers)
                for found in verify(name, kind, place, more=given.more):
                    status |= any(each.failed for each in found.values())
                    if given.write:
                        keep(name, found)
                    else:
                        print(text_of({name: found}).removeprefix(HEAD), end="")
            except SwitchmarkError as error:
                print(f"{name}: {error}", file=sys.stderr)
                status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()

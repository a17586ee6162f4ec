"""Tests a switch with real frames in a fixed matrix.

With `--write` it stores the passed tests for `switchmark list switches` and the reference.

`python tools/verify.py [--host HOST [--host-file FILE]] [--more] [--write] NAME...` as root;
`NAME.KIND` selects one kind of the switch's ports. Every kind of port and every semantics of the
switch is tested in every scenario, and in v2v also with both directions, long frames and round
trips. The first semantics is also tested with functions in containers (`v2v to docker`) and with
the switch in a container (`v2v in docker`), for the installed runtimes. A test passes if its gate
passes, every frame is accounted for, and a switch that reports on its fast path used it. NICs by
interface are veth pairs here; entries for NICs by PCI address stay unchanged. With `--more`, tests
that passed on this host with this version of the switch today or yesterday are skipped.

With `--host` the tests run on a host of the host file, at a rate that an emulated processor can
sustain if its processor is emulated. The results of this host are kept: those of another kernel
are stored separately, by the mode of the switch or by that kernel.
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
"""The rate that an emulated processor can sustain."""
TRIES = 3
"""The attempts per test: on a busy host, a sender may get no CPU time."""

MORE: Mapping[str, dict[str, Any]] = {
    "v2v bi": {"scenario": "v2v", "direction": "bi"},
    "v2v 1500": {"scenario": "v2v", "frame_size": 1500},
    "v2v latency": {"scenario": "v2v", "dimension": "latency", "rate": "1000"},
}
"""The tests in addition to every scenario in one direction with frames of 64 bytes."""

RUNTIMES = ("lxc", "docker", "podman")
ENDS = ({"environment": "netns"}, {"environment": "vm"})
ENGINES = ("raw-mmsg", "udp-mmsg", "dpdk", "netmap", "null")
"""The first that supports a kind of port is used: sockets for DPDK's ends, the IP stack for
switches that read IP addresses."""

NICS = ("smver0", "smver1", "smver2", "smver3")
OF_NICS = {"p2p": "a0=smver0:smver1,b0=smver2:smver3", "p2v": "a0=smver0:smver1"}
"""The tests of a switch's NICs."""


@dataclass(frozen=True)
class Place:
    """The host on which switches are tested, and its name in the host file."""

    name: str = LOCAL
    host: Host = field(default_factory=LocalHost)
    containers: Sequence[str] | None = None
    """The container runtimes to test: those of the host, or none on an emulated processor, on which
    a container daemon takes minutes."""

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """Return the facts about the host."""
        return host_facts(self.host)

    @property
    def kernel(self) -> str:
        """Return the name of its kernel."""
        return f"Linux {own_words(self.facts['kernel'])}"

    @property
    def emulated(self) -> bool:
        """Return whether its processor is emulated."""
        return bool(self.host.emulated)

    @property
    def axes(self) -> Mapping[str, Any]:
        """Return the axes of every test there."""
        axes = {} if self.name == LOCAL else {"hosts": self.name}
        return {**axes, **(EMULATED if self.emulated else {})}

    @property
    def words(self) -> str:
        """Return a description of the host."""
        system = f"{self.kernel}, {self.facts['distribution']}"
        if self.host.is_machine:
            output = LocalHost().run((qemu(), "--version")).stdout.decode(errors="replace")
            version = re.search(r"version (\S+)", output)
            models = {nic.model for nic in host_entries()[self.name].nics.values() if nic.model}
            nics = f" ({', '.join(sorted(models))})" * bool(models)
            runs_on = f"{self.host.emulated or 'KVM'}, QEMU {version[1] if version else ''}{nics}"
            return f"{system}, in a VM, {runs_on}"
        cores = f"{self.facts['cores_usable']} CPUs of {self.facts['cpu_model']}"
        return ", ".join((system, cores, *["virtual"] * bool(self.facts["virtual"])))

    def has(self, environment: str) -> bool:
        """Return whether nodes of an environment can be created there."""
        try:
            ENVIRONMENTS[environment].probe(self.host)
        except Unavailable:
            return False
        return True

    @cached_property
    def runtimes(self) -> Sequence[str]:
        """Return the container runtimes to test there."""
        if self.containers is not None:
            return self.containers
        return [name for name in RUNTIMES if not self.emulated and self.has(name)]

    @cached_property
    def ends(self) -> Sequence[Mapping[str, Any]]:
        """Return the ends that its tests can have."""
        return [end for end in ENDS if self.has(end["environment"])]


def contained(runtimes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the tests with containers: for the functions, and for the switch."""
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
    """Yield the possible tests of a kind of port with their names. All have the axes `there`."""
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
    """Return the fault that a record shows; None if every frame is accounted for."""
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
    switch: Switch, kind: PortKind, place: Place, earlier: Verification | None = None
) -> Iterator[tuple[str | None, Verification]]:
    """Yield the switch's mode and the results of the tests of a kind of port, except tests that are
    known to pass: at the end, or after every test if each takes minutes. Yield nothing if no test
    is possible."""
    passed: list[str] = []
    failed: list[str] = []
    versions = {earlier.version} if earlier else set()
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
    passed += [name for name in tests if earlier and name in earlier.passed]
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
    """Return a version without the part that is specific to one builder of a kernel."""
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
                if (completed := host.run(argv)).status:
                    sys.exit(f"{' '.join(argv)}: {completed.stderr.decode(errors='replace')}")
        yield
    finally:
        for one, _ in cables:
            host.run(("ip", "link", "del", one))


def still_known(earlier: Verification | None, version: str, where: str) -> Verification | None:
    """Return what is known if it is of this host, this version of the switch, and of today or
    yesterday: on an emulated processor it takes hours, some of them past midnight."""
    if earlier is None or (earlier.version, earlier.host) != (version, where):
        return None
    return earlier if today() - earlier.date <= datetime.timedelta(days=1) else None


def verify(
    name: str, only: str, place: Place, *, more: bool
) -> Iterator[Mapping[str, Verification]]:
    """Yield the new results of a switch by kind of port. Only one kind is tested if it is named.
    Results that are still valid are skipped with `more`."""
    switch = SWITCHES[name]
    stored = dict(verifications().get(name, {}))
    try:
        probed = probe_asked(switch, place.host)
    except Unavailable as error:
        if switch.program or stored or not golden_plans(name):
            raise
        yield {str(kind): plan_only(error, place.words) for kind in switch.port_kinds}
        return
    version = own_words(" ".join(filter(None, (probed.text, probed.mode))))
    with nics(place.host):
        for kind in switch.port_kinds:
            if kind is PortKind.NIC_PCI or only not in ("", kind):
                continue
            key = key_there(stored, kind, probed.mode, place)
            before = still_known(stored.get(key), version, place.words) if more else None
            for mode, result in tried(switch, kind, place, before):
                yield {key_there(stored, kind, mode, place): result}


def key_there(stored: Mapping[str, Verification], kind: str, mode: str | None, place: Place) -> str:
    """Return by which key what a VM shows of a kind of port is kept: beside what was verified on a
    host that is none."""
    before = stored.get(kind)
    if before is None or before.state != "verified" or not place.host.is_machine:
        return str(kind)
    apart = mode if mode and not before.version.endswith(mode) else place.kernel
    return key_of(kind, apart)


def golden_plans(name: str) -> list[Path]:
    """Return the golden files that hold the plans of a switch."""
    return [*GOLDEN.glob(f"{name}/*.txt"), *GOLDEN.glob(f"variants/{name}-*.txt")]


def plan_only(error: Unavailable, where: str) -> Verification:
    """Return the verification of a kernel switch that this kernel lacks: its plans in the golden
    files."""
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
                f'state = "{verification.state}"',
                f"date = {verification.date}",
                f'version = "{verification.version}"',
                f'host = "{verification.host}"',
                *_list("passed", verification.passed),
                *_list("failed", verification.failed),
                *([f'why = "{verification.why}"'] if verification.why else []),
            ]
        )
        for name in order
        for kind, verification in content.get(name, {}).items()
    ]
    return "\n\n".join((HEAD.rstrip("\n"), *tables)) + "\n"


def _bare(kind: str) -> str:
    return f'"{kind}"' if " " in kind else kind


def _list(name: str, names: tuple[str, ...]) -> list[str]:
    return [f"{name} = [", *(f'    "{word}",' for word in names), "]"] if names else []


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
    """Write the results of a switch next to those that concurrent commands have written."""
    verifications.cache_clear()
    verified = verifications()
    FILE.write_text(text_of({**verified, name: {**verified.get(name, {}), **found}}))


def main() -> None:
    """Test the named switches one after the other, print the results, and store them at once if
    requested."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="+", type=asked, metavar="NAME[.KIND]")
    parser.add_argument("--more", action="store_true", help="not what passed there since yesterday")
    parser.add_argument("--write", action="store_true", help=f"keep what passed in {FILE.name}")
    parser.add_argument("--host", default=LOCAL, help="a host of the host file")
    parser.add_argument("--host-file", type=Path, help=f"another than {VARIABLE} or the usual one")
    parser.add_argument(
        "--containers", action="append", choices=RUNTIMES, help="on an emulated host: none without"
    )
    options = parser.parse_args()
    if options.host_file:
        os.environ[VARIABLE] = str(options.host_file.absolute())
    status = 0
    with Hosts(OwnRun) as hosts:
        for name, kind in options.names:
            try:
                place = Place(options.host, hosts[options.host], options.containers)
                for found in verify(name, kind, place, more=options.more):
                    status |= any(verification.failed for verification in found.values())
                    if options.write:
                        keep(name, found)
                    else:
                        print(text_of({name: found}).removeprefix(HEAD), end="")
            except SwitchmarkError as error:
                print(f"{name}: {error}", file=sys.stderr)
                status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()

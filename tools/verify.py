"""Tests a switch as `switchmark verify` does (`switchmark.lab.verifying`).

With `--write` it stores the passed tests for `switchmark list switches` and the reference.

`python tools/verify.py [--host HOST [--host-file FILE]] [--more] [--write] NAME...` as root;
`NAME.KIND` selects one kind of the switch's ports. Entries for NICs by PCI address stay unchanged.
With `--more`, tests that passed on this host with this version of the switch today or yesterday are
skipped.

With `--host` the tests run on a host of the host file, at a rate that an emulated processor can
sustain if its processor is emulated. The results of this host are kept: those of another kernel
are stored separately, by the mode of the switch or by that kernel.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from switchmark.errors import SwitchmarkError, Unavailable
from switchmark.hosts.host_file import LOCAL, VARIABLE
from switchmark.hosts.hosts import Hosts
from switchmark.lab.verifying import RUNTIMES, Place, matrix, nics, outcomes, own_words
from switchmark.model.topology import PortKind
from switchmark.model.version import Verified
from switchmark.runs.own_run import OwnRun
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


def tried(
    switch: Switch, kind: PortKind, place: Place, earlier: Verification | None = None
) -> Iterator[tuple[str | None, Verification]]:
    """Yield the switch's mode and the results of the tests of a kind of port, except tests that are
    known to pass: at the end, or after every test if each takes minutes. Yield nothing if no test
    is possible."""
    tests = dict(matrix(switch, kind, place.runtimes, place.ends, place.axes))
    passed = [name for name in tests if earlier and name in earlier.passed]
    failed: list[str] = []
    versions = {earlier.version} if earlier else set()
    mode = None
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

    left = {name: test for name, test in tests.items() if name not in passed}
    for outcome in outcomes(left, place):
        mode = mode or outcome.mode
        versions.add(outcome.version)
        print(f"{switch.name} {kind} {outcome.name}: {outcome.fault or 'passed'}", flush=True)
        (failed if outcome.fault else passed).append(outcome.name)
        if place.emulated:
            yield shown()
    if tests and not place.emulated:
        yield shown()


def today() -> datetime.date:
    """Return the date that entries of now have."""
    return datetime.datetime.now(datetime.UTC).date()


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
    """Return the golden file that holds the plans of a switch, if there is one."""
    return [*GOLDEN.glob(f"plans/{name}.txt")]


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

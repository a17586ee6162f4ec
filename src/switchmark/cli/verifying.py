"""The command `verify`: whether a switch does all that its driver asks, with real frames."""

from __future__ import annotations

import sys
from typing import IO, Any

import click

from switchmark.cli.arguments import json_array, on_host
from switchmark.cli.completion import switches
from switchmark.cli.help import GroupedCommand
from switchmark.cli.options import with_host_file
from switchmark.cli.running import print_json
from switchmark.errors import Exit, UsageError


@click.command("verify", cls=GroupedCommand)
@click.argument(
    "switch", shell_complete=switches, help="its name, NAME@VERSION, NAME@/PATH or NAME@image:IMAGE"
)
@click.option("--port", metavar="KIND", help="only this kind of port")
@on_host
@json_array
@with_host_file
def verify(switch: str, port: str | None, host: str | None, as_json: bool) -> int:
    """Test with real frames whether a switch does all that its driver asks: every kind of port and
    every scenario, both directions, long frames, round trips, and containers.

    It stores nothing. The exit code is 0 if every test passes, and 1 if one fails. NICs are left
    out: 'run --nic' tests these.
    """
    from switchmark.hosts.host_file import LOCAL
    from switchmark.hosts.hosts import Hosts
    from switchmark.lab.verifying import Place
    from switchmark.model.test import Test
    from switchmark.path.resolving import unknown_names
    from switchmark.runs.anchor import anchor
    from switchmark.runs.own_run import OwnRun
    from switchmark.switches import TABLE
    from switchmark.switches.versions import probe_asked

    for refusal in unknown_names(Test(switch=switch)):
        raise UsageError(refusal.why, hint=refusal.hint)
    driver = TABLE[switch]
    if port not in (None, *driver.port_kinds):
        kinds = ", ".join(driver.port_kinds)
        raise UsageError(f"{switch} has no ports of kind '{port}'\n  known: {kinds}")
    if host is None:
        anchor()
    with Hosts(OwnRun) as hosts:
        place = Place(host or LOCAL, hosts[host or LOCAL])
        version = probe_asked(driver, place.host)
        words = " ".join(filter(None, (version.text, version.mode)))
        shown = sys.stderr if as_json else sys.stdout
        print(f"{switch} {words}", file=shown, flush=True)
        results = _results(switch, port, place, shown)
    failed = sum(result["fault"] is not None for result in results)
    if as_json:
        print_json(results)
    elif not results:
        print("No test is possible here.")
    elif failed:
        print(f"\n{failed} of {len(results)} tests failed.")
    else:
        print(f"\nAll {len(results)} tests passed.")
    if not results:
        return Exit.UNAVAILABLE
    return Exit.FAILED if failed else Exit.FINE


def _results(switch: str, port: str | None, place: Any, stream: IO[str]) -> list[dict[str, Any]]:
    """Return an object for each test, and print the tests as they end."""
    from switchmark.lab.verifying import matrix, outcomes
    from switchmark.model.topology import PortKind
    from switchmark.switches import TABLE

    driver, results = TABLE[switch], []
    of_nics = (PortKind.NIC_KERNEL, PortKind.NIC_PCI)
    for kind in driver.port_kinds:
        if kind in of_nics or port not in (None, kind):
            continue
        print(f"{kind} ports", file=stream, flush=True)
        tests = dict(matrix(driver, kind, place.runtimes, place.ends, place.axes))
        for outcome in outcomes(tests, place):
            mark, why = ("✗", f": {outcome.fault}") if outcome.fault else ("✓", "")
            print(f"  {mark} {outcome.name}{why}", file=stream, flush=True)
            results.append({"port": str(kind), "test": outcome.name, "fault": outcome.fault})
    return results

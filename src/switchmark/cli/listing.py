"""The command `list`: it shows the names in a table, and which of them this host can use."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import IO, Any

from switchmark.campaign.values import nearest
from switchmark.cli.papers import listed_papers, print_papers
from switchmark.errors import SwitchmarkError, UsageError
from switchmark.hosts.base import Host
from switchmark.hosts.local import LocalHost
from switchmark.lab.host_preparation import state_on
from switchmark.model.preparation import TABLE as PREPARATIONS
from switchmark.model.preparation import Preparation
from switchmark.model.topology import PortKind
from switchmark.plugins import Table
from switchmark.switches.base import Switch
from switchmark.switches.verified import verified
from switchmark.switches.versions import Switches, probe_asked


class Thing(StrEnum):
    """A kind of thing that can be listed; it names the folder of the implementations."""

    SWITCHES = "switches"
    ENGINES = "engines"
    ENVIRONMENTS = "environments"
    FUNCTIONS = "functions"
    SCENARIOS = "scenarios"
    SEARCHES = "searches"
    NOISES = "noises"
    PREPARATIONS = "preparations"
    PAPERS = "papers"


def thing_named(text: str) -> Thing:
    """Return the kind with this name; UsageError with the nearest name."""
    if text not in list(Thing):
        raise UsageError(
            f"'{text}' cannot be listed{nearest(text, Thing)}\n  known: {', '.join(Thing)}"
        )
    return Thing(text)


def listed(thing: Thing, port: str | None = None, host: Host | None = None) -> list[dict[str, Any]]:
    """Return one object per name: whether it is usable or why not, its version, mode and
    verification state, on this host or another.

    `port` selects the entries with that kind of port; UsageError for an unknown kind.
    """
    if thing is Thing.PAPERS:
        return listed_papers()
    if port is not None and port not in list(PortKind):
        raise UsageError(f"there is no kind of port named '{port}'\n  known: {', '.join(PortKind)}")
    if thing is Thing.PREPARATIONS:
        return [
            _prepared(preparation, host or LocalHost()) for preparation in PREPARATIONS.values()
        ]
    table: Mapping[str, Any] = importlib.import_module(f"switchmark.{thing}").TABLE
    unusable = table.unusable if isinstance(table, Table) and port is None else {}
    entries = list(table.values())
    if isinstance(table, Switches):
        entries += [table[name] for name in table.versions]
    return [
        _probed(entry, host or LocalHost())
        for entry in entries
        if port is None or port in getattr(entry, "port_kinds", ())
    ] + [
        {**_entry(name, ""), "usable": False, "why_not": error.message, "hint": error.hint}
        for name, error in unusable.items()
    ]


def print_listed(entries: Sequence[Mapping[str, Any]], stream: IO[str]) -> None:
    """Print a line per name; below an unusable name, print the reason and the fix."""
    if entries and "claims" in entries[0]:
        print_papers(entries, stream)
        return
    width = max((len(entry["name"]) for entry in entries), default=0)
    for entry in entries:
        mark = "✓" if entry["usable"] else "✗"
        columns = (entry["version"], entry["mode"], entry["verified"])
        version = ", ".join(filter(None, columns))
        texts = (f"{mark} {entry['name']:{width}}", entry["summary"], version and f"[{version}]")
        print("  ".join(filter(None, texts)), file=stream)
        for line in (entry["why_not"] or "").splitlines():
            print(f"  {'':{width}}  {line}", file=stream)
        if entry["hint"]:
            print(f"  {'':{width}}  hint: {entry['hint']}", file=stream)
        for kind, state in entry["verified_ports"].items():
            print(f"  {'':{width}}  {kind} ports: {state}", file=stream)
        for kind, (reason, hint) in entry["missing"].items():
            print(f"  {'':{width}}  no {kind} ports: {reason}", file=stream)
            print(f"  {'':{width}}  hint: {hint}", file=stream)


def _probed(entry: Any, host: Host) -> dict[str, Any]:
    """Probe a driver on the host. A driver without `probe` has no requirements."""
    listed = _entry(entry.name, getattr(entry, "summary", ""))
    for name in ("port_kinds", "semantics"):
        if hasattr(entry, name):
            listed[name] = sorted(map(str, getattr(entry, name)))
    if hasattr(entry, "probe"):
        try:
            is_switch = isinstance(entry, Switch)
            version = probe_asked(entry, host) if is_switch else entry.probe(host)
        except SwitchmarkError as error:
            if isinstance(entry, Switch):
                listed["verified"], _ = verified(entry.name, entry.port_kinds)
            return {**listed, "usable": False, "why_not": error.message, "hint": error.hint}
        listed |= {"version": version.text, "mode": version.mode, "verified": version.verified}
        listed |= {"missing": dict(version.missing), "verified_ports": dict(version.verified_ports)}
    return listed


def _prepared(preparation: Preparation, host: Host) -> dict[str, Any]:
    """Return whether a host can have a preparation, and how far it was verified."""
    listed = {**_entry(preparation.name, preparation.effect), "verified": preparation.verified}
    if not state_on(host, preparation):
        listed |= {"usable": False, "why_not": preparation.lacking, "hint": preparation.fix}
    return listed


def _entry(name: str, summary: str) -> dict[str, Any]:
    return {
        "name": name,
        "summary": summary,
        "usable": True,
        "why_not": None,
        "hint": None,
        "version": None,
        "mode": None,
        "verified": None,
        "missing": {},
        "verified_ports": {},
    }

"""The output of `switchmark plan`: the steps of a test on this host, as lines of a shell script."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from switchmark.campaign.duration import bounds_of_test, expected_s
from switchmark.campaign.rounds import groups
from switchmark.cli.progress import clock
from switchmark.environments import inside
from switchmark.errors import Unavailable, UsageError
from switchmark.hosts.base import Host
from switchmark.hosts.host_file import host_entry
from switchmark.hosts.hosts import Hosts, planned_between
from switchmark.hosts.local import LocalHost
from switchmark.lab.host_preparation import Planned, planned, planned_for, why_of
from switchmark.lab.prepare import PLAN_PREFIX, prepare
from switchmark.lab.running import find_nics, lend_nics
from switchmark.metrics.loss import frames_that_tell
from switchmark.model.event import load_steps
from switchmark.model.labels import label, telling
from switchmark.model.plan import HOST, Node, Plan, Reserve, on_host
from switchmark.model.preparation import option
from switchmark.model.test import AXES, Test
from switchmark.model.topology import Findings
from switchmark.model.version import Version
from switchmark.observe.cpus import read_cpus
from switchmark.path.assembly import build, events_of
from switchmark.path.background import noise_of
from switchmark.path.hosts import home_of, hosts_of
from switchmark.path.images import engine_of
from switchmark.path.path import Path, path_key
from switchmark.path.placement import AUTO, Placement
from switchmark.path.resolving import drivers_of, turned_to
from switchmark.runs.hugepages import can_reserve
from switchmark.runs.own_run import OwnRun
from switchmark.runs.script import describe
from switchmark.runs.workspace import default_base
from switchmark.searches import TABLE as SEARCHES
from switchmark.searches.base import EXAMPLE_PPS, telling_s
from switchmark.switches.versions import probe_asked

_VALUES = 8
"""The number of values of an axis to print; the rest are only counted."""


def script(tests: Sequence[Test], note: str = "") -> Iterator[str]:
    """Yield the output of `switchmark plan`: a summary with a note, then the tests of each path and
    its steps."""
    axes = telling(tests)
    numbered = enumerate(tests, 1)
    paths = [
        list(group) for _, group in itertools.groupby(numbered, lambda entry: path_key(entry[1]))
    ]
    yield from _summary(tests, len(paths))
    if note:
        yield f"#   {note}"
    yield from _host_lines(tests)
    for tests_of_path in paths:
        yield ""
        for number, test in tests_of_path:
            yield f"# --- test {number} of {len(tests)}: {label(test, axes)}"
        if len(tests_of_path) > 1:
            first, last = tests_of_path[0][0], tests_of_path[-1][0]
            yield f"# path of tests {first}-{last}: set up once, if none of them fails"
        yield from plan(*(test for _, test in tests_of_path))


def _summary(tests: Sequence[Test], paths: int) -> Iterator[str]:
    """Yield the number of tests and paths, the duration, and the axes that vary."""
    counted = f"{_counted(len(tests), 'test')} on {_counted(paths, 'path')}"
    yield f"# {counted}, about {clock(expected_s(tests))} to run"
    if groups(tests):
        yield "# compared switches take turns, with all of their paths up"
    elif len(tests) > 1 and any(test.repeat > 1 for test in tests):
        yield "# tests take turns: each path is set up once for each round of trials"
    yield from _lengthened(tests)
    for axis in telling(tests):
        values = list(dict.fromkeys(str(getattr(test, axis)) for test in tests))
        suffix = f", ... ({len(values)})" if len(values) > _VALUES else ""
        yield f"#   {AXES[axis].key}: {', '.join(values[:_VALUES])}{suffix}"


def _lengthened(tests: Sequence[Test]) -> Iterator[str]:
    """Yield the trials that are longer than their tests ask, because a loss ratio takes as many
    frames to tell."""
    for test in tests:
        search, bounds = SEARCHES[test.search], bounds_of_test(test)
        if (ratio := search.tells(bounds)) and telling_s(
            ratio, bounds.rate_pps, bounds
        ) > test.duration:
            rate = bounds.rate_pps or EXAMPLE_PPS
            seconds = telling_s(ratio, rate, bounds)
            yield (
                f"# trials of {test.search} have {frames_that_tell(ratio)} frames, to tell a loss "
                f"ratio of {ratio:g}: {seconds:.0f} s at {rate:g} frames/s"
            )
            return


def _host_lines(tests: Sequence[Test]) -> Iterator[str]:
    """Yield the preparations of the hosts for all tests."""
    first = tests[0]
    if first.prepare is None:
        return
    yield ""
    yield "# --- hosts: prepared for all tests, restored after the last one"
    if names := dict.fromkeys(name for test in tests for name in hosts_of(test)):
        asked = option(first.prepare.split(","))
        yield f"# {asked}: the values of {' and '.join(names)} are read in a run"
    if not all(hosts_of(test) for test in tests):
        yield from _preparation_lines(planned(LocalHost(), first))


def _preparation_lines(preparations: Sequence[Planned]) -> Iterator[str]:
    for preparation, steps in preparations:
        if isinstance(steps, Unavailable):
            yield from _impossible(steps)
        elif steps:
            yield from describe(tuple(steps), inside)
            if preparation.one_thread:
                yield "# a run assigns CPUs after this, to the threads that stay"
        else:
            yield f"# {why_of(preparation)} (already so)"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def plan(test: Test, *others: Test) -> list[str]:
    """Return the steps of a test, and of other tests on the same path, as shell lines. The function
    changes nothing and needs no privileges.

    The placement is for this host. The mode of the switch is the probed one, if the probe succeeds.
    """
    for name in (names := hosts_of(test)):
        host_entry(name)
    drivers = drivers_of(test)
    switch_version = _asked(partial(probe_asked, drivers.switch))
    of_image = [engine_of(switch_version.image)] if switch_version and switch_version.image else []
    theirs = {
        environment.name: _asked(environment.probe)
        for environment in dict.fromkeys((*drivers.environments, *of_image))
    }
    found = Findings(
        switch_version.mode if switch_version else None,
        {name: version.mode if version else None for name, version in theirs.items()},
        {(HOST.host, test.switch): switch_version} if switch_version else {},
        planned_between(names, test.switch),
    )
    folder = f"{default_base()}/{PLAN_PREFIX}"
    path = prepare(LocalHost(), test, found, prefix=PLAN_PREFIX, run_dir=folder, can=_reservable)
    placement = path.placement
    pins = [f"#   {part}: {_pin_in_words(placement, part)}" for part in placement.pins]
    doubts = [f"# doubts: {', '.join(placement.doubts)}"] if placement.doubts else []
    home = home_of(test)
    of_here = [f"# CPUs are this host's; those of {' and '.join(names)} are asked in a run"]
    return [
        f"# placement: {placement.policy}{' (auto)' * (test.placement == AUTO)}",
        *pins,
        *of_here[: len(names)],
        *doubts,
        *(() if names else _preparation_lines(planned_for(LocalHost(), path))),
        *_loans(path, home),
        *describe(on_host(build(path), home), inside),
        *_event_lines(path, home),
        *(
            line
            for variant in {variant.noise: variant for variant in (test, *others)}.values()
            for line in _noise_lines(turned_to(path, variant))
        ),
    ]


def _event_lines(path: Path, home: str) -> list[str]:
    """Return the steps of the events of a trial, as shell lines."""
    before, lines = build(path), list[str]()
    for planned_event in events_of(path):
        change = planned_event.change
        steps = on_host((*change.disturb, *change.restore, *planned_event.settled), home)
        # A process is named by a variable that its start sets.
        described = describe((*on_host(before, home), *steps), inside)
        kind, at_s = planned_event.event.kind, planned_event.at_s
        lines.append(f"# event {kind}, {at_s:g} s after the start of a trial")
        lines += described[-len(describe(steps, inside)) :]
    lines += [
        f"# event load, {at_s:g} s after the start of a trial: {share:.0%} of the rate"
        for at_s, share in load_steps(path.test.all_events, path.test.duration)
    ]
    return lines


def _loans(path: Path, home: str) -> list[str]:
    """Return the steps that lend the user's NICs, as shell lines, or why they cannot be lent. Probe
    other hosts for their NICs."""
    with Hosts(OwnRun) as hosts:

        def host_of(node: Node) -> Host:
            return hosts[home if node.host == HOST.host else node.host]

        try:
            loans = lend_nics(host_of, path, find_nics(host_of, path))
        except (Unavailable, UsageError) as error:
            return _impossible(error)
    return describe(on_host(loans, home), inside)


def _noise_lines(path: Path) -> list[str]:
    """Return the steps of the noise during a test, as shell lines, or why this host cannot run
    it."""
    try:
        noise = noise_of(path, read_cpus(LocalHost()))
        return describe(on_host(noise, home_of(path.test)), inside)
    except (Unavailable, UsageError) as error:
        return _impossible(error)


def _impossible(error: Exception) -> list[str]:
    return [f"# not possible here: {line}" for line in str(error).splitlines() if line]


def _asked(probe: Callable[[Host], Version]) -> Version | None:
    """Return the version from a probe on this host; None if the probe fails."""
    try:
        return probe(LocalHost())
    except Unavailable:
        return None


def _reservable(steps: Plan) -> bool:
    """Return whether the pages can be reserved on their NUMA nodes, without trying it."""
    return all(can_reserve(LocalHost(), s.node) for s in steps if isinstance(s, Reserve))


def _pin_in_words(placement: Placement, part: str) -> str:
    pin = placement.pins[part]
    if not pin.cpus:
        return "no CPU of its own" if part == "switch" else "any CPU"
    cpus = ", ".join(map(str, pin.cpus))
    return f"CPU {cpus}, yielding" if pin.yield_ else f"CPU {cpus}"

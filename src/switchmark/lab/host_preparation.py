"""The preparation of hosts for the tests of a run (`--prepare`), and the way back.

The values are leases of a run that outlasts every path, so a prepared host stays prepared between
tests. Only values that depend on the CPUs of a test change from path to path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath

from switchmark.environments import inside
from switchmark.errors import HostLost, SetupFailed, Unavailable, UsageError
from switchmark.hosts.base import Host, boot_id
from switchmark.hosts.hosts import Hosts
from switchmark.lab.probes import Location
from switchmark.model.cpus import LAST_CPU, Cpu, format_cpus, parse_cpus
from switchmark.model.plan import HOST, Write, on_host
from switchmark.model.preparation import (
    OPTION,
    TABLE,
    Found,
    Preparation,
    found,
    named,
    option,
    present,
    state,
)
from switchmark.model.record import PreparedValue
from switchmark.model.test import Test
from switchmark.noises import parse_noise
from switchmark.observe.cpus import read_cpus
from switchmark.path.path import Path
from switchmark.runs.anchor import privileges
from switchmark.runs.executor import Executor
from switchmark.runs.workspace import Workspace


@dataclass(slots=True)
class _CarriedOut:
    """A preparation that was carried out: the contents of its files before and after it."""

    before: Mapping[str, bytes]
    after: Mapping[str, bytes]
    others: Collection[int]


@dataclass(slots=True)
class _Prepared:
    """A prepared host: what was done, by name, and the CPUs of all tests so far."""

    done: dict[str, _CarriedOut] = field(default_factory=dict)
    used: frozenset[int] = frozenset()


class HostPreparation:
    """The preparations of the hosts of a run. The folder `logs` gets the executed steps."""

    def __init__(self, hosts: Hosts, logs: FilePath) -> None:
        self._hosts, self._logs = hosts, logs
        self._prepared: dict[str, _Prepared] = {}
        self._run: tuple[Workspace, Executor] | None = None

    def prepare(self, location: Location) -> None:
        """Set the values for a test that do not depend on its CPUs, unless they are set. Raise
        Unavailable if a host cannot have one of them; a host that lacks one is left as it is."""
        hosts = _machines(location)
        for host in hosts:
            for preparation in named(location.test.prepare):
                refuse_lacking(host, preparation, _read(host, preparation))
        for host in hosts:
            done = self._prepared.setdefault(host.name, _Prepared()).done
            if host.is_far and not _lasts(host, done):
                done.clear()  # the host restored its values when the connection ended
            for preparation in named(location.test.prepare):
                if not preparation.of_test and preparation.name not in done:
                    if preparation.one_thread:
                        refuse_lost_threads(location.test, host, preparation)
                    self._set(host, preparation)

    def make_room(self, location: Location, path: Path) -> None:
        """Set the values that depend on the CPUs of a path, before the path is built. Raise
        Unavailable if a host cannot have one of them."""
        for host in _machines(location):
            prepared = self._prepared.setdefault(host.name, _Prepared())
            used = cpus_of(path, host, is_whole=location.far is None)
            # Other paths of the run may be up, so keep off their CPUs as well if possible.
            others = other_cpus(host, prepared.used | used) or other_cpus(host, used)
            prepared.used |= used
            for preparation in named(path.test.prepare):
                done = prepared.done.get(preparation.name)
                if preparation.of_test and (done is None or done.others != others):
                    self._set(host, preparation, others)

    def values(self, location: Location) -> tuple[PreparedValue, ...]:
        """Return the values that the hosts of a test had before and have now."""
        return tuple(
            value
            for host in _machines(location)
            for preparation in named(location.test.prepare)
            if (done := self._prepared[host.name].done.get(preparation.name))
            for value in _recorded(host, preparation, replace(done, after=_read(host, preparation)))
        )

    def restore(self) -> tuple[str, ...]:
        """Restore all values. Return what could not be restored, and how to clean it up."""
        if self._run is None:
            return ()
        workspace, executor = self._run
        self._run = None
        self._prepared.clear()
        try:
            failures = executor.unwind()
        finally:
            workspace.close()
        clean = f"what is left is undone by: switchmark clean {workspace.run}"
        return (*failures, clean) if failures else ()

    def _set(self, host: Host, preparation: Preparation, others: Collection[int] = ()) -> None:
        before = _read(host, preparation)
        steps = steps_for(host, preparation, before, others)
        done = self._prepared[host.name].done
        if (earlier := done.get(preparation.name)) is not None:
            # Something else has set the other files, such as the path with these NICs.
            steps = [step for step in steps if before[step.path] == earlier.after.get(step.path)]
            before = {**before, **earlier.before}
        executor = self._executor()
        mark = executor.mark()
        try:
            executor.execute(on_host(tuple(steps), host.name))
        except HostLost:
            raise
        except (SetupFailed, Unavailable) as error:
            executor.unwind(to=mark)
            reason = error.message.removeprefix(f"{why_of(preparation)}: ")
            raise Unavailable(
                f"{_impossible(host, preparation)} now\n  {reason}",
                hint=error.hint or _without(host, preparation),
            ) from error
        done[preparation.name] = _CarriedOut(before, _read(host, preparation), others)

    def _executor(self) -> Executor:
        if self._run is None:
            if privileges() != "root":
                raise Unavailable(
                    f"{OPTION} sets values of the whole host, which needs real root, not root in a "
                    "user namespace",
                    hint="run it with sudo",
                )
            workspace = Workspace()
            executor = Executor(self._hosts, workspace, inside=inside, logs_dir=self._logs)
            self._run = workspace, executor
        return self._run[1]


def steps_for(
    host: Host, preparation: Preparation, files: Mapping[str, bytes], others: Collection[int] = ()
) -> list[Write]:
    """Return the steps of a preparation on a host with these files. `others` are the CPUs that no
    part of the test uses. Raise Unavailable if the host cannot have the preparation."""
    refuse_lacking(host, preparation, files)
    if preparation.of_test and not others:
        raise Unavailable(
            f"{_impossible(host, preparation)}: the parts of the test use all of its CPUs",
            hint=f"--placement with fewer CPUs, or {_without(host, preparation)}",
        )
    return [
        Write(
            why_of(preparation),
            entry.path,
            entry.setting.value_for(others).encode(),
            machine_wide=True,
            refusable=entry.setting.refusable,
        )
        for entry in found(preparation, files)
        if entry.value not in entry.setting.like
    ]


def refuse_lacking(host: Host, preparation: Preparation, files: Mapping[str, bytes]) -> None:
    """Raise Unavailable if a host with these files lacks a preparation."""
    if not found(preparation, files):
        raise Unavailable(
            f"{_impossible(host, preparation)}: {preparation.lacking}\n"
            f"  there is no {preparation.settings[-1].files}",
            hint=f"{preparation.fix}; this host can have {_without(host, preparation)}",
        )


def _impossible(host: Host, preparation: Preparation) -> str:
    return f"{OPTION} {preparation.name} is not possible on host {host.name}"


Planned = tuple[Preparation, list[Write] | Unavailable]
"""A preparation with its steps on a host, or the reason why the host cannot have it."""


def planned(host: Host, test: Test) -> list[Planned]:
    """Return the preparations of a test on a host that do not depend on the CPUs of the test."""
    return [(each, _tried(host, test, each)) for each in named(test.prepare) if not each.of_test]


def planned_for(host: Host, path: Path) -> list[Planned]:
    """Return the others, for a path that is on this host alone."""
    chosen = named(path.test.prepare)
    lost = lost_threads(read_cpus(host, allowed=range(LAST_CPU + 1)))
    lost = lost if any(each.one_thread for each in chosen) else frozenset()
    others = other_cpus(host, cpus_of(path, host, is_whole=True) | lost)
    wanted = [each for each in chosen if each.of_test]
    return [(each, _tried(host, path.test, each, others)) for each in wanted]


def _tried(
    host: Host, test: Test, preparation: Preparation, others: Collection[int] = ()
) -> list[Write] | Unavailable:
    try:
        if preparation.one_thread:
            refuse_lost_threads(test, host, preparation)
        return steps_for(host, preparation, _read(host, preparation), others)
    except Unavailable as error:
        return error


def state_on(host: Host, preparation: Preparation) -> list[Found]:
    """Return the files that show the state of a preparation on a host; empty if the host lacks
    it."""
    return state(preparation, _read(host, preparation))


def spoiling(host: Host, prepared: Collection[str] = ()) -> list[str]:
    """Return the states of a host that make any figure unreliable, in words. What will be
    `prepared` does not count."""
    return [
        f"{preparation.what} is {', '.join(values)}"
        for name, preparation in TABLE.items()
        if preparation.spoils
        and name not in prepared
        and (entries := state_on(host, preparation))
        and (values := dict.fromkeys(entry.value for entry in entries if not entry.is_set))
    ]


def why_of(preparation: Preparation) -> str:
    """Return the reason of the steps of a preparation."""
    return f"{OPTION} {preparation.name}: {preparation.effect}"


def can_have(host: Host) -> list[str]:
    """Return the names of the preparations that a host has files for."""
    return [name for name, each in TABLE.items() if found(each, _read(host, each))]


def cpus_of(path: Path, host: Host, *, is_whole: bool) -> frozenset[int]:
    """Return the CPUs that the parts of a path on a host may use. `is_whole` says that all parts
    are there."""
    places = [(switch.id, switch.host) for switch in path.switches]
    places += [(part.id, part.switch.host) for part in path.parts]
    here = [place for place, name in places if is_whole or name == host.name]
    if path.placement.unpinned.intersection(here):
        return frozenset(cpu.id for cpu in read_cpus(host))
    return frozenset(cpu for place in here for cpu in path.placement.pin(place).cpus)


def other_cpus(host: Host, used: Collection[int]) -> tuple[int, ...]:
    """Return the CPUs of a host without `used`: those that the kernel does not isolate, if there
    are any."""
    every = read_cpus(host, allowed=range(LAST_CPU + 1))
    left = [cpu for cpu in every if cpu.id not in used]
    return tuple(cpu.id for cpu in ([cpu for cpu in left if not cpu.isolated] or left))


def lost_threads(cpus: Iterable[Cpu]) -> frozenset[int]:
    """Return the CPUs that go offline when each core keeps its first thread."""
    return frozenset(cpu.id for cpu in cpus if any(sibling < cpu.id for sibling in cpu.siblings))


def refuse_lost_threads(test: Test, host: Host, preparation: Preparation) -> None:
    """Raise Unavailable if a test names CPUs that go offline when each core keeps one thread."""
    cpus = read_cpus(host, allowed=range(LAST_CPU + 1))
    lost = lost_threads(cpus)
    for axis, asked in (("placement", _listed(test.placement)), ("noise", _of_noise(test))):
        if gone := lost.intersection(asked):
            raise Unavailable(
                f"{_impossible(host, preparation)}: it takes CPU {format_cpus(gone)} offline, "
                f"which --{axis} names\n"
                f"  CPUs that stay: {format_cpus({cpu.id for cpu in cpus} - lost)}",
                hint=f"--{axis} with CPUs that stay, or {_without(host, preparation)}",
            )


def _listed(placement: str) -> Collection[int]:
    """Return the CPUs of a placement; none for a policy."""
    try:
        return parse_cpus(placement.replace("+", ","))
    except UsageError:
        return ()


def _of_noise(test: Test) -> Collection[int]:
    cpus = parse_noise(test.noise)[1] if test.noise else ()
    return () if isinstance(cpus, str) else cpus


def _without(host: Host, preparation: Preparation) -> str:
    """Return the option without a preparation, with the others that a host can have."""
    others = [name for name in can_have(host) if name != preparation.name]
    return option(others) if others else f"no {OPTION}"


def _machines(location: Location) -> Collection[Host]:
    """Return the hosts to prepare for a test: one for each kernel."""
    if not location.test.prepare:
        return ()
    by_kernel: dict[str, Host] = {}
    for host in (location.host, *location.hosts.values()):
        by_kernel.setdefault(boot_id(host), host)
    return by_kernel.values()


def _lasts(host: Host, done: Mapping[str, _CarriedOut]) -> bool:
    """Return whether the values that do not depend on a test are as they were set."""
    return all(
        _read(host, TABLE[name]) == each.after
        for name, each in done.items()
        if not TABLE[name].of_test
    )


def _read(host: Host, preparation: Preparation) -> Mapping[str, bytes]:
    return host.read_all(*(setting.files for setting in preparation.settings))


def _recorded(host: Host, preparation: Preparation, done: _CarriedOut) -> list[PreparedValue]:
    """Return what a preparation did, with one entry for all files that had and have the same
    value."""
    counts = Counter(
        (
            entry.setting.files,
            entry.value,
            entry.setting.value_for(done.others),
            present(done.after.get(entry.path, b"")),
        )
        for entry in found(preparation, done.before)
    )
    return [
        PreparedValue(
            host="" if host.name == HOST.host else host.name,
            preparation=preparation.name,
            files=files,
            count=count,
            was=was,
            asked=asked,
            now=now,
        )
        for (files, was, asked, now), count in counts.items()
    ]

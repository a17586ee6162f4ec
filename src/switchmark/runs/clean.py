"""The clean-up after dead runs: undo every journal that can be locked, then remove leftovers that
no journal lists. Only objects with the exact id of a dead run are touched."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from switchmark.errors import SwitchmarkError, Unavailable, UsageError
from switchmark.hosts.base import Host
from switchmark.hosts.host_file import LOCAL
from switchmark.hosts.local import LocalHost
from switchmark.hosts.processes import end, marked, open_process, start_time
from switchmark.hosts.signals import shielded
from switchmark.hosts.socket_folders import sweep
from switchmark.model.cgroups import V2
from switchmark.runs.freezer import thaw_all
from switchmark.runs.journal import Command, Far, Journal, Lease, Undo
from switchmark.runs.leases import Leases
from switchmark.runs.undo import Refused, carry_out, in_words
from switchmark.runs.workspace import (
    RUN,
    claims,
    default_base,
    mounts_below,
    remove_folder,
    require_own,
)

_GRACE_S = 2.0
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The result for one run."""

    run: str
    """The name of the run."""
    state: Literal["live", "dead", "cleaned", "incomplete"]
    """The state of the run."""
    actions: tuple[str, ...] = ()
    """The undos that were executed, or would be."""
    failures: tuple[str, ...] = ()
    """The undos that are left for another attempt."""
    out_of_reach: tuple[str, ...] = ()
    """The hosts of some of these undos, which cannot be reached."""


def clean(
    base: Path | None = None,
    *,
    runs: Collection[str] = (),
    dry_run: bool = False,
    hosts: Mapping[str, Host] | None = None,
    forget: Collection[str] = (),
) -> list[Cleaned]:
    """Undo the leftovers of dead runs under `base`; report live runs and leave them alone.

    `runs` selects runs; a run that was kept counts as dead. A dry run only reports what it would
    undo. An interruption takes effect after the current run.
    """
    base = base or default_base()
    if os.path.lexists(base):
        require_own(base)
    names = sorted(path.name for path in base.glob("sm*") if RUN.fullmatch(path.name))
    for run in runs:
        if run not in names:
            raise UsageError(f"there is no run {run}; there are: {', '.join(names) or 'none'}")
    hosts = {LOCAL: LocalHost(), **(hosts or {})}
    if LOCAL in forget:
        raise UsageError("this machine is here: what is left on it is not forgotten")
    sweep()
    cleaned = []
    for run in names:
        if not runs or run in runs:
            with shielded():
                cleaned.append(_tried(base, run, dry_run, hosts, forget))
    if not runs:
        cleaned += _give_back_of_the_dead(base, dry_run, hosts[LOCAL])
    return cleaned


def clean_there(host: Host, *, runs: Collection[str] = (), dry_run: bool = False) -> list[Cleaned]:
    """Undo the leftovers of dead runs on a far host, whichever host led them. A virtual machine
    that is not running has none."""
    if not host.up:
        return []
    cleaned = []
    for run, folder, dead in host.runs_there():
        if runs and run not in runs:
            continue
        if not dead or dry_run:
            cleaned.append(Cleaned(run, "dead" if dead else "live"))
            continue
        try:
            with shielded():
                host.undo_run(run, folder)
        except SwitchmarkError as error:
            cleaned.append(Cleaned(run, "incomplete", failures=(str(error),)))
        else:
            cleaned.append(Cleaned(run, "cleaned", (f"end the run on host {host.name}",)))
    return cleaned


def _tried(
    base: Path, run: str, dry_run: bool, hosts: Mapping[str, Host], forget: Collection[str]
) -> Cleaned:
    """Clean up after a run. A failure does not stop the clean-up of other runs."""
    try:
        return _clean_run(base, run, dry_run, hosts, forget)
    except OSError as error:
        return Cleaned(run, "incomplete", failures=(_reason(error, base / run),))
    except SwitchmarkError as error:
        return Cleaned(run, "incomplete", failures=(str(error),))


def _reason(error: OSError, path: Path) -> str:
    return f"{error.filename or path}: {error.strerror}"


def _clean_run(
    base: Path, run: str, dry_run: bool, hosts: Mapping[str, Host], forget: Collection[str]
) -> Cleaned:
    require_own(base / run)
    with claims(base):
        try:
            journal = Journal.reopen(base / run / "journal")
        except FileNotFoundError:
            # The run died or is ending between the folder and the journal, before it did anything,
            # or somebody removed the journal.
            if dry_run:
                return Cleaned(run, "dead", tuple(_leftovers(base, run, hosts[LOCAL])))
            return _without_journal(base, run, hosts)
    if journal is None:
        return Cleaned(run, "live")
    try:
        forgotten = _forget(journal, Leases(base), forget, dry_run)
        if dry_run:
            undos = (in_words(undo) for _, undo in _pending(journal) if undo.host not in forget)
            leftovers = _leftovers(base, run, hosts[LOCAL])
            return Cleaned(run, "dead", (*_of_spoilt(journal), *forgotten, *undos, *leftovers))
        cleaned = _undo_all(base, journal, hosts)
        return replace(cleaned, actions=(*_of_spoilt(journal), *forgotten, *cleaned.actions))
    finally:
        journal.close()


def _of_spoilt(journal: Journal) -> tuple[str, ...]:
    """Report unreadable lines of a journal, if there are any: their undos are lost."""
    return (f"skip {journal.spoilt} unreadable lines of its journal",) if journal.spoilt else ()


def _give_back_of_the_dead(base: Path, dry_run: bool, host: Host) -> list[Cleaned]:
    """Release the leases that dead runs hold on values of this host and whose folders are not
    here."""
    if not base.exists():
        return []
    leases = Leases(base)
    try:
        left = leases.left_by_the_dead(host)
    except OSError as error:
        return [Cleaned("leases", "incomplete", failures=(_reason(error, base / "leases"),))]
    failures: tuple[str, ...] = ()
    if not dry_run and left:
        try:
            leases.give_back_of_the_dead(host)
        except (SwitchmarkError, OSError) as error:
            failures = (str(error),)
    state: Literal["dead", "incomplete", "cleaned"] = "incomplete" if failures else "cleaned"
    return [
        Cleaned(
            run,
            "dead" if dry_run else state,
            tuple(f"give back {path}" for dead, path in left if dead == run),
            failures,
        )
        for run in dict.fromkeys(run for run, _ in left)
    ]


def _forget(
    journal: Journal, leases: Leases, hosts: Collection[str], dry_run: bool
) -> tuple[str, ...]:
    """Drop the undos on some hosts, or in a dry run only report them; return one line per host."""
    given_up = [undo for undo in journal.pending.items() if undo[1].host in hosts]
    if not dry_run:
        for number, undo in given_up:
            if isinstance(undo, Lease):
                leases.forget(journal.run, undo.host, undo.path)
            journal.done(number)
    counts = Counter(undo.host for _, undo in given_up)
    return tuple(f"forget what is left on host {host} ({n})" for host, n in counts.items())


def _undo_all(base: Path, journal: Journal, hosts: Mapping[str, Host]) -> Cleaned:
    run = journal.run
    leases = Leases(base)
    pending = _pending(journal)
    undos = [undo for undo in pending if undo[1].host in hosts]
    owned = {undo.host for _, undo in pending if isinstance(undo, Far) and undo.owner}
    unreachable = [undo for undo in pending if undo[1].host not in {*hosts, *owned}]
    actions: list[str] = [in_words(undo) for _, undo in undos]
    actions += [f"leave host {host} to the run that removes it" for host in sorted(owned)]
    failures: dict[int, str] = {}
    refused: dict[int, str] = {}
    for _ in range(_ROUNDS):
        failures = {}
        for number, undo in undos:
            try:
                carry_out(undo, run=run, hosts=hosts, leases=leases)
            except Refused as refusal:
                refused[number] = f"refused, and nothing is left: {refusal}"
            except (SwitchmarkError, OSError) as error:
                failures[number] = f"could not undo ({in_words(undo)}): {error}"
        # A command in progress when its run died may have finished since.
        ended = _end_all(run, hosts[LOCAL])
        actions += ended
        if not ended and not failures:
            break
    actions += refused.values()
    failures |= _of_unknown(unreachable, hosts)
    for number in [number for number in journal.pending if number not in failures]:
        journal.done(number)
    for host, path in leases.held_by(run):
        with suppress(SwitchmarkError, OSError):
            carry_out(Lease(host=host, path=path), run=run, hosts=hosts, leases=leases)
    swept, not_done = _sweep_up(base, run, hosts[LOCAL], keep_folder=bool(failures))
    actions += swept
    failures |= {-1 - number: failure for number, failure in enumerate(not_done)}
    state: Literal["incomplete", "cleaned"] = "incomplete" if failures else "cleaned"
    far = {undo.host for number, undo in pending if number in failures and undo.host != LOCAL}
    messages = tuple(dict.fromkeys(failures.values()))
    return Cleaned(run, state, tuple(actions), messages, tuple(sorted(far)))


def _without_journal(base: Path, run: str, hosts: Mapping[str, Host]) -> Cleaned:
    """Remove objects with the id of a run whose folder has no journal."""
    actions = _end_all(run, hosts[LOCAL])
    swept, failures = _sweep_up(base, run, hosts[LOCAL])
    state: Literal["incomplete", "cleaned"] = "incomplete" if failures else "cleaned"
    return Cleaned(run, state, (*actions, *swept), tuple(failures))


def _sweep_up(
    base: Path, run: str, host: Host, *, keep_folder: bool = False
) -> tuple[list[str], list[str]]:
    """Remove the namespaces, links, control groups, mounts and the folder of a run whose processes
    have ended; return the actions and the failures."""
    actions, failures = [], []
    for command in _named(base, run, host):
        actions.append(in_words(command))
        try:
            carry_out(command, run=run, hosts={host.name: host}, leases=Leases(base))
        except SwitchmarkError as error:
            failures.append(str(error))
    if not (keep_folder or failures):
        try:
            remove_folder(base / run)
        except SwitchmarkError as error:
            failures.append(str(error))
    return actions, failures


def _of_unknown(undos: Sequence[tuple[int, Undo]], hosts: Mapping[str, Host]) -> dict[int, str]:
    """Return the reason why undos on unknown hosts are kept, in one line for each host."""
    counts = Counter(undo.host for _, undo in undos)
    names = ", ".join(hosts)
    return {
        number: f"the host {undo.host} is not known here (known: {names}), and "
        f"what is left there is kept ({counts[undo.host]})"
        for number, undo in undos
    }


def _pending(journal: Journal) -> list[tuple[int, Undo]]:
    """Return the pending undos, the latest first."""
    return list(reversed(journal.pending.items()))


def _end_all(run: str, host: Host) -> list[str]:
    """End the processes that carry the mark of a run or are in its control groups; a container's
    first process may have another environment. Thaw first, because a frozen process may not die."""
    actions = [f"thaw {group}" for group in thaw_all(host, run)]
    for pid, start in (*marked(run), *_in_groups(run, host)):
        pidfd = open_process(pid, start)
        if pidfd is None:
            continue
        actions.append(f"end process {pid} of the run")
        end(pidfd, signal.SIGTERM, _GRACE_S)
        os.close(pidfd)
    return actions


def _in_groups(run: str, host: Host) -> list[tuple[int, int]]:
    """Return pid and start time of each process in the run's control groups. Skip a process outside
    this pid namespace, which has the number 0 here."""
    members = host.read_all(*(f"{group}/cgroup.procs" for group in _groups(run, host)))
    pids = {int(pid) for content in members.values() for pid in content.split()} - {0, os.getpid()}
    return [(pid, start) for pid in sorted(pids) if (start := start_time(pid)) is not None]


def _groups(run: str, host: Host) -> list[str]:
    """Return the folders of the run's control groups, parents before children."""
    try:
        paths = host.run(("find", V2, "-type", "d", "-path", f"*/{run}-*"), timeout_s=30)
    except Unavailable:
        return []
    return paths.stdout.decode(errors="replace").splitlines()


def _named(base: Path, run: str, host: Host) -> list[Command]:
    """Return the commands that remove the namespaces, links and control groups with the run's
    prefix, and the mounts below its folder. Each of them has an undo in the journal; this is the
    safety net."""
    try:
        spaces = host.run(("ip", "netns", "list")).stdout.decode().splitlines()
        links = json.loads(host.run(("ip", "-j", "link")).stdout or b"[]")
    except Unavailable:
        return []
    names = [line.split()[0] for line in spaces if line.startswith(f"{run}-")]
    removals: list[tuple[str, ...]] = [("ip", "netns", "del", name) for name in names]
    names = [link["ifname"] for link in links if link["ifname"].startswith(f"{run}-")]
    removals += [("ip", "link", "del", name) for name in names]
    removals += [("rmdir", group) for group in reversed(_groups(run, host))]
    points = [str(point) for point in reversed(mounts_below(base / run))]
    removals += [("umount", point) for point in points]
    return [Command(host=host.name, argv=argv) for argv in removals]


def _leftovers(base: Path, run: str, host: Host) -> list[str]:
    processes = sorted({*marked(run), *_in_groups(run, host)})
    ends = [f"end process {pid} of the run" for pid, _ in processes]
    return ends + [in_words(command) for command in _named(base, run, host)]

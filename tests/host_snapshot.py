"""A snapshot of the parts of this host that a run could change: sets of lines by area.

This module does not know what a run does. Entries that change on their own are listed in `VOLATILE`
with a reason; all others count. The namespaces of a lane (`lane.sh`) belong to its tests alone.
Global state of the kernel is also changed by other lanes and other users of the machine, so it is
compared while no other lane runs a test.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from lanes import runs_kept
from switchmark.hosts.local import LocalHost
from switchmark.runs.clean import clean
from switchmark.runs.leases import MACHINE_WIDE, Leases, _count
from switchmark.runs.workspace import RUN

RUNS = Path("/run/switchmark")
Snapshot = Mapping[str, frozenset[str]]
"""Lines by area."""

VOLATILE: Mapping[str, Mapping[str, str]] = {
    "sysctls": {
        r"fs\.(aio-nr|dentry-state|file-nr|inode-\w+|quota\.)": "counts of what is open or cached",
        r"fs\.binfmt_misc\.": "a file system that is mounted when it is looked at",
        r"kernel\.(ns_last_pid|pty\.nr|random\.|tainted)": "counts, and what is drawn anew",
        r"kernel\.(perf_event_max_sample_rate|perf_cpu_time)": "the kernel lowers it under load",
        r"kernel\.randomize_va_space": "leased by every run that prepares the host: see leases",
        r"net\.netfilter\.nf_conntrack_count": "a count of the host's own connections",
        r"vm\.nr_(hugepages|overcommit)": "leased by every run that lives: see the area hugepages",
        r"vm\.stat_refresh": "to read it makes the kernel work",
    },
    "modules": {
        r"(bridge|stp|llc|veth|macvlan|tun|tap|ifb|overlay|vhost|vhost_net|xsk_diag|af_packet_diag"
        r"|sch_\w+|cls_\w+|act_\w+|nf_\w+|x_tables|\w*_diag)$": (
            "the kernel loads it with the first link, mount or rule of its kind, and keeps it"
        ),
    },
    "tmp": {r"/tmp/switchmark-measuring$": "the lock of all that measure stays"},
    "mounts": {
        r"\S+ /run/netns ": "the first `ip netns add` makes it a mount, for everybody",
        r"\S+ /proc/sys/fs/binfmt_misc ": "mounted when it is looked at",
    },
    "files": {
        r"/run/netns/?$": "the first `ip netns add` makes it, for everybody",
        r"/run/switchmark/?$": "the folder of all runs stays",
        r"/run/containers/(networks/)?$": "a podman of the user's makes it",
        r"/var/lib/containers/(cache/(blob-info-cache-v1\.boltdb)?)?$": (
            "a podman of the user's has this cache wherever its images are"
        ),
        r"/run/(systemd|udev|user|log|dbus|utmp|blkid|sudo|sshd|lock/apt)(/|\b)": "the system's",
        r"/var/lib/(apt|dpkg|systemd|dhcp|NetworkManager|logrotate|man-db|ucf|postgresql"
        r"|PackageKit|update-notifier|chrony|private|misc)(/|$)": "the system's own services",
        r"/var/lib/libuuid/clock\.txt$": "libuuid's, of all that draw an identifier by time",
        r"/dev/switchmark-leases$": "of all runs on this machine: see the area leases",
        r"/etc/(mtab|resolv\.conf|ld\.so\.cache~|\.pwd\.lock)": "the system's own services",
        r"/dev/(pts|char|block|disk|fd|mqueue|hugepages|shm)/": "terminals; others have an area",
    },
}
"""Entries that change by themselves, by area: a pattern of their beginning, and the reason."""

_DEPTH = 4
"""The levels of a folder that are searched: a user's docker has millions of files."""

_LEFT_IN_TMP = (
    *("*switchmark*", "*sm[0-9a-f][0-9a-f][0-9a-f][0-9a-f]*", "*podman*", "*docker*", "*lxc*"),
    *("*containers*", "*ovs*", "*openvswitch*", "*dpdk*", "rte*", "*qemu*", "*nginx*"),
)
"""Known leftovers of runtimes and switches in folders with many files of other programs."""


def state_of_the_host(areas: Iterable[str] | None = None) -> Snapshot:
    """Return everything that a run could leave behind or change, or some areas of it."""
    chosen = AREAS if areas is None else areas
    found = {area: frozenset(filter(None, AREAS[area]())) for area in chosen}
    of_others = _any_of(run.name for run in RUNS.glob("sm*") if is_locked(run / "journal"))
    results = {}
    for area, lines in found.items():
        passed_over = _any_of(VOLATILE.get(area, {}))
        results[area] = frozenset(
            line for line in lines if not passed_over.match(line) and not of_others.search(line)
        )
    return results


def differences(before: Snapshot, after: Snapshot) -> dict[str, dict[str, list[str]]]:
    """Return the lines that are gone and the lines that are new, by area.

    Services of the host begin and end during a test. A missing control group belongs to one of
    them, and so does a new one with a process, because processes of a run carry its mark.
    """
    found = {}
    for area, lines in before.items():
        gone, new = lines - after[area], after[area] - lines
        if area == "control groups":
            gone, new = frozenset(), frozenset(group for group in new if not _is_lived_in(group))
        if gone or new:
            found[area] = {"gone": sorted(gone), "new": sorted(new)}
    return found


CHANGED = "the host is not as it was"
"""The beginning of the failure message of a test that left something behind."""

_LATER_S = 5.0
"""The time for objects of a test to disappear: a namespace ends shortly after its last process."""


def is_shared(area: str, line: str) -> bool:
    """Return whether a line is about global state of the kernel or the file system, shared by all
    lanes."""
    match area:
        case "modules" | "devices" | "hugepages" | "control groups":
            return True
        case "sysctls":
            return not line.startswith("net.")
        case "files":
            return not line.startswith("/run/")
        case "tmp":
            return not line.startswith("/tmp/")
        case _:
            return False


def _part(state: Snapshot, *, shared: bool) -> Snapshot:
    return {
        area: frozenset(line for line in lines if is_shared(area, line) == shared)
        for area, lines in state.items()
    }


def state_of_the_lane() -> Snapshot:
    """Return what this lane alone could have changed."""
    return _part(state_of_the_host(), shared=False)


class Shared:
    """The state that lanes share, before the first test. `at_rest` waits until no other lane runs a
    test."""

    def __init__(self, at_rest: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self._at_rest = at_rest
        self._before = _part(state_of_the_host(), shared=True)

    def check(self, areas: Iterable[str]) -> None:
        """Check that the state is unchanged: a change is a failure under CI=true, where nobody else
        uses the machine, otherwise a warning."""
        areas = tuple(areas)
        if not self._changed(areas):
            return
        with self._at_rest():
            changed = _settled(lambda: self._changed(areas))
        if not changed:
            return
        self._before = {**self._before, **_part(state_of_the_host(areas), shared=True)}
        if os.environ.get("CI", "").lower() in ("1", "true"):
            raise AssertionError(_in_words(changed))
        warnings.warn(f"{_in_words(changed)}\nby this test or another program", stacklevel=2)

    def _changed(self, areas: Iterable[str]) -> dict[str, dict[str, list[str]]]:
        of_others = _any_of(runs_kept())
        now = {
            area: frozenset(line for line in lines if not of_others.search(line))
            for area, lines in _part(state_of_the_host(areas), shared=True).items()
        }
        return differences({area: self._before[area] for area in now}, now)


@contextmanager
def left_as_it_was(
    before: Snapshot | None = None,
    areas: Iterable[str] | None = None,
    shared: Shared | None = None,
) -> Iterator[list[Snapshot]]:
    """Check that the host, or some areas of it, is in the same state after the block as before, or
    shortly afterwards. `before` is the earlier state, if known. The new state is put into the list.
    """
    areas = tuple(AREAS if areas is None else areas)
    if left := [run.name for run in RUNS.glob("sm*") if RUN.fullmatch(run.name)]:
        clean(runs=left)
    found = [before or state_of_the_host(areas)]
    yield found

    def changed() -> dict[str, dict[str, list[str]]]:
        found.append(state_of_the_host(areas))
        return differences(_part(found[0], shared=False), _part(found[-1], shared=False))

    if left_over := _settled(changed):
        raise AssertionError(_in_words(left_over))
    if shared is not None:
        shared.check(areas)


def _settled(
    changed: Callable[[], dict[str, dict[str, list[str]]]],
) -> dict[str, dict[str, list[str]]]:
    """Return the remaining changes."""
    deadline = time.monotonic() + _LATER_S
    while (found := changed()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def _in_words(changed: Mapping[str, Mapping[str, Iterable[str]]]) -> str:
    lines = [
        f"{area}: {kind} {line}"
        for area, value in changed.items()
        for kind, lines in value.items()
        for line in lines
    ]
    return "\n  ".join([f"{CHANGED}:", *lines])


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns) or "(?!)")


# --- areas -----------------------------------------------------------------------------------


def _sysctls() -> Iterator[str]:
    """Return the sysctls of every kind; of `net.*`, this network namespace's."""
    top = "/proc/sys/"
    unread = re.compile(r"vm\.stat_refresh|fs\.binfmt_misc|net\.\w+\.route\.flush")
    for path in _walk(top, depth=8):
        name = path[len(top) :].replace("/", ".")
        if path.endswith("/") or unread.match(name):
            continue
        with suppress(OSError):
            yield f"{name} = {_read(path).strip()}"


def _modules() -> list[str]:
    with suppress(OSError):
        return [line.split()[0] for line in _read("/proc/modules").splitlines()]
    return []


def _firewall() -> Iterator[str]:
    """Return rules and the policies of chains, without counts and times."""
    for argv in (
        ("iptables-save",),
        ("ip6tables-save",),
        ("arptables-save",),
        ("ebtables-save",),
        ("nft", "list", "ruleset"),
    ):
        table = ""
        for number, line in enumerate(_out(*argv)):
            if line.startswith(("*", "table ")):
                table = line
            if line and not line.startswith("#"):
                rule = re.sub(r"\[\d+:\d+\]", "", line)
                place = f"{number}: " if argv[0] == "nft" else ""
                yield f"{argv[0]} {table} {place}{rule}"


def _network() -> Iterator[str]:
    """Return links, addresses, routes and rules of this network namespace."""
    commands = b"link\naddress\nroute show table all\n-6 route show table all\nrule\n-6 rule\n"
    for line in _out("ip", "-o", "-batch", "-", stdin=commands):
        line = re.sub(r"^\d+: |(valid|preferred)_lft \S+|expires \S+|\\", "", line)
        yield " ".join(re.sub(r"\b(if|link-netnsid )\d+", r"\1", line).split())


def _mounts() -> Iterator[str]:
    """Return each mount by its device, root and place; their numbers change each time."""
    for line in _read("/proc/self/mountinfo").splitlines():
        fields = line.split()
        yield f"{fields[2]} {fields[4]} {fields[3]} {' '.join(fields[5:])}"


def _namespaces() -> Iterator[str]:
    """Return the named namespaces, and those that a mount holds."""
    for folder in ("/run/netns", "/run/docker/netns", "/var/run/utsns"):
        with suppress(OSError):
            yield from map(str, Path(folder).iterdir())


def _processes() -> Iterator[str]:
    """Return the processes that carry the mark of a run."""
    for process in Path("/proc").glob("[0-9]*"):
        if run := run_of(process):
            with suppress(OSError):
                yield f"{run} {_read(f'{process}/comm').strip()}"


def run_of(process: Path) -> str:
    """Return the run that a process belongs to."""
    try:
        found = re.search(rb"SWITCHMARK_RUN=(\w+)", (process / "environ").read_bytes())
    except OSError:
        return ""
    return found[1].decode() if found else ""


def hugepages() -> int:
    """Return the number of this host's hugepages without those that runs have added, of whatever
    lane. No run changes the number meanwhile: the ledger of leases is locked."""
    files, host = {str(path) for path in _pools()}, LocalHost()
    with Leases(RUNS)._ledger_of(host) as (ledger, _):
        added = sum(take.added or 0 for take in ledger.takes if take.path in files)
        return sum(_count(host, file) for file in files) - added


def _leases() -> list[str]:
    """Return the leases of this host's values that runs of this folder hold."""
    if not (RUNS.exists() and MACHINE_WIDE.exists()):
        return []
    leases = Leases(RUNS)
    with leases._ledger_of(LocalHost()) as (ledger, _):
        return [f"{take.run} {take.path}" for take in ledger.takes if take.root == leases._root]


def _pools() -> list[Path]:
    return list(Path("/sys/devices/system/node").glob("node*/hugepages/*/nr_hugepages"))


def _files() -> Iterator[str]:
    """Return the names of the files in system folders, except those of runs."""
    for folder in ("/run", "/var/lib", "/etc", "/opt", "/dev"):
        yield from _walk(f"{folder}/", depth=_DEPTH)


def _shared_memory() -> Iterator[str]:
    yield from _walk("/dev/shm/", depth=_DEPTH)
    yield from _walk("/dev/mqueue/", depth=1)
    for kind in ("shm", "sem", "msg"):
        with suppress(OSError):
            for line in _read(f"/proc/sysvipc/{kind}").splitlines()[1:]:
                yield f"{kind} {line.split()[1]}"


def _control_groups() -> Iterator[str]:
    """Return the control groups of every hierarchy, v1 and v2."""
    yield from (path for path in _walk("/sys/fs/cgroup/", depth=8) if path.endswith("/"))


def _is_lived_in(group: str) -> bool:
    """Return whether a control group, or one below it, has a process. Processes of another PID
    namespace are not listed: in version 1 they are visible only by their memory."""
    signs = (
        ("cgroup.procs", re.compile(r"\d")),
        ("cgroup.events", re.compile("populated 1")),
        ("memory.stat", re.compile(r"^rss [1-9]", re.MULTILINE)),
    )
    for folder, _, files in os.walk(group):  # whose groups go meanwhile
        for name, sign in signs:
            with suppress(OSError):
                if name in files and sign.search(_read(f"{folder}/{name}")):
                    return True
    return False


def _sockets() -> Iterator[str]:
    """Return the sockets with the name of a run or of its containers."""
    for line in _read("/proc/net/unix").splitlines():
        if found := re.search(r"\S*/switchmark/\S*|@\S*/lxc/sm\S*", line):
            yield found[0]


def _temporary() -> Iterator[str]:
    for folder in ("/tmp", "/var/tmp"):
        for pattern in _LEFT_IN_TMP:
            yield from map(str, Path(folder).glob(pattern))


def _devices() -> Iterator[str]:
    """Return the driver of each PCI device."""
    for device in Path("/sys/bus/pci/devices").glob("*"):
        with suppress(OSError):
            yield f"{device.name} {(device / 'driver').readlink().name}"


AREAS: Mapping[str, Callable[[], Iterator[str] | list[str]]] = {
    "sysctls": _sysctls,
    "modules": _modules,
    "firewall": _firewall,
    "network": _network,
    "namespaces": _namespaces,
    "mounts": _mounts,
    "processes": _processes,
    "hugepages": lambda: [str(hugepages()), *_walk("/dev/hugepages/", depth=1)],
    "leases": _leases,
    "files": _files,
    "shared memory": _shared_memory,
    "control groups": _control_groups,
    "sockets": _sockets,
    "devices": _devices,
    "runs": lambda: [path.name for path in RUNS.glob("sm*")],
    "tmp": _temporary,
}
"""The functions that read each area."""

QUICK = tuple(AREAS.keys() - {"sysctls", "firewall", "files", "tmp"})
"""The areas that are read in 20 ms. All areas take 100 ms, which is noticeable if each test is
checked."""


def _walk(top: str, *, depth: int) -> Iterator[str]:
    """Yield the paths below a folder; folders end with a slash. Other mounts are skipped."""
    folders = [(top, 1)]
    while folders:
        folder, level = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield f"{entry.path}/"
                if level < depth:
                    folders.append((f"{entry.path}/", level + 1))
            else:
                yield entry.path


def _read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        found = b""
        while piece := os.read(descriptor, 1 << 16):
            found += piece
    finally:
        os.close(descriptor)
    return found.decode(errors="replace")


def _out(*argv: str, stdin: bytes = b"") -> list[str]:
    """Return the lines that a program prints; none if it is missing or does not work here."""
    try:
        completed = subprocess.run(argv, input=stdin, capture_output=True)
    except FileNotFoundError:
        return []
    return completed.stdout.decode(errors="replace").splitlines()


def is_locked(path: Path) -> bool:
    """Return whether a process, including this one, holds a journal: its run is alive."""
    try:
        journal = path.open("rb")
    except OSError:
        return False
    with journal:
        try:
            fcntl.flock(journal, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False

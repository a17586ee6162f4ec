"""A plan says what is to be done to a host, as data.

A plan is a tuple of frozen steps, each with its reason. Drivers return plans; only
`runs.executor` carries them out. `${name}` in an argv, a path or a content stands for a value
that an earlier `Run(save=...)` kept, or for the pid of an earlier `Spawn`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from signal import SIGTERM

PORTS_DIR, OWN_DIR = "ports", "switch"
"""The folders in a run's folder that programs of a path write to: all of them, and the switch
alone. What may carry out commands on the host, as the journal, is in neither."""


@dataclass(frozen=True, slots=True)
class Node:
    """A place where commands run: an instance of an environment, or a host itself."""

    name: str
    """With the prefix of the run (`sm3f2a-f0`); that of a host is `host`."""
    environment: str
    """The name of its environment."""
    host: str = "local"
    """The name of the host that it is on."""
    run_dir: str = ""
    """The folder of the run, where the way into some nodes is."""
    image: str | None = None
    """The image of the user's that it is made of; None for what the environment makes."""
    isolated: bool = False
    """It has a network stack of its own."""
    reaches: frozenset[str] = frozenset()
    """The environments in whose nodes interfaces can be made from here."""


HOST = Node("host", "host")
"""The local machine, outside of every namespace that switchmark makes."""


@dataclass(frozen=True, slots=True)
class Run:
    """This step runs a command to its end.

    `undo` is an argv that takes the effect back, at the same place, and reads `undo_stdin`; it is
    idempotent. `save` keeps the stripped standard output under that name. `ok` are the exit
    statuses that count as success. Commands in a row that are `about` different things need nothing
    of each other, and may be run side by side; so may their undos.
    """

    why: str
    argv: tuple[str, ...]
    at: Node = HOST
    undo: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes | None = None
    save: str | None = None
    ok: tuple[int, ...] = (0,)
    timeout_s: float = 10.0
    undo_stdin: bytes | None = None
    about: str = ""


@dataclass(frozen=True, slots=True)
class Spawn:
    """This step starts a process that lives until the plan is undone.

    Its stdin and stdout are pipes that `Executor.process(name)` hands out; stderr goes to
    `logs/NAME.stderr` of the run folder. `stop` is the signal and the seconds granted before
    SIGKILL. `within` begins the command, outside of its node: a program that does something to
    itself and becomes the rest, as to join a cgroup.
    """

    why: str
    name: str
    argv: tuple[str, ...]
    at: Node = HOST
    env: Mapping[str, str] = field(default_factory=dict)
    stop: tuple[int, float] = (SIGTERM, 5.0)
    within: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Write:
    """This step writes a file; it is undone by writing the old content back, or by removing the
    file.

    `machine_wide` marks a value of the whole host (a sysctl): it is leased, so that the first run
    saves the old value and the last one restores it. Where the file of an `optional` one is not
    there, there is nothing to be set.
    """

    why: str
    path: str
    content: bytes
    at: Node = HOST
    machine_wide: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """This step makes a folder of the system's, with those above it, as a program would that leaves
    it.

    Undone by removing what was not there before of it and of those above it, as far as it is empty
    then.
    """

    why: str
    path: str
    at: Node = HOST


@dataclass(frozen=True, slots=True)
class Reserve:
    """This step keeps `megabytes` (of 1024 KiB) of hugepages free for this run on a NUMA node of a
    host; it is undone by giving them back.

    Leased like a machine-wide Write, but additive: each step of each run gets its own.
    """

    why: str
    megabytes: int
    node: int = 0
    at: Node = HOST


@dataclass(frozen=True, slots=True)
class Check:
    """A check is the condition of a Wait: `argv` ends with a status in `ok` and, where `pattern` is
    given, prints something that this regular expression (re.search, MULTILINE) finds."""

    argv: tuple[str, ...]
    at: Node = HOST
    pattern: str | None = None
    ok: tuple[int, ...] = (0,)
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wait:
    """This step polls `check` until it holds; `NotReady` after `timeout_s`, or as soon as the
    process of the Spawn that `unless_dead` names has ended."""

    why: str
    check: Check
    timeout_s: float = 10.0
    unless_dead: str | None = None


Step = Run | Spawn | Write | Folder | Reserve | Wait
Plan = tuple[Step, ...]


def on_host(steps: Plan, host: str) -> Plan:
    """Return the steps, those at the host itself at the host of this name."""
    if host == HOST.host:
        return steps

    def there(node: Node) -> Node:
        return replace(node, host=host) if node.host == HOST.host else node

    return tuple(
        replace(step, check=replace(step.check, at=there(step.check.at)))
        if isinstance(step, Wait)
        else replace(step, at=there(step.at))
        for step in steps
    )

"""Plans: what is to be done to a host, as data.

A plan is a tuple of frozen steps, each with its reason. Drivers return plans; only `runs.executor`
carries them out. `${name}` in an argv, a path or a content stands for a value that an earlier
`Run(save=...)` kept, or for the pid of an earlier `Spawn`.
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
    """Run a command to its end."""

    why: str
    """The reason, for whoever reads the plan."""
    argv: tuple[str, ...]
    """The command."""
    at: Node = HOST
    """Where it runs."""
    undo: tuple[str, ...] | None = None
    """The command that takes the effect back, at the same place; it is idempotent."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of its environment, besides those that it has anyway."""
    stdin: bytes | None = None
    """What it reads; None: nothing."""
    save: str | None = None
    """The name under which its output is kept, stripped, for `${name}` in later steps."""
    ok: tuple[int, ...] = (0,)
    """The exit statuses that count as success."""
    timeout_s: float = 10.0
    """Seconds after which it has failed."""
    undo_stdin: bytes | None = None
    """What `undo` reads; None: nothing."""
    about: str = ""
    """Its subject: consecutive commands with different subjects are independent and may run in
    parallel, and so may their undos. Empty: it runs alone."""


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start a process that lives until the plan is undone. Its stdin and stdout are pipes that
    `Executor.process(name)` hands out; its stderr goes to `logs/NAME.stderr` of the run folder."""

    why: str
    """The reason, for whoever reads the plan."""
    name: str
    """Its name in the run; `${name}` is its pid in later steps."""
    argv: tuple[str, ...]
    """The command."""
    at: Node = HOST
    """Where it runs."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of its environment, besides those that it has anyway."""
    stop: tuple[int, float] = (SIGTERM, 5.0)
    """The signal that ends it, and the seconds until SIGKILL."""
    within: tuple[str, ...] = ()
    """The beginning of the command, outside of its node: a program that does something to itself,
    such as to join a cgroup, and then becomes the rest."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write a file. The undo writes the old content back, or removes the file."""

    why: str
    """The reason, for whoever reads the plan."""
    path: str
    """The file."""
    content: bytes
    """All that it holds then."""
    at: Node = HOST
    """Where it is."""
    machine_wide: bool = False
    """It is a value of the whole host (a sysctl). Such a value is leased: the first run saves the
    old value, the last one restores it."""
    optional: bool = False
    """Nothing is written where the file does not exist."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Make a folder of the system's, with those above it, as a program would that leaves it behind.
    The undo removes what was not there before, as far as it is empty then."""

    why: str
    """The reason, for whoever reads the plan."""
    path: str
    """The folder."""
    at: Node = HOST
    """Where it is."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """Keep hugepages free for this run. They are leased as a machine-wide Write is, but additive:
    each step of each run gets its own. The undo gives them back."""

    why: str
    """The reason, for whoever reads the plan."""
    megabytes: int
    """How many (of 1024 KiB)."""
    node: int = 0
    """The NUMA node."""
    at: Node = HOST
    """The host."""


@dataclass(frozen=True, slots=True)
class Check:
    """The condition of a Wait."""

    argv: tuple[str, ...]
    """The command that is tried."""
    at: Node = HOST
    """Where it runs."""
    pattern: str | None = None
    """A regular expression (re.search, MULTILINE) that its output has to match; None: none has
    to."""
    ok: tuple[int, ...] = (0,)
    """The exit statuses that count as success."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of its environment, besides those that it has anyway."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Poll a check until it holds; NotReady if it does not."""

    why: str
    """The reason, for whoever reads the plan."""
    check: Check
    """The condition."""
    timeout_s: float = 10.0
    """Seconds after which it has failed."""
    unless_dead: str | None = None
    """The name of a Spawn: once that process has ended, the wait has failed."""


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

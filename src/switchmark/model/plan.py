"""Plans: the actions on a host, as data.

A plan is a tuple of frozen steps with their reasons. Drivers return plans, and only `runs.executor`
executes them. `${name}` in an argv, a path or a content stands for the output saved by an earlier
`Run(save=...)`, or for the pid of an earlier `Spawn`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from signal import SIGTERM

PORTS_DIR, SWITCH_DIR = "ports", "switch"
"""The folders of a run that the programs of a path can write to: the first for all programs, the
second for the switch only. Files that lead to commands on the host, such as the journal, are in
neither."""


@dataclass(frozen=True, slots=True)
class Node:
    """A place for commands: an instance of an environment, or a host itself."""

    name: str
    """The name with the prefix of the run (`sm3f2a-f0`); `host` for a host."""
    environment: str
    """The name of its environment."""
    host: str = "local"
    """The name of its host."""
    run_dir: str = ""
    """The folder of the run, which has the entry files of some nodes."""
    image: str | None = None
    """The user's image for it; None for the image of the environment."""
    isolated: bool = False
    """Whether it has a separate network stack."""
    reaches: frozenset[str] = frozenset()
    """The environments in whose nodes this node can create interfaces."""
    separate_kernel: bool = False
    """Whether it has a separate kernel."""


HOST = Node("host", "host")
"""The local machine, outside of all namespaces of switchmark."""


@dataclass(frozen=True, slots=True)
class Run:
    """Run a command to its end."""

    why: str
    """The reason, for readers of the plan."""
    argv: tuple[str, ...]
    """The command."""
    at: Node = HOST
    """The node where it runs."""
    undo: tuple[str, ...] | None = None
    """The idempotent command that reverts the effect, in the same node."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Additional environment variables."""
    stdin: bytes | None = None
    """Its input; None for no input."""
    save: str | None = None
    """The name that saves its output, stripped, for `${name}` in later steps."""
    ok: tuple[int, ...] = (0,)
    """The exit codes that count as success."""
    timeout_s: float = 10.0
    """The time limit, in seconds."""
    undo_stdin: bytes | None = None
    """The input of `undo`; None for no input."""
    undo_refusable: bool = False
    """Whether a program that refuses `undo` leaves nothing, because the node that it works in is
    removed anyway. The refusal is then a doubt about the program."""
    subject: str = ""
    """Its subject: consecutive commands with different subjects are independent and may run in
    parallel, and so may their undo commands. Empty for a command that runs alone."""


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start a process that lives until the plan is undone.

    `Executor.process(name)` returns its stdin and stdout as pipes. Its stderr goes to
    `logs/NAME.stderr` in the run folder."""

    why: str
    """The reason, for readers of the plan."""
    name: str
    """Its name in the run; `${name}` is its pid in later steps."""
    argv: tuple[str, ...]
    """The command."""
    at: Node = HOST
    """The node where it runs."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Additional environment variables."""
    stop: tuple[int, float] = (SIGTERM, 5.0)
    """The signal that stops it, and the seconds until SIGKILL."""
    within: tuple[str, ...] = ()
    """A prefix of the command, outside of its node: a program that changes its state (for example,
    joins a cgroup) and then executes the rest."""


@dataclass(frozen=True, slots=True)
class End:
    """End the process of an earlier Spawn before its plan is undone. A later Spawn may take its
    name."""

    why: str
    """The reason, for readers of the plan."""
    name: str
    """The name of the Spawn."""
    stop: tuple[int, float] = (SIGTERM, 5.0)
    """The signal that stops it, and the seconds until SIGKILL."""
    at: Node = HOST
    """The node of the process."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Let time pass. Only an event with a length needs this; all other steps wait for a
    condition."""

    why: str
    """The reason, for readers of the plan."""
    seconds: float
    """The time, in seconds."""
    at: Node = HOST
    """The node of the steps around it."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write a file. The undo restores the old content, or removes the file."""

    why: str
    """The reason, for readers of the plan."""
    path: str
    """The file."""
    content: bytes
    """The whole new content."""
    at: Node = HOST
    """The node that has it."""
    machine_wide: bool = False
    """Whether it is a value of the whole host (a sysctl). Such a value is leased: the first run
    saves the old value, and the last run restores it."""
    optional: bool = False
    """Whether to skip the step if the file does not exist."""
    refusable: bool = False
    """Whether the kernel may refuse the content; the file then keeps its own."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Create a system folder and its parents, which a program would create and leave behind. The
    undo removes the created folders that are empty by then."""

    why: str
    """The reason, for readers of the plan."""
    path: str
    """The folder."""
    at: Node = HOST
    """The node that has it."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """Reserve hugepages for this run. They are leased like a machine-wide Write, but additive:
    every step of every run adds its pages. The undo returns them."""

    why: str
    """The reason, for readers of the plan."""
    megabytes: int
    """The amount, in MiB (1024 KiB)."""
    node: int = 0
    """The NUMA node."""
    at: Node = HOST
    """The host."""


@dataclass(frozen=True, slots=True)
class Check:
    """The condition of a Wait."""

    argv: tuple[str, ...]
    """The command to try."""
    at: Node = HOST
    """The node where it runs."""
    pattern: str | None = None
    """A regular expression (re.search, MULTILINE) that the output must match; None for any
    output."""
    ok: tuple[int, ...] = (0,)
    """The exit codes that count as success."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Additional environment variables."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Poll a check until it holds; raises NotReady after the time limit."""

    why: str
    """The reason, for readers of the plan."""
    check: Check
    """The condition."""
    timeout_s: float = 10.0
    """The time limit, in seconds."""
    unless_dead: str | None = None
    """The name of a Spawn whose exit makes the wait fail at once."""


Step = Run | Spawn | End | Rest | Write | Folder | Reserve | Wait
Plan = tuple[Step, ...]


def on_host(steps: Plan, host: str) -> Plan:
    """Return the steps, with the local host replaced by the host of this name."""
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


def fenced(plan: Plan) -> Plan:
    """Return a plan whose first and last commands have no subject, so that the whole plan runs
    after all earlier commands and before all later commands."""
    runs = [number for number, step in enumerate(plan) if isinstance(step, Run)]
    ends = {*runs[:1], *runs[-1:]}
    return tuple(
        replace(step, subject="") if number in ends and isinstance(step, Run) else step
        for number, step in enumerate(plan)
    )

"""The interface of a host that runs commands and stores files.

Commands are argv tuples, never shell text. `local` and `ssh` are the kinds of hosts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from switchmark.model.cpus import LAST_CPU, listed_cpus


@dataclass(frozen=True, slots=True)
class Completed:
    """The result of a command that ended."""

    status: int
    """The exit status; if negative, the number of the signal."""
    stdout: bytes
    """The standard output."""
    stderr: bytes
    """The standard error."""


@dataclass(frozen=True, slots=True)
class Call:
    """A command to run with others."""

    argv: tuple[str, ...]
    """The command and its arguments."""
    stdin: bytes | None = None
    """The standard input; None for an empty one."""
    env: Mapping[str, str] = field(default_factory=dict)
    """The additional environment variables."""
    timeout_s: float = 10.0
    """The time after which the command is killed."""
    ok: tuple[int, ...] | None = None
    """The exit statuses after which the next command may run; None allows all."""
    subject: str = ""
    """The thing that the command changes. Consecutive calls with different subjects are
    independent. A call with an empty subject may depend on any other call."""

    def allows(self, status: int) -> bool:
        """Return whether the next command may run after this exit status."""
        return self.ok is None or status in self.ok


class Process(Protocol):
    """A running process. Lines are JSON objects or text, without their newline."""

    pid: int
    """The process id on its host."""
    started: int
    """The start time (`processes.start_time`), which makes `pid` unambiguous."""

    @property
    def patience(self) -> float:
        """Return how many times as long as usual the process may take (see `Host`)."""
        ...

    def send(self, line: str) -> None:
        """Write a line to its stdin; raise CommandFailed if the process no longer reads."""
        ...

    def receive(self, timeout_s: float) -> str | None:
        """Return its next line of stdout; None if no line came in time or the output has ended."""
        ...

    def poll(self) -> int | None:
        """Return the exit status (negative: the signal), or None while it runs."""
        ...

    def last_words(self, count: int = 5) -> str:
        """Return the last `count` lines that it wrote to stderr."""
        ...

    def hang_up(self) -> None:
        """Close its stdin."""
        ...

    def stop(self, number: int, grace_s: float) -> int:
        """Signal the process, send SIGKILL after `grace_s`, reap it; return the exit status."""
        ...


class Held(Protocol):
    """The undos of a run that a far host holds and executes when the connection ends.

    No method waits for an answer, but later requests to the host come after these.
    """

    folder: str
    """The run's folder on that host."""
    boot: str
    """The id of that host's boot."""
    pid: int
    """The process that holds the undos."""
    started: int
    """The start time of that process."""

    def lives(self) -> bool:
        """Return whether the host still holds the undos, as far as this side knows."""
        ...

    def journal(self, line: str) -> None:
        """Append a line to the run's journal on that host."""
        ...

    def command(self, number: int, argv: Sequence[str], stdin: bytes | None) -> None:
        """Register an undo that runs a command, under its number in the journal."""
        ...

    def restore(self, number: int, path: str, content: bytes | None) -> None:
        """Register an undo that writes a file or removes it."""
        ...

    def stop(self, number: int, pid: int, started: int, by: int, grace_s: float) -> None:
        """Register an undo that ends a process."""
        ...

    def lease(self, number: int, path: str, added: int | None) -> None:
        """Register an undo that restores the file's current content, or that lowers its count by
        the increase from now on, at most by `added`."""
        ...

    def done(self, number: int) -> None:
        """Drop the undo with this number."""
        ...

    def end(self, *, kept: bool = False) -> None:
        """Drop all undos: the host removes the folder, or keeps it for `clean`."""
        ...


class Host(ABC):
    """A host: it runs commands and stores files. This is the whole interface that a run needs.

    A new kind of host is a subclass that implements the abstract methods and overrides the defaults
    that do not fit. `run` kills a command after `timeout_s` and raises CommandTimedOut; a missing
    program raises Unavailable. `read`, `write` and `remove` raise OSError; `remove` of a missing
    file is no error. `read_all` reads kernel files in /proc and /sys, many at once.
    """

    name: str

    is_local = False
    """Whether switchmark itself runs there: its Python, its network namespace, its CPU affinity."""

    is_far = False
    """Whether the connection to the host can be lost. A run then keeps a folder, a journal and its
    undos there too, and the host executes the remaining undos when the connection ends."""

    is_machine = False
    """Whether it is a virtual machine of the local host."""

    in_order = True
    """Whether `run_all` starts a command only after the previous one succeeded: after a failure, no
    later command has run."""

    patience: float = 1.0
    """How many times as long as usual everything may take there."""

    joined_by: str = ""
    """The name of a network that joins the host with others, where no cable does."""

    owner: str = ""
    """The run on this computer that removes the host at its end; empty for a host that stays."""

    # --- commands and processes ---------------------------------------------------------------

    @abstractmethod
    def run(
        self,
        argv: tuple[str, ...],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] = {},
        timeout_s: float = 10.0,
    ) -> Completed: ...

    def run_all(self, calls: Sequence[Call]) -> Generator[Completed, None, None]:
        """Run commands; yield each result, in order. A status that the call does not allow ends the
        batch; so does an error, which is raised in its turn."""
        for call in calls:
            completed = self.run(
                call.argv, stdin=call.stdin, env=call.env, timeout_s=call.timeout_s
            )
            yield completed
            if not call.allows(completed.status):
                return

    @abstractmethod
    def spawn(
        self, argv: tuple[str, ...], *, stderr_path: str, env: Mapping[str, str] = {}
    ) -> Process:
        """Start a process. It gets `env` and the few variables that every program may see, not the
        environment of the user's shell."""

    @abstractmethod
    def end(self, pid: int, started: int, number: int, grace_s: float) -> bool:
        """Signal the process with this number and start time, and send SIGKILL after `grace_s`;
        return whether it has ended. A process that is already gone has ended."""

    def marked(self, run: str) -> tuple[tuple[int, int], ...]:
        """Return pid and start time of every process that carries the mark of a run."""
        raise NotImplementedError(f"{self.name} does not look for the processes of a run")

    def path_of(self, program: str) -> str:
        """Return the path on this host of a program of the local host; copy the program there if
        necessary."""
        return program

    def allowed_cpus(self) -> frozenset[int]:
        """Return the CPUs that runs may use, including isolated CPUs."""
        # The kernel grants those of the range that exist.
        completed = self.run(("taskset", "-c", f"0-{LAST_CPU}", "cat", "/proc/self/status"))
        return listed_cpus(completed.stdout.partition(b"Cpus_allowed_list:")[2].partition(b"\n")[0])

    # --- files --------------------------------------------------------------------------------

    @abstractmethod
    def read(self, path: str) -> bytes: ...

    @abstractmethod
    def write(self, path: str, content: bytes) -> None: ...

    @abstractmethod
    def exists(self, path: str) -> bool: ...

    @abstractmethod
    def remove(self, path: str) -> None: ...

    @abstractmethod
    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        """Return the content of every readable file that matches a shell pattern."""

    def read_later(self, *patterns: str) -> Callable[[], Mapping[str, bytes]]:
        """Start reading the files that match patterns, if the host can do so in the background;
        return a function that returns their contents. Call it before the next request."""
        return partial(self.read_all, *patterns)

    @abstractmethod
    def inodes(self, *patterns: str) -> Mapping[str, int]:
        """Return the inode numbers of the files behind matching paths, once for each path."""

    # --- the connection, and the runs on the host -------------------------------------------------

    @property
    def up(self) -> bool:
        """Return whether the host is running: False for a virtual machine that is not booted."""
        return True

    @property
    def emulated(self) -> str:
        """Return the emulator of its processor; empty for a real processor."""
        return ""

    def begin(self) -> None:  # noqa: B027
        """Start to boot the host, so that several hosts boot at the same time."""

    def lives(self) -> bool:
        """Return whether the connection is up, as far as this side knows."""
        return True

    def hold(self, run: str, folder: str, names: Sequence[str]) -> Held:
        """Create the run's folder on a far host, with subfolders of these names, and let the host
        hold the run's undos. Raise SetupFailed if that fails."""
        raise NotImplementedError(f"{self.name} is not far away")

    def runs_there(self) -> Sequence[tuple[str, str, bool]]:
        """Return the id, the folder and the state (dead or not) of each run that another host leads
        and that left something on this one."""
        return ()

    def undo_run(self, run: str, folder: str) -> None:  # noqa: B027
        """Undo what a run that another host leads left there. Raise SetupFailed if that fails."""

    def close(self) -> None:  # noqa: B027
        """End the connection and every process on it."""


def boot_id(host: Host) -> str:
    """Return the id that the kernel of a host generated at boot."""
    return host.read("/proc/sys/kernel/random/boot_id").decode().strip()

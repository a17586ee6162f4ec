"""The errors that switchmark raises on purpose, and their exit codes.

    SwitchmarkError
    ├── UsageError            exit 2    an invalid request: a name, a value, a combination
    ├── Unavailable           exit 3    this host lacks a tool, a kernel feature or a privilege
    ├── SetupFailed           exit 4    a step of a plan failed, or a process did not come up
    │   ├── CommandFailed               a command exited with a status that its step does not allow
    │   ├── CommandTimedOut             a command exceeded its time limit
    │   ├── HostLost                    the connection to a host was lost during use
    │   └── NotReady                    the condition of a Wait never held
    ├── TrialFailed           exit 1    the path came up, but a trial could not finish
    │   ├── NotEquivalent               the switch does not forward frames as the test requires
    │   └── HostTooBusy                 background load kept the sender from sending at all
    └── RecordFailed          exit 4    the record could not be written; earlier records are safe

    Interrupted               exit 130  Ctrl-C or SIGTERM; not an Exception, so handlers of failures
                                        do not catch it

A message names the failure, its place and the evidence; `hint` is an exact command or option.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class Exit(IntEnum):
    """The exit codes of a command; docs/guide/exit-codes.md explains them."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    UNAVAILABLE = 3
    INCOMPLETE = 4
    DOUBTED = 5
    UNDECIDED = 6
    BUG = 70
    INTERRUPTED = 130


class _Shown(BaseException):
    """An error that the user sees as a message without a traceback, followed by `hint: ...`."""

    exit_code: ClassVar[Exit] = Exit.BUG

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n\nhint: {self.hint}"


class SwitchmarkError(_Shown, Exception):
    """The base class of all errors of the project except Interrupted."""

    doubts: ClassVar[tuple[str, ...]] = ()
    """The doubts of a test that ended with this error."""


class UsageError(SwitchmarkError):
    """The request is invalid or can never work. `axes` names the fields of Test at fault, if
    known."""

    exit_code = Exit.USAGE

    def __init__(
        self, message: str, *, hint: str | None = None, axes: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.axes = axes


class Unavailable(SwitchmarkError):
    """This host lacks something that the request needs."""

    exit_code = Exit.UNAVAILABLE


class SetupFailed(SwitchmarkError):
    """The topology, a switch or a function did not come up."""

    exit_code = Exit.INCOMPLETE


class CommandFailed(SetupFailed):
    """A command exited with a status that is not in its step's `ok`."""


class CommandTimedOut(SetupFailed):
    """A command exceeded its time limit and was killed."""


class HostLost(SetupFailed):
    """The connection to a host was lost; the processes there end on their own."""


class NotReady(SetupFailed):
    """The condition of a Wait did not hold in time."""


class TrialFailed(SwitchmarkError):
    """A trial could not finish, for instance because a traffic process died."""

    exit_code = Exit.FAILED


class NotEquivalent(TrialFailed):
    """The functional trial showed that the switch does not forward frames as the test requires."""

    doubts = ("not-equivalent",)


class HostTooBusy(TrialFailed):
    """The sender got no CPU time, so the trial says nothing about the switch."""

    doubts = ("host-busy",)


class RecordFailed(SwitchmarkError):
    """A record could not be stored, for instance because the disk is full."""

    exit_code = Exit.INCOMPLETE


class Interrupted(_Shown):
    """The user or the system asked the run to end.

    Like KeyboardInterrupt it is not an Exception: a handler of failures would catch it, and the run
    would continue."""

    exit_code = Exit.INTERRUPTED

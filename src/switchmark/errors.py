"""This module defines every error that switchmark raises on purpose, and how it reads.

    SwitchmarkError
    ├── UsageError            exit 2    the request itself: a name, a value, a combination
    ├── Unavailable           exit 3    this host lacks a tool, a kernel part or a privilege
    ├── SetupFailed           exit 4    a step of a plan, or a part that did not come up
    │   ├── CommandFailed               a command ended with a status that its step does not allow
    │   ├── CommandTimedOut             a command outlived its limit
    │   ├── HostLost                    the connection to a host went while it was used
    │   └── NotReady                    a Wait whose condition never held
    ├── TrialFailed           exit 1    the path came up, but a trial could not be finished
    │   ├── NotEquivalent               the switch does not do the work that it is compared by
    │   └── HostTooBusy                 other work kept the sender from sending at all
    └── RecordFailed          exit 4    the record could not be written; what was written is safe

    Interrupted               exit 130  Ctrl-C or SIGTERM; no Exception, so that none who handles a
                                        failure handles it as well

A message says what failed, where, and the evidence; `hint` is an exact command or option.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class Exit(IntEnum):
    """A command ends with one of these statuses; docs/guide/exit-codes.md says more of each."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    UNAVAILABLE = 3
    INCOMPLETE = 4
    DOUBTED = 5
    UNDECIDED = 6
    BUG = 70
    INTERRUPTED = 130


class _Told(BaseException):
    """An error of this kind is told to the user instead of a traceback: `hint` is printed after the
    message, as `hint: ...`."""

    exit_code: ClassVar[Exit] = Exit.BUG

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n\nhint: {self.hint}"


class SwitchmarkError(_Told, Exception):
    """All of the project's errors but Interrupted derive from this one. `doubts` are those of a
    test that ended so."""

    doubts: ClassVar[tuple[str, ...]] = ()


class UsageError(SwitchmarkError):
    """The request cannot be understood or can never work. `axes` are those that it is about, by the
    names of Test's fields, where whoever raises it knows them."""

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
    """A command ended with a status outside of its step's `ok`."""


class CommandTimedOut(SetupFailed):
    """A command outlived its time limit and was ended."""


class HostLost(SetupFailed):
    """The connection to a host was lost; what ran there ends by itself."""


class NotReady(SetupFailed):
    """A condition that a Wait names did not come true in time."""


class TrialFailed(SwitchmarkError):
    """A trial could not be finished, for instance because a traffic process died."""

    exit_code = Exit.FAILED


class NotEquivalent(TrialFailed):
    """The functional trial before measuring showed that the switch does other work."""

    doubts = ("not-equivalent",)


class HostTooBusy(TrialFailed):
    """Nothing could be shown of the switch: the sender had no turn at its CPU."""

    doubts = ("host-busy",)


class RecordFailed(SwitchmarkError):
    """A record could not be stored, for instance because the disk is full."""

    exit_code = Exit.INCOMPLETE


class Interrupted(_Told):
    """The user, or the system, asked the run to end. Like KeyboardInterrupt it is no Exception: a
    handler of failures that took it for one would go on as if nothing had been asked."""

    exit_code = Exit.INTERRUPTED

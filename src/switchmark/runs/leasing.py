"""Values of a whole host are set under leases, which the journal of a run has before they are
taken."""

from __future__ import annotations

from switchmark.errors import SetupFailed, Unavailable
from switchmark.hosts.base import Host
from switchmark.model.plan import Reserve
from switchmark.runs.hugepages import find_pool, reserve
from switchmark.runs.journal import Lease
from switchmark.runs.workspace import Workspace


def lease(workspace: Workspace, host: Host, path: str, content: bytes) -> None:
    """Set a value of a whole host, which the last run that has it set restores."""
    number = workspace.journal.intend(Lease(host=host.name, path=path))
    try:
        workspace.leases.take(workspace.run, host, path, content)
    except (SetupFailed, Unavailable, OSError):
        # There is no lease: the undo would give back one that the run had before.
        workspace.journal.done(number)
        raise


def reserve_pages(workspace: Workspace, host: Host, step: Reserve) -> None:
    """Keep hugepages free for a run. SetupFailed or Unavailable where they cannot be had."""
    pool = find_pool(host, step.node)
    numbers: list[int] = []

    def intend(added: int) -> None:
        undo = Lease(host=host.name, path=pool.total, added=added)
        numbers.append(workspace.journal.intend(undo))

    try:
        reserve(
            pool,
            step.megabytes,
            run=workspace.run,
            host=host,
            leases=workspace.leases,
            intend=intend,
        )
    except (SetupFailed, Unavailable):
        # There is no lease: the undo would give back one that the run had before.
        for number in numbers:
            workspace.journal.done(number)
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise SetupFailed(f"{pool.total} cannot be set: {reason}") from error

"""The agent of another host holds the undos of a run there."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.hosts.agent import Agent
from switchmark.hosts.agent_messages import Ask, Undo, counted, text, texts, uint32, uint64


class AgentHeld:
    """An agent holds the undos of a run in `folder`, and carries them out when its connection ends.
    `boot` names the boot of its host, `pid` and `started` are of who holds them."""

    def __init__(self, agent: Agent, run: str, folder: str, names: Sequence[str]) -> None:
        self._agent = agent
        asked = texts((run, folder, f"far-{agent.host}", *names))
        answer = agent.ask(Ask.HOLD, asked)
        self.folder = answer.text()
        self.pid, self.started = answer.number(), answer.long()
        self.boot = answer.counted().decode(errors="replace").strip()

    def lives(self) -> bool:
        """Say whether the connection is up, as far as this side knows."""
        return self._agent.lives()

    def journal(self, line: str) -> None:
        """Add a line to the run's journal there."""
        self._agent.tell(Ask.JOURNAL, text(self.folder) + f"{line}\n".encode())

    def command(self, number: int, argv: Sequence[str], stdin: bytes | None) -> None:
        given = uint32(stdin is not None) + counted(stdin or b"")
        self._note(number, Undo.COMMAND, given + texts(argv))

    def restore(self, number: int, path: str, content: bytes | None) -> None:
        """Undo by writing a file, or by removing it."""
        if content is None:
            self._note(number, Undo.REMOVE, text(path))
        else:
            self._note(number, Undo.WRITE, text(path) + content)

    def stop(self, number: int, pid: int, started: int, by: int, grace_s: float) -> None:
        """Undo by ending a process."""
        ending = uint32(by) + uint32(int(grace_s * 1000))
        self._note(number, Undo.STOP, uint32(pid) + uint64(started) + ending)

    def lease(self, number: int, path: str, added: int | None) -> None:
        """Undo by writing back what a file has now, or by lowering its count by what is added from
        now on, but no more than `added`."""
        counted_by = uint32(added is not None) + uint64(added or 0)
        self._note(number, Undo.LEASE, counted_by + text(path))

    def done(self, number: int) -> None:
        """Say that the undo of that number was carried out."""
        self._note(number, Undo.DONE, b"")

    def end(self, *, kept: bool = False) -> None:
        """Hold it no longer: its folder goes, or is kept for `clean`."""
        self._agent.tell(Ask.LET_GO, text(self.folder) + uint32(kept))

    def _note(self, number: int, kind: Undo, payload: bytes) -> None:
        noted = uint32(number) + uint32(kind) + payload
        self._agent.tell(Ask.NOTE, text(self.folder) + noted)

"""The functions that a Dask worker runs: they pass requests to the testbed's process, and end that
process if nobody waits for its answer any longer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path

from distributed import get_worker

from switchmark.cluster.wire import Content
from switchmark.errors import SwitchmarkError, TrialFailed
from switchmark.hosts.local import LocalHost, LocalProcess

TOPIC = "switchmark"
"""The topic of workers' messages while they measure."""

_GRACE_S = 60.0
"""The seconds for tearing down a path."""

_TASKS_THAT_NOBODY_WANTS = ("cancelled", "released", "forgotten", "error")


class _Process:
    """The testbed's process of this worker. It starts on first use and handles one request at a
    time."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._process: LocalProcess | None = None
        self._said = ""

    def ask(self, request: Content, task: str | None = None) -> Content:
        """Return the answer to a request. Raise TrialFailed if the process ends without an
        answer."""
        with self._turn:
            process = self._started()
            process.send(json.dumps(request, sort_keys=True))
            while True:
                line = process.receive(0.5)
                if line is not None:
                    content: Content = json.loads(line)
                    if "waiting" in content:
                        get_worker().log_event(TOPIC, content)
                    elif "trial" not in content:
                        return content
                elif process.poll() is not None:
                    output = process.last_words()
                    self._stop()
                    raise TrialFailed(f"the testbed's process has ended\n  {output}")
                elif task is not None and _is_unwanted(task):
                    self._stop()
                    raise TrialFailed("nobody waits for this test any more")

    def end(self) -> None:
        """End the process, even during a measurement; it tears down its path first."""
        process = self._process
        if process is not None:
            process.hang_up()
            with self._turn:
                self._stop()

    def _started(self) -> LocalProcess:
        if self._process is not None and self._process.poll() is not None:
            self._stop()
        if self._process is None:
            descriptor, self._said = tempfile.mkstemp(prefix="switchmark-testbed-", suffix=".log")
            os.close(descriptor)
            argv = (sys.executable, "-m", "switchmark.cluster.testbed", self._said)
            # The process acts like `switchmark run` and needs the same environment.
            self._process = LocalHost().spawn(argv, stderr_path=self._said, env=os.environ)
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            process.stop(signal.SIGTERM, _GRACE_S)
            Path(self._said).unlink(missing_ok=True)


_PROCESS = _Process()


def visit(request: Content) -> Content:
    """Measure on this worker's testbed."""
    return _PROCESS.ask(request, str(get_worker().get_current_task()))


def ask(request: Content) -> Content:
    """Return the answer of this worker's testbed to a short request."""
    return _PROCESS.ask(request)


async def facts() -> Content:
    """Return the facts about this worker's testbed, or the reason why it is unusable."""
    try:
        return await asyncio.to_thread(_PROCESS.ask, {"do": "facts"})
    except SwitchmarkError as error:
        return {"error": str(error)}


async def end() -> None:
    """End the testbed's process of this worker."""
    await asyncio.to_thread(_PROCESS.end)


def _is_unwanted(task: str) -> bool:
    """Return whether a task was cancelled, or its client is gone."""
    state = get_worker().state.tasks.get(task)
    return state is None or state.state in _TASKS_THAT_NOBODY_WANTS

"""The program of a testbed, which measures on request, one line of JSON at a time: `python -m
switchmark.cluster.testbed LOG`.

It is a separate process that a Dask worker starts, so that signals reach it as they reach any run.
When its stdin ends, on request or because the worker died, it tears down its path, removes the file
with its stderr, and exits. It also tears down its path after some seconds without a request.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import IO

from switchmark import __version__
from switchmark.campaign.run import AnyLab
from switchmark.campaign.sharing import SHARED_MACHINE, Doubting
from switchmark.cluster.ability import ability
from switchmark.cluster.wire import Content, as_visit
from switchmark.errors import Interrupted, SwitchmarkError, Unavailable, UsageError
from switchmark.hosts.base import boot_id
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.local import LocalHost
from switchmark.hosts.signals import interruptible
from switchmark.lab import measure
from switchmark.lab.probes import Probes
from switchmark.model.plan import HOST
from switchmark.model.record import TrialResult
from switchmark.model.test import Test
from switchmark.observe.facts import host_facts, kernel_options
from switchmark.runs.anchor import anchor
from switchmark.runs.measuring import measuring_alone, myself
from switchmark.runs.own_run import OwnRun

_IDLE_S = 5.0
_MOST = 1 << 20
"""The most bytes of a log file that go into an answer: the last ones."""

Say = Callable[[Content], None]


class Testbed:
    """A testbed that answers requests; `say` sends a line. It opens a lab for the first visit and
    closes it in `rest`."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._folder = Path(tempfile.mkdtemp(prefix="switchmark-testbed-"))
        self._sent: dict[str, int] = {}
        self._open = ExitStack()
        self._hosts = Hosts(OwnRun)
        self._real: measure.Lab | None = None
        self._lab: AnyLab | None = None
        self._options: Content = {}

    def answer(self, request: Content) -> None:
        """Execute a request and send its result."""
        match request["do"]:
            case "visit":
                self._visit(request)
            case "versions":
                tests = [Test.model_validate(test) for test in request["tests"]]
                self._say({"versions": self._versions(tests)})
            case "abilities":
                tests = [Test.model_validate(test) for test in request["tests"]]
                self._say(self._abilities(tests))
            case "facts":
                host = LocalHost()
                answer = {"version": __version__, "boot_id": boot_id(host)}
                self._say({"facts": {**answer, "facts": host_facts(host)}})
            case "rest":
                self._say({"left": self.rest()})

    def rest(self) -> list[str]:
        """Tear down the path; return the leftovers."""
        self._open.close()
        self._hosts.close()
        left = list(self._real.left) if self._real else []
        self._lab = self._real = None
        return left

    def close(self) -> None:
        """Tear down the path for good."""
        try:
            self.rest()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _visit(self, request: Content) -> None:
        trials: list[Content] = []

        def keep(trial: TrialResult) -> None:
            trials.append(trial.model_dump(mode="json"))
            self._say({"trial": len(trials)})

        record = self._lab_with(request["options"]).visit(as_visit(request, keep))
        content = None if record is None else record.model_dump(mode="json")
        self._say({"record": content, "trials": trials, "logs": self._new_logs()})

    def _versions(self, tests: Sequence[Test]) -> list[Content]:
        """Return the versions that the figures of tests depend on, or the reason why the tests
        cannot run here."""
        lab, trials = measure.Lab(self._folder, hosts=self._hosts), list[Content]()
        for test in tests:
            try:
                trials.append({"versions": dict(lab.versions(test))})
            except (Unavailable, UsageError) as error:
                trials.append({"versions": {}, "refused": str(error)})
        return trials

    def _lab_with(self, options: Content) -> AnyLab:
        if self._lab is None or options != self._options:
            self.rest()
            shared = options["share_machine"]
            self._open.enter_context(
                measuring_alone(
                    myself(self._folder),
                    shared=shared,
                    waiting=lambda holder: self._say({"waiting": holder}),
                )
            )
            lab_options = {name: options[name] for name in options if name != "share_machine"}
            self._real = measure.Lab(self._folder, hosts=self._hosts, **lab_options)
            doubts = {SHARED_MACHINE: "--share-machine"} if shared else {}
            lab: AnyLab = Doubting(self._real, doubts)
            self._open.enter_context(lab)
            self._lab, self._options = lab, options
        return self._lab

    def _abilities(self, tests: Sequence[Test]) -> Content:
        """Return this host's ability to run the paths of tests, and the facts that claims may
        depend on."""
        probes = Probes(self._hosts, keep_missing=True)
        return {
            "abilities": [asdict(ability(test, probes)) for test in tests],
            "cpus": len(os.sched_getaffinity(0)),
            "kernel_options": sorted(kernel_options(self._hosts[HOST.host])),
        }

    def _new_logs(self) -> dict[str, str]:
        """Return the text that each log file has gained since the last answer."""
        new = {}
        for path in sorted((self._folder / "logs").glob("*")):
            before = self._sent.get(path.name, 0)
            if path.is_file() and (size := path.stat().st_size) > before:
                with path.open("rb") as file:
                    file.seek(max(before, size - _MOST))
                    new[path.name] = file.read(size - before).decode(errors="replace")
                self._sent[path.name] = size
        return new


def main() -> None:
    """Answer requests, one per line, until stdin ends."""
    anchor()
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # other output must not mix with the answers
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(sys.stdin, lines), daemon=True).start()

    def say(content: Content) -> None:
        answers.write(json.dumps(content, sort_keys=True) + "\n")
        answers.flush()

    testbed = Testbed(say)
    with interruptible():
        try:
            _serve(testbed, lines, say)
        except (Interrupted, BrokenPipeError):
            pass  # the peer is gone
        finally:
            testbed.close()
            for log in sys.argv[1:]:  # after a crash the log stays
                Path(log).unlink(missing_ok=True)


def _serve(testbed: Testbed, lines: queue.Queue[str], say: Say) -> None:
    while True:
        try:
            line = lines.get(timeout=_IDLE_S)
        except queue.Empty:
            testbed.rest()
            continue
        try:
            testbed.answer(json.loads(line))
        except SwitchmarkError as error:
            say({"error": error.message, "hint": error.hint})


def _read(source: IO[str], lines: queue.Queue[str]) -> None:
    for line in source:
        lines.put(line)
    os.kill(os.getpid(), signal.SIGTERM)  # the end of stdin also ends a measurement in progress


if __name__ == "__main__":
    main()

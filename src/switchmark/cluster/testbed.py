"""A testbed measures what it is asked for, one line of JSON at a time: `python -m
switchmark.cluster.testbed LOG`.

It is a process of its own beside the Dask worker that starts it, so that signals reach it as they
reach any run. When its stdin ends, by order or because the worker is dead, it takes down what is
up, removes the file that its stderr goes to, and ends. It takes that down, too, when nothing was
asked for some seconds.
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
from switchmark.campaign.run import Lab
from switchmark.campaign.sharing import SHARED_MACHINE, Doubting
from switchmark.cluster.ability import ability
from switchmark.cluster.wire import Content, as_visit
from switchmark.errors import Interrupted, SwitchmarkError, Unavailable, UsageError
from switchmark.hosts.base import LocalHost, boot_id
from switchmark.hosts.hosts import Hosts
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
"""Bytes of each log file that are sent with an answer: the last ones."""

Say = Callable[[Content], None]


class Testbed:
    """A testbed answers requests; `say` sends a line. A lab is open from the first visit until it
    rests."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._folder = Path(tempfile.mkdtemp(prefix="switchmark-testbed-"))
        self._sent: dict[str, int] = {}
        self._open = ExitStack()
        self._hosts = Hosts(OwnRun)
        self._real: measure.Lab | None = None
        self._lab: Lab | None = None
        self._options: Content = {}

    def answer(self, request: Content) -> None:
        """Do what one line asks for, and say what came of it."""
        match request["do"]:
            case "visit":
                self._visit(request)
            case "versions":
                tests = [Test.model_validate(each) for each in request["tests"]]
                self._say({"versions": self._versions(tests)})
            case "abilities":
                tests = [Test.model_validate(each) for each in request["tests"]]
                self._say(self._abilities(tests))
            case "facts":
                host = LocalHost()
                told = {"version": __version__, "boot_id": boot_id(host)}
                self._say({"facts": {**told, "facts": host_facts(host)}})
            case "rest":
                self._say({"left": self.rest()})

    def rest(self) -> list[str]:
        """Take down what is up; return what could not be."""
        self._open.close()
        self._hosts.close()
        left = list(self._real.left) if self._real else []
        self._lab = self._real = None
        return left

    def close(self) -> None:
        """Take down what is up, for good."""
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
        """Return the versions that the figures of tests depend on, or why they cannot run here."""
        lab, got = measure.Lab(self._folder, hosts=self._hosts), list[Content]()
        for test in tests:
            try:
                got.append({"versions": dict(lab.versions(test))})
            except (Unavailable, UsageError) as error:
                got.append({"versions": {}, "refused": str(error)})
        return got

    def _lab_with(self, options: Content) -> Lab:
        if self._lab is None or options != self._options:
            self.rest()
            shared = options["share_machine"]
            self._open.enter_context(
                measuring_alone(
                    myself(self._folder),
                    shared=shared,
                    told=lambda holder: self._say({"waiting": holder}),
                )
            )
            own = {name: options[name] for name in options if name != "share_machine"}
            self._real = measure.Lab(self._folder, hosts=self._hosts, **own)
            doubts = {SHARED_MACHINE: "--share-machine"} if shared else {}
            lab: Lab = Doubting(self._real, doubts)
            self._open.enter_context(lab)
            self._lab, self._options = lab, options
        return self._lab

    def _abilities(self, tests: Sequence[Test]) -> Content:
        """Return what this host makes of the paths of some tests, and what claims may need to know
        of it."""
        probes = Probes(self._hosts)
        return {
            "abilities": [asdict(ability(test, probes)) for test in tests],
            "cpus": len(os.sched_getaffinity(0)),
            "kernel_options": sorted(kernel_options(self._hosts[HOST.host])),
        }

    def _new_logs(self) -> dict[str, str]:
        """Return what was written to each log file since the last answer."""
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
    """Read requests, a line each, and say what comes of them until stdin ends."""
    anchor()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed is no answer
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
            pass  # nobody listens any more
        finally:
            testbed.close()
            for log in sys.argv[1:]:  # of a death it stays
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
    os.kill(os.getpid(), signal.SIGTERM)  # the end of stdin ends what is being measured, too


if __name__ == "__main__":
    main()

"""The lab as Dask's scheduler knows it: its testbeds, and the outcome of visits sent to them."""

from __future__ import annotations

import logging
import queue
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from distributed import Client, Future

from switchmark import __version__
from switchmark.campaign.rounds import Item
from switchmark.cluster import worker
from switchmark.cluster.dispatch import Landed
from switchmark.cluster.wire import Content
from switchmark.errors import Unavailable
from switchmark.model.test import Test

RESOURCE = "testbed"
"""The Dask resource of a testbed. Each worker has one unit and each visit takes it, so a testbed
runs one test at a time."""

_LOOK_S = 1.0
"""The interval between requests to the scheduler for testbeds, in seconds, while it has some."""

_WAIT_S = 0.1
"""The same while the run waits for testbeds."""

_END_S = 90.0
_ANSWER_S = 30.0

Report = Callable[[str], None]


class _Sent(NamedTuple):
    """A visit in progress at the worker with this address, sent by the scheduler with this id."""

    future: Future
    address: str
    scheduler: str


class DaskLab:
    """A lab of equal testbeds: workers of a scheduler. `report` receives messages about excluded
    workers and about waits."""

    def __init__(self, client: Client, *, share_machine: bool, report: Report) -> None:
        self._client, self._shared, self._report = client, share_machine, report
        self._looked = 0.0
        self._sent: dict[Item, _Sent] = {}
        self._ended: queue.Queue[tuple[Item, Future]] = queue.Queue()
        self._scheduler = ""
        self._workers: Collection[str] = ()
        self._names: dict[str, str] = {}
        self._left_out: set[str] = set()
        self._tests: Sequence[Test] = ()
        self._versions: Sequence[Content] = ()
        self.facts: dict[str, Content] = {}
        with suppress(Exception):  # only messages about waits are lost
            client.subscribe_topic(worker.TOPIC, self._waiting)

    def testbeds(self) -> Collection[str]:
        """Return the current testbeds."""
        if time.monotonic() - self._looked > _LOOK_S:
            self._look()
            self._looked = time.monotonic()
        return sorted(self._names.values())

    def wait(self, count: int, wait_s: float) -> None:
        """Wait for `count` workers, or those that arrive in time. Raise Unavailable without any
        testbed."""
        deadline = time.monotonic() + wait_s
        self._look()
        while len(self._names) + len(self._left_out) < count or not self._names:
            if time.monotonic() > deadline and self._names:
                self._report(f"{len(self._names)} of {count} testbeds came within {wait_s:g} s")
                return
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"no testbed came to the scheduler within {wait_s:g} s",
                    hint="python -m switchmark.cluster.serve ADDRESS (docs/guide/labs.md)",
                )
            time.sleep(_WAIT_S)
            self._look()

    @property
    def agreed(self) -> list[Mapping[str, str]]:
        """Return the versions that the tests' figures depend on, equal on all testbeds."""
        return [ability["versions"] for ability in self._versions]

    def agree(self, tests: Sequence[Test]) -> None:
        """Ask all testbeds for the versions that these tests' figures depend on. Raise Unavailable
        if they differ."""
        request = {"do": "versions", "tests": [test.model_dump(mode="json") for test in tests]}
        first, expected = "", list[Content]()
        for address, name in sorted(self._names.items(), key=lambda entry: entry[1]):
            versions = self._ask(address, request)["versions"]
            if not first:
                first, expected = name, versions
            elif differing := equal_versions(expected, versions):
                raise Unavailable(
                    f"testbeds {first} and {name} are not equal: {differing}",
                    hint="the same versions and as many CPUs on all testbeds",
                )
        self._tests, self._versions = tests, expected

    def ask(self, request: Content) -> Content:
        """Ask one testbed on behalf of all, which are equal, and return its answer."""
        self._look()
        if not self._names:
            raise Unavailable("there is no testbed any more")
        return self._ask(min(self._names, key=lambda address: self._names[address]), request)

    def measure(self, requests: Mapping[str, Content]) -> dict[str, Content]:
        """Make testbeds measure at the same time; return the answers of those that succeeded."""
        visits = {name: self._submit(name, request) for name, request in requests.items()}
        answers = {}
        for name, sent in visits.items():
            while sent.future.status == "pending" and not self._is_gone(sent):
                time.sleep(0.1)
                self.testbeds()
            try:
                answers[name] = sent.future.result(timeout=_ANSWER_S)
            except Exception as error:  # noqa: BLE001 (a lost testbed leaves the comparison)
                self._report(f"testbed {name} gave no answer: {error}")
        return {name: answer for name, answer in answers.items() if "record" in answer}

    def send(self, item: Item, request: Content) -> None:
        """Send a visit to the item's testbed."""
        assert item.testbed is not None
        sent = self._sent[item] = self._submit(item.testbed, request)
        sent.future.add_done_callback(lambda future: self._ended.put((item, future)))

    def landed(self, timeout_s: float) -> Landed | None:
        """Return a finished visit; None if none finishes in time."""
        try:
            item, future = self._ended.get(timeout=timeout_s)
        except queue.Empty:
            return self._given_up()
        sent = self._sent.get(item)
        if sent is None or sent.future is not future:
            return None
        del self._sent[item]
        return self._outcome(item, future)

    def _given_up(self) -> Landed | None:
        """Return a visit whose testbed is gone, if there is one, because the scheduler would wait
        for it forever. The test is to blame unless the scheduler has changed as well."""
        for item, sent in self._sent.items():
            if sent.future.status == "pending" and self._is_gone(sent):
                del self._sent[item]
                with suppress(Exception):  # nobody waits for it in any case
                    self._client.cancel([sent.future], force=True)
                fault = int(sent.scheduler == self._scheduler)
                return Landed(item, item.testbed or "", lost="its testbed is gone", fault=fault)
        return None

    def _is_gone(self, sent: _Sent) -> bool:
        return sent.address not in self._workers

    def shares(self, testbed: str) -> bool:
        """Return whether another testbed is on the same machine."""
        boots = [self.facts[name]["boot_id"] for name in self._names.values()]
        return boots.count(self.facts[testbed]["boot_id"]) > 1

    def end(self) -> None:
        """Tear down all testbeds, including measurements in progress."""
        with suppress(Exception):  # a lost testbed tears down by itself
            self._client.cancel([sent.future for sent in self._sent.values()], force=True)
            self._client.sync(
                self._client._run,  # noqa: SLF001 (the public method has no time limit)
                worker.end,
                on_error="return",
                callback_timeout=_END_S,
            )

    def close_workers(self) -> None:
        """End all workers."""
        with suppress(Exception):  # without their scheduler they end as well
            self._client.sync(
                self._client.scheduler.retire_workers,
                names=None,
                workers=[*self._names, *self._left_out],
                close_workers=True,
                callback_timeout=_ANSWER_S,
            )

    def _submit(self, name: str, request: Content) -> _Sent:
        address = next((a for a, other in self._names.items() if other == name), "")
        future = self._client.submit(
            worker.visit,
            request,
            key=f"switchmark-{uuid.uuid4().hex}",
            workers=[address],
            resources={RESOURCE: 1},
            pure=False,
        )
        return _Sent(future, address, self._scheduler)

    def _outcome(self, item: Item, future: Future) -> Landed:
        testbed = item.testbed or ""
        if future.status == "error":
            return Landed(item, testbed, lost=str(future.exception()), fault=1)
        if future.status != "finished":
            return Landed(item, testbed, lost="the scheduler lost it", fault=0)
        try:
            answer: Content = future.result(timeout=_ANSWER_S)
        except Exception as error:  # noqa: BLE001 (any error means that there is no answer)
            return Landed(item, testbed, lost=f"its answer is lost: {error}", fault=0)
        if "error" in answer:
            return Landed(item, testbed, lost=answer["error"], fault=1)
        return Landed(item, testbed, answer)

    def _look(self) -> None:
        """Ask the scheduler for its workers; add new workers and drop those that are gone."""
        try:
            identity = self._client.sync(
                self._client.scheduler.identity, n_workers=-1, callback_timeout=_ANSWER_S
            )
        except Exception as error:
            logging.getLogger("distributed").debug("no scheduler: %s", error)
            self._names.clear()
            if self._client.status == "closed":
                raise Unavailable("the scheduler is gone") from error
            return
        self._scheduler, self._workers = identity["id"], identity["workers"]
        workers = identity["workers"]
        self._names = {a: name for a, name in self._names.items() if a in workers}
        self._left_out &= set(workers)
        known_names = {*self._names, *self._left_out}
        order = sorted(workers, key=lambda address: str(workers[address]["name"]))
        if new := [address for address in order if address not in known_names]:
            answers = self._client.run(worker.facts, workers=new, on_error="return")
            for address in new:
                self._take_up(address, workers[address], answers.get(address))

    def _take_up(self, address: str, description: Mapping[str, Any], answer: Any) -> None:
        name = self._new_name(str(description["name"]), address)
        refused = (
            "" if RESOURCE in description["resources"] else f"it has no --resources {RESOURCE}=1"
        )
        try:
            facts = answer.get("facts", answer)
            refused = refused or self._refused(facts)
            if not refused and self._tests:
                tests = [test.model_dump(mode="json") for test in self._tests]
                answer = self._ask(address, {"do": "versions", "tests": tests})["versions"]
                refused = equal_versions(self._versions, answer)
        except Exception as error:  # noqa: BLE001 (it may be gone again)
            refused, facts = str(error), {}
        if refused:
            self._left_out.add(address)
            self._report(f"worker {name} is left out: {refused}")
        else:
            self._names[address], self.facts[name] = name, facts

    def _refused(self, facts: Content) -> str:
        """Return the reason why a worker is no testbed of this lab; empty for a testbed."""
        if "error" in facts:
            return str(facts["error"])
        if facts["version"] != __version__:
            return f"it has switchmark {facts['version']}, and this is {__version__}"
        for other in self._names.values():
            if self.facts[other]["boot_id"] == facts["boot_id"] and not self._shared:
                return (
                    f"it is on the same machine as {other} (one boot id); "
                    "--share-machine allows that, and doubts what they measure"
                )
        return ""

    def _ask(self, address: str, request: Content) -> Content:
        answer: Content = self._client.run(worker.ask, request, workers=[address])[address]
        if "error" in answer:
            raise Unavailable(answer["error"], hint=answer.get("hint"))
        return answer

    def _new_name(self, hostname: str, address: str) -> str:
        """Return a unique name for a worker, from its own name or its host's. The name is also the
        name of a folder."""
        name = hostname if "://" not in hostname else address.rpartition("/")[2].rpartition(":")[0]
        name = "".join(letter if letter.isalnum() or letter in ".-_" else "-" for letter in name)
        name = name.lstrip(".") or "testbed"
        taken, number, unique_name = set(self._names.values()), 1, name
        while unique_name in taken:
            number += 1
            unique_name = f"{name}-{number}"
        return unique_name

    def _waiting(self, event: tuple[float, Any]) -> None:
        self._report(
            f"a testbed waits: another run measures on its machine ({event[1]['waiting']})"
        )


def equal_versions(expected: Sequence[Content], found: Sequence[Content]) -> str:
    """Return the first difference between the versions of tests; empty if they agree."""
    for one, other in zip(expected, found, strict=True):
        for name in sorted({*one["versions"], *other["versions"]}):
            values = [ability["versions"].get(name, "none") for ability in (one, other)]
            if values[0] != values[1]:
                return f"{name} {values[0]} and {values[1]}"
        if one.get("refused") != other.get("refused"):
            return str(one.get("refused") or other.get("refused"))
    return ""

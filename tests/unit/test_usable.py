"""These tests check which tests hosts have everything for, before a run."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from switchmark.errors import Unavailable, UsageError
from switchmark.lab import usable
from switchmark.lab.usable import UsableHere
from switchmark.model.plan import Plan, Reserve, Rest
from switchmark.model.test import Test

PAGES = (Rest("a pause", 1.0), Reserve("pages", 64, node=1), Reserve("more", 64, node=2))


class Asked:
    """The probes of hosts: they note what they are asked."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.options: list[object] = []
        self.names: tuple[str, ...] = ()
        self.error: Exception | None = None
        self.refuses = ""
        self.free: Mapping[int, bool] = {1: True, 2: True}
        self.plan: Plan = PAGES

    def __call__(self, hosts: object, **options: object) -> Any:
        self.options += [hosts, options]
        return SimpleNamespace(locate=self.locate)

    def locate(self, test: Test) -> Any:
        self.text.append(f"locate {test.switch} {test.frame_size} {test.rate} {test.duration}")
        self.fail("locate")
        return SimpleNamespace(names=self.names, host="the host", versions=self.versions)

    def fail(self, where: str) -> None:
        if self.refuses == where:
            raise Unavailable("not here")

    def versions(self) -> None:
        self.text.append("versions")
        self.fail("versions")

    def sketch(self, location: Any, can: Any) -> str:
        assert location.host == "the host"
        self.text.append(f"sketch with {can(PAGES)}")
        if self.refuses == "sketch":
            raise UsageError("no room")
        return "the path"

    def construct(self, path: object) -> Plan:
        assert path == "the path"
        return self.plan

    def can_reserve(self, host: object, node: int) -> bool:
        assert host == "the host"
        self.text.append(f"pages of node {node}")
        return self.free[node]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked()
    monkeypatch.setattr(usable, "Probes", made)
    for name in ("sketch", "construct", "can_reserve"):
        monkeypatch.setattr(usable, name, getattr(made, name))
    return made


def of(asked: Asked, *, far: bool = True) -> UsableHere:
    hosts: Any = "the hosts"
    return UsableHere(hosts, far=far)


WHOLE = [
    *("locate linux-bridge 64 max 10.0", "versions"),
    *("pages of node 1", "pages of node 2", "sketch with True"),
    *("pages of node 1", "pages of node 2"),
]


def test_a_host_with_everything_is_asked_once_for_tests_of_one_path(asked: Asked) -> None:
    here = of(asked)
    assert asked.options == ["the hosts", {"keep_missing": True}]
    assert here(Test()) is True
    assert asked.text == WHOLE
    assert here(Test(rate="1k", duration=5, search="ndr")) is True
    assert asked.text == WHOLE
    assert here(Test(frame_size=1518)) is True
    assert asked.text[len(WHOLE)] == "locate linux-bridge 1518 max 10.0"
    assert here(Test(switch="ovs")) is True
    assert asked.text[2 * len(WHOLE)] == "locate ovs 64 max 10.0"


@pytest.mark.parametrize("where", ["locate", "versions", "sketch"])
def test_a_host_that_lacks_something_is_not_asked_again(asked: Asked, where: str) -> None:
    asked.refuses = where
    here = of(asked)
    assert here(Test()) is False
    told = list(asked.text)
    assert here(Test(rate="1k")) is False
    assert asked.text == told


def test_all_pages_must_be_there(asked: Asked) -> None:
    asked.free = {1: True, 2: False}
    assert of(asked)(Test()) is False
    assert "sketch with False" in asked.text
    asked.plan = PAGES[:2]
    assert of(asked)(Test()) is True
    asked.plan = PAGES[:1]
    asked.free = {1: False, 2: False}
    assert of(asked)(Test()) is True


def test_other_hosts_are_asked_only_if_they_may_be_contacted(asked: Asked) -> None:
    asked.names = ("left", "right")
    asked.refuses = "versions"
    assert of(asked, far=False)(Test()) is True
    assert asked.text == ["locate linux-bridge 64 max 10.0"]
    assert of(asked)(Test()) is False
    asked.names = ()
    assert of(asked, far=False)(Test()) is False

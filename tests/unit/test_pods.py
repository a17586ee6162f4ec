"""These tests check the plan of the pods of a cluster, their addresses, and the clean-up of runs on
them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from switchmark.cli.app import app
from switchmark.errors import SetupFailed
from switchmark.hosts.base import Host
from switchmark.hosts.hosts import NO_NICS, Hosts
from switchmark.hosts.pod import PodHost
from switchmark.hosts.recording import RecordingHost
from switchmark.lab.running import _with_answers
from switchmark.model.plan import Plan, Run
from switchmark.model.test import Test
from switchmark.model.topology import Between, Findings
from switchmark.path.assembly import build
from switchmark.path.path import Path as Resolved
from switchmark.path.refusals import check
from switchmark.path.resolving import answered, resolve
from switchmark.runs import pods
from switchmark.runs.clean import clean
from switchmark.runs.journal import Command, Far, Stop
from switchmark.runs.own_run import OwnRun
from switchmark.runs.pods import OTHER, SENDER, Cluster, Pods, hosts_axes, pods_plan
from switchmark.runs.workspace import Workspace

AXES: dict[str, Any] = {
    "switch": "pod-network",
    "scenario": "v2v",
    "locality": "remote",
    "environment": "host",
    "switch_environment": "host",
    "engine": "udp-mmsg",
    "hosts": "sender,same-node",
}

TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.244.1.0/24 2 0 2
        |-- 10.244.1.0
           /24 link UNICAST
        |-- {ip}
           /32 host LOCAL
     |-- 127.0.0.1
        /32 host LOCAL
Local:
  +-- 0.0.0.0/0 3 0 5
     |-- 127.0.0.1
        /32 host LOCAL
"""


def trie(ip: str) -> bytes:
    return TRIE.format(ip=ip).encode()


def drawn(**axes: Any) -> Resolved:
    found = Findings(between=Between((NO_NICS,), one_machine=True))
    return resolve(Test(**{**AXES, **axes}), prefix="sm0000", run_dir="/run/x", found=found)


def runs(plan: tuple[Any, ...]) -> list[Run]:
    return [step for step in plan if isinstance(step, Run)]


def test_kubectl_has_the_time_that_it_waits_for_a_pod() -> None:
    pod = [60, 190]  # to make it, and until it runs
    times = [step.timeout_s for step in runs(pods_plan(Cluster(), "sm0000"))]
    assert times == [180, *pod, 10, *pod, *pod]


class Making:
    """An executor that makes pods, or fails, and deletes them."""

    fails = False

    def __init__(self, hosts: Mapping[str, Host], *arguments: object, **options: object) -> None:
        assert list(hosts) == ["local"]
        self.plans: list[Plan] = []
        made.append(self)

    def execute(self, plan: Plan) -> None:
        self.plans.append(plan)
        if self.fails:
            raise SetupFailed("no node has room")

    def unwind(self) -> tuple[str, ...]:
        self.plans.append(())
        return ("could not undo (kubectl delete pod): out of reach",)


made: list[Making] = []


@pytest.mark.parametrize("fails", [False, True])
def test_pods_are_there_within_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    made.clear()
    closed: list[str] = []
    monkeypatch.setattr(pods, "Executor", Making)
    monkeypatch.setattr(Making, "fails", fails)
    monkeypatch.setattr(pods, "Workspace", lambda: nullcontext(SimpleNamespace(run="sm1a2b")))
    monkeypatch.setattr(pods, "program_path", lambda name: f"/bin/{name}")
    monkeypatch.setattr(PodHost, "close", lambda host: closed.append(host.name))
    cluster = Cluster(context="x", receivers=(OTHER,))
    there = Pods(cluster, tmp_path)
    if fails:
        with pytest.raises(SetupFailed, match="no node has room"), there:
            pytest.fail("there are none")
    else:
        with there:
            assert list(there.hosts) == [SENDER, OTHER]
            for name, host in there.hosts.items():
                assert isinstance(host, PodHost)
                assert (host.name, host.owner) == (name, "sm1a2b")
                pod = f"switchmark-sm1a2b-{name}"
                assert host._session()[:6] == ("kubectl", "--context", "x", "exec", "-i", pod)
            assert made[0].plans == [pods_plan(cluster, "sm1a2b")]
        assert closed == [SENDER, OTHER]
    assert made[0].plans == [pods_plan(cluster, "sm1a2b"), ()]
    assert there.left == ("could not undo (kubectl delete pod): out of reach",)


def test_each_receiver_is_a_test() -> None:
    assert hosts_axes(Cluster()) == ["sender,same-node", "sender,other-node"]
    assert hosts_axes(replace(Cluster(), receivers=(OTHER,))) == ["sender,other-node"]


def test_a_pod_is_entered_by_kubectl() -> None:
    host = PodHost("sender", "p", "c", ("kubectl", "--context", "x"), owner="sm0000")
    entered = ("kubectl", "--context", "x", "exec", "-i", "p", "--container", "c", "--")
    assert host._session() == (*entered, "/bin/sh", "-c")


class Booted(RecordingHost):
    """A pod, on a kernel with this boot id."""

    joined_by = "pods"
    is_far = True

    def __init__(self, name: str, boot: str) -> None:
        super().__init__(files={"/proc/sys/kernel/random/boot_id": boot.encode()})
        self.name = name

    def path_of(self, program: str) -> str:
        return program


@pytest.mark.parametrize(("boot", "one_machine"), [("1", True), ("2", False)])
def test_pods_are_joined_by_their_network(boot: str, one_machine: bool) -> None:
    pods = {name: Booted(name, number) for name, number in (("a", "1"), ("b", boot))}
    with Hosts(OwnRun, pods) as hosts:
        between = hosts.between(("a", "b"), "pod-network")
    assert between.cables == (NO_NICS,)
    assert between.foreign == {"a", "b"}
    assert between.one_machine is one_machine


# --- the path ---------------------------------------------------------------------------------


def test_nothing_is_set_up_in_pods_but_the_traffic_program() -> None:
    path = drawn()
    assert check(path.test) == []
    assert path.refusal is None
    programs = {step.argv[0] for step in runs(build(path))}
    assert programs <= {"mkdir"}
    assert {switch.host for switch in path.switches} == {"sender", "same-node"}


def test_pods_send_from_and_to_the_addresses_that_they_have() -> None:
    path = answered(drawn(), (trie("10.244.1.5"), trie("10.244.2.7")))
    (flow,) = path.flows
    assert (flow.addressing.source_ip, flow.addressing.sink_ip) == ("10.244.1.5", "10.244.2.7")
    asked = [(step.at.host, step.argv) for switch in drawn().switches for step in switch.asks]
    look = ("cat", "/proc/net/fib_trie")
    assert asked == [("sender", look), ("same-node", look)]
    with pytest.raises(ValueError, match="the pod has no IPv4 address"):
        answered(drawn(), (trie("127.0.0.2"), trie("10.0.0.1")))


def test_the_addresses_of_pods_are_asked_for_once_they_are_up() -> None:
    asked: list[Run] = []
    answers = [trie("10.244.1.5"), trie("10.244.2.7")]

    def run(*steps: Run) -> tuple[bytes, ...]:
        asked.extend(steps)
        return tuple(answers)

    executor: Any = SimpleNamespace(run=run)
    path = drawn()
    found = _with_answers(executor, path)
    assert found.flows[0].addressing.sink_ip == "10.244.2.7"
    assert asked == [step for switch in path.switches for step in switch.asks]
    answers[1] = b"nothing"
    with pytest.raises(SetupFailed) as failed:
        _with_answers(executor, path)
    message = "the addresses of switch pod-network cannot be read: the pod has no IPv4 address"
    assert failed.value.message == message
    asked.clear()
    bridge = resolve(Test(), prefix="sm0000", run_dir="/run/x")
    assert _with_answers(executor, bridge) is bridge
    assert asked == []


@pytest.mark.parametrize(
    ("axes", "why"),
    [
        ({"locality": "local", "hosts": None}, "joins two pods of a cluster"),
        ({"engine": "raw-mmsg"}, "pods send by the sockets of their IP stacks"),
        ({"pairs": 2}, "a pod has one address"),
        ({"switch_environment": "netns"}, "a pod has one address"),
    ],
)
def test_what_pods_cannot_do_is_refused(axes: dict[str, Any], why: str) -> None:
    assert any(why in refusal.why for refusal in check(Test(**{**AXES, **axes})))


def test_the_command_decides_where_its_tests_run() -> None:
    result = CliRunner().invoke(app, ["pods", "--switch", "ovs", "--hosts", "a,b"])
    assert result.exit_code
    assert "pods decides --switch, --hosts itself" in str(result.exception or result.output)


# --- clean ------------------------------------------------------------------------------------


def test_what_is_left_in_a_pod_goes_with_the_pod(tmp_path: Path) -> None:
    base = tmp_path / "runs"
    run = Workspace(base)
    run.journal.intend(Far(host="sender", folder="/run/x", owner="sm0001"))
    run.journal.intend(Command(host="sender", argv=("rm", "x")))
    run.journal.intend(Stop(host="sender", name="traffic", number=15, grace_s=1))
    run.journal.intend(Far(host="lost", folder="/run/x"))
    run.journal.intend(Command(host="lost", argv=("rm", "y")))
    run.journal.close()
    (cleaned,) = clean(base, hosts={"local": RecordingHost()})
    assert cleaned.out_of_reach == ("lost",)
    assert "leave host sender to the run that removes it" in cleaned.actions

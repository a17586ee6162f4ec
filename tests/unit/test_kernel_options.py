"""These tests read the build options of kernels, and check the refusals of switches that not every
kernel has."""

from __future__ import annotations

import gzip
import importlib
import os
from pathlib import Path
from types import ModuleType

import pytest

from switchmark.cli.listing import Thing, listed
from switchmark.errors import Unavailable
from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.model.test import Test
from switchmark.observe.facts import kernel_options
from switchmark.path.refusals import check
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.kernel_options import require_options
from switchmark.switches.kernel_probes import probe_kernel
from switchmark.switches.verified import verifications

CONFIG = b"CONFIG_NF_TABLES=y\n# CONFIG_IPVLAN is not set\nCONFIG_MACVLAN=m\n"
GARBLED = gzip.compress(CONFIG)[:10] + b"\xff" * 40
OPTIONS = {
    "nft-flowtable": "CONFIG_NF_FLOW_TABLE, CONFIG_NFT_FLOW_OFFLOAD",
    "ipvlan": "CONFIG_IPVLAN",
    "netkit": "CONFIG_NETKIT",
}


def kernel(files: dict[str, bytes], **answers: bytes | Completed) -> RecordingHost:
    outputs: dict[tuple[str, ...], bytes | Completed] = {}
    outputs |= {(name,): answer for name, answer in answers.items()}
    return RecordingHost(outputs, files={"/proc/sys/kernel/osrelease": b"6.1.0-9\n", **files})


@pytest.mark.parametrize(
    "files",
    [
        {"/proc/config.gz": gzip.compress(CONFIG)},
        {"/boot/config-6.1.0-9": CONFIG},
        {"/proc/config.gz": b"no gzip", "/boot/config-6.1.0-9": CONFIG},
        {"/proc/config.gz": gzip.compress(CONFIG)[:20], "/boot/config-6.1.0-9": CONFIG},
        {"/proc/config.gz": GARBLED, "/boot/config-6.1.0-9": CONFIG},
    ],
)
def test_an_option_that_a_kernel_was_built_without_is_named(files: dict[str, bytes]) -> None:
    require_options(kernel(files), "CONFIG_NF_TABLES", "CONFIG_MACVLAN")
    with pytest.raises(Unavailable, match="6.1.0-9 was built without CONFIG_IPVLAN\n") as caught:
        require_options(kernel(files), "CONFIG_NF_TABLES", "CONFIG_IPVLAN")
    assert "grep CONFIG_IPVLAN /boot/config-" in (caught.value.hint or "")
    assert kernel_options(kernel(files)) == {"CONFIG_NF_TABLES", "CONFIG_MACVLAN"}


def test_a_kernel_that_does_not_say_what_it_has_is_tried() -> None:
    require_options(kernel({}), "CONFIG_IPVLAN")
    for name in ("ipvlan", "netkit"):
        assert SWITCHES[name].probe(kernel({})).text == "6.1.0-9"
        refuses = kernel({}, unshare=Completed(2, b"", b"Error: Unknown device type.\n"))
        with pytest.raises(Unavailable, match=rf"(?s)type {name}.*Unknown device type"):
            SWITCHES[name].probe(refuses)


@pytest.mark.parametrize(("name", "options"), OPTIONS.items())
def test_a_switch_that_a_kernel_was_built_without_says_so(name: str, options: str) -> None:
    host = kernel({"/proc/config.gz": gzip.compress(CONFIG)})
    with pytest.raises(Unavailable, match=f"built without {options}\n"):
        SWITCHES[name].probe(host)


def test_a_program_that_is_missing_is_named_where_the_kernel_has_the_rest() -> None:
    whole = b"CONFIG_NF_TABLES=y\nCONFIG_NF_FLOW_TABLE=m\nCONFIG_NFT_FLOW_OFFLOAD=m\n"
    with pytest.raises(Unavailable, match="nft is not installed") as caught:
        SWITCHES["nft-flowtable"].probe(kernel({"/boot/config-6.1.0-9": whole}, sh=b"nft\n"))
    assert caught.value.hint == "apt-get install nftables"


def test_what_ipvlan_cannot_tell_apart_is_refused() -> None:
    def why(**axes: object) -> str:
        return " ".join(map(str, check(Test.model_validate({"switch": "ipvlan", **axes}))))

    assert "without the IP stack, a function has none" in why(engine="raw-mmsg")
    assert "cannot connect two physical ports" in why(engine="udp", scenario="p2p")
    assert why(engine="udp", scenario="p2v") == why(engine="udp-mmsg") == ""


def test_what_could_not_be_tried_is_listed_as_plan_only() -> None:
    entries = {entry["name"]: entry for entry in listed(Thing.SWITCHES)}
    for name in OPTIONS:
        states = {verification.state for verification in verifications()[name].values()}
        assert entries[name]["verified"] == "plan-only" or states != {"plan-only"}
        if not entries[name]["usable"]:
            assert entries[name]["why_not"]
            assert entries[name]["hint"]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    return importlib.import_module("verify")


def test_why_nothing_was_tried_is_kept_in_everybodys_words(tool: ModuleType) -> None:
    error = Unavailable("the kernel 6.1.0-23-amd64 was built without CONFIG_NETKIT")
    problem = tool.plan_only(error, "here")
    assert (problem.state, problem.passed) == ("plan-only", ())
    assert problem.why == "Linux 6.1.0 was built without CONFIG_NETKIT"
    assert tool.golden_plans("netkit")
    assert not tool.golden_plans("of-nobody")


@pytest.mark.parametrize(
    ("user", "stderr", "message", "hint"),
    [
        (1000, b"cannot load: Operation not permitted", "needs real root", "run it with sudo"),
        (
            1000,
            b"Error: Unknown device type.",
            "the kernel 6.1.0-9 lacks something",
            "switchmark doctor",
        ),
        (
            0,
            b"cannot load: Operation not permitted",
            "the kernel 6.1.0-9 lacks something",
            "switchmark",
        ),
    ],
)
def test_what_a_user_may_not_do_is_not_missing_in_the_kernel(
    monkeypatch: pytest.MonkeyPatch, user: int, stderr: bytes, message: str, hint: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(Unavailable, match=message) as refused:
        probe_kernel(kernel({}, unshare=Completed(2, b"", stderr)), ("ip", "link"))
    assert str(refused.value.hint).startswith(hint)


def test_a_program_that_is_not_installed_is_not_missing_in_the_kernel() -> None:
    host = kernel({}, unshare=Completed(127, b"", b"sh: 1: ip: not found"), sh=b"ip\n")
    with pytest.raises(Unavailable, match="^ip is not installed") as refused:
        probe_kernel(host, ("ip", "link"), ("tc", "qdisc"))
    assert refused.value.hint == "apt-get install iproute2"

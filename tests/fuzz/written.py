"""This module fuzzes what people write: campaigns, host files, labs and the arguments of commands.
Nothing is measured: `plan` reads campaigns and axes as `run` does."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from fuzz.harness import Ended, command
from fuzz.odd import TEXTS, endless, spoilt_bytes, spoilt_text
from switchmark.cli.app import COMMANDS
from switchmark.cluster.description import described
from switchmark.errors import SwitchmarkError
from switchmark.model.test import AXES
from switchmark.switches import TABLE as SWITCHES

_CAMPAIGNS = Path(__file__).parents[2] / "campaigns"

_CAMPAIGN = """\
name: all
switch: [linux-bridge, ovs, testpmd@24.11]
frame-size: 64,imix,128..64..512
burst: [1, 32]
rate: 50%
tests:
- {search: ndr, direction: both, scenario: p2p}
- {dimension: latency, search: latency-at-load, load: "10%..40%..90%"}
- {scenario: loopback, chain: 2, function: traffic, environment: podman}
"""

_HOST_FILE = """\
[hosts.local]
cpus = "2-5"
[hosts.local.programs]
vpp = "/opt/vpp/bin/vpp"
"vpp@24.06" = "/opt/vpp-24.06/bin/vpp"
[hosts.a]
address = "root@a.example"
ssh-options = ["Port=2222", "IdentityFile=/root/lab"]
nics.uplink = {name = "eth1", cable = "a-b"}
nics.other = {name = "0000:01:00.0", cable = "c"}
[hosts.m.vm]
cores = 2
memory-mb = 1024
"""

_LABS = {
    "lab.toml": """\
[tls]
ca = "ca.pem"
cert = "lab.pem"
key = "lab.key"
[ssh]
hosts = ["bed1", "root@bed2"]
listen = "10.0.0.1"
python = "/opt/switchmark/bin/python"
options = ["IdentityFile=/root/lab"]
wait_s = 3.5
""",
    "lab.yaml": """\
slurm: {testbeds: 2, queue: fast, walltime: "01:00:00", cores: 4, directives: [--exclusive]}
tls: {ca: ca.pem, cert: lab.pem, key: lab.key}
""",
}

_ALONE = sorted(set(COMMANDS) - {"run", "resume", "paper", "clean", "doctor", "list"})
"""Commands that measure nothing, start nothing and undo nothing."""

_WORDS = (
    *("-h", "--help", "--json", "--wide", "-o", "--output", "--format", "csv", "--debug", "--csv"),
    *("select 1", "select * from tests", ".", "absent", "x.html", "x.md", "--fail-on", "loss:1%"),
    *("--base", "--ignore", "bash", "records", "trials", "json", "--same-within"),
)


def _spoilt(draw: random.Random, path: Path, text: str) -> None:
    """Write a text that is spoilt, or something that is no text."""
    for _ in range(draw.choice((1, 1, 2, 4))):
        text = spoilt_text(draw, text)
    content = text.encode(errors="surrogatepass")
    path.write_bytes(spoilt_bytes(draw, content) if draw.random() < 0.2 else content)
    if draw.random() < 0.05:
        endless(draw, path)


def campaigns(draw: random.Random, folder: Path) -> Iterator[Ended]:
    """Read a campaign that is spoilt."""
    texts = [_CAMPAIGN, *(path.read_text() for path in sorted(_CAMPAIGNS.glob("*.yaml")))]
    _spoilt(draw, folder / "c.yaml", draw.choice(texts))
    yield command("plan", "c.yaml", *_some_axes(draw, draw.choice((0, 0, 1))), folder=folder)


def host_files(draw: random.Random, folder: Path) -> Iterator[Ended]:
    """Read a damaged host file with a command that uses its content."""
    _spoilt(draw, folder / "host.toml", _HOST_FILE)
    options = draw.choice(((), ("--hosts", "local,a"), ("--hosts", "m"), ("--switch", "vpp@24.06")))
    argv = ("plan", *options, "--host-file", "host.toml")
    yield command(*argv, folder=folder, env={"SWITCHMARK_HOST_FILE": None})


def lab_files(draw: random.Random, folder: Path) -> Iterator[Ended]:
    """Read a damaged description of a lab, without starting the lab."""
    name, text = draw.choice(sorted(_LABS.items()))
    _spoilt(draw, folder / name, text)
    word = draw.choice((name, name, name, draw.choice(TEXTS).replace("\0", "")))
    yield command("--cluster", word, folder=folder, run=partial(_describe, word))


def _describe(word: str) -> None:
    try:
        described(word)
    except SwitchmarkError as error:
        raise SystemExit(int(error.exit_code)) from error


def arguments(draw: random.Random, folder: Path) -> Iterator[Ended]:
    """Give axes what they do not take, and commands what nobody expects of them."""
    if draw.random() < 0.7:
        argv = ["plan", *_some_axes(draw, draw.choice((1, 1, 2, 3)))]
    else:
        arguments = (*_WORDS, *TEXTS)
        argv = [draw.choice(_ALONE), *(draw.choice(arguments) for _ in range(draw.randrange(5)))]
    yield command(*(_as_argument(word) for word in argv), folder=folder)


def _as_argument(word: str) -> str:
    """Return a text as Python gets it from the kernel, which knows bytes without NUL."""
    return word.replace("\0", "").encode(errors="surrogatepass").decode(errors="surrogateescape")


def _some_axes(draw: random.Random, count: int) -> list[str]:
    arguments = []
    for axis in draw.sample(sorted(AXES.values(), key=lambda axis: axis.name), count):
        values = [*axis.choices, *(SWITCHES if axis.name == "switch" else ()), str(axis.default)]
        value = draw.choice(values) if draw.random() < 0.4 else draw.choice(TEXTS)
        if draw.random() < 0.3:
            value = spoilt_text(draw, value)
        arguments += [axis.option, _as_argument(value)]
    return arguments

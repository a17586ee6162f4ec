"""These tests check that the program understands every command of the README and of the guide."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from switchmark.campaign.load import from_options
from switchmark.cli.app import COMMANDS, app
from switchmark.model.test import AXES
from switchmark.path.choosing import with_engines
from switchmark.path.refusals import check

REPOSITORY = Path(__file__).parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs/guide").glob("*.md"))]
CONFLIST = REPOSITORY / "tests/unit/data/cni/bridge.conflist"
"""Stands for the file that the guide names."""
BEFORE = ("sudo", "$", "SWITCHMARK_", "time")


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield every command of a shell block or of a shell session, with its place."""
    for page in PAGES:
        text = page.read_text().replace("/etc/cni/net.d/10-x.conflist", str(CONFLIST))
        for block in re.finditer(r"^```(sh|console|)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            first = text.count("\n", 0, block.start(2)) + 1
            lines = block[2].replace("\\\n", "  ").splitlines()
            for number, line in enumerate(lines, first):
                if block[1] == "" and not line.startswith("$ "):
                    continue
                for arguments in simple(line):
                    while arguments and arguments[0].startswith(BEFORE):
                        arguments = arguments[1:]
                    if arguments and arguments[0].removeprefix(".venv/bin/") == "switchmark":
                        yield f"{page.name}:{number}", arguments[1:]


def simple(line: str) -> Iterator[list[str]]:
    """Yield the simple commands of a line of a shell, without where their output goes."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    arguments: list[str] = []
    for word in lexer:
        if set(word) <= set("();<>|&"):
            yield arguments
            arguments = []
        else:
            arguments.append(word)
    yield arguments


KNOWN = list(commands())


@cache
def command(name: str) -> Any:
    return app.commands[name]


@pytest.mark.parametrize(("place", "arguments"), KNOWN, ids=[place for place, _ in KNOWN])
def test_a_command_of_the_guide_is_understood(
    place: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = re.findall(r"[\w-]+@[\d.]+", " ".join(arguments))
    programs = "".join(f'"{version}" = "/usr/bin/true"\n' for version in versions)
    (tmp_path / "host.toml").write_text(f"[hosts.local.programs]\n{programs}")
    monkeypatch.setenv("SWITCHMARK_HOST_FILE", str(tmp_path / "host.toml"))
    name, *rest = (word for word in arguments if word not in ("--debug", "--help"))
    assert name in COMMANDS, place
    options = command(name).make_context(name, rest).params
    if name in ("run", "plan") and options.get("campaign") is None:
        axes = {axis: options[axis] for axis in AXES if options.get(axis) is not None}
        assert from_options(axes, check, on_a_host_that_has_all).tests


on_a_host_that_has_all = partial(with_engines, usable=lambda test: True)


def test_the_guide_has_commands() -> None:
    assert len(KNOWN) > 100


@pytest.mark.parametrize(
    "top", ["README.md", "CONTRIBUTING.md", "Makefile", "docs", "src", "tools"]
)
def test_nobody_is_told_to_install_a_name_that_anybody_may_take(top: str) -> None:
    """The project is in no package index: it is installed from a checkout."""
    path = REPOSITORY / top
    files = [path] if path.is_file() else [path for path in path.rglob("*") if path.is_file()]
    pattern = re.compile(
        rb"""(?:pipx?|uv)(?:[ ]+tool)?[ ]+install[ ]+(?:-\S+[ ]+)*['"]?switchmark\b"""
    )
    assert [str(file) for file in files if pattern.search(file.read_bytes())] == []

"""These tests check that every command of the README and of the site is understood or run, or has a
mark with the reason why no test runs it."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tools.website.pages import sources

from switchmark.campaign.load import from_options
from switchmark.cli.app import COMMANDS, app
from switchmark.model.test import AXES
from switchmark.path.choosing import with_engines
from switchmark.path.refusals import check

REPOSITORY = Path(__file__).parents[2]
PAGES = [REPOSITORY / path for path in ("README.md", *sources()) if path.endswith(".md")]
BEFORE = re.compile(r"sudo|\$|time|[A-Z_]+=.*")
"""What may stand before a command."""

BLOCK = re.compile(
    r"(?:^\*Not run by a test: ([^*]+)\.\*\n\n)?^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL
)
"""A block of commands below its mark, if it has one."""

SHELL = frozenset("case cd echo esac eval exit export in mkdir umask".split())
BY_OTHER_TESTS = {
    "ci/compare.sh": "tests/unit/test_ci.py",
    "git bisect": "tests/unit/test_ci.py",
    "tc filter": "tests/unit/test_contributing.py",
    "tc qdisc": "tests/unit/test_contributing.py",
    "python3 -m": "tests/unit/test_dist.py",
    "switchmark/bin/pip install": "tests/unit/test_dist.py",
    "podman load": "tests/root/test_distribution.py",
    "docker run": "tests/root/test_distribution.py",
    "apt install": "tests/root/test_distribution.py",
}
"""The first words of a command, and the test that runs it."""


STAND_INS = {
    "$PWD": ".",
    "/etc/cni/net.d/10-x.conflist": "tests/unit/data/cni/bridge.conflist",
}
"""The files of a user that a page names, and the files of this repository that stand for them."""


class Command(NamedTuple):
    """A command of a page: its place, its words, the reason of the mark above its block, and the
    number of the block."""

    place: str
    words: list[str]
    untested: str | None
    block: tuple[Path, int]


def commands() -> Iterator[Command]:
    """Yield every command of a shell block or of a shell session."""
    for page in PAGES:
        text = page.read_text()
        for block in BLOCK.finditer(text):
            first = text.count("\n", 0, block.start(3)) + 1
            lines = block[3].replace("\\\n", "  ").splitlines()
            for number, line in enumerate(lines, first):
                for words in simple(command_of(line, block[2])):
                    while words and BEFORE.fullmatch(words[0]):
                        words = words[1:]
                    if words:
                        place = f"{page.relative_to(REPOSITORY)}:{number}"
                        yield Command(place, words, block[1], (page, first))


def command_of(line: str, language: str) -> str:
    """Return the command on a line of a block, or an empty text: every line of a script, the input
    of a session, and the commands of a job."""
    match language:
        case "sh":
            return line
        case "":
            return line if line.startswith("$ ") else ""
        case "yaml":
            found = re.fullmatch(r"\s*(?:- run: )?((?:sudo )?switchmark .*)", line)
            return found[1] if found else ""
    return ""


def simple(line: str) -> Iterator[list[str]]:
    """Yield the simple commands of a line of a shell, without where their output goes."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    redirected = False
    for word in lexer:
        if set(word) <= set("<>&"):
            redirected = word != "&&"
        elif redirected:
            redirected = False
            continue
        if set(word) <= set("();<>|&"):
            if not redirected:
                yield words
                words = []
        else:
            words.append(word)
    yield words


def is_switchmark(program: str) -> bool:
    """Return whether a program is switchmark, wherever it is installed."""
    return program == "switchmark" or program.endswith("/bin/switchmark")


def stood_in(word: str) -> str:
    """Return a word with files of this repository in place of those of the user."""
    for path, file in STAND_INS.items():
        word = word.replace(path, str(REPOSITORY / file))
    return word


ALL = list(commands())
KNOWN = [
    (command.place, [stood_in(word) for word in command.words[1:]])
    for command in ALL
    if is_switchmark(command.words[0])
]


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


INLINE = re.compile(r"`(?:sudo )?(?:\.venv/bin/)?switchmark ([^`]+)`")
NAMED = sorted(
    {
        " ".join(match[1].split())
        for page in PAGES
        for match in INLINE.finditer(re.sub(r"(?ms)^```.*?^```\n", "", page.read_text()))
    }
)
"""The commands in the sentences of all pages."""


@pytest.mark.parametrize("line", NAMED)
def test_a_command_in_a_sentence_has_a_name_and_options_that_exist(line: str) -> None:
    name, *words = shlex.split(line)
    assert name in (*COMMANDS, "--help", "--version")
    options = {word.partition("=")[0] for word in words if word.startswith("-")}
    assert not options or options <= options_of(name)


def options_of(name: str) -> set[str]:
    """Return the options of a command, long and short."""
    parameters = command(name).params
    return {"-h", "--help", *(each for parameter in parameters for each in parameter.opts)}


def test_a_target_of_make_in_a_sentence_exists() -> None:
    named = {
        match[1] for page in PAGES for match in re.finditer(r"`make ([^`\n]+)`", page.read_text())
    }
    assert len(named) > 20
    assert [words for words in named if not makes(shlex.split(words))] == []


def test_no_block_hides_a_command_from_these_tests() -> None:
    """A block without a language is the output of a program."""
    for page in PAGES:
        for block in BLOCK.finditer(page.read_text()):
            assert block[2] or not re.search(r"^switchmark ", block[3], re.MULTILINE), page


def test_the_guide_has_commands() -> None:
    assert len(KNOWN) > 100


def test_every_command_of_another_program_is_tested_or_marked() -> None:
    """To mark a block, write above it: *Not run by a test: the reason.*"""
    assert [
        f"{c.place}: {' '.join(c.words)}" for c in ALL if needs_a_mark(c) and not c.untested
    ] == []


def test_every_mark_stands_above_a_command_that_needs_it() -> None:
    needed = {command.block for command in ALL if needs_a_mark(command)}
    assert [c.place for c in ALL if c.untested and c.block not in needed] == []
    marks = sum(page.read_text().count("\n*Not run by a test: ") for page in PAGES)
    assert marks == len({command.block for command in ALL if command.untested})


def needs_a_mark(command: Command) -> bool:
    """Return whether no test runs a command, or sees that the program would understand it."""
    program, *rest = command.words
    return not (
        is_switchmark(program)  # the test above
        or program in SHELL
        or re.fullmatch(r"\d|\*", program)  # a case of a shell
        or (program == "make" and makes(rest))
        or any(" ".join(command.words).startswith(words) for words in BY_OTHER_TESTS)
        or command.block in {block for block, _ in RUN_HERE.values()}
    )


def makes(arguments: list[str]) -> bool:
    """Return whether the Makefile has these targets, and uses these variables."""
    text = (REPOSITORY / "Makefile").read_text()
    names = [argument.partition("=") for argument in arguments if argument[:1] not in "-/"]
    return bool(names) and all(
        re.search(rf"\b{name}\b" if equals else rf"^{name}:", text, re.MULTILINE)
        for name, equals, _ in names
    )


@pytest.mark.parametrize(("words", "test"), BY_OTHER_TESTS.items())
def test_the_other_test_of_a_command_has_it(words: str, test: str) -> None:
    text = (REPOSITORY / test).read_text()
    assert all(word.rpartition("/")[2] in text for word in words.split())


def block_of(page: str, words: str) -> tuple[tuple[Path, int], str]:
    """Return the place and the text of the block of a page that has these words."""
    path = REPOSITORY / page
    text = path.read_text()
    block = next(block for block in BLOCK.finditer(text) if words in block[3])
    return (path, text.count("\n", 0, block.start(3)) + 1), block[3]


RUN_HERE = {
    "certificates": block_of("docs/guide/labs.md", "openssl"),
    "initramfs": block_of("docs/guide/virtual-machines.md", "cpio"),
}
"""The blocks that the tests below run."""


def run_block(name: str, folder: Path) -> None:
    argv = ("bash", "-euo", "pipefail", "-c", RUN_HERE[name][1])
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_certificate_of_a_lab_is_signed_by_its_authority(tmp_path: Path) -> None:
    run_block("certificates", tmp_path)
    check = ("openssl", "verify", "-CAfile", "ca.pem", "lab.pem")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True).returncode == 0
    assert (tmp_path / "lab.key").stat().st_mode & 0o077 == 0


def test_the_image_of_a_guest_is_unpacked_and_packed(tmp_path: Path) -> None:
    guest = tmp_path / ".venv/share/switchmark/guest"
    guest.mkdir(parents=True)
    (tmp_path / "order").write_text("virtio_net.ko\n")
    pack = ("cpio", "-o", "-H", "newc")
    packed = subprocess.run(pack, cwd=tmp_path, input=b"order\n", capture_output=True, check=True)
    (guest / "initramfs").write_bytes(packed.stdout)
    run_block("initramfs", tmp_path)
    names = subprocess.run(
        ("cpio", "-it"), input=(tmp_path / "initramfs").read_bytes(), capture_output=True
    ).stdout
    assert b"order" in names.split()


def test_every_block_is_a_script_that_a_shell_can_read() -> None:
    blocks = [
        (page, block[3])
        for page in PAGES
        for block in BLOCK.finditer(page.read_text())
        if block[2] == "sh"
    ]
    script = "\n".join(f"f{n}() {{\n{text}\n:\n}}" for n, (_, text) in enumerate(blocks))
    done = subprocess.run(("bash", "-n"), input=script, capture_output=True, text=True)
    assert (len(blocks) > 70, done.stderr) == (True, "")


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

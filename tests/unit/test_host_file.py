"""These tests check the reading of the host file and its error messages."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchmark.cli.options import with_host_file
from switchmark.errors import UsageError
from switchmark.hosts.host_file import (
    VARIABLE,
    check_names,
    check_ssh_option,
    host_file,
    host_programs,
)


@pytest.fixture
def file_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "host.toml"))
    return tmp_path / "host.toml"


def test_programs_are_read_by_name_and_version(
    file_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    file_path.write_text(
        "# mine\n[hosts.local.programs]\nvpp = '/opt/vpp'\n'vpp@24.06' = \"~/vpp/bin/vpp\"\n"
    )
    assert host_programs() == {"vpp": "/opt/vpp", "vpp@24.06": "/home/me/vpp/bin/vpp"}


def test_what_is_written_anew_is_read_anew(file_path: Path) -> None:
    for number, path in enumerate(("/a", "/b"), 1):
        file_path.write_text(f"[hosts.local.programs]\nvpp = '{path}'\n")
        os.utime(file_path, ns=(number, number))
        assert host_programs() == {"vpp": path}


@pytest.mark.parametrize("text", ["", "# nothing\n", "[hosts]\n", "[hosts.local]\n"])
def test_a_host_file_need_not_say_anything(file_path: Path, text: str) -> None:
    file_path.write_text(text)
    assert host_programs() == {}


def test_it_is_in_the_folder_of_the_users_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert host_file() == Path("/home/me/.config/switchmark/host.toml")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert host_file() == tmp_path / "switchmark" / "host.toml"
    assert host_programs() == {}, "the usual one need not be there"


def test_one_that_was_asked_for_has_to_be_there(file_path: Path) -> None:
    with pytest.raises(UsageError, match=f"the host file {file_path} cannot be read: No such file"):
        host_programs()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[hosts.local]\nx =\n", ":2: Invalid value"),
        ("[hosts.local.programs]\na = '/x'\na = '/y'\n", ":3: Cannot overwrite a value"),
        ("[hosts.local", ":1: Expected ']'"),
        ("[host.local]\n", ": unknown key 'host'; did you mean 'hosts'?\n  known: hosts"),
        (
            "[hosts.a]\nadress = 'x'\n",
            ": unknown key 'adress' in [hosts.a]; did you mean 'address'?\n"
            "  known: address, ssh-options, cpus, nics, vm, programs",
        ),
        (
            "[hosts.a.nics]\nuplink = {nam = 'eth1'}\n",
            ": [hosts.a.nics.uplink.name]: Field required",
        ),
        (
            "[hosts.a.nics]\nuplink = {name = 'eth1', cabel = 'x'}\n",
            ": unknown key 'cabel' in [hosts.a.nics.uplink]; did you mean 'cable'?\n"
            "  known: name, cable",
        ),
        (
            "[hosts.a]\naddress = '-oProxyCommand=x'\n",
            ": [hosts.a.address]: address = '-oProxyCommand=x' is nothing that ssh connects to",
        ),
        (
            "[hosts.a]\nssh-options = ['StrictHostKeyChecking=no']\n",
            ": [hosts.a.ssh-options]: 'StrictHostKeyChecking=no' would let anybody be that host",
        ),
        (
            "[hosts.a]\nssh-options = ['-v']\n",
            ": [hosts.a.ssh-options]: '-v' is no option of ssh's configuration: NAME=VALUE",
        ),
        (
            "[hosts.local]\naddress = 'x'\n",
            ": [hosts]: local is this host, which is not reached by ssh",
        ),
        (
            "[hosts.'a b']\n",
            ": [hosts]: 'a b' is no name of a host: letters, digits, '-' and '_'",
        ),
        (
            "[hosts.local.program]\nvpp = '/x'\n",
            ": unknown key 'program' in [hosts.local]; did you mean 'programs'?\n  known: address, "
            "ssh-options, cpus, nics, vm, programs",
        ),
        (
            "[hosts.local.programs]\nvpp = 'bin/vpp'\n",
            ": [hosts.local.programs]: vpp = 'bin/vpp' is no path that begins with / or ~",
        ),
        (
            "[hosts.local.programs]\nvpp = 3\n",
            ": [hosts.local.programs.vpp]: Input should be a valid string",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(file_path: Path, text: str, message: str) -> None:
    file_path.write_text(text)
    with pytest.raises(UsageError) as refused:
        host_programs()
    assert refused.value.message.startswith(f"{file_path}{message}")


def test_a_file_that_is_no_text_is_refused(file_path: Path) -> None:
    file_path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8 text"):
        host_programs()


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_never_ends_is_not_read(file_path: Path, make: Callable[[Path], None]) -> None:
    make(file_path)
    with pytest.raises(UsageError, match="cannot be read: it is a device or a pipe"):
        host_programs()


@pytest.mark.parametrize(
    ("text", "message"),
    [("a = " + "9" * 5000, "4300"), ("a = " + "[" * 3000, "nested too deeply")],
    ids=["a number", "brackets"],
)
def test_what_is_too_large_for_python_is_refused(file_path: Path, text: str, message: str) -> None:
    file_path.write_text(text)
    with pytest.raises(UsageError, match=message):
        host_programs()


def test_a_program_that_nobody_looks_for_is_named_with_the_nearest(file_path: Path) -> None:
    file_path.write_text("[hosts.local.programs]\n'testpdm@22.11' = '/x'\n")
    with pytest.raises(UsageError) as refused:
        check_names(["testpmd", "traffic"])
    assert refused.value.message == (
        f"{file_path}: [hosts.local.programs] names 'testpdm@22.11', which is no program of "
        "switchmark's; did you mean 'testpmd'?\n  known: testpmd, traffic"
    )


def test_a_command_reads_it_before_it_does_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, os.devnull)
    names: list[str] = []

    @with_host_file
    def command() -> int:
        names.append(os.environ[VARIABLE])
        return 0

    mine = tmp_path / "mine.toml"
    mine.write_text("[hosts.local.programs]\nqemu = '/opt/qemu'\nl2fwd = '/opt/l2fwd'\n")
    assert command(host_file=mine) == 0
    assert names == [str(mine)]
    for number, host in enumerate(("local", "a"), 1):
        mine.write_text(f"[hosts.{host}.programs]\nlinux-bridge = '/opt/bridge'\n")
        os.utime(mine, ns=(number, number))
        message = rf"\[hosts.{host}.programs\] names 'linux-bridge', which is no program"
        with pytest.raises(UsageError, match=message):
            command(host_file=mine)
    assert len(names) == 1


@pytest.mark.parametrize(
    "option",
    [
        "StrictHostKeyChecking=no",
        "StrictHostKeyChecking=false",
        "StrictHostKeyChecking= no",
        'StrictHostKeyChecking="off"',
        "stricthostkeychecking=ACCEPT-NEW",
        "UserKnownHostsFile=/dev/null /dev/null",
        'UserKnownHostsFile= "/dev//null"',
        "NoHostAuthenticationForLocalhost=true",
        "NoHostAuthenticationForLocalhost= yes",
        "KnownHostsCommand=/usr/bin/printf %H",
        "VerifyHostKeyDNS=yes",
    ],
)
def test_no_option_waves_the_key_of_a_host_through(option: str) -> None:
    with pytest.raises(ValueError, match="would let anybody be that host"):
        check_ssh_option(option)


@pytest.mark.parametrize(
    "option",
    ["StrictHostKeyChecking=yes", "UserKnownHostsFile=/a /b", "VerifyHostKeyDNS=ask", "Port=22"],
)
def test_other_options_of_ssh_are_taken(option: str) -> None:
    check_ssh_option(option)


@pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is not installed")
@given(
    st.sampled_from(
        [
            ("StrictHostKeyChecking", "stricthostkeychecking"),
            ("NoHostAuthenticationForLocalhost", "nohostauthenticationforlocalhost"),
            ("VerifyHostKeyDNS", "verifyhostkeydns"),
        ]
    ),
    st.text(" \t\"'=", max_size=2),
    st.sampled_from(["yes", "no", "true", "false", "off", "ask", "accept-new", "No"]),
    st.text(" \t\"'", max_size=2),
)
@settings(max_examples=40, deadline=None)
def test_what_is_taken_is_no_weaker_as_ssh_reads_it(
    names: tuple[str, str], before: str, value: str, behind: str
) -> None:
    option = f"{names[0]}={before}{value}{behind}"
    with suppress(ValueError):
        check_ssh_option(option)
        read = subprocess.run(("ssh", "-F", "none", "-G", "-o", option, "x"), capture_output=True)
        found = dict(line.split(" ", 1) for line in read.stdout.decode().splitlines())
        weak = {"stricthostkeychecking": ("false", "accept-new")}.get(names[1], ("true", "yes"))
        assert found.get(names[1]) not in weak

"""These tests try `make setup` and `make bare`: the announcement of an installation, and the
isolation of a bare root from the host. Real apt, with packages of the test's own; nothing is
installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

PACKAGES = {
    "sm-test-builder": "",
    "sm-test-switch": "sm-test-library",
    "sm-test-library": "",
    "sm-test-runtime": "",
    "sm-test-other": "",
}
"""Packages of a small archive, with their dependencies."""

PARTS = """\
# part  package
build   sm-test-builder
switch  sm-test-switch  # why
docker  sm-test-runtime
lxc     sm-test-other
"""


@pytest.fixture
def tree(repository: Path, tmp_path: Path) -> Path:
    """Make a source tree with the real scripts and other packages."""
    tree = tmp_path / "tree"
    (tree / "tools").mkdir(parents=True)
    for name in ("setup.sh", "messages.sh"):
        shutil.copy(repository / "tools" / name, tree / "tools")
    (tree / "tools/apt-packages.txt").write_text(PARTS)
    (tree / "requirements.lock").write_text("one==1\ntwo==2\n")
    return tree


@pytest.fixture
def apt(tmp_path: Path) -> Path:
    """Write a configuration of apt with one source, which is an archive of `PACKAGES`."""
    archive = tmp_path / "archive"
    for name, depends in PACKAGES.items():
        control = tmp_path / name / "DEBIAN/control"
        control.parent.mkdir(parents=True)
        fields = (
            f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: Nobody <n@localhost>\n"
        )
        control.write_text(
            f"{fields}Installed-Size: 2048\n"
            + (f"Depends: {depends}\n" if depends else "")
            + "Description: for a test\n"
        )
        archive.mkdir(exist_ok=True)
        subprocess.run(
            ("dpkg-deb", "--build", tmp_path / name, archive), check=True, capture_output=True
        )
    listed = subprocess.run(
        ("dpkg-scanpackages", "."), cwd=archive, check=True, capture_output=True, text=True
    )
    (archive / "Packages").write_text(listed.stdout)
    for folder in ("state/lists/partial", "cache/archives/partial", "parts"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "state/status").touch()
    (tmp_path / "parts/a.list").write_text(f"deb [trusted=yes] file:{archive} ./\n")
    configuration = tmp_path / "apt.conf"
    configuration.write_text(
        f'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "{tmp_path}/parts";\n'
        f'Dir::State "{tmp_path}/state";\nDir::State::status "{tmp_path}/state/status";\n'
        f'Dir::Cache "{tmp_path}/cache";\nDir::Bin::dpkg "/bin/false";\n'
        "#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n"
        "#clear APT::Update::Post-Invoke-Success;\n#clear DPkg::Pre-Install-Pkgs;\n"
        "#clear DPkg::Pre-Invoke;\n#clear DPkg::Post-Invoke;\n"
    )
    return configuration


def privately(command: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run shell words where what they mount, and what they write into /usr/sbin, is not seen
    outside."""
    return subprocess.run(
        ("unshare", "--mount", "sh", "-c", command),
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def set_up(tree: Path, apt: Path, *parts: str) -> subprocess.CompletedProcess[str]:
    """Run `tools/setup.sh`, which here gets as far as to install the first package."""
    command = f"mount -t tmpfs tmpfs /usr/sbin && {tree}/tools/setup.sh {' '.join(parts)}"
    completed = privately(command, {"APT_CONFIG": str(apt)})
    assert completed.returncode == 1, completed.stdout + completed.stderr
    assert "setup: error: apt-get could not install: sm-test-builder" in completed.stderr
    return completed


def test_setup_says_first_what_it_installs_and_how_much(tree: Path, apt: Path) -> None:
    lines = set_up(tree, apt).stdout.splitlines()
    assert lines[:2] == [
        "setup: looking for what is missing: apt-get update",
        "setup: Debian packages to install, for build, engine, switch: "
        "sm-test-builder sm-test-switch",
    ]
    assert lines[2].startswith("setup:   0 upgraded, 3 newly installed")  # with the library
    assert lines[3].startswith("setup:   Need to get ")
    assert lines[4].startswith("setup:   After this operation, 6291 kB of additional disk space")
    assert lines[5] == "setup: then, into .venv: 2 Python packages, some 300 MB"


def test_what_apt_prints_is_in_a_log_that_is_named_when_it_fails(tree: Path, apt: Path) -> None:
    lines = set_up(tree, apt).stdout.splitlines()
    assert all(line.startswith("setup: ") for line in lines)
    (failed,) = (line for line in lines if line.startswith("setup: apt-get failed: "))
    assert failed.endswith("(all it printed: build/setup/apt-install.log)")
    assert "sm-test-builder" in (tree / "build/setup/apt-install.log").read_text()


def test_a_part_is_added_and_belongs_to_the_tree_from_then_on(tree: Path, apt: Path) -> None:
    message = "for build, engine, switch, docker: sm-test-builder sm-test-runtime sm-test-switch"
    assert message in set_up(tree, apt, "docker").stdout.replace("switch sm-test-r", "switch")
    assert message in set_up(tree, apt).stdout
    output = set_up(tree, apt, "all").stdout
    assert "for build, engine, switch, docker, lxc:" in output
    assert "5 newly installed" in output


def test_a_part_that_there_is_not_is_refused_with_those_there_are(tree: Path, apt: Path) -> None:
    completed = privately(f"{tree}/tools/setup.sh docker dockr", {"APT_CONFIG": str(apt)})
    assert completed.returncode == 2
    assert completed.stderr == (
        "setup: error: there is no part 'dockr'\n  known: docker lxc, or all\n"
        '\nhint: make setup PARTS="docker vm"\n'
    )
    assert not (tree / "build").exists()


def test_what_apt_says_of_contradictory_sources_is_passed_on(
    repository: Path, tree: Path, apt: Path, tmp_path: Path
) -> None:
    sources = tmp_path / "parts/a.list"
    sources.write_text(sources.read_text() + sources.read_text().replace("yes", "no"))
    message = "E: Conflicting values set for option Trusted"
    completed = set_up(tree, apt)
    assert (
        f"apt-get update failed, trying with the lists of last time: {message}" in completed.stdout
    )
    (tmp_path / "guest").mkdir()
    guest = privately(
        f"{repository}/tools/guest.sh /bin/true {tmp_path}/guest",
        {"APT_CONFIG": str(apt), "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    assert guest.returncode == 1
    reason = guest.stderr.splitlines()[-1]
    assert reason.startswith(f"apt-cache knows no linux-image-amd64: {message}")


# --- a bare root -----------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a root as tools/bare.sh makes one, but that its programs will be the host's."""
    root = tmp_path / "root"
    for folder in ("dev", "etc", "proc", "root", "sys", "usr", "var/cache/switchmark-bare"):
        (root / folder).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "etc/switchmark-bare").touch()
    (root / "root").chmod(0o700)
    return root


def in_root(
    repository: Path, root: Path, *commands: str, host: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run `tools/bare.sh` with this root; `host` is done before, where it runs."""
    arguments = " ".join(f"'{command}'" for command in commands)
    return privately(
        f"mount --bind /usr {root}/usr && {host or 'true'}"
        f" && {repository}/tools/bare.sh --root {root} {arguments}",
        {"XDG_CACHE_HOME": str(root.parent / "cache")},
    )


@pytest.mark.alone  # it would take back what a run of another lane has
def test_commands_in_a_bare_root_see_a_clone_and_nothing_of_the_host(
    repository: Path, root: Path
) -> None:
    completed = in_root(
        repository,
        root,
        "pwd; ls -A /run /tmp /dev/shm; echo processes $(ls -d /proc/[0-9]* | wc -l)",
        "touch /run/sm-test /tmp/sm-test /dev/shm/sm-test; git log -1 --format=%H",
        "sleep 1000 & exit 7",
        "echo not reached",
    )
    assert completed.returncode == 7, completed.stderr
    head = subprocess.run(
        ("git", "-C", repository, "rev-parse", "HEAD"), capture_output=True, text=True, check=True
    )
    lines = completed.stdout.splitlines()
    assert lines[0] == "/root/switchmark"
    # /run/mount is of the programs that mounted the rest.
    assert lines[1:-2] == ["/dev/shm:", "", "/run:", "lock", "mount", "", "/tmp:"]
    assert int(lines[-2].removeprefix("processes ")) <= 5
    assert lines[-1] == head.stdout.strip()
    for folder in ("/run", "/tmp", "/dev/shm"):
        assert not Path(folder, "sm-test").exists()
    asleep = ("pgrep", "--full", "--exact", "sleep 1000")
    assert subprocess.run(asleep, check=False, capture_output=True).stdout == b""


@pytest.mark.alone  # it would take back what a run of another lane has
def test_what_is_left_in_the_kernel_is_taken_back(repository: Path, root: Path) -> None:
    groups = Path("/sys/fs/cgroup")
    base = groups if (groups / "cgroup.controllers").exists() else groups / "cpu"
    mine, before = base / "smfffe-nodes", base / "smffff-nodes"
    try:
        completed = in_root(repository, root, f"mkdir -p {mine}/smfffe-f0", host=f"mkdir {before}")
        assert completed.returncode == 0
        assert f"left by run smfffe, now removed: {mine}\n" in completed.stderr
        assert not mine.exists()
        assert before.exists()
    finally:
        for group in (mine / "smfffe-f0", mine, before):
            if group.exists():
                group.rmdir()


@pytest.mark.alone  # it would take back what a run of another lane has
def test_a_bare_root_is_made_in_no_folder_that_holds_something(
    repository: Path, root: Path
) -> None:
    (root / "etc/switchmark-bare").unlink()
    before = sorted(root.rglob("*"))
    completed = in_root(repository, root, "true")
    assert completed.returncode == 2
    assert f"{root} is there, and no root of this script's" in completed.stderr
    assert [path for path in sorted(root.rglob("*")) if path in before] == before

"""These tests try how `make setup` makes DPDK's sample programs of the distribution's source
package.

How tools/dpdk-samples.sh gets at that package is tested with a small one in a folder, so nothing is
downloaded.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

PROGRAMS = ("dpdk-l2fwd", "dpdk-skeleton")
SAMPLES = {"skeleton": "basicfwd", "l2fwd": "l2fwd"}
"""Folder of DPDK's examples: the name that its Makefile gives the program."""


# --- the programs ----------------------------------------------------------------------------


def command(repository: Path, program: str) -> list[str]:
    path = repository / ".venv/bin" / program
    if not path.exists():
        pytest.skip(f"{program} was left out: build/setup/samples.log says why")
    memory = ("--no-huge", "-m", "128", "--no-shconf", "--no-telemetry")
    core = str(min(os.sched_getaffinity(0)))
    return [str(path), "-l", core, "-v", *memory, "--no-pci"]


@pytest.fixture
def own_folder(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a program of DPDK that keeps its files in the test's folder, not in
    a folder of the system's."""
    return {**os.environ, "RUNTIME_DIRECTORY": str(tmp_path)}


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        ("dpdk-skeleton", "number of ports must be even"),
        ("dpdk-l2fwd", "No Ethernet ports"),
    ],
)
def test_starts_and_wants_ports(
    repository: Path, own_folder: dict[str, str], program: str, complaint: str
) -> None:
    argv = command(repository, program)
    completed = subprocess.run(argv, env=own_folder, capture_output=True, text=True, timeout=60)
    output = completed.stdout + completed.stderr
    assert completed.returncode == 1, output
    assert "RTE Version: 'DPDK " in output
    assert complaint in output


def test_finds_the_drivers_of_the_distribution(
    repository: Path, own_folder: dict[str, str]
) -> None:
    argv = [*command(repository, "dpdk-skeleton"), "--vdev", "net_null0", "--vdev", "net_null1"]
    with subprocess.Popen(
        ["timeout", "60", "stdbuf", "-oL", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=own_folder,
        text=True,
    ) as process:
        assert process.stdout
        commands = []
        for line in process.stdout:
            commands.append(line)
            if "forwarding packets" in line:
                break
        process.terminate()
    assert any("forwarding packets" in line for line in commands), "".join(commands)


# --- how they are made -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed() -> str:
    """Return the version of DPDK that is installed."""
    completed = subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${Version}\n", "libdpdk-dev"],
        capture_output=True,
        text=True,
    )
    if completed.returncode or not completed.stdout.strip():
        pytest.skip("libdpdk-dev is not installed")
    return completed.stdout.split()[0]


def publish(archive: Path, *versions: str, samples: Mapping[str, str] = SAMPLES) -> None:
    """Make an archive whose source packages `dpdk` have programs that tell the package's
    version."""
    archive.mkdir()
    for version in versions:
        tree = archive / "tree"
        for sample, program in samples.items():
            folder = tree / "examples" / sample
            folder.mkdir(parents=True)
            (folder / "Makefile").write_text(
                f"shared:\n\tmkdir build\n\techo {sample} {version} >build/{program}-shared\n"
            )
        (tree / "debian/source").mkdir(parents=True)
        (tree / "debian/source/format").write_text("3.0 (native)\n")
        (tree / "debian/control").write_text(
            "Source: dpdk\nMaintainer: Nobody <nobody@localhost>\n\n"
            "Package: dpdk\nArchitecture: any\nDescription: for a test\n"
        )
        (tree / "debian/changelog").write_text(
            f"dpdk ({version}) unstable; urgency=low\n\n  * For a test.\n\n"
            " -- Nobody <nobody@localhost>  Thu, 01 Jan 1970 00:00:00 +0000\n"
        )
        subprocess.run(
            ["dpkg-source", "--build", "tree"], cwd=archive, check=True, capture_output=True
        )
        shutil.rmtree(tree)
    completed = subprocess.run(
        ["dpkg-scansources", "."], cwd=archive, check=True, capture_output=True, text=True
    )
    (archive / "Sources").write_text(completed.stdout)


def sources_of_apt(folder: Path, style: str, archive: Path) -> Path:
    """Write a configuration of apt whose only source is the archive, for binary packages."""
    parts = folder / "sources.list.d"
    parts.mkdir()
    one_line = f"deb [trusted=yes] file:{archive} ./\n"
    if style == "deb822":
        (parts / "a.sources").write_text(
            f"Types: deb\nURIs: file:{archive}\nSuites: ./\nTrusted: yes\n"
        )
    elif style == "one line":
        (parts / "a.list").write_text(one_line)
    else:
        (parts / "a.list").write_text(one_line + one_line.replace("deb ", "deb-src "))
    configuration = folder / "apt.conf"
    configuration.write_text(
        f'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "{parts}";\n'
    )
    return configuration


def make_samples(
    repository: Path, folder: Path, configuration: Path
) -> subprocess.CompletedProcess[str]:
    """Run tools/dpdk-samples.sh with its cache and its BIN in the folder."""
    for name in ("bin", "tmp"):
        (folder / name).mkdir(exist_ok=True)
    places = {"XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder / "tmp")}
    completed = subprocess.run(
        [str(repository / "tools/dpdk-samples.sh"), str(folder / "bin")],
        env={**os.environ, **places, "APT_CONFIG": str(configuration)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert list((folder / "tmp").iterdir()) == []
    return completed


@pytest.mark.parametrize("style", ["deb822", "one line", "deb-src"])
def test_makes_the_nearest_version_of_the_series(
    repository: Path, tmp_path: Path, installed: str, style: str
) -> None:
    match = re.match(r"\d+\.\d+", installed)
    assert match
    series = match[0]
    publish(tmp_path / "archive", "1.2.3", f"{series}.0", f"{series}.999", "99.1")
    completed = make_samples(
        repository, tmp_path, sources_of_apt(tmp_path, style, tmp_path / "archive")
    )
    assert completed.returncode == 0, completed.stderr
    assert f"dpdk {series}.0, as " in completed.stdout
    programs = {path.name: path for path in (tmp_path / "bin").iterdir()}
    assert tuple(sorted(programs)) == PROGRAMS
    assert programs["dpdk-skeleton"].read_text() == f"skeleton {series}.0\n"
    assert programs["dpdk-l2fwd"].read_text() == f"l2fwd {series}.0\n"

    # The second time nothing is made; what BIN lost comes from the cache.
    shutil.rmtree(tmp_path / "archive")
    programs["dpdk-l2fwd"].unlink()
    again = make_samples(repository, tmp_path, tmp_path / "apt.conf")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert programs["dpdk-l2fwd"].exists()


def test_without_a_source_says_so_and_leaves_nothing(
    repository: Path, tmp_path: Path, installed: str
) -> None:
    configuration = sources_of_apt(tmp_path, "one line", tmp_path / "no-archive")
    completed = make_samples(repository, tmp_path, configuration)
    assert completed.returncode == 1
    assert completed.stderr.splitlines()[-1].startswith("apt-get finds no source package of DPDK")
    assert [path.name for path in (tmp_path / "cache/switchmark").iterdir()] == ["lock"]
    assert list((tmp_path / "bin").iterdir()) == []


def test_what_apt_says_of_contradictory_sources_is_the_reason(
    repository: Path, tmp_path: Path, installed: str
) -> None:
    publish(tmp_path / "archive", installed.split("-")[0])
    configuration = sources_of_apt(tmp_path, "one line", tmp_path / "archive")
    sources = tmp_path / "sources.list.d/a.list"
    sources.write_text(sources.read_text() + sources.read_text().replace("yes", "no"))
    reason = make_samples(repository, tmp_path, configuration).stderr.splitlines()[-1]
    assert reason.startswith(f"apt-get finds no source package of DPDK {installed}: E: Conflicting")
    assert reason.count("Conflicting") == 1


def test_a_program_that_cannot_be_built_leaves_nothing(
    repository: Path, tmp_path: Path, installed: str
) -> None:
    moved = {**SAMPLES, "l2fwd": "another-name"}
    publish(tmp_path / "archive", installed.split("-")[0], samples=moved)
    configuration = sources_of_apt(tmp_path, "one line", tmp_path / "archive")
    completed = make_samples(repository, tmp_path, configuration)
    assert completed.returncode == 1
    assert "is not where its Makefile used to put it" in completed.stderr.splitlines()[-1]
    assert [path.name for path in (tmp_path / "cache/switchmark").iterdir()] == ["lock"]
    assert list((tmp_path / "bin").iterdir()) == []

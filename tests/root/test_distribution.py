"""These tests run the container images of `make image` with real engines, and the Debian package of
`make deb` in a bare root."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from real_frames import Measure
from root.test_containers import measure_there, users_docker  # noqa: F401  fixtures

pytestmark = pytest.mark.further

CAPABILITIES = {
    "NET_ADMIN": 12,
    "IPC_LOCK": 14,
    "SYS_PTRACE": 19,
    "SYS_ADMIN": 21,
    "SYS_NICE": 23,
    "SYS_RESOURCE": 24,
}
"""The capabilities that the guide names, with their bits."""

_BOUNDING = re.search(r"CapBnd:\s*(\w+)", Path("/proc/self/status").read_text())
_HELD = int(_BOUNDING[1], 16) if _BOUNDING else 0
RIGHTS = [
    *(
        word
        for name, bit in CAPABILITIES.items()
        if _HELD >> bit & 1  # no container gets what this host does not have
        for word in ("--cap-add", name)
    ),
    *("--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"),
    *("--device", "/dev/net/tun", "--network", "none"),
]
PATHS = {"docker": "systempaths=unconfined", "podman": "unmask=ALL"}
"""What an engine calls a /proc/sys that the container may write to."""

OF_PODMAN = ("--runtime", "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "file")
QUICK = (
    "--duration",
    "0.3",
    "--warmup",
    "0.1",
    "--rate",
    "10k",
    "--repeat",
    "1",
    "--calibrate",
    "never",
)


def newest(repository: Path, pattern: str, target: str) -> Path:
    """Return the newest result of a target of the Makefile."""
    found = sorted(repository.glob(pattern), key=lambda path: path.stat().st_mtime)
    if not found:
        pytest.skip(f"{target} builds what these tests install")
    return found[-1]


@pytest.fixture(autouse=True)
def folders_of_podman() -> Iterator[None]:
    """Remove the empty folders that podman and runc leave."""

    def left() -> set[Path]:
        found = {*Path("/sys/fs/cgroup").glob("*/libpod_parent"), Path("/run/runc")}
        return {folder for folder in found if folder.exists()}

    before = left()
    yield
    for folder in left() - before:
        for inner in sorted(filter(Path.is_dir, folder.rglob("*")), reverse=True):
            inner.rmdir()
        folder.rmdir()


# Without an overlay, podman copies the whole image for each container.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["", "-full"])
@pytest.mark.parametrize("engine", PATHS)
def test_an_image_runs_and_leaves_its_report_in_a_volume(
    measure_there: Measure,  # noqa: F811
    repository: Path,
    tmp_path: Path,
    engine: str,
    kind: str,
) -> None:
    archive = newest(repository, f"build/image/switchmark-*[0-9]{kind}.tar", "make image")
    client = (engine, *OF_PODMAN) if engine == "podman" else (engine,)
    limits = ("--ulimit", "host") if engine == "podman" else ()
    loaded = subprocess.run(
        (*client, "load", "--input", archive), capture_output=True, text=True, check=True
    )
    image = loaded.stdout.strip().splitlines()[-1].rpartition(" ")[2]
    assert image.endswith(f"switchmark:{archive.stem.removeprefix('switchmark-')}")
    work = tmp_path / "work"
    work.mkdir()
    rights = (*RIGHTS, "--security-opt", PATHS[engine])

    def inside(*arguments: str) -> subprocess.CompletedProcess[str]:
        mounted = ("--volume", f"{work}:/work")
        return subprocess.run(
            (*client, "run", "--rm", *limits, *rights, *mounted, image, *arguments),
            capture_output=True,
            text=True,
            timeout=100,
        )

    doctor = inside("doctor", "--json")
    assert doctor.returncode == 0, doctor.stderr
    found = {(entry["area"], entry["name"]): entry for entry in json.loads(doctor.stdout)}
    assert found["switches", "linux-bridge"]["ok"]
    switches = ["linux-bridge", *(("ovs", "testpmd") if kind else ())]
    for switch in switches:
        past = ("--engine", "dpdk", "--memory", "no-huge") if switch == "testpmd" else ()
        ran = inside("run", "--switch", switch, *QUICK, *past, "--json", "--name", switch)
        assert ran.returncode == 0, ran.stderr
        record = json.loads(ran.stdout)
        assert record["status"] == "ok"
        assert record["rx"]["frames"] > 0
        assert record["unaccounted"] == 0
        assert (work / "runs" / switch / "trials.jsonl").exists()
    page = inside("report", "runs/linux-bridge", "-o", "page.html")
    assert page.returncode == 0, page.stderr
    assert (work / "page.html").stat().st_size > 10_000


def test_the_package_has_the_command_its_pages_and_completions(
    repository: Path, tmp_path: Path
) -> None:
    package = newest(repository, "build/deb/*.deb", "make deb")
    subprocess.run(("dpkg-deb", "--extract", package, tmp_path), check=True)
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert {
        "usr/bin/switchmark",
        "usr/lib/switchmark/bin/switchmark-traffic",
        "usr/share/man/man1/switchmark-run.1.gz",
        "usr/share/bash-completion/completions/switchmark",
        "usr/share/zsh/vendor-completions/_switchmark",
        "usr/share/fish/vendor_completions.d/switchmark.fish",
        "usr/share/doc/switchmark/copyright",
    } <= names
    assert os.access(tmp_path / "usr/lib/switchmark/bin/switchmark", os.X_OK)


def test_the_package_removes_what_python_compiled(repository: Path, tmp_path: Path) -> None:
    package = newest(repository, "build/deb/*.deb", "make deb")
    for folder in ("updates", "info"):
        (tmp_path / "var/lib/dpkg" / folder).mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").touch()
    dpkg = ("dpkg", "--root", tmp_path, "--force-script-chrootless", "--force-depends")
    subprocess.run((*dpkg, "--install", package), check=True)
    installed = tmp_path / "usr/lib/switchmark"
    cache = next(installed.glob("lib/python*/site-packages/switchmark")) / "__pycache__"
    cache.mkdir()
    (cache / "errors.cpython-311.pyc").touch()
    subprocess.run((*dpkg, "--remove", "switchmark"), check=True)
    assert not installed.exists()


def test_the_package_is_clean_for_lintian(repository: Path) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed: make deb builds what it looks at")
    package = newest(repository, "build/deb/*.deb", "make deb")
    argv = ("lintian", "--fail-on", "error,warning", package)
    completed = subprocess.run(argv, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stdout

"""These tests build a release and look into its files. Building takes minutes and downloads
packages, so that `make test-all` runs them, and `make test` does not. SWITCHMARK_RELEASE=dist takes
the files of `make dist` instead."""

from __future__ import annotations

import email
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import switchmark

pytestmark = [pytest.mark.further, pytest.mark.timeout(1500)]

REPOSITORY = Path(__file__).parents[2]
PROCESSOR = os.uname().machine
GLIBC = (2, 28)
OF_GLIBC = re.compile(r"lib(c|m|dl|rt|pthread)\.so\.\d|ld-linux-[a-z0-9-]+\.so\.\d")
OF_DPDK = re.compile(r"librte_\w+\.so\.(\d+)")
SCRIPTS = f"switchmark-{switchmark.__version__}.data/scripts/"
PROGRAMS = {"switchmark-agent", "switchmark-tool", "switchmark-traffic"}
MODULES = {f"switchmark-engine-dpdk.{abi}.so": abi for abi in ("23", "25")}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a new release for this processor, or of the one that is named."""
    if named := os.environ.get("SWITCHMARK_RELEASE"):
        return REPOSITORY / named
    if PROCESSOR not in ("x86_64", "aarch64"):
        pytest.skip(f"a release has no wheel for {PROCESSOR}")
    out = tmp_path_factory.mktemp("release")
    built = subprocess.run(
        (REPOSITORY / "tools/dist.sh", PROCESSOR, "--out", out), capture_output=True, text=True
    )
    if built.returncode == 3:
        pytest.skip(built.stderr.splitlines()[0])
    assert built.returncode == 0, built.stdout + built.stderr
    return out


@pytest.fixture(scope="module")
def wheel(release: Path) -> Path:
    (found,) = release.glob(f"*_{PROCESSOR}.whl")
    return found


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the programs of the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            path = Path(archive.extract(member, folder))
            path.chmod(member.external_attr >> 16 & 0o777 or 0o755)
    return folder / SCRIPTS


def dynamic(path: Path) -> str:
    return subprocess.run(("readelf", "-dV", path), capture_output=True, text=True).stdout


def test_the_wheel_is_for_every_python_and_an_old_glibc(wheel: Path) -> None:
    tag = f"py3-none-manylinux_{GLIBC[0]}_{GLIBC[1]}_{PROCESSOR}"
    assert wheel.name == f"switchmark-{switchmark.__version__}-{tag}.whl"


def test_the_wheel_has_the_package_and_the_programs_and_nothing_else(scripts: Path) -> None:
    inside = {path.name for path in scripts.iterdir()}
    assert inside == PROGRAMS | set(MODULES)
    assert all(os.access(path, os.X_OK) for path in scripts.iterdir())
    source, packed = REPOSITORY / "src/switchmark", scripts.parent / "purelib/switchmark"
    expected = {
        path.relative_to(source): path.read_bytes()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    found = {
        path.relative_to(packed): path.read_bytes() for path in packed.rglob("*") if path.is_file()
    }
    assert found.pop(Path("commit.txt")).strip()
    assert found == expected


def test_the_programs_need_nothing_but_glibc_and_modules_dpdk_of_their_abi(scripts: Path) -> None:
    for path in scripts.iterdir():
        text = dynamic(path)
        needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", text))
        others = {name for name in needed if not OF_GLIBC.fullmatch(name)}
        abis = {match[1] if (match := OF_DPDK.fullmatch(name)) else name for name in others}
        assert abis == ({MODULES[path.name]} if path.name in MODULES else set()), path.name
        wanted = re.findall(r"GLIBC_(\d+)\.(\d+)", text)
        assert all((int(major), int(minor)) <= GLIBC for major, minor in wanted), path.name


def test_the_programs_have_the_engines_that_need_no_library(scripts: Path) -> None:
    listed = subprocess.run((scripts / "switchmark-traffic", "engines"), capture_output=True)
    content = json.loads(listed.stdout)
    names = {engine["name"] for engine in content["engines"]}
    assert names >= {"null", "udp", "udp-mmsg", "raw", "raw-mmsg", "mmap", "xdp", "xdp-live"}
    assert "dpdk" in names | {module["name"] for module in content["unloaded"]}
    for name in PROGRAMS:
        shown = subprocess.run((scripts / name, "version"), capture_output=True, text=True)
        assert shown.stdout.split() == [name, switchmark.__version__]


def test_the_wheel_asks_for_the_core_alone(wheel: Path) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    requirements = metadata.get_all("Requires-Dist") or []
    core = [line for line in requirements if "extra ==" not in line]
    assert len(core) == len(project["dependencies"])
    assert set(metadata.get_all("Provides-Extra") or ()) == set(project["optional-dependencies"])


def test_the_checksums_are_of_all_files(release: Path) -> None:
    lines = (release / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split() for line in lines)}
    files = {path for path in release.iterdir() if path.name != "SHA256SUMS"}
    assert {path.suffix for path in files} == {".whl", ".gz", ".json"}
    assert sums == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_bill_of_materials_has_what_is_linked_and_what_is_installed(release: Path) -> None:
    (path,) = release.glob("*.cdx.json")
    bill = json.loads(path.read_text())
    names = {component["name"] for component in bill["components"]}
    assert names >= {"jansson", "libbpf", "libxdp", "libelf", "zlib", "numpy", "pydantic", "click"}
    assert not names & {"scipy", "duckdb", "vl-convert-python", "distributed", "pip"}
    assert bill["metadata"]["component"]["version"] == switchmark.__version__


def test_the_source_distribution_knows_its_commit(release: Path) -> None:
    (path,) = release.glob("*.tar.gz")
    top = path.name.removesuffix(".tar.gz")
    with tarfile.open(path) as archive:
        names = set(archive.getnames())
        commit = archive.extractfile(f"{top}/src/commit.in")
        assert commit is not None
        assert re.fullmatch(rb"[0-9a-f]{12}\+?\n", commit.read())
    assert {f"{top}/meson.build", f"{top}/tools/setup.sh", f"{top}/traffic/src/main.c"} <= names


def test_the_wheel_is_installed_and_started(wheel: Path, tmp_path: Path) -> None:
    """As by `python3 -m venv`, with the Python packages of this environment."""
    place = tmp_path / "env"
    subprocess.run((sys.executable, "-m", "venv", "--without-pip", place), check=True)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    subprocess.run(
        (*pip, "--python", place / "bin/python", "install", "--no-deps", "--no-index", wheel),
        check=True,
    )
    own = [path for path in sys.path if path.endswith("site-packages")]
    environment = {**os.environ, "PYTHONPATH": ":".join(own)}
    listed = subprocess.run(
        (place / "bin/switchmark", "list", "engines"),
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert listed.returncode == 0, listed.stderr
    assert "xdp" in listed.stdout

"""These tests measure the programs of container images: the files of the image, the processes of
the run, and a host that is unchanged afterwards."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from host_state import COMMAND, marked, start, wait_for
from real_frames import Measure, assert_every_frame_is_accounted_for, measuring
from root.test_containers import set_engines, users_docker  # noqa: F401  a fixture
from switchmark.model.record import Record

ENGINES = ("docker", "podman")
OWN = "/opt/of-image"
NAME = "localhost/of-tests:1"
OVS_TOOLS = ("ovsdb-tool", "ovsdb-server", "ovs-appctl", "ovs-ofctl", "ovs-vsctl", "ovs-dpctl")
OVS = {
    **{name: f"{OWN}/sbin/{name}" for name in ("ovs-vswitchd", "ovsdb-server")},
    **{name: f"{OWN}/bin/{name}" for name in OVS_TOOLS if name != "ovsdb-server"},
}
"""The programs of Open vSwitch, and their places in the image, which the host does not have."""

TESTPMD = {"dpdk-testpmd": f"{OWN}/bin/dpdk-testpmd"}
_DRIVERS = ("bus_pci", "bus_vdev", "mempool_ring", "net_vhost", "net_virtio", "net_memif")
QUICK = {"duration": 0.15, "warmup": 0.05, "rate": "2k"}


def libraries_of(program: Path) -> list[Path]:
    """Return the shared libraries that a program loads, and its loader."""
    listed = subprocess.run(("ldd", program), capture_output=True, text=True, check=True).stdout
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", listed)]


def copied(source: Path, root: Path, target: str = "") -> None:
    """Copy a file of the host, with its libraries, into a root file system."""
    libraries = [] if source.suffix == ".ovsschema" else libraries_of(source)
    for path in (*libraries, *([] if target else [source])):
        _put(path.resolve(), root, str(path.resolve()))
        link = root / str(path).lstrip("/")
        if not os.path.lexists(link):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path.resolve())  # one library of two names is loaded once
    if target:
        _put(source.resolve(), root, target)


def _put(source: Path, root: Path, target: str) -> None:
    place = root / target.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, place)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root file system with programs of this host at other places."""
    root = tmp_path_factory.mktemp("image")
    for folder in ("dev", "proc", "sys", "run", "tmp", "etc", "var", "usr/bin"):
        (root / folder).mkdir(parents=True)
    for name in ("sh", "test", "cat"):
        copied(Path(shutil.which(name) or name), root, f"/bin/{name}")
    for name, place in {**OVS, **TESTPMD}.items():
        found = shutil.which(name)
        assert found is not None, name
        copied(Path(found), root, place)
    copied(
        Path("/usr/share/openvswitch/vswitch.ovsschema"),
        root,
        f"{OWN}/share/openvswitch/vswitch.ovsschema",
    )
    for plugin in Path("/usr/lib").glob("*/dpdk/pmds-*/librte_*.so*"):
        if any(f"librte_{name}.so" in plugin.name for name in _DRIVERS):
            copied(plugin, root)
    return root


@pytest.fixture(scope="module")
def measure_there(
    users_docker: str,  # noqa: F811
    traffic_program: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Measure]:
    """Return `measure` with the user's docker daemon, and storage of podman's, for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        set_engines(patch, users_docker, tmp_path_factory.mktemp("engines"))
        patch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
        with measuring(tmp_path_factory.mktemp("run")) as run:
            yield run


@pytest.fixture(scope="module")
def imported(root: Path, measure_there: Measure) -> Mapping[str, str]:
    """Return the id of the image of each engine."""
    ids = {}
    for engine in ENGINES:
        change = f"ENV PATH={OWN}/sbin:{OWN}/bin:/usr/bin:/bin"
        with subprocess.Popen(("tar", "-C", root, "-c", "."), stdout=subprocess.PIPE) as packed:
            subprocess.run(
                (engine, "import", "--change", change, "-", NAME),
                stdin=packed.stdout,
                capture_output=True,
                check=True,
            )
        text = subprocess.run(
            (engine, "image", "inspect", "--format", "{{.Id}}", NAME),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        ids[engine] = text.strip().removeprefix("sha256:")
    return ids


@pytest.fixture
def images(
    request: pytest.FixtureRequest, imported: Mapping[str, str]
) -> Iterator[Mapping[str, str]]:
    """Yield the ids of the images, and check that the engines of a test have no containers
    afterwards."""
    callspec = getattr(request.node, "callspec", None)
    engines = (callspec.params["engine"],) if callspec else ENGINES
    yield imported
    assert [containers(engine) for engine in engines] == [""] * len(engines)


def containers(engine: str) -> str:
    """Return the ids of all containers of an engine."""
    return subprocess.run(
        (engine, "ps", "--all", "--quiet"), capture_output=True, text=True, check=True
    ).stdout.strip()


def of_image(name: str, run: subprocess.Popen[str]) -> list[Path]:
    """Return the processes of a run that execute a program of the image. A shell starts them, and
    has their name until then."""
    processes = [Path(f"/proc/{pid}") for pid in marked(name, run)]
    return [path for path in processes if str((path / "exe").readlink()) == OVS[name]]


OF_KERNEL = {"engine": "raw-mmsg"}
VHOST = {"engine": "dpdk"}
MEMIF = {"engine": "dpdk", "port": "memif", "memory": "no-huge"}


@pytest.mark.parametrize(
    ("engine", "switch", "axes"),
    [
        ("podman", "ovs", OF_KERNEL),
        ("docker", "testpmd", VHOST),
        # Below, docker has ovs, and tests/root/test_bypass.py has memif.
        pytest.param("docker", "ovs", OF_KERNEL, marks=pytest.mark.further),
        pytest.param("podman", "testpmd", VHOST, marks=pytest.mark.further),
        pytest.param("podman", "testpmd", MEMIF, marks=pytest.mark.further),
        pytest.param("docker", "testpmd", MEMIF, marks=pytest.mark.further),
    ],
    ids=lambda value: value if isinstance(value, str) else value.get("port", value["engine"]),
)
def test_frames_pass_a_program_of_an_image(
    measure_there: Measure,
    images: Mapping[str, str],
    engine: str,
    switch: str,
    axes: Mapping[str, str],
) -> None:
    program = f"{switch}@{engine}:{NAME}"
    record = measure_there(switch=program, **{**QUICK, "duration": 0.3}, **axes)
    assert_every_frame_is_accounted_for(record)
    assert measure_there._lab.versions(record.test)["switch image"].startswith(
        f"{engine} {images[engine]}"
    )
    busy = [part.cores or 0 for part in record.trials[0].parts if part.part == "switch"]
    assert sum(busy) > 0, "the process of the switch was observed"


def test_either_engine_gives_an_image_that_has_no_engine_in_its_name(
    images: Mapping[str, str], tmp_path: Path
) -> None:
    subprocess.run(("podman", "untag", NAME), check=True)
    try:
        with measuring(tmp_path) as measure:
            record: Record = measure(switch=f"ovs@image:{NAME}", **QUICK)
            image = measure._lab.versions(record.test)["switch image"]
    finally:
        subprocess.run(("podman", "tag", images["podman"], NAME), check=True)
    assert_every_frame_is_accounted_for(record)
    assert image == f"docker {images['docker']}"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_program_of_an_image_is_a_process_of_the_run_and_nothing_is_left_of_a_kill(
    measure_there: Measure,
    images: Mapping[str, str],
    engine: str,
    tmp_path: Path,
) -> None:
    run = start(
        dict(os.environ),
        tmp_path,
        *("run", "--switch", f"ovs@{engine}:{NAME}", "--duration", "60", "--rate", "1k"),
    )
    try:
        (process,) = wait_for(lambda: of_image("ovs-vswitchd", run), "a file of the image runs")
        assert (process / "root/bin/sh").exists()
        assert not (process / "root/usr/sbin/ovs-vswitchd").exists()
        status = (process / "status").read_text()
        assert "Seccomp:\t0" in status, "no filter of the engine"
        here = Path("/proc/self/ns/pid").readlink()
        assert (process / "ns/pid").readlink() == here
        assert (process / "ns/net").readlink() != Path("/proc/self/ns/net").readlink()
        groups = (process / "cgroup").read_text()
        assert groups == Path(f"/proc/{run.pid}/cgroup").read_text()
        assert containers(engine)
        run.send_signal(signal.SIGKILL)
        run.wait(10)
        cleaned = subprocess.run(
            [*COMMAND, "clean"], capture_output=True, text=True, cwd=tmp_path, timeout=100
        )
        assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    finally:
        run.kill()
        run.wait(10)
    assert not process.exists()
    assert containers(engine) == ""
    spaces = subprocess.run(("ip", "netns"), capture_output=True, text=True, check=True).stdout
    assert not re.search(r"^sm\w+-sw", spaces, re.MULTILINE)


@pytest.mark.further
@pytest.mark.parametrize("engine", ENGINES)
def test_verify_finds_that_an_image_does_all_that_the_driver_asks(
    measure_there: Measure,
    images: Mapping[str, str],
    engine: str,
    tmp_path: Path,
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    completed = subprocess.run(
        [*COMMAND, "verify", f"ovs@{engine}:{NAME}", "--port", "veth"],
        capture_output=True,
        text=True,
        cwd=here,
        timeout=300,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "✓ learning v2v bi" in completed.stdout
    assert list(here.iterdir()) == [], "it stores nothing"


@pytest.mark.usefixtures("measure_there")
def test_a_missing_image_is_refused_with_the_command_that_pulls_it(
    cli: Callable[..., tuple[int, str, str]],
) -> None:
    code, out, _ = cli("run", "--switch", "ovs@image:localhost/no-such:1", "--json")
    assert code == 3
    record = json.loads(out)
    assert "there is no image localhost/no-such:1" in record["error"]
    assert "docker pull localhost/no-such:1 or podman pull" in record["error"]

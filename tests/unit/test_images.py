"""These tests check that the program of a container image is found, probed, planned and recorded,
with simulated engines. Real images are in tests/root/test_images.py."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from switchmark.engines.base import Engine
from switchmark.errors import Unavailable
from switchmark.hosts.base import Completed
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.images import ImageHost, find_image, image_asked
from switchmark.hosts.recording import RecordingHost
from switchmark.lab.probes import Probes
from switchmark.model.plan import Run, Spawn, Write
from switchmark.model.test import Test
from switchmark.model.topology import Findings
from switchmark.model.version import Image, Version
from switchmark.path.assembly import build, construct, events_of
from switchmark.path.images import _starter
from switchmark.path.refusals import check
from switchmark.path.resolving import resolve
from switchmark.runs.own_run import OwnRun
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.versions import probe_asked

ID = "0f" * 32
DIGEST = "sha256:" + "1e" * 32


def described(id_: str = ID, **settings: Any) -> bytes:
    config = {"Env": ["PATH=/opt/ovs/sbin:/usr/bin", "LD_LIBRARY_PATH=/opt/ovs/lib"], **settings}
    digests = [f"mine@{DIGEST}"]
    return json.dumps([{"Id": f"sha256:{id_}", "RepoDigests": digests, "Config": config}]).encode()


class Engines(RecordingHost):
    """A host whose engines have images by name; an image has programs by path, and their output."""

    def __init__(
        self,
        images: Mapping[str, Mapping[str, bytes]],
        programs: Mapping[str, bytes],
        files: tuple[str, ...] = (),
    ) -> None:
        super().__init__(files={"/dev/net/tun": b""})
        self.images, self.programs, self.inside = images, programs, files

    def answer(self, argv: tuple[str, ...]) -> Completed:
        engine, *rest = argv
        if engine == "ip":
            return Completed(0, b"ip utility, iproute2-6\n", b"")
        if argv[:2] == ("unshare", "--mount"):
            assert "PATH=/opt/ovs/sbin" in argv[4]
            return self.inside_of([*argv[7:]])
        if engine not in ("docker", "podman"):
            return super().answer(argv)
        if engine not in self.images:
            raise Unavailable(f"{engine} is not installed")
        if rest[:2] == ["image", "inspect"]:
            text = self.images[engine].get(rest[2])
            missing = Completed(1, b"[]\n", f"Error: No such image: {rest[2]}\n".encode())
            return missing if text is None else Completed(0, text, b"")
        if "run" in rest:
            first = rest.index("--entrypoint") + 1
            return self.inside_of([rest[first], *rest[first + 2 :]])
        return Completed(0, b"4711\n", b"")

    def inside_of(self, argv: list[str]) -> Completed:
        if argv[0] == "test":
            return Completed(0 if argv[2] in self.inside else 1, b"", b"")
        if argv[0] == "sh":
            if "-f" in argv[2]:
                there = [path for path in argv[4:] if path in (*self.programs, *self.inside)]
                return Completed(0, "\n".join(there).encode(), b"")
            names = [Path(name).name for name in argv[4:]]
            paths = [path for name in names for path in self.programs if Path(path).name == name]
            if "echo" in argv[2]:  # the programs that are missing
                known = {Path(path).name for path in self.programs}
                return Completed(0, "\n".join(n for n in names if n not in known).encode(), b"")
            return Completed(0, "\n".join(paths).encode(), b"")
        output = self.programs.get(argv[0])
        if output is None:
            return Completed(127, b"", b"executable file not found in $PATH")
        return Completed(0, output, b"")


TOOLS = ("ovsdb-tool", "ovsdb-server", "ovs-appctl", "ovs-ofctl", "ovs-vsctl")
OVS = {"/opt/ovs/sbin/ovs-vswitchd": b"ovs-vswitchd (Open vSwitch) 3.3.0"} | {
    f"/opt/ovs/bin/{name}": b"" for name in TOOLS
}
SCHEMA = "/opt/ovs/share/openvswitch/vswitch.ovsschema"


def ovs_host(**images: bytes) -> Engines:
    return Engines({engine: {"mine:1": text} for engine, text in images.items()}, OVS, (SCHEMA,))


def laid_out(test: Test, host: RecordingHost) -> Any:
    version = probe_asked(SWITCHES[test.switch], host)
    found = Findings(mode=version.mode, programs={("local", test.switch): version})
    return resolve(test, prefix="sm0000", run_dir="/run/x", found=found)


def test_an_image_is_named_with_or_without_its_engine() -> None:
    asked = {text: image_asked(text) for text in ("image:a/b:1", "docker:a@sha256:0", "1.2", "/x")}
    assert [image and (image.engines, image.name) for image in asked.values()] == [
        (("docker", "podman"), "a/b:1"),
        (("docker",), "a@sha256:0"),
        None,
        None,
    ]


def test_the_first_engine_that_has_the_image_gives_it() -> None:
    asked = image_asked("image:mine:1")
    assert asked is not None
    image = find_image(Engines({"docker": {}, "podman": {"mine:1": described()}}, {}), asked)
    assert (image.engine, image.id, image.digests) == ("podman", ID, (f"mine@{DIGEST}",))
    assert image.env["LD_LIBRARY_PATH"] == "/opt/ovs/lib"
    both = {"docker": {"mine:1": described()}, "podman": {"mine:1": described()}}
    assert find_image(Engines(both, {}), asked).engine == "docker"


def test_two_different_images_of_one_name_are_refused() -> None:
    host = ovs_host(docker=described(), podman=described("aa" * 32))
    with pytest.raises(Unavailable, match="docker and podman have different images") as refused:
        probe_asked(SWITCHES["ovs@image:mine:1"], host)
    assert refused.value.hint == "@docker:mine:1 or @podman:mine:1"
    assert probe_asked(SWITCHES["ovs@podman:mine:1"], host).text == "3.3.0"


def test_a_missing_image_is_not_pulled_but_the_command_is_told() -> None:
    host = Engines({"podman": {}}, {})
    with pytest.raises(Unavailable) as refused:
        probe_asked(SWITCHES["vpp@image:fdio/vpp:25.10"], host)
    assert refused.value.message == (
        "there is no image fdio/vpp:25.10\n  docker: not installed\n"
        "  podman: Error: No such image: fdio/vpp:25.10"
    )
    assert refused.value.hint == "podman pull fdio/vpp:25.10"
    assert not any("pull" in argv for argv in host.ran)
    with pytest.raises(Unavailable) as refused:
        probe_asked(SWITCHES["vpp@docker:x"], Engines({}, {}))
    assert refused.value.hint == "apt-get install docker"


@pytest.mark.parametrize("answer", [b"", b"[]", b"[1]", b'[{"Id": 1, "Config": {"Env": 3}}]'])
def test_an_unknown_description_of_an_image_is_no_crash(answer: bytes) -> None:
    with pytest.raises(Unavailable, match="describes the image mine:1 in an unknown way"):
        probe_asked(SWITCHES["ovs@docker:mine:1"], ovs_host(docker=answer))


def test_the_driver_probes_the_files_of_the_image() -> None:
    host = ovs_host(docker=described())
    version = probe_asked(SWITCHES["ovs@image:mine:1"], host)
    assert (version.text, version.mode) == ("3.3.0", "userspace")
    assert version.program == "/opt/ovs/sbin/ovs-vswitchd"
    assert version.beside["vswitch.ovsschema"] == SCHEMA
    assert version.image is not None
    assert version.image.programs["ovs-vsctl"] == "/opt/ovs/bin/ovs-vsctl"
    started = [argv for argv in host.ran if "run" in argv]
    assert started
    assert all("--rm" in argv and "never" in argv and ID in argv for argv in started)
    # What it asks about the kernel is asked on the host.
    assert ("test", "-w", "/dev/net/tun") in host.ran


def test_an_image_without_the_program_is_refused_by_its_name() -> None:
    host = Engines({"docker": {"mine:1": described()}}, {"/usr/bin/ovs-vswitchd": b""})
    with pytest.raises(Unavailable) as refused:
        probe_asked(SWITCHES["vpp@image:mine:1"], host)
    assert refused.value.message == "the image mine:1 of docker: it has no vpp"
    assert "ENV PATH" in (refused.value.hint or "")
    with pytest.raises(Unavailable, match="of docker: the schema .* is missing"):
        probe_asked(
            SWITCHES["ovs@image:mine:1"],
            Engines({"docker": {"mine:1": described()}}, OVS),
        )


def test_a_program_with_another_name_in_the_image_is_found() -> None:
    daemon = {"/usr/sbin/ovs-vswitchd": b"ovs-vswitchd (Open vSwitch) 3.3.0\nDPDK 23.11"}
    usual = "/usr/share/openvswitch/vswitch.ovsschema"
    tools = {f"/usr/bin/{name}": b"" for name in TOOLS}
    host = Engines({"docker": {"mine:1": described()}}, daemon | tools, (usual,))
    test = Test(switch="ovs-dpdk@image:mine:1", engine="dpdk")
    path = laid_out(test, host)
    (starter,) = (
        step
        for step in construct(path)
        if isinstance(step, Write) and step.path.endswith("-vswitchd-dpdk")
    )
    assert b"/usr/sbin/ovs-vswitchd" in starter.content


def test_every_program_of_the_plan_starts_with_the_files_of_the_image() -> None:
    path = laid_out(Test(switch="ovs@image:mine:1"), ovs_host(docker=described()))
    folder = f"/run/x/image-{path.wiring.version.image.key}"
    steps = build(path)
    written = {step.path for step in steps if isinstance(step, Write)}
    named = {
        word
        for step in steps
        if isinstance(step, Run | Spawn)
        for word in step.argv
        if Path(word).name.startswith(("ovs-", "ovsdb-")) and step.argv[0] != "chmod"
    }
    assert named
    assert {word for word in named if "/" not in word or not word.startswith(folder)} == set()
    assert {word for word in named if word not in written} == set()
    # The daemon is started by the file, in the node of the switch, and not by the engine.
    daemon = next(step for step in steps if isinstance(step, Spawn) and "vswitchd" in step.name)
    assert f"{folder}/ovs-vswitchd" in daemon.argv
    assert daemon.at == path.wiring.node
    holder = next(step for step in steps if isinstance(step, Run) and "run" in step.argv)
    assert ID in holder.argv
    assert holder.undo is not None
    assert holder.undo[-3:-1] == ("rm", "--force")
    # The schema is a file of the image, which only programs of the image open.
    assert any(SCHEMA in step.argv for step in steps if isinstance(step, Run))


def test_a_starter_becomes_the_program_with_the_variables_of_the_image(tmp_path: Path) -> None:
    values = {"A.B": "two words", "ODD": "a'b ${c} $d", "PATH": "/nowhere"}
    image = Image("docker", "x", env=values, programs={"show": "/opt/it/show"})
    text = _starter(image, "/opt/it/show", "1")
    (tmp_path / "chroot").write_text(
        '#!/bin/sh\necho "$@"\n/usr/bin/tr "\\0" "\\n" </proc/$$/environ\n'
    )
    (tmp_path / "start").write_text(text)
    for name in ("chroot", "start"):
        (tmp_path / name).chmod(0o755)
    started = subprocess.run(
        [tmp_path / "start", "an argument"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "OVS_RUNDIR": "/run/x"},
    )
    first, *rest = started.stdout.splitlines()
    assert first == "/proc/1/root /opt/it/show an argument"
    assert {"A.B=two words", "ODD=a'b ${c} $d", "PATH=/opt/it:/nowhere"} <= set(rest)
    assert "OVS_RUNDIR=/run/x" in rest, "the variables of a plan reach the program"
    assert "${" not in text, "the executor would fill it in"


def test_the_record_has_engine_id_and_digest_of_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("switchmark.environments.containers.privileges", lambda: "root")
    host = ovs_host(docker=described())
    location = Probes(Hosts(OwnRun, {"local": host})).locate(Test(switch="ovs@image:mine:1"))
    monkeypatch.setattr("switchmark.lab.probes.followed", lambda *_: "")
    monkeypatch.setattr(Engine, "probe", lambda self, host: Version("1"))
    versions = location.versions()
    assert versions["switch image"] == f"docker {ID} {DIGEST}"
    assert versions["switch ovs@image:mine:1"] == "3.3.0 userspace"


def test_an_upgrade_starts_the_program_of_another_image() -> None:
    host = Engines(
        {"docker": {"mine:1": described(), "mine:2": described("bb" * 32)}}, OVS, (SCHEMA,)
    )
    names = ("ovs@image:mine:1", "ovs@image:mine:2")
    test = Test(
        switch=names[0], dimension="outage", event=f"upgrade:{names[1]}", rate="10k", duration=10
    )
    found = {("local", name): probe_asked(SWITCHES[name], host) for name in names}
    path = resolve(
        test,
        prefix="sm0000",
        run_dir="/run/x",
        found=Findings(mode="userspace", programs=found),
    )
    keys = [version.image.key for version in found.values() if version.image]
    assert len(set(keys)) == 2
    folders = [
        step.argv[-1] for step in construct(path) if isinstance(step, Run) and "mkdir" in step.argv
    ]
    assert [f"/run/x/image-{key}" for key in keys] == [f for f in folders if "image-" in f]
    (event,) = events_of(path)
    starts = [step for step in event.change.restore if isinstance(step, Spawn)]
    assert f"/run/x/image-{keys[1]}/ovs-vswitchd" in starts[-1].argv


@pytest.mark.parametrize(
    ("axes", "why", "hint"),
    [
        ({"switch": "ovs@image:"}, "names no image", "--switch ovs@image:IMAGE"),
        ({"switch": "ovs@image:--all"}, "names no image", "--switch ovs@image:IMAGE"),
        ({"switch": "bess@image:x"}, "is a folder", "--switch bess@/path/to/its/folder"),
        ({"switch": "linux-bridge@image:x"}, "is not a separate program", "--switch linux-bridge"),
        (
            {"switch": "ovs@image:x", "switch_environment": "docker"},
            "which environment docker would hide",
            "--switch-environment host,netns",
        ),
    ],
)
def test_what_cannot_come_from_an_image_is_refused(
    axes: Mapping[str, str], why: str, hint: str
) -> None:
    (refusal,) = check(Test(**axes))
    assert why in refusal.why
    assert refusal.hint == hint


def test_an_image_is_only_probed() -> None:
    inside = ImageHost(RecordingHost(), Image("docker", "x", ID))
    for call in (
        lambda: inside.write("/x", b""),
        lambda: inside.remove("/x"),
        lambda: inside.spawn(("x",), stderr_path=""),
        lambda: inside.end(1, 1, 15, 1.0),
    ):
        with pytest.raises(NotImplementedError):
            call()


def test_a_daemon_that_does_not_run_is_told() -> None:
    class Silent(Engines):
        def answer(self, argv: tuple[str, ...]) -> Completed:
            return Completed(1, b"", b"Cannot connect to the Docker daemon at unix:///x\n")

    with pytest.raises(Unavailable, match="docker: Cannot connect to the Docker daemon"):
        probe_asked(SWITCHES["ovs@docker:x"], Silent({}, {}))

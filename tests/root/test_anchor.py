"""These tests start the anchor as an unprivileged user, who gets it or the reason why not."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from switchmark.runs.anchor import privileges

# `env` starts the program with nobody's right to read it; setpriv's own would still be root's.
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "env")


@dataclass
class Anchored:
    """This object runs scripts as nobody, with a copy of the package that nobody can read."""

    folder: Path
    python: str

    def argv(self, script: str) -> list[str]:
        path = self.folder / "script.py"
        path.write_text(
            "from switchmark.runs.anchor import anchor, privileges\n" + textwrap.dedent(script)
        )
        return [*NOBODY, self.python, "-B", str(path)]

    def run(self, script: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(script),
            capture_output=True,
            text=True,
            input=stdin,
            env=self.env,
            cwd="/",
            timeout=60,
        )

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(self.folder)}


@pytest.fixture(scope="module")
def unprivileged(repository: Path) -> Iterator[Anchored]:
    recent = "import sys; sys.exit(sys.version_info < (3, 11))"
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([*NOBODY, python, "-c", recent], capture_output=True).returncode == 0:
            break
    else:
        pytest.skip("no Python 3.11 that an unprivileged user may run")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copytree(repository / "src/switchmark", folder / "switchmark")
        yield Anchored(folder, python)


def test_root_needs_no_anchor() -> None:
    assert privileges() == "root"


def test_an_unprivileged_user_works_in_namespaces_of_its_own(unprivileged: Anchored) -> None:
    completed = unprivileged.run(
        """
        import os, subprocess, sys
        anchor()
        print(privileges(), os.getuid(), sys.stdin.read(), flush=True)
        for command in ("netns add sm-t", "-n sm-t link add br0 type bridge",
                        "netns exec sm-t ip -br link show br0", "-br link"):
            subprocess.run(["ip", *command.split()], check=True)
        open("/run/mine", "w")
        sys.exit(7)
        """,
        stdin="input",
    )
    assert completed.stderr == "switchmark: not root: working in a separate user namespace\n"
    assert completed.returncode == 7
    first, bridge, *links = completed.stdout.splitlines()
    assert first == "user-namespace 0 input"
    assert bridge.startswith("br0")
    assert [line.split()[0] for line in links] == ["lo"]
    assert not Path("/run/mine").exists()
    assert not Path("/run/netns/sm-t").exists()


def test_a_second_anchor_changes_nothing(unprivileged: Anchored) -> None:
    completed = unprivileged.run("import os\nanchor()\nanchor()\nprint(os.listdir('/run'))")
    assert completed.stdout == "[]\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_run_below_the_anchor(unprivileged: Anchored, number: int) -> None:
    script = """
        import os, signal, sys, time
        anchor()
        def end(number, frame):
            os.write(1, f"got {number}\\n".encode())  # print() may be what is interrupted
            sys.exit(130)
        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        print("up", flush=True)
        time.sleep(60)
        """
    with subprocess.Popen(
        unprivileged.argv(script), stdout=subprocess.PIPE, text=True, env=unprivileged.env, cwd="/"
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        assert process.stdout.readline() == f"got {number}\n"
        assert process.wait(10) == 130


def test_a_killed_anchor_takes_everything_with_it(unprivileged: Anchored) -> None:
    mark = f"SM_TEST={os.getpid()}"
    script = """
        import subprocess, time
        anchor()
        subprocess.Popen(["sleep", "300"], start_new_session=True)
        print("up", flush=True)
        time.sleep(300)
        """
    with subprocess.Popen(
        [*NOBODY, mark, *unprivileged.argv(script)[len(NOBODY) :]],
        stdout=subprocess.PIPE,
        text=True,
        env=unprivileged.env,
        cwd="/",
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        deadline = time.monotonic() + 10
        try:
            while len(bearing(mark)) < 4:  # the supervisor, unshare, the run, its daemon
                assert time.monotonic() < deadline
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
        deadline = time.monotonic() + 10
        while bearing(mark):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def bearing(mark: str) -> list[str]:
    """Return the processes that carry a variable in their environment and have not ended."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in environ.read_bytes().split(b"\0"):
                found.append(environ.parent.name)
        except OSError:
            continue
    return found


def test_a_user_who_can_have_neither_is_told_what_would_work(unprivileged: Anchored) -> None:
    script = unprivileged.argv("anchor()")[len(NOBODY) :]
    forbid = 'echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set -all "$@"'
    completed = subprocess.run(
        [*NOBODY, "unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh", *script],
        capture_output=True,
        text=True,
        env=unprivileged.env,
        cwd="/",
    )
    assert completed.returncode == 1
    message = completed.stderr.partition("Unavailable: ")[2]
    assert message.startswith("this needs root or a user namespace, and this user can have neither")
    assert "No space left on device" in message
    assert message.endswith(f"hint: sudo {' '.join(script)}\n")

"""Starts Debian's Slurm on this host for a test: munge, a controller and one node, in a folder of
the test. They end with the test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "squeue")

_CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmctldParameters=idle_on_node_suspend
SchedulerParameters=sched_interval=1,sched_min_interval=0,defer_batch=0
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=1000 State=UNKNOWN
PartitionName=test Nodes={host} Default=YES OverSubscribe=NO MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    """Return the programs of Slurm and munge that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]


@contextmanager
def slurm(folder: Path) -> Iterator[Mapping[str, str]]:
    """Run a Slurm with one node. Yield the environment for its commands."""
    host = socket.gethostname().partition(".")[0]
    for name in ("state", "spool"):
        (folder / name).mkdir()
    config = folder / "slurm.conf"
    ports = [_free_port() for _ in range(2)]
    config.write_text(
        _CONFIG.format(
            host=host, folder=folder, controller=ports[0], node=ports[1], cpus=os.cpu_count()
        )
    )
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)
    environment = {**os.environ, "PATH": _path(), "SLURM_CONF": str(config)}
    commands = (
        (
            *("munged", "--foreground", "--force", f"--socket={folder}/munge.socket"),
            *(f"--key-file={folder}/munge.key", f"--pid-file={folder}/munge.pid"),
            *(f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"),
        ),
        ("slurmctld", "-D", "-c", "-f", str(config)),
        ("slurmd", "-D", "-c", "-f", str(config), "-N", host),
    )
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            with (folder / f"{command[0]}.out").open("wb") as out:
                started.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
            if command[0] == "munged":
                _wait_for(lambda: (folder / "munge.socket").exists(), folder)
        _wait_for(lambda: "idle" in _states(environment), folder)
        yield environment
        subprocess.run(("scancel", "--user=root"), env=environment, timeout=20)
        _wait_for(lambda: not _jobs(environment), folder)
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(timeout=20)
        # Processes of a job end after it has left the queue, and then remove their semaphores.
        _wait_for(lambda: not _has_processes(config), folder)


def _has_processes(config: Path) -> bool:
    """Return whether a process that was started with this configuration is alive."""
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"SLURM_CONF={config}".encode() in environ.read_bytes():
                return True
    return False


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


def _states(environment: Mapping[str, str]) -> str:
    return _run(environment, "sinfo", "--noheader", "--format=%t")


def _jobs(environment: Mapping[str, str]) -> str:
    return _run(environment, "squeue", "--noheader")


def _run(environment: Mapping[str, str], *command: str) -> str:
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=20
    ).stdout.strip()


def _wait_for(condition: object, folder: Path) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 40
    while not condition():
        if time.monotonic() > deadline:
            logs = [f"{path.name}: {path.read_text()[-800:]}" for path in folder.glob("*.log")]
            raise AssertionError("\n".join(["Slurm did not come up or end", *logs]))
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])

"""This module connects to a lab that is described, or starts it: a scheduler here, and a Dask
worker for each testbed, by ssh, by Slurm or on this host."""

from __future__ import annotations

import logging
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Scheduler, SpecCluster
from distributed.security import Security

from switchmark.cluster.dask_lab import RESOURCE, DaskLab, Told
from switchmark.cluster.description import Description, Local, Slurm, Ssh, Tls
from switchmark.errors import Unavailable
from switchmark.machine.host import LocalHost, LocalProcess

__all__ = ["connected", "worker_command"]

_CONNECT_S = 30.0
_GRACE_S = 20.0


@contextmanager
def connected(
    description: Description, logs: Path, *, share_machine: bool, told: Told
) -> Iterator[DaskLab]:
    """Hold a lab with at least one testbed; what was started ends with the block. The output of
    workers goes into files in `logs`."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    security = _security(description.tls)
    with ExitStack() as stack:
        settings = {"distributed.admin.tick.limit": "10s", "temporary-directory": str(logs)}
        stack.enter_context(dask.config.set(settings))
        address, workers = description.address, list[LocalProcess]()
        if (started := description.started) is not None:
            cluster = stack.enter_context(_scheduler(started, security))
            address = cluster.scheduler_address
            if isinstance(started, Slurm):
                cluster.scale(jobs=started.testbeds)
            else:
                workers = stack.enter_context(
                    _workers(started, description.tls, str(address), logs)
                )
        client = stack.enter_context(_client(str(address), security))
        lab = DaskLab(client, share_machine=share_machine, told=told)
        if started is not None:
            stack.callback(lab.close_workers)
        stack.callback(lab.end)
        wait_s = started.wait_s if started is not None else _CONNECT_S
        try:
            lab.wait(_expected(started), wait_s)
        except Unavailable as error:
            raise _with_last_words(error, workers) from error
        yield lab


def worker_command(
    python: str, address: str, name: str, tls: Tls | None, *, listen: str = "", again: bool = True
) -> tuple[str, ...]:
    """Return the command that makes a host a testbed of the scheduler at an address, which is
    reached at the address `listen`, or one that it finds; a worker that dies is started `again`."""
    words = [python, "-m", "distributed.cli.dask_worker", address, "--name", name]
    words += ["--nthreads", "1", "--nworkers", "1", "--resources", f"{RESOURCE}=1"]
    words += ["--no-dashboard", "--death-timeout", "60", "--memory-limit", "0"]
    words += ["--nanny" if again else "--no-nanny"]
    if listen:
        words += ["--host", listen]
    if tls is not None:
        words += ["--tls-ca-file", tls.ca, "--tls-cert", tls.cert, "--tls-key", tls.key]
    return tuple(words)


def _security(tls: Tls | None) -> Security:
    if tls is None:
        return Security()  # what Dask's own configuration says
    sides = {
        f"tls_{role}_{what}": path
        for role in ("client", "scheduler", "worker")
        for what, path in (("cert", tls.cert), ("key", tls.key))
    }
    for path in (tls.ca, tls.cert, tls.key):
        if not Path(path).is_file():
            raise Unavailable(f"there is no file {path}, which [tls] names")
    return Security(tls_ca_file=tls.ca, require_encryption=True, **sides)


@contextmanager
def _client(address: str, security: Security) -> Iterator[Client]:
    try:
        client = Client(
            address, security=security, timeout=_CONNECT_S, set_as_default=False, name="switchmark"
        )
    except (OSError, TypeError, ValueError, RuntimeError) as error:
        raise Unavailable(
            f"the scheduler at {address} does not answer: {error}",
            hint="dask scheduler --host 127.0.0.1",
        ) from error
    try:
        yield client
    finally:
        with suppress(Exception):  # whatever it is, the run is at its end
            client.close(timeout=5)


@contextmanager
def _scheduler(started: Local | Ssh | Slurm, security: Security) -> Iterator[Any]:
    protocol = "tls" if security.require_encryption else "tcp"
    options = {"host": started.listen, "port": 0, "dashboard": False, "protocol": f"{protocol}://"}
    try:
        if isinstance(started, Slurm):
            cluster = _slurm(started, security, protocol)
        else:
            cluster = SpecCluster(
                workers={},
                scheduler={"cls": Scheduler, "options": {**options, "security": security}},
                security=security,
                silence_logs=logging.CRITICAL,
            )
    except RuntimeError as error:
        raise Unavailable(
            f"no scheduler starts at {started.listen or 'an address of this host'}: {error}",
            hint="listen: an address of this host, which the testbeds reach",
        ) from error
    with cluster:
        yield cluster


def _slurm(started: Slurm, security: Security, protocol: str) -> Any:
    from dask_jobqueue import SLURMCluster

    return SLURMCluster(
        queue=started.queue,
        account=started.account,
        cores=1,  # of Dask: one thread, which waits for the testbed
        processes=1,
        job_cpu=started.cores,
        memory=started.memory,
        walltime=started.walltime,
        job_extra_directives=list(started.directives),
        job_script_prologue=list(started.prologue),
        worker_extra_args=["--resources", f"{RESOURCE}=1", "--no-dashboard"],
        python=started.python or sys.executable,
        protocol=f"{protocol}://",
        security=security if security.require_encryption else None,
        scheduler_options={"host": started.listen, "dashboard": False},
        silence_logs="critical",
        log_directory=None,
    )


@contextmanager
def _workers(
    started: Local | Ssh, tls: Tls | None, address: str, logs: Path
) -> Iterator[list[LocalProcess]]:
    """Start a worker for each testbed, by ssh or here, where Dask's files are among its output: in
    /tmp it would leave a folder."""
    host, processes = LocalHost(), list[LocalProcess]()
    env = {"DASK_TEMPORARY_DIRECTORY": str(logs)}
    try:
        for name, argv in _commands(started, tls, address):
            processes.append(host.spawn(argv, stderr_path=str(logs / f"{name}.worker"), env=env))
        yield processes
    finally:
        with ThreadPoolExecutor(max(1, len(processes))) as pool:
            list(pool.map(_stop, processes))
        with suppress(OSError):
            (logs / "dask-scratch-space").rmdir()


def _stop(process: LocalProcess) -> None:
    """Give a worker time to end by itself, as the scheduler told it to: what ssh started elsewhere
    takes no signal."""
    deadline = time.monotonic() + _GRACE_S
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.stop(signal.SIGTERM, _GRACE_S)


def _commands(
    started: Local | Ssh, tls: Tls | None, address: str
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name of each testbed with the command that starts its worker."""
    python = started.python or sys.executable
    if isinstance(started, Ssh):
        options = [word for each in started.options for word in ("-o", each)]
        for host in started.hosts:
            name = host.rpartition("@")[2]
            command = shlex.join(worker_command(python, address, name, tls))
            yield name, ("ssh", "-T", "-o", "BatchMode=yes", *options, "--", host, command)
    else:
        for name in _numbered(started.testbeds):
            listen = started.listen
            yield name, worker_command(python, address, name, tls, listen=listen, again=False)


def _with_last_words(error: Unavailable, workers: list[LocalProcess]) -> Unavailable:
    """Return the error with what those workers said that have ended, such as why ssh refused."""
    words = [worker.last_words(2) for worker in workers if worker.poll() is not None]
    told = "".join(f"\n  {line}" for each in words for line in each.splitlines())
    return Unavailable(error.message + told, hint=error.hint)


def _numbered(count: int) -> list[str]:
    return [f"testbed-{number}" for number in range(1, count + 1)]


def _expected(started: Local | Ssh | Slurm | None) -> int:
    if isinstance(started, Ssh):
        return len(started.hosts)
    return started.testbeds if started is not None else 0

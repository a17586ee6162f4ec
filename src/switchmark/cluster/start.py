"""The connection to a lab: this module connects to a running scheduler, or starts one here and a
Dask worker for each testbed, by ssh, by Slurm or on this host."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from textwrap import indent
from typing import Any

import dask
from distributed import Client, Scheduler, SpecCluster
from distributed.core import Status
from distributed.security import Security

from switchmark.cluster.certificates import made_for_a_run
from switchmark.cluster.dask_lab import DaskLab, Report
from switchmark.cluster.description import Description, Local, Slurm, Ssh, Tls
from switchmark.errors import CommandFailed, Unavailable, UsageError
from switchmark.hosts.local import LocalHost, LocalProcess

_SERVE = "switchmark.cluster.serve"
"""The module that a testbed runs."""

_CONNECT_S = 30.0
_GRACE_S = 20.0


@contextmanager
def connected(
    description: Description, logs: Path, *, share_machine: bool, report: Report
) -> Iterator[DaskLab]:
    """Yield a lab with at least one testbed; the block's end also ends whatever this started. The
    workers' output goes into files in `logs`."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    started, tls = description.started, description.tls
    if started is not None and tls is None:
        tls = made_for_a_run()
    security = _security(tls)
    with ExitStack() as stack:
        settings = {
            "distributed.admin.tick.limit": "10s",
            "distributed.scheduler.http.routes": [],  # no web page
            "temporary-directory": str(logs),
        }
        stack.enter_context(dask.config.set(settings))
        address, workers = description.address, list[LocalProcess]()
        if started is not None and tls is not None:
            cluster = stack.enter_context(_scheduler(started, security))
            address = cluster.scheduler_address
            if isinstance(started, Slurm):
                _submit(cluster, started.testbeds)
            else:
                workers = stack.enter_context(_workers(started, tls, str(address), logs))
        client = stack.enter_context(_client(str(address), security))
        lab = DaskLab(client, share_machine=share_machine, report=report)
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
    python: str, address: str, name: str, tls: Tls, *, again: bool = True
) -> tuple[str, ...]:
    """Return the command that makes a host a testbed of the scheduler at an address. With `again`,
    a worker that dies starts again. A worker expects certificates that are texts on its stdin."""
    argv = [python, "-m", _SERVE, address, "--name", name, "--nanny" if again else "--no-nanny"]
    argv += ["--death-timeout", "60", "--memory-limit", "0"]
    if _is_text(tls):
        argv += ["--tls-stdin"]
    else:
        argv += ["--tls-ca-file", tls.ca, "--tls-cert", tls.cert, "--tls-key", tls.key]
    return tuple(argv)


def _security(tls: Tls | None) -> Security:
    """Return the certificates for Dask; without `tls` they come from Dask's own configuration.
    Raise Unavailable for missing files, and UsageError without any certificate."""
    if tls is None:
        security = Security(require_encryption=True)
        if not (security.tls_ca_file and security.tls_client_cert):
            raise UsageError(
                "a scheduler is reached by certificates, and there are none: neither in a lab's "
                "file nor in Dask's own configuration",
                hint="--cluster lab.toml, with address and [tls] (docs/guide/labs.md)",
            )
        return security
    sides = {
        f"tls_{role}_{option}": path
        for role in ("client", "scheduler", "worker")
        for option, path in (("cert", tls.cert), ("key", tls.key))
    }
    for path in () if _is_text(tls) else (tls.ca, tls.cert, tls.key):
        if not Path(path).is_file():
            raise Unavailable(f"there is no file {path}, which [tls] names")
    return Security(tls_ca_file=tls.ca, require_encryption=True, **sides)


def _is_text(tls: Tls) -> bool:
    """Return whether the certificates are texts made for this run, not files."""
    return "\n" in tls.key


@contextmanager
def _client(address: str, security: Security) -> Iterator[Client]:
    try:
        client = Client(
            address, security=security, timeout=_CONNECT_S, set_as_default=False, name="switchmark"
        )
    except (OSError, TypeError, ValueError, RuntimeError) as error:
        raise Unavailable(
            f"the scheduler at {address} does not answer: {error}",
            hint="start it as docs/guide/labs.md says, with the certificates of the lab",
        ) from error
    try:
        yield client
    finally:
        with suppress(Exception):  # ignore errors: the run is over
            client.close(timeout=5)


@contextmanager
def _scheduler(started: Local | Ssh | Slurm, security: Security) -> Iterator[Any]:
    options = {
        "host": started.listen,
        "port": 0,
        "dashboard": False,
        "dashboard_address": "127.0.0.1:0",
        "protocol": "tls://",
        "security": security,
    }
    try:
        if isinstance(started, Slurm):
            cluster = _slurm(started, security, options)
        else:
            cluster = SpecCluster(
                workers={},
                scheduler={"cls": Scheduler, "options": options},
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


def _slurm(started: Slurm, security: Security, options: dict[str, Any]) -> Any:
    from dask_jobqueue import SLURMCluster

    return SLURMCluster(
        queue=started.queue,
        account=started.account,
        cores=1,  # one thread of Dask, which waits for the testbed
        processes=1,
        job_cpu=started.cores,
        memory=started.memory,
        walltime=started.walltime,
        job_extra_directives=list(started.directives),
        job_script_prologue=list(started.prologue),
        worker_command=_SERVE,
        python=started.python or sys.executable,
        protocol="tls://",
        security=security,
        shared_temp_directory=started.shared or str(Path.cwd()),
        scheduler_options=options,
        silence_logs="critical",
        log_directory=None,
    )


def _submit(cluster: Any, jobs: int) -> None:
    """Submit jobs like `cluster.scale`, which hides a refusal by Slurm."""
    while len(cluster.worker_spec) < jobs:
        cluster.worker_spec.update(cluster.new_worker_spec())
    try:
        cluster.sync(cluster._correct_state)  # noqa: SLF001 (the public method hides failures)
    except (OSError, RuntimeError) as error:
        for job in cluster.workers.values():
            job.status = Status.failed  # otherwise Dask does not close
        details = indent(str(error).strip(), "  ")
        raise Unavailable(f"Slurm takes no job\n{details}", hint="scontrol ping") from error


@contextmanager
def _workers(
    started: Local | Ssh, tls: Tls, address: str, logs: Path
) -> Iterator[list[LocalProcess]]:
    """Start a worker for each testbed, by ssh or on this host. Dask's temporary files go next to
    the workers' output; in /tmp they would leave a folder."""
    host, processes = LocalHost(), list[LocalProcess]()
    # A worker's testbed needs the same environment as a run here, and ssh needs the user's agent.
    env = {**os.environ, "DASK_TEMPORARY_DIRECTORY": str(logs)}
    try:
        for name, argv in _commands(started, tls, address):
            processes.append(host.spawn(argv, stderr_path=str(logs / f"{name}.worker"), env=env))
            if _is_text(tls):
                with suppress(CommandFailed):  # its stderr has the reason
                    processes[-1].send(tls.model_dump_json())
        yield processes
    finally:
        with ThreadPoolExecutor(max(1, len(processes))) as pool:
            list(pool.map(_stop, processes))
        with suppress(OSError):
            (logs / "dask-scratch-space").rmdir()


def _stop(process: LocalProcess) -> None:
    """Give a worker time to end on the scheduler's request, because a signal does not reach
    processes that ssh started elsewhere."""
    deadline = time.monotonic() + _GRACE_S
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.stop(signal.SIGTERM, _GRACE_S)


def _commands(
    started: Local | Ssh, tls: Tls, address: str
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name of each testbed and the command that starts its worker."""
    python = started.python or sys.executable
    if isinstance(started, Ssh):
        options = [word for option in started.options for word in ("-o", option)]
        for host in started.hosts:
            name = host.rpartition("@")[2]
            command = shlex.join(worker_command(python, address, name, tls))
            yield name, ("ssh", "-T", "-o", "BatchMode=yes", *options, "--", host, command)
    else:
        for name in _numbered(started.testbeds):
            yield name, worker_command(python, address, name, tls, again=False)


def _with_last_words(error: Unavailable, workers: list[LocalProcess]) -> Unavailable:
    """Return the error with the last output of workers that have ended, such as ssh's reason for a
    refusal."""
    outputs = [worker.last_words(2) for worker in workers if worker.poll() is not None]
    details = "".join(f"\n  {line}" for output in outputs for line in output.splitlines())
    return Unavailable(error.message + details, hint=error.hint)


def _numbered(count: int) -> list[str]:
    return [f"testbed-{number}" for number in range(1, count + 1)]


def _expected(started: Local | Ssh | Slurm | None) -> int:
    if isinstance(started, Ssh):
        return len(started.hosts)
    return started.testbeds if started is not None else 0

"""The program that turns a host into a testbed: `python -m switchmark.cluster.serve ADDRESS
OPTION...` starts a Dask worker for the scheduler at tls://HOST:PORT, with further options of Dask.

The worker executes requests as root, so it answers only peers with a certificate of the lab, at the
one address by which this host reaches the scheduler. It has no web page, and other users cannot
write to the folder of its files. `--tls-ca-file`, `--tls-cert` and `--tls-key` name the
certificate's files; with `--tls-stdin` the certificate is a line of JSON on stdin and stays in
memory.
"""

from __future__ import annotations

import socket
import sys
import tempfile

import dask
from distributed.cli.dask_worker import main as dask_worker
from distributed.comm.addressing import get_address_host_port

from switchmark.cluster.dask_lab import RESOURCE
from switchmark.cluster.description import Tls, check_address

_OF_MEMORY = ("target", "spill", "pause", "terminate")
"""Dask's actions when a worker's memory fills up."""


def main(arguments: list[str]) -> None:
    """Serve until the scheduler is gone. The first word is its address."""
    address, *options = arguments or [""]
    try:
        check_address(address)
        host = _own_address(address)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    settings = {"distributed.worker.http.routes": [], "distributed.comm.require-encryption": True}
    # Near the memory limit of a small Slurm job, Dask would start no test, and the run would wait
    # forever. A worker stores nothing that it could release.
    settings |= {f"distributed.worker.memory.{limit}": False for limit in _OF_MEMORY}
    if "--tls-stdin" in options:
        options.remove("--tls-stdin")
        tls = Tls.model_validate_json(sys.stdin.readline())
        settings["distributed.comm.tls.ca-file"] = tls.ca
        settings["distributed.comm.tls.worker"] = {"cert": tls.cert, "key": tls.key}
    within = dask.config.get("temporary-directory", None)
    with tempfile.TemporaryDirectory(prefix="switchmark-worker-", dir=within) as folder:
        settings["temporary-directory"] = folder
        host_options = ["--host", host, "--dashboard-address", "127.0.0.1:0", "--no-dashboard"]
        host_options += ["--nthreads", "1", "--nworkers", "1", "--resources", f"{RESOURCE}=1"]
        with dask.config.set(settings):
            dask_worker([address, *host_options, *options])


def _own_address(scheduler: str) -> str:
    """Return the address by which this host reaches a scheduler, in the form of Dask's options.
    This sends no packet."""
    host, port = get_address_host_port(scheduler)
    family, *_, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as end:
        end.connect(target)
        address = str(end.getsockname()[0])
    return f"[{address}]" if family == socket.AF_INET6 else address


if __name__ == "__main__":
    main(sys.argv[1:])

"""This module reads what `--cluster` names: a Dask scheduler's address, or a file that describes a
lab.

    # lab.toml: testbeds reached by ssh
    [tls]
    ca = "lab-ca.pem"
    cert = "lab.pem"
    key = "lab.key"

    [ssh]
    hosts = ["bed1", "bed2"]
    listen = "10.0.0.1"
    python = "/opt/switchmark/bin/python"
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from switchmark.errors import UsageError
from switchmark.model.regular_file import read_regular

__all__ = ["Description", "Local", "Slurm", "Ssh", "Tls", "described", "is_loopback"]

LOOPBACK = "127.0.0.1"

_ADDRESS = re.compile(r"(?:(?P<kind>[a-z]+)://)?(?P<host>\[[^\]]+\]|[^/:\[\]]+):(?P<port>\d+)")


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Tls(_Section):
    """These files show who belongs to the lab; they have the same paths on all of its hosts."""

    ca: str
    """The certificate of the authority that signs all others."""

    cert: str
    """The certificate of this host, and of each testbed there."""

    key: str
    """Its key."""


class _Started(_Section):
    """A scheduler is started here, and has workers started."""

    listen: str = LOOPBACK
    """The address of this host that testbeds reach it by."""

    python: str | None = None
    """The Python on a testbed that has `switchmark[lab]`; by default as the one of this host."""

    wait_s: float = Field(60.0, gt=0)
    """How long to wait for the first testbed, in seconds."""


class Local(_Started):
    """These testbeds are processes on this host; more than one share it."""

    testbeds: int = Field(1, ge=1, le=1000)
    """How many there are."""


class Ssh(_Started):
    """These testbeds are reached by ssh, by the names of the user's config, without a password."""

    hosts: tuple[str, ...] = Field(min_length=1)
    """The hosts, each a testbed: as OpenSSH knows them, `USER@HOST` too."""

    options: tuple[str, ...] = ()
    """Options of ssh, such as `IdentityFile=/root/lab`."""


class Slurm(_Started):
    """These testbeds are jobs of Slurm, each of which has a node of its own."""

    testbeds: int = Field(1, ge=1, le=1000)
    """How many jobs there are."""

    queue: str | None = None
    """The partition."""

    account: str | None = None
    """Whom the time is charged to."""

    walltime: str = "08:00:00"
    """How long a job may last."""

    cores: int = Field(1, ge=1)
    """CPUs that a job asks for."""

    memory: str = "1GiB"
    """Memory that a job asks for."""

    directives: tuple[str, ...] = ("--exclusive", "--output=/dev/null")
    """Further options of sbatch."""

    prologue: tuple[str, ...] = ()
    """Lines of shell that a job begins with."""


class Description(_Section):
    """A lab is a scheduler that runs already, or one way to start testbeds."""

    address: str | None = None
    tls: Tls | None = None
    local: Local | None = None
    ssh: Ssh | None = None
    slurm: Slurm | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Description:
        ways = [self.address, self.local, self.ssh, self.slurm]
        if sum(each is not None for each in ways) != 1:
            raise ValueError("one of address, [local], [ssh] and [slurm] is needed, and no other")
        if self.address is not None:
            check_address(self.address, self.tls)
        elif self.started is not None and not is_loopback(self.started.listen):
            if self.tls is None:
                raise ValueError(_without_tls(self.started.listen))
        return self

    @property
    def started(self) -> Local | Ssh | Slurm | None:
        """Return how testbeds are started; None where they run already."""
        return self.local or self.ssh or self.slurm


def described(text: str) -> Description:
    """Return what `--cluster` names. UsageError for what is neither an address nor a good file."""
    if _ADDRESS.fullmatch(text):
        return _validated({"address": text}, text)
    path = Path(text)
    try:
        if path.suffix in (".yaml", ".yml"):
            content = yaml.safe_load(read_regular(path))
        else:
            content = tomllib.loads(read_regular(path).decode("utf-8-sig"))
    except FileNotFoundError as error:
        raise UsageError(
            f"--cluster takes a scheduler's address or a file, and '{text}' is neither",
            hint="--cluster tcp://127.0.0.1:8786, or --cluster lab.toml",
        ) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply for a lab file") from error
    except (ValueError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: {error}") from error
    if not isinstance(content, Mapping):
        raise UsageError(f"{path}: a lab is described by keys and values")
    return _validated(content, str(path))


def check_address(address: str, tls: Tls | None) -> None:
    """Raise ValueError for an address that is none, or that others could listen to."""
    match = _ADDRESS.fullmatch(address)
    kind = match and (match["kind"] or "tcp")
    if match is None or kind not in ("tcp", "tls"):
        raise ValueError(f"'{address}' is no scheduler's address: tcp://HOST:PORT, tls://HOST:PORT")
    if kind == "tcp" and not is_loopback(match["host"].strip("[]")):
        raise ValueError(_without_tls(match["host"]))
    if kind == "tcp" and tls is not None:
        raise ValueError(f"'{address}' is not encrypted, and [tls] is given: tls://HOST:PORT")


def is_loopback(host: str) -> bool:
    """Say whether nobody but this host reaches an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _without_tls(host: str) -> str:
    return (
        f"{host} is reached over a network, and there is no TLS: whoever connects to a scheduler "
        "can run anything on all of its hosts; use tls://HOST:PORT, or a file with [tls]"
    )


def _validated(content: Mapping[str, Any], where: str) -> Description:
    try:
        return Description.model_validate(dict(content))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        wrong = first.get("ctx", {}).get("error", first["msg"])
        raise UsageError(f"{where}: {f'{key}: ' if key else ''}{wrong}") from error

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

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from switchmark.errors import UsageError
from switchmark.hosts.host_file import check_ssh_option
from switchmark.regular_file import read_regular

LOOPBACK = "127.0.0.1"

_SSH_HOST = re.compile(r"(?:[^-\s/@][^\s/@]*@)?[^-\s/@.][^\s/@]*")
"""A part of it is the name of a testbed, and of files."""

_ADDRESS = re.compile(r"(?:(?P<kind>[a-z]+)://)?(?P<host>\[[^\]]+\]|[^/:\[\]]+):(?P<port>\d+)")


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Tls(_Section):
    """These files show who belongs to the lab; they have the same paths on all of its hosts. Of
    those that are made for a run the texts stand here."""

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
    """The Python on a testbed that has switchmark with its extra `lab`; by default as the one of
    this host."""

    wait_s: float = Field(60.0, gt=0)
    """How long to wait for the first testbed, in seconds."""

    @field_validator("listen")
    @classmethod
    def _is_one_address(cls, listen: str) -> str:
        if not listen.strip("[0.:]"):
            raise ValueError(f"'{listen}' is all addresses of this host: name that of the lab")
        return listen


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

    @field_validator("options")
    @classmethod
    def _no_weaker(cls, options: tuple[str, ...]) -> tuple[str, ...]:
        for option in options:
            check_ssh_option(option)
        return options

    @field_validator("hosts")
    @classmethod
    def _are_names(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            if not _SSH_HOST.fullmatch(host):
                raise ValueError(f"'{host}' is no name of a host: HOST or USER@HOST")
        return hosts


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

    shared: str | None = None
    """A folder that all nodes see, by default the current one: certificates that are made for the
    run are there until it ends, readable by their owner alone."""


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
            check_address(self.address)
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
            hint="--cluster lab.toml, or --cluster tls://HOST:PORT",
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


def check_address(address: str) -> None:
    """Raise ValueError for an address that is none, or not one of TLS."""
    match = _ADDRESS.fullmatch(address)
    kind = match and (match["kind"] or "tcp")
    if match is None or kind not in ("tcp", "tls"):
        raise ValueError(f"'{address}' is no scheduler's address: tls://HOST:PORT")
    if kind == "tcp":
        raise ValueError(
            f"'{address}' is reached without TLS: whoever connects to a scheduler, be it another "
            "user of its host, can run anything on all hosts of the lab; use tls://HOST:PORT"
        )


def _validated(content: Mapping[str, Any], where: str) -> Description:
    try:
        return Description.model_validate(dict(content))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        wrong = first.get("ctx", {}).get("error", first["msg"])
        raise UsageError(f"{where}: {f'{key}: ' if key else ''}{wrong}") from error

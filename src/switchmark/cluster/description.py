"""The description of a lab that `--cluster` names: the address of a Dask scheduler, or a file.

    # lab.toml: testbeds reached by ssh
    [tls]
    ca = "lab-ca.pem"
    cert = "lab.pem"
    key = "lab.key"

    [ssh]
    hosts = ["bed1", "bed2"]
    listen = "10.0.0.1"
    python = "/opt/switchmark/bin/python"

The file is TOML, or YAML if its name ends in `.yaml` or `.yml`.
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
"""Its host part names a testbed and files."""

_ADDRESS = re.compile(r"(?:(?P<kind>[a-z]+)://)?(?P<host>\[[^\]]+\]|[^/:\[\]]+):(?P<port>\d+)")


class _LabSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Tls(_LabSection):
    """The files that identify members of the lab, at the same paths on all hosts. For a certificate
    that was made for a run, the fields hold its text."""

    ca: str
    """The certificate of the authority that signs all others."""

    cert: str
    """The certificate of this host; each testbed has its certificate at the same path."""

    key: str
    """The key of the certificate."""


class _Started(_LabSection):
    """A scheduler that this host starts, along with the workers."""

    listen: str = LOOPBACK
    """The address at which testbeds reach this host."""

    python: str | None = None
    """The Python on a testbed that has switchmark with its extra `lab`; by default at this host's
    path."""

    wait_s: float = Field(60.0, gt=0)
    """The seconds to wait for the first testbed."""

    @field_validator("listen")
    @classmethod
    def _is_one_address(cls, listen: str) -> str:
        if not listen.strip("[0.:]"):
            raise ValueError(f"'{listen}' is all addresses of this host: name that of the lab")
        return listen


class Local(_Started):
    """Testbeds that are processes on this host; if there are several, they share it."""

    testbeds: int = Field(1, ge=1, le=1000)
    """The number of testbeds."""


class Ssh(_Started):
    """Testbeds that ssh reaches by the names in the user's configuration, without a password."""

    hosts: tuple[str, ...] = Field(min_length=1)
    """The hosts, which become testbeds: names that OpenSSH knows, or `USER@HOST`."""

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
    """Testbeds that are jobs of Slurm, with a node for each job."""

    testbeds: int = Field(1, ge=1, le=1000)
    """The number of jobs."""

    queue: str | None = None
    """The partition."""

    account: str | None = None
    """The account that pays for the time."""

    walltime: str = "08:00:00"
    """The time limit of a job."""

    cores: int = Field(1, ge=1)
    """The CPUs that a job requests."""

    memory: str = "1GiB"
    """The memory that a job requests."""

    directives: tuple[str, ...] = ("--exclusive", "--output=/dev/null")
    """Further options of sbatch."""

    prologue: tuple[str, ...] = ()
    """Lines of shell at the start of a job."""

    shared: str | None = None
    """A folder that all nodes see, by default the current folder. Until the run ends it holds
    certificates made for the run, readable only by their owner."""


class Description(_LabSection):
    """A lab: the address of a running scheduler, or one way to start testbeds."""

    address: str | None = None
    tls: Tls | None = None
    local: Local | None = None
    ssh: Ssh | None = None
    slurm: Slurm | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Description:
        ways = [self.address, self.local, self.ssh, self.slurm]
        if sum(way is not None for way in ways) != 1:
            raise ValueError("give exactly one of address, [local], [ssh] and [slurm]")
        if self.address is not None:
            check_address(self.address)
        return self

    @property
    def started(self) -> Local | Ssh | Slurm | None:
        """Return how to start the testbeds; None if they already run."""
        return self.local or self.ssh or self.slurm


def described(text: str) -> Description:
    """Return the lab that `--cluster` names. Raise UsageError for text that is neither an address
    nor a valid file."""
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
    """Raise ValueError for an invalid address or an address without TLS."""
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

"""The optional parts of the installation, and the message for a part that is not installed.

The names and the packages are those of `[project.optional-dependencies]` in pyproject.toml.
"""

from __future__ import annotations

import importlib.util
import shlex
import sys
from dataclasses import dataclass

from switchmark.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Extra:
    """Python packages that only some commands need."""

    name: str
    """The name of the extra."""
    module: str
    """The module whose presence shows that it is installed."""
    requirements: tuple[str, ...]
    """The packages, as pip installs them."""
    purpose: str
    """The features that it adds, for `switchmark doctor`."""

    @property
    def installed(self) -> bool:
        """Whether its module can be imported."""
        return importlib.util.find_spec(self.module) is not None

    @property
    def install(self) -> str:
        """Return the command that installs it for this Python."""
        return shlex.join((sys.executable, "-m", "pip", "install", *self.requirements))

    def missing(self, request: str, instead: str | None = None) -> Unavailable:
        """Return the error for a request that needs it. `instead` is an option that does not."""
        packages = " and ".join(self.requirements)
        return Unavailable(
            f"{request}: the extra `{self.name}` is not installed\n  it is {packages}",
            hint=f"{self.install}{f', or {instead}' if instead else ''}",
        )

    def left_out(self, part: str) -> str:
        """Return the line for a part of the output that is left out without it."""
        return f"no {part}: it needs the extra `{self.name}` ({self.install})"


QUERY = Extra("query", "duckdb", ("duckdb>=1.1",), "SQL queries and Parquet files")
PLOTS = Extra("plots", "vl_convert", ("vl-convert-python>=1.9",), "charts: HTML, SVG, PDF, PNG")
LAB = Extra(
    "lab",
    "distributed",
    ("cryptography>=42", "dask-jobqueue>=0.9", "distributed>=2024.8"),
    "labs of testbeds: --cluster",
)

EXTRAS = (QUERY, PLOTS, LAB)
"""All extras for users, the lightest first."""

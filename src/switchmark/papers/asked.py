"""What a run was asked for by `paper`: the experiments, their files, and the options.

A run folder keeps it as `experiment.json`, and copies of the files below `experiment/`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from switchmark.papers.experiment import Experiment, Source, content_of

SCHEMA: Literal[1] = 1


class Asked(BaseModel):
    """The experiments of a run and the options of `paper`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_: Literal[1] = Field(SCHEMA, alias="schema")
    """The version of this format."""

    experiments: tuple[str, ...]
    """The names of the experiments that the run was made for."""

    files: dict[str, str]
    """The SHA-256 of the files, by their path below `experiment/`."""

    quick: bool = False
    """Whether the run was asked for with `--quick`."""

    as_published: bool = False
    """Whether the run was asked for with `--as-published`."""

    axes: dict[str, str] = Field(default_factory=dict)
    """The axes of the command line, by the name of their field."""

    waiting: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Why points were not measured, by experiment and name of the point."""

    switchmark: str = ""
    """The version of switchmark."""


def digest(content: str) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(content.encode()).hexdigest()


def experiments_of(asked: Asked, files: Mapping[str, str]) -> list[Experiment]:
    """Return the experiments of a run from the contents of its own files, by path. Raise KeyError
    for a missing file, and ValueError for an invalid one."""
    every: dict[str, Experiment] = {}
    sources: dict[str, Source] = {}
    for path, text in files.items():
        name = path.removesuffix(".yaml")
        if name.endswith("/source"):
            sources[name.removesuffix("/source")] = Source.model_validate(content_of(text))
        else:
            every[name] = Experiment.model_validate({"name": name, **content_of(text)})
    return [
        every[name].with_own(
            sources[every[name].paper],
            every[every[name].same_runs_as] if every[name].same_runs_as else None,
        )
        for name in asked.experiments
    ]

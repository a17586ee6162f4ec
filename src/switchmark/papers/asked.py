"""What a run was asked for by `paper`: the experiments, their files, and the options.

A run folder keeps it as `experiment.json`, and copies of the files below `experiment/`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from switchmark.papers.experiment import SOURCE, SUFFIX, Experiment, Source
from switchmark.papers.library import content_of
from switchmark.papers.overlay import overlay_of

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

    cores: int | None = None
    """The number of CPUs for which the points were planned."""

    data: tuple[str, ...] = ()
    """The CSV files of `--data`, by their path below `experiment/`."""

    waiting: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Why points were not measured, by experiment and name of the point."""

    switchmark: str = ""
    """The version of switchmark."""


def digest(content: str) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(content.encode()).hexdigest()


def experiments_of(asked: Asked, files: Mapping[str, str], folder: Path) -> list[Experiment]:
    """Return the experiments of a run from the contents of its own files, by their path below
    `folder`. Raise KeyError for a missing file, and ValueError or UsageError for an invalid one."""
    every: dict[str, Experiment] = {}
    sources: dict[str, Source] = {}
    for path, text in files.items():
        paper, _, file = path.rpartition("/")
        if file == SOURCE:
            sources[paper] = Source.model_validate(content_of(text))
        elif file.endswith(SUFFIX):
            name = path.removesuffix(SUFFIX)
            every[name] = Experiment.model_validate({"name": name, **content_of(text)})

    def own(name: str) -> Experiment:
        made = every[name]
        owner = own(made.same_runs_as) if made.same_runs_as else None
        return made.with_own(sources[made.paper], owner, folder / f"{name}{SUFFIX}")

    experiments = []
    for experiment in map(own, asked.experiments):
        axes, name = experiment.axes, experiment.name
        paths = [f"{experiment.paper}/{path}" for path in experiment.data]
        rows = [row for path in paths for row in overlay_of(path, files[path], axes)]
        rows += [row for path in asked.data for row in overlay_of(path, files[path], axes, name)]
        experiments.append(experiment.with_rows(rows) if rows else experiment)
    return experiments

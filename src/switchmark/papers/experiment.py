"""Experiments of papers: a campaign, the published values, and the claims.

An experiment is a file `PAPER/EXPERIMENT.yaml`, and `PAPER/source.yaml` describes the paper.
`papers.library` finds the files. This module does not run campaigns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from switchmark.model.axis import field_name, key_of
from switchmark.model.test import AXES
from switchmark.papers.claims import Claim
from switchmark.papers.points import At, Scalar
from switchmark.regular_file import read_regular

SOURCE, SUFFIX = "source.yaml", ".yaml"
"""The file that describes a paper, and the suffix of files of experiments."""

OF_CORES = " of cores"
"""The end of a value that is a share of the number of CPUs."""

_FORM = ConfigDict(
    frozen=True, extra="forbid", alias_generator=lambda name: key_of(name.rstrip("_"))
)


class Source(BaseModel):
    """The paper of an experiment, and its testbed."""

    model_config = _FORM

    authors: str
    title: str
    year: int
    venue: str
    doi: str = ""
    bed: str
    """The testbed: processors, links, versions."""

    link_gbps: float | None = None
    """The capacity of its links; None if frames never left a host."""

    cores: int | None = None
    """The number of CPUs of the host under test, hyperthreads included if they were in use."""

    artifacts: dict[str, str] = Field(default_factory=dict)
    """What the paper names for repeating it, such as its scripts, by kind."""


Origin = Literal["text", "digitised", "authors", "own"]
"""Where a published value comes from: the text of the paper, a figure that somebody read, data of
the authors, or another run."""


class Published(BaseModel):
    """A published value for some points: a number, or a statement such as about, at least, at most
    or between two numbers. With `relative_to` it is a ratio."""

    model_config = _FORM

    at: At
    metric: str
    value: float | None = None
    about: float | None = None
    min: float | None = None
    max: float | None = None
    between: tuple[float, float] | None = None
    error: float | None = None
    """The error of `value` or `about`, in the same unit, such as that of reading a figure."""
    relative_to: At = Field(default_factory=dict)
    """The point that the value is a ratio to: it is at these values, and otherwise where the point
    itself is. Empty for an absolute value."""
    origin: Origin = "text"
    place: str = ""
    uncertain: str = ""
    """Why it may apply to other points, or mean something different."""

    @model_validator(mode="after")
    def _has_one_value(self) -> Published:
        given = (self.value, self.about, self.min, self.max, self.between)
        if sum(value is not None for value in given) != 1:
            raise ValueError("a published value is one of value, about, min, max, between")
        if self.error is not None and self.exact is None:
            raise ValueError("an error belongs to a value, or to about")
        if self.is_ratio and min(end for end in self.ends if math.isfinite(end)) <= 0:
            raise ValueError("a ratio is above 0")
        return self

    @property
    def is_ratio(self) -> bool:
        """Return whether it is a ratio of two figures."""
        return bool(self.relative_to)

    @property
    def exact(self) -> float | None:
        """Return the number of `value` or `about`; None for a bound or a range."""
        return self.value if self.value is not None else self.about

    @property
    def ends(self) -> tuple[float, float]:
        """Return the lowest and the highest possible value; infinite where it is open."""
        if self.between is not None:
            return self.between
        if self.exact is not None:
            error = self.error or 0.0
            return self.exact - error, self.exact + error
        return (
            self.min if self.min is not None else -math.inf,
            self.max if self.max is not None else math.inf,
        )

    def __str__(self) -> str:
        if not self.is_ratio:
            return self._number
        places = (f"{axis} {_written(value)}" for axis, value in self.relative_to.items())
        return f"{self._number} times that at {', '.join(places)}"

    @property
    def _number(self) -> str:
        if self.between is not None:
            return f"{self.between[0]:g} to {self.between[1]:g}"
        if self.exact is not None:
            error = f" ± {self.error:g}" if self.error else ""
            return f"{'about ' if self.value is None else ''}{self.exact:g}{error}"
        return f">= {self.min:g}" if self.min is not None else f"<= {self.max:g}"


def _written(value: Scalar | list[Scalar]) -> str:
    """Return a value of an axis, or several, as in campaign files."""
    values = value if isinstance(value, list) else [value]
    return ", ".join("none" if item is None else str(item) for item in values)


class Quick(BaseModel):
    """The changes for a quick run: other values for some axes, and a selection of values for other
    axes."""

    model_config = _FORM

    axes: dict[str, Scalar] = Field(default_factory=dict)
    keep: At = Field(default_factory=dict)


class Drawn(BaseModel):
    """The design of a figure in the paper."""

    model_config = _FORM

    kind: Literal["bars", "lines", "points", "cdf", "percentiles", "box", "table"]
    x: str
    """The axis or metric on the x axis."""

    y: str
    """The metric on the left y axis."""

    by: tuple[str, ...] = ()
    """The axes that distinguish lines or bars."""

    panels: tuple[str, ...] = ()
    """The axes that distinguish panels."""

    y2: str = ""
    """The metric on the right y axis."""

    log: tuple[Literal["x", "y"], ...] = ()
    """The logarithmic scales."""

    diagonal: bool = False
    """Whether to draw the line on which the received rate equals the offered load."""

    title: str = ""
    """The title in words; derived from the axes if empty."""

    relative: At | Literal["first", "r-plus", "largest"] = "largest"
    """The figure that the relative mode shows as 100 %: that of the first switch at each position,
    the R+ of each result, the largest one, or the one at these values of some axes."""

    among: At = Field(default_factory=dict)
    """The points in the figure; all if empty."""


class Impossible(BaseModel):
    """Points that no build can measure, on any host, and why."""

    model_config = _FORM

    at: At
    why: str


class Experiment(BaseModel):
    """A campaign whose results are compared with published values.

    `campaign` has the content of a campaign file. Values that this build lacks, such as the name of
    a switch, create points that wait for them. `axes` are the axes that distinguish the points.
    """

    model_config = _FORM

    name: str
    place: str
    """The figure, table or section of the paper."""

    summary: str
    """A short description of the measurement."""

    axes: tuple[str, ...]
    campaign: dict[str, Any] = Field(default_factory=dict)
    same_runs_as: str = ""
    """The experiment whose runs it shares, including the campaign, quick run and scale. In a file,
    a name without a paper is of the same paper."""

    shows: At = Field(default_factory=dict)
    """The points of those runs that it uses; all if empty."""

    impossible: tuple[Impossible, ...] = ()
    """The points that no build can measure."""

    data: tuple[str, ...] = ()
    """CSV files with further published values (`papers.overlay`), beside the experiment's file."""

    assumed: dict[str, str] = Field(default_factory=dict)
    """The assumptions where the paper is silent, by axis."""

    scale: dict[str, Scalar | list[Scalar]] = Field(default_factory=dict)
    """Values relative to the host that replace absolute values of the paper, by axis.
    `25%..25%..100% of cores` adds values by the number of CPUs, on a host with more of them than
    the paper's."""

    quick: Quick = Quick()
    published: tuple[Published, ...] = ()
    figures: tuple[Drawn, ...] = ()
    claims: tuple[Claim, ...] = ()

    _owner: Experiment | None = PrivateAttr(None)
    _source: Source | None = PrivateAttr(None)
    _file: Path | None = PrivateAttr(None)

    @model_validator(mode="before")
    @classmethod
    def _with_whole_name(cls, content: Any) -> Any:
        shared = content.get("same-runs-as") if isinstance(content, Mapping) else None
        if not isinstance(shared, str) or not shared or "/" in shared:
            return content
        paper = str(content.get("name", "")).partition("/")[0]
        return {**content, "same-runs-as": f"{paper}/{shared}"}

    @model_validator(mode="after")
    def _fits(self) -> Experiment:
        if bool(self.campaign) == bool(self.same_runs_as):
            raise ValueError("an experiment has either a campaign or same-runs-as")
        ids = [claim.id for claim in self.claims]
        if len(set(ids)) < len(ids):
            raise ValueError(f"two claims have one id: {', '.join(ids)}")
        ats = [row.at for row in self.published] + [claim.among for claim in self.claims]
        ats += [row.relative_to for row in self.published]
        ats += [self.shows, *(figure.among for figure in self.figures)]
        ats += [figure.relative for figure in self.figures if isinstance(figure.relative, dict)]
        ats += [row.at for row in self.impossible]
        for axis in {*self.axes, *self.assumed, *self.scale, *self.quick.axes, *self.quick.keep}:
            if field_name(axis) not in AXES:
                raise ValueError(f"there is no axis named '{axis}'")
        for claim in self.claims:
            ats += [dict.fromkeys(claim.place_axes)] if claim.kind == "knee" else []
        for axis in {axis for at in ats for axis in at}:
            if axis not in self.axes:
                raise ValueError(f"'{axis}' is none of the experiment's axes")
        for name in self.data:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or path.suffix != ".csv":
                raise ValueError(f"'{name}' is no CSV file in the folder of the paper")
        return self

    @property
    def paper(self) -> str:
        """Return the name of its paper."""
        return self.name.partition("/")[0]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the distinct metrics that it shows or tests."""
        drawn = [name for figure in self.figures for name in (figure.y, figure.y2, figure.x)]
        of_claims = [claim.metric for claim in self.claims]
        of_claims += [claim.x for claim in self.claims if claim.kind == "knee"]
        of_claims += [claim.other for claim in self.claims if claim.kind == "exceeds"]
        every = [row.metric for row in self.published] + drawn + of_claims
        return tuple(dict.fromkeys(name for name in every if "." in name or name == "loss_ratio"))

    @property
    def assumptions(self) -> dict[str, str]:
        """Return the assumptions of the experiment and of the runs that it shares, by axis."""
        return {**self.owner.assumed, **self.assumed}

    @property
    def owner(self) -> Experiment:
        """Return the experiment whose campaign provides its runs."""
        if not self.same_runs_as:
            return self
        assert self._owner is not None
        return self._owner

    def grows(self, axis: str, cores: int | None) -> bool:
        """Return whether an axis gets values by the number of CPUs, on a host with so many of them:
        with more than the paper's."""
        value = self.scale.get(axis)
        items = value if isinstance(value, list) else [value]
        has_shares = any(str(item).endswith(OF_CORES) for item in items)
        return has_shares and cores is not None and cores > (self.source.cores or 0)

    @property
    def file(self) -> Path:
        """Return the file that it was read from."""
        assert self._file is not None
        return self._file

    @property
    def source(self) -> Source:
        """Return the description of its paper."""
        assert self._source is not None
        return self._source

    def with_own(self, source: Source, owner: Experiment | None, file: Path) -> Experiment:
        """Return the experiment with the description of its paper, the owner of its campaign, and
        the file that it was read from."""
        own = self.model_copy()
        own.__pydantic_private__ = {"_source": source, "_owner": owner, "_file": file}
        return own

    def with_rows(self, rows: Sequence[Published]) -> Experiment:
        """Return the experiment with further published values."""
        return self.model_copy(update={"published": (*self.published, *rows)})


def files_of(experiments: Iterable[Experiment]) -> dict[str, str]:
    """Return the contents of the files that describe some experiments, by their path below a folder
    of experiments."""
    every = {each.name: each for one in experiments for each in (one, one.owner)}
    paths = {f"{name}{SUFFIX}": each.file for name, each in every.items()}
    paths |= {
        f"{each.paper}/{name}": each.file.parent / name
        for each in every.values()
        for name in (SOURCE, *each.data)
    }
    return {path: read_regular(file).decode() for path, file in sorted(paths.items())}

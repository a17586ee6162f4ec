"""Experiments of papers: a campaign, the published values, and the claims.

An experiment is a file `PAPER/EXPERIMENT.yaml` in this folder, and `PAPER/source.yaml` describes
the paper. This module does not run campaigns.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from switchmark.errors import UsageError
from switchmark.model.axis import field_name, key_of
from switchmark.model.test import AXES
from switchmark.papers.claims import Claim
from switchmark.papers.points import At, Scalar

_FOLDER = Path(__file__).parent
_SOURCE = "source"
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


class Published(BaseModel):
    """A published value for some points: a number, or a statement such as about, at least, at most
    or between two numbers."""

    model_config = _FORM

    at: At
    metric: str
    value: float | None = None
    about: float | None = None
    min: float | None = None
    max: float | None = None
    between: tuple[float, float] | None = None
    place: str = ""
    uncertain: str = ""
    """Why it may apply to other points, or mean something different."""

    @model_validator(mode="after")
    def _has_one_value(self) -> Published:
        given = (self.value, self.about, self.min, self.max, self.between)
        if sum(value is not None for value in given) != 1:
            raise ValueError("a published value is one of value, about, min, max, between")
        return self

    @property
    def ends(self) -> tuple[float, float]:
        """Return the lowest and the highest possible value."""
        if self.between is not None:
            return self.between
        exact = self.value if self.value is not None else self.about
        if exact is not None:
            return exact, exact
        return (
            self.min if self.min is not None else float("-inf"),
            self.max if self.max is not None else float("inf"),
        )

    def __str__(self) -> str:
        if self.between is not None:
            return f"{self.between[0]:g} to {self.between[1]:g}"
        if self.value is not None:
            return f"{self.value:g}"
        if self.about is not None:
            return f"about {self.about:g}"
        return f">= {self.min:g}" if self.min is not None else f"<= {self.max:g}"


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
    """The experiment whose runs it shares, including the campaign, quick run and scale."""

    shows: At = Field(default_factory=dict)
    """The points of those runs that it uses; all if empty."""

    waits: str = ""
    """The requirement that all of its points wait for, if no axis expresses it."""

    assumed: dict[str, str] = Field(default_factory=dict)
    """The assumptions where the paper is silent, by axis."""

    scale: dict[str, Scalar | list[Scalar]] = Field(default_factory=dict)
    """Values relative to the host that replace absolute values of the paper, by axis."""

    quick: Quick = Quick()
    published: tuple[Published, ...] = ()
    figures: tuple[Drawn, ...] = ()
    claims: tuple[Claim, ...] = ()

    _owner: Experiment | None = PrivateAttr(None)
    _source: Source | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _fits(self) -> Experiment:
        if bool(self.campaign) == bool(self.same_runs_as):
            raise ValueError("an experiment has either a campaign or same-runs-as")
        ids = [claim.id for claim in self.claims]
        if len(set(ids)) < len(ids):
            raise ValueError(f"two claims have one id: {', '.join(ids)}")
        ats = [row.at for row in self.published] + [claim.among for claim in self.claims]
        ats += [self.shows, *(figure.among for figure in self.figures)]
        ats += [figure.relative for figure in self.figures if isinstance(figure.relative, dict)]
        for axis in {*self.axes, *self.assumed, *self.scale, *self.quick.axes, *self.quick.keep}:
            if field_name(axis) not in AXES:
                raise ValueError(f"there is no axis named '{axis}'")
        for axis in {axis for at in ats for axis in at}:
            if axis not in self.axes:
                raise ValueError(f"'{axis}' is none of the experiment's axes")
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
    def owner(self) -> Experiment:
        """Return the experiment whose campaign provides its runs."""
        if self.same_runs_as:
            return self._owner or read(self.same_runs_as)
        return self

    @property
    def source(self) -> Source:
        """Return the description of its paper."""
        return self._source or source(self.paper)

    @property
    def assumptions(self) -> dict[str, str]:
        """Return the assumptions of its campaign and its own, by axis."""
        return {**self.owner.assumed, **self.assumed}

    def with_own(self, source: Source, owner: Experiment | None) -> Self:
        """Return the experiment with this description of its paper and this owner of its campaign,
        in place of those of the package."""
        own = self.model_copy()
        own.__pydantic_private__ = {"_source": source, "_owner": owner}
        return own


def files_of(experiments: Iterable[Experiment]) -> dict[str, str]:
    """Return the contents of the files that describe some experiments, by path below the folder of
    experiments."""
    every = {each.name: each for one in experiments for each in (one, one.owner)}
    paths = {f"{name}.yaml" for name in every}
    paths |= {f"{each.paper}/{_SOURCE}.yaml" for each in every.values()}
    return {path: (_FOLDER / path).read_text() for path in sorted(paths)}


@cache
def names() -> tuple[str, ...]:
    """Return the names of all experiments, as accepted by `paper`."""
    files = (path for path in _FOLDER.glob("*/*.yaml") if path.stem != _SOURCE)
    return tuple(sorted(path.relative_to(_FOLDER).with_suffix("").as_posix() for path in files))


def matching(pattern: str) -> list[str]:
    """Return the experiments that match a pattern such as `ara-2021/*`. Raise UsageError with the
    closest name if there are none."""
    meant = [name for name in names() if fnmatchcase(name, pattern)]
    if whole_paper := [name for name in names() if name.startswith(f"{pattern}/")]:
        listed = ", ".join(whole_paper)
        raise UsageError(
            f"'{pattern}' is a paper of {len(whole_paper)} experiments\n  known: {listed}",
            hint=f"switchmark paper '{pattern}/*', or one of them: {whole_paper[0]}",
        )
    if not meant:
        near = get_close_matches(pattern, names(), n=1, cutoff=0.3)
        raise UsageError(
            f"there is no experiment named '{pattern}'\n  known: {', '.join(names())}",
            hint=f"switchmark paper {near[0]}" if near else "switchmark list papers",
        )
    return meant


@cache
def read(name: str) -> Experiment:
    """Return the experiment of that name. Raise UsageError with the closest name if there is
    none."""
    if name not in names():
        matching(name)
    content = content_of((_FOLDER / f"{name}.yaml").read_text())
    return Experiment.model_validate({"name": name, **content})


@cache
def source(paper: str) -> Source:
    """Return the description of a paper."""
    return Source.model_validate(content_of((_FOLDER / paper / f"{_SOURCE}.yaml").read_text()))


def content_of(text: str) -> Any:
    """Return the content of a YAML file. PyYAML's loader in C, if present, takes a tenth of the
    time."""
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))

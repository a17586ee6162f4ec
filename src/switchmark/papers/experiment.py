"""An experiment of a paper has its campaign, the published values and the paper's claims.

A file `PAPER/EXPERIMENT.yaml` in this folder is one; `PAPER/source.yaml` says what the paper is.
This module does not know how a campaign is run.
"""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

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
    """A source is the paper that experiments come from, and the testbed that it used."""

    model_config = _FORM

    authors: str
    title: str
    year: int
    venue: str
    doi: str = ""
    bed: str
    """The testbed: processors, links, versions."""

    link_gbps: float | None = None
    """What its links carry; None where frames never left a host."""


class Published(BaseModel):
    """A published value stands beside the points that it is about. It is a number, or what the text
    says of one: about, at least, at most, or between two."""

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
    """Why it may not be about these points, or not mean this."""

    @model_validator(mode="after")
    def _has_one_value(self) -> Published:
        given = (self.value, self.about, self.min, self.max, self.between)
        if sum(each is not None for each in given) != 1:
            raise ValueError("a published value is one of value, about, min, max, between")
        return self

    @property
    def ends(self) -> tuple[float, float]:
        """Return the least and the greatest that the value can be."""
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
    """A quick run has other values for some axes, and of others only those that are kept."""

    model_config = _FORM

    axes: dict[str, Scalar] = Field(default_factory=dict)
    keep: At = Field(default_factory=dict)


class Drawn(BaseModel):
    """This record says how the paper drew a figure."""

    model_config = _FORM

    kind: Literal["bars", "lines", "points", "cdf", "percentiles", "box", "table"]
    x: str
    """The axis or metric along the bottom."""

    y: str
    """The metric along the left."""

    by: tuple[str, ...] = ()
    """The axes that tell lines or bars apart."""

    panels: tuple[str, ...] = ()
    """The axes by whose values there are several pictures."""

    y2: str = ""
    """The metric along the right."""

    log: tuple[Literal["x", "y"], ...] = ()
    """The scales that are logarithmic."""

    diagonal: bool = False
    """Whether a line shows where all that is offered is received."""

    among: At = Field(default_factory=dict)
    """The points that it shows; all without."""


class Experiment(BaseModel):
    """An experiment is a campaign whose results are compared with what was published.

    `campaign` is what a campaign file holds. Values that this build does not have, such as the name
    of a switch, make points that wait for it. `axes` are those that tell the points apart.
    """

    model_config = _FORM

    name: str
    place: str
    """The figure, table or section of the paper."""

    summary: str
    """What it measures, in a few words."""

    axes: tuple[str, ...]
    campaign: dict[str, Any] = Field(default_factory=dict)
    same_runs_as: str = ""
    """The experiment whose runs it shares, and so its campaign, quick run and scale."""

    shows: At = Field(default_factory=dict)
    """The points of those runs that it is about; all without."""

    waits: str = ""
    """What all of its points wait for, where no axis says it."""

    assumed: dict[str, str] = Field(default_factory=dict)
    """What the paper leaves open, and what stands for it here, by axis."""

    scale: dict[str, Scalar | list[Scalar]] = Field(default_factory=dict)
    """Values relative to the host in place of the paper's absolute ones, by axis."""

    quick: Quick = Quick()
    published: tuple[Published, ...] = ()
    figures: tuple[Drawn, ...] = ()
    claims: tuple[Claim, ...] = ()

    @model_validator(mode="after")
    def _fits(self) -> Experiment:
        if bool(self.campaign) == bool(self.same_runs_as):
            raise ValueError("an experiment has either a campaign or same-runs-as")
        ids = [claim.id for claim in self.claims]
        if len(set(ids)) < len(ids):
            raise ValueError(f"two claims have one id: {', '.join(ids)}")
        ats = [row.at for row in self.published] + [claim.among for claim in self.claims]
        ats += [self.shows, *(each.among for each in self.figures)]
        for axis in {*self.axes, *self.assumed, *self.scale, *self.quick.axes, *self.quick.keep}:
            if field_name(axis) not in AXES:
                raise ValueError(f"there is no axis named '{axis}'")
        for axis in {axis for at in ats for axis in at}:
            if axis not in self.axes:
                raise ValueError(f"'{axis}' is none of the experiment's axes")
        return self

    @property
    def paper(self) -> str:
        """Return the name of the paper that it comes from."""
        return self.name.partition("/")[0]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the metrics that it shows or judges, each once."""
        drawn = [name for each in self.figures for name in (each.y, each.y2, each.x)]
        of_claims = [claim.metric for claim in self.claims]
        of_claims += [claim.x for claim in self.claims if claim.kind == "knee"]
        of_claims += [claim.other for claim in self.claims if claim.kind == "exceeds"]
        every = [row.metric for row in self.published] + drawn + of_claims
        return tuple(dict.fromkeys(name for name in every if "." in name or name == "loss_ratio"))

    @property
    def owner(self) -> Experiment:
        """Return the experiment whose campaign is run for this one."""
        return read(self.same_runs_as) if self.same_runs_as else self


@cache
def names() -> tuple[str, ...]:
    """Return the names of all experiments, as `paper` takes them."""
    files = (path for path in _FOLDER.glob("*/*.yaml") if path.stem != _SOURCE)
    return tuple(sorted(path.relative_to(_FOLDER).with_suffix("").as_posix() for path in files))


def matching(pattern: str) -> list[str]:
    """Return the names that a pattern such as `ara-2021/*` means; UsageError with the nearest if
    there are none."""
    meant = [name for name in names() if fnmatchcase(name, pattern)]
    if own := [name for name in names() if name.startswith(f"{pattern}/")]:
        raise UsageError(
            f"'{pattern}' is a paper of {len(own)} experiments\n  known: {', '.join(own)}",
            hint=f"switchmark paper '{pattern}/*', or one of them: {own[0]}",
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
    """Return the experiment of that name; UsageError with the nearest if there is none."""
    if name not in names():
        matching(name)
    content = _content(_FOLDER / f"{name}.yaml")
    return Experiment.model_validate({"name": name, **content})


@cache
def source(paper: str) -> Source:
    """Return what is known of a paper."""
    return Source.model_validate(_content(_FOLDER / paper / f"{_SOURCE}.yaml"))


def _content(path: Path) -> Any:
    """Return what a file holds. The loader in C, where PyYAML has it, takes a tenth of the time."""
    return yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))

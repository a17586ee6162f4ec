"""An experiment of a paper has its campaign, the published values and the paper's claims.

A file `PAPER/EXPERIMENT.yaml` in this folder is one. This module does not know how a campaign is
run.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from switchmark.errors import UsageError
from switchmark.model.axis import field_name
from switchmark.model.spec import AXES, Test

__all__ = ["Claim", "Experiment", "Row", "names", "read"]

_FOLDER = Path(__file__).parent


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


Scalar = str | int | float | None


class Row(_Frozen):
    """A row is one published value, with the axes (as the command line writes them) that pick its
    test."""

    axes: dict[str, Scalar]
    published: float

    @field_validator("axes")
    @classmethod
    def _axes_have_such_values(cls, axes: dict[str, Scalar]) -> dict[str, Scalar]:
        for axis, value in axes.items():
            _value(axis, value)
        return axes

    @property
    def name(self) -> str:
        return " ".join("none" if value is None else str(value) for value in self.axes.values())

    def picks(self, test: Test) -> bool:
        """Say whether a test has the values of this row, however they are written."""
        return all(
            _means(axis, getattr(test, field_name(axis))) == _means(axis, _value(axis, value))
            for axis, value in self.axes.items()
        )


class Claim(_Frozen):
    """A claim is what the paper says of an order: every row that the first group names has a
    greater value than each that the second names."""

    says: str
    order: tuple[tuple[str, ...], tuple[str, ...]]


class Experiment(_Frozen):
    """An experiment runs a campaign and compares it with what was published. `campaign` is what a
    campaign file holds, with `tests` where the experiment is no single product; `quick` are axes
    that a quick run has otherwise, in every test. Without `rows` nothing was published that a
    single test stands for."""

    name: str
    source: str
    summary: str
    campaign: dict[str, Any]
    quick: dict[str, Scalar | list[Scalar]]
    unit: Literal["kpps", "Mpps", "Gbps L1", "us"]
    rows: tuple[Row, ...] = ()
    claims: tuple[Claim, ...] = ()

    @model_validator(mode="after")
    def _claims_name_rows(self) -> Experiment:
        known = {row.name for row in self.rows}
        for claim in self.claims:
            for name in (*claim.order[0], *claim.order[1]):
                if name not in known:
                    raise ValueError(f"the claim '{claim.says}' names no row: {name}")
        return self

    def text(self) -> str:
        """Return the campaign as the text of a campaign file."""
        return yaml.safe_dump(self.campaign, sort_keys=False)

    def options(self, quick: bool) -> dict[str, str]:
        """Return the axes that take the place of the campaign's, by the names of Test's fields."""
        return {field_name(axis): _written(value) for axis, value in self.quick.items() if quick}


def _written(value: Scalar | list[Scalar]) -> str:
    if isinstance(value, list):
        return ",".join(map(_written, value))
    return "none" if value is None else str(value)


def _value(axis: str, value: Scalar) -> Any:
    """Return what a row's value means as one of its axis; ValueError if it is none."""
    name, word = field_name(axis), None if value in (None, "none") else str(value)
    try:
        return getattr(Test.model_validate({name: word}), name)
    except (ValidationError, UsageError) as error:
        raise ValueError(f"a row has {axis} {value}, which is no value of an axis") from error


def _means(axis: str, value: Any) -> Any:
    """Return what a value of an axis means: `1M` is 1000000."""
    return AXES[field_name(axis)].meaning(value)


def names() -> list[str]:
    """Return the names of all experiments, as `paper` takes them."""
    return sorted(
        path.relative_to(_FOLDER).with_suffix("").as_posix() for path in _FOLDER.glob("*/*.yaml")
    )


def read(name: str) -> Experiment:
    """Return the experiment of that name; UsageError with the nearest if there is none."""
    known = names()
    if name not in known:
        near = get_close_matches(name, known, n=1, cutoff=0.3)
        raise UsageError(
            f"there is no experiment named '{name}'\n  known: {', '.join(known)}",
            hint=f"switchmark paper {near[0]}" if near else "switchmark list papers",
        )
    content = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text())
    return Experiment.model_validate({"name": name, **content})

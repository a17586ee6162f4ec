"""One experiment of a paper: its campaign, the published values and the paper's claims.

A file `PAPER/EXPERIMENT.yaml` in this folder is one. Knows nothing of how a campaign is run.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, model_validator

from switchmark.errors import UsageError

__all__ = ["Claim", "Experiment", "Row", "names", "read"]

_FOLDER = Path(__file__).parent


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Row(_Frozen):
    """One published value: the axes (as the command line writes them) that pick its test."""

    axes: dict[str, str | int]
    published: float

    @property
    def name(self) -> str:
        return " ".join(map(str, self.axes.values()))


class Claim(_Frozen):
    """What the paper says of an order: every row that the first group names has a greater value
    than each that the second names."""

    says: str
    order: tuple[tuple[str, ...], tuple[str, ...]]


class Experiment(_Frozen):
    """An experiment; `campaign` are axes as text, `quick` what a quick run has otherwise."""

    name: str
    source: str
    summary: str
    campaign: dict[str, str | int]
    quick: dict[str, str | int]
    unit: Literal["kpps", "Mpps", "Gbps L1", "us"]
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]

    @model_validator(mode="after")
    def _claims_name_rows(self) -> Experiment:
        known = {row.name for row in self.rows}
        for claim in self.claims:
            for name in (*claim.order[0], *claim.order[1]):
                if name not in known:
                    raise ValueError(f"the claim '{claim.says}' names no row: {name}")
        return self

    def options(self, quick: bool) -> dict[str, str]:
        """The axes to run, by the names of Test's fields."""
        axes = {**self.campaign, **(self.quick if quick else {})}
        return {axis.replace("-", "_"): str(value) for axis, value in axes.items()}


def names() -> list[str]:
    """The names of all experiments, as `paper` takes them."""
    return sorted(
        path.relative_to(_FOLDER).with_suffix("").as_posix() for path in _FOLDER.glob("*/*.yaml")
    )


def read(name: str) -> Experiment:
    """The experiment of that name; UsageError with the nearest if there is none."""
    known = names()
    if name not in known:
        near = get_close_matches(name, known, n=1, cutoff=0.3)
        raise UsageError(
            f"there is no experiment named '{name}'\n  known: {', '.join(known)}",
            hint=f"switchmark paper {near[0]}" if near else "switchmark list papers",
        )
    content = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text())
    return Experiment.model_validate({"name": name, **content})

"""Claims: statements of a paper about its results, in a form that can be tested on other hardware.

Orders, ratios and shapes carry over from host to host. Absolute values do not.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from switchmark.papers.orders import (
    Crossover,
    DiffersBy,
    Exceeds,
    Factor,
    GapClaim,
    Order,
    Slopes,
    WinnersDiffer,
)
from switchmark.papers.series import Flat, Follows, Knee, Monotone, Saturates, Scales, Within

Claim = Annotated[
    Order
    | DiffersBy
    | Exceeds
    | Factor
    | Flat
    | Monotone
    | Scales
    | Follows
    | Knee
    | Crossover
    | GapClaim
    | Slopes
    | Saturates
    | WinnersDiffer
    | Within,
    Field(discriminator="kind"),
]
"""A claim of any kind. The field `kind` distinguishes them."""

"""This search finds the PDR as `ndr` finds the NDR, with a little loss allowed (`--loss-ratio`)."""

from __future__ import annotations

from switchmark.searches.ndr import BinarySearch

SEARCH = BinarySearch(
    "pdr",
    "the highest rate with no more loss than allowed: searched for as that of ndr",
    lossless=False,
)

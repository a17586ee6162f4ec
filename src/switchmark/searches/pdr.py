"""The search `pdr`: the same binary search as `ndr`, with some loss allowed (`--loss-ratio`)."""

from __future__ import annotations

from switchmark.searches.ndr import BinarySearch

SEARCH = BinarySearch(
    "pdr",
    "the highest rate with no more loss than allowed: searched for as that of ndr",
    lossless=False,
)

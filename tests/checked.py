"""This module looks up once in a process whether a test can work. Experiments of the literature
have thousands of points, and many tests plan them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from switchmark.model.refusal import Refusal
from switchmark.model.test import Test
from switchmark.path import refusals


@cache
def check(test: Test) -> Sequence[Refusal]:
    """Return why a test can never work, without suggestions of what could."""
    return tuple(refusals.check(test, suggest=False))

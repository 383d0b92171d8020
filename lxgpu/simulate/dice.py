"""Chance that repeats: one seed gives the same numbers on every machine and in every version of Python."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate
from math import exp, log
from random import Random
from statistics import NormalDist
from typing import TypeVar

T = TypeVar("T")
_BELL = NormalDist()


class Dice:
    """Numbers drawn by a seed. Only `Random.random` is used, whose sequence Python promises to keep."""

    def __init__(self, *seed: object) -> None:
        self._random = Random(" ".join(map(str, seed))).random  # noqa: S311 -- repeatable on purpose, no secret

    def share(self) -> float:
        """Evenly from 0 to 1, without 1."""
        return self._random()

    def between(self, low: float, high: float) -> float:
        """Evenly between two bounds."""
        return low + (high - low) * self._random()

    def below(self, count: int) -> int:
        """One of so many, each as likely."""
        return int(self._random() * count)

    def wait(self, mean: float) -> float:
        """An exponential time with that mean."""
        return -mean * log(1.0 - self._random())

    def lognormal(self, median: float, sigma: float) -> float:
        """A number whose logarithm is normal with that deviation."""
        return median * exp(sigma * _BELL.inv_cdf(max(self._random(), 1e-12)))

    def pick(self, values: Sequence[T], weights: Sequence[float]) -> T:
        """One of the values, by weight."""
        ends = [*accumulate(weights)]
        return values[min(bisect(ends, self._random() * ends[-1]), len(values) - 1)]

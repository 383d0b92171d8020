"""Batch jobs: sizes and durations drawn until they ask for as much as is wanted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log

from lxgpu.simulate.dice import Dice
from lxgpu.simulate.synthetic.weeks import DAY, HOUR

Shape = tuple[int, float]
"""GPUs and seconds of a job."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of GPUs with their weights; those that the lab does not have are never drawn."""

    gpus: tuple[int, ...]
    weights: tuple[float, ...]

    def up_to(self, most: int) -> Sizes:
        """Those that fit."""
        kept = [(gpus, weight) for gpus, weight in zip(self.gpus, self.weights, strict=True) if gpus <= most]
        return Sizes(*zip(*kept, strict=True))


SMALL = Sizes((1, 2, 4, 8), (60, 20, 14, 6))
"""A lab's batch jobs, set by hand."""
WAITING = Sizes((1, 2), (80, 20))
"""Jobs that wait next to holders, set by hand: small ones, so that exclusive lending is not worse than it must be."""
_PHILLY = Sizes((1, 2, 4, 8, 12, 16, 24, 32, 64, 128), (76627, 1818, 1870, 1643, 7, 199, 7, 67, 6, 3))
"""The Philly trace's jobs by size."""
_SHARES = (0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1)
# fmt: off
_QUANTILES: tuple[tuple[int, tuple[int, ...]], ...] = (
    (1, (1, 30, 52, 62, 76, 215, 600, 1117, 1728, 2464, 3754, 8512,
         19137, 68245, 135404, 266986, 863786, 3256045)),
    (2, (2, 5, 9, 11, 15, 17, 19, 21, 25, 33, 150, 72361,
         197004, 343945, 526030, 810065, 1463703, 2582803)),
    (4, (3, 36, 75, 138, 406, 1696, 7475, 17388, 36253, 78636, 106275, 184426,
         274339, 536225, 906798, 1213031, 2416865, 2750674)),
    (8, (1, 22, 82, 199, 638, 3366, 11460, 23652, 58954, 129382, 195577, 340658,
         510787, 784770, 1066894, 1956536, 2655194, 4628226)),
)
# fmt: on
"""The quantiles of Philly's durations in seconds at `_SHARES`, for jobs of 1, 2, 4, and 8 or more GPUs."""


def lab_shape(dice: Dice, most: int) -> Shape:
    """Sizes of `SMALL`; durations lognormal with a median of 3 h and sigma 1.3 (mean 7 h), 1 min to 3 days."""
    sizes = SMALL.up_to(most)
    gpus = dice.pick(sizes.gpus, sizes.weights)
    return gpus, min(max(60.0, dice.lognormal(3 * HOUR, 1.3)), 3 * DAY)


def waiting_shape(dice: Dice, most: int) -> Shape:
    """One or two GPUs; durations as in `lab_shape` with a median of 2 h and sigma 1.2 (mean 4 h), one day at most."""
    sizes = WAITING.up_to(most)
    gpus = dice.pick(sizes.gpus, sizes.weights)
    return gpus, min(max(60.0, dice.lognormal(2 * HOUR, 1.2)), DAY)


def philly_shape(dice: Dice, most: int) -> Shape:
    """Sizes as often as in the Philly trace; durations by its quantiles for that size, log-linear between them."""
    sizes = _PHILLY.up_to(most)
    gpus = dice.pick(sizes.gpus, sizes.weights)
    table = next(values for least, values in reversed(_QUANTILES) if gpus >= least)
    share = dice.share()
    place = min(bisect_right(_SHARES, share), len(_SHARES) - 1)
    low, high = table[place - 1], table[place]
    along = (share - _SHARES[place - 1]) / (_SHARES[place] - _SHARES[place - 1])
    return gpus, float(round(exp(log(low) + along * log(high / low))))


def drawn(shape: Callable[[], Shape], asked_gpu_s: float) -> list[Shape]:
    """Jobs that ask together for so many GPU-seconds; the last one is cut to that."""
    found: list[Shape] = []
    while asked_gpu_s > 0:
        gpus, duration_s = shape()
        duration_s = min(duration_s, asked_gpu_s / gpus)
        found.append((gpus, duration_s))
        asked_gpu_s -= gpus * duration_s
        if asked_gpu_s < 1:  # what is left is a rounding error
            break
    return found

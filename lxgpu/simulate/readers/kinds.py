"""What a kind of trace is: how its header looks, how a row becomes a job, and what is left out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from lxgpu.simulate.jobs import Job

BEST_EFFORT = "scavenge"
"""The class of jobs without a deadline next to those that have one; docs/policy.md has it as the lower class."""

RowReader = Callable[[list[str], int], Job | str]
"""From the values of a row, and how many rows came before it, to a job, or to the reason why it is left out.

It raises `BadValueError`. The submission of a dated kind is seconds since 1970, else seconds of the trace."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of table. `columns` are those by which it is known; more may stand beside them, in any order.

    `made` gets the place of each column and makes the reader of the rows. `about` is said of where it is from.
    """

    name: str
    columns: tuple[str, ...]
    made: Callable[[Mapping[str, int]], RowReader]
    separator: str = ","
    dated: bool = False
    about: Callable[[Iterable[Job]], str] = lambda _jobs: ""

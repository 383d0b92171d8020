"""What a kind of trace is: how its header looks, how a row becomes a job, and what is left out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from lxgpu.simulate.jobs import Job

RowReader = Callable[[list[str], int], Job | str]
"""From the values of a row, and how many rows came before it, to a job, or to the reason why it is left out.

It raises `BadValueError`. The submission of a dated kind is seconds since 1970, else seconds of the trace."""


@dataclass(frozen=True, slots=True)
class TraceKind:
    """One kind of table. `columns` are those by which it is known; more may stand beside them, in any order.

    At least one of `one_of` must be there too. `dated`: submissions are dates, and second 0 is the first of them.
    `made` gets the place of each column and makes the reader of the rows. `about` is said of where it is from.
    """

    name: str
    columns: tuple[str, ...]
    made: Callable[[Mapping[str, int]], RowReader]
    separator: str = ","
    dated: bool = False
    one_of: tuple[str, ...] = ()
    about: Callable[[Iterable[Job]], str] = lambda _jobs: ""

    def lacking(self, header: Iterable[str]) -> list[str]:
        """The columns that a header lacks for this kind."""
        there = set(header)
        lacking = [name for name in self.columns if name not in there]
        return lacking if not self.one_of or there.intersection(self.one_of) else [*lacking, " or ".join(self.one_of)]

    @property
    def header(self) -> str:
        """A header of this kind, in words."""
        some = [" or ".join(self.one_of)] if self.one_of else []
        return self.separator.join((*self.columns, *some))

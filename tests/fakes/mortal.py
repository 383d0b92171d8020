"""An inventory whose process can be killed, or interrupted, at any write, for the tests of recovery."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from fakes.faults import KilledError, When

from lxgpu.ports import Inventory, Tx


class MortalInventory:
    """`ports.Inventory` over another one; the process dies just before or just after its n-th write lands.

    With `by` KeyboardInterrupt it is only interrupted there, once.
    """

    def __init__(self, inner: Inventory) -> None:
        self.inner = inner
        self.writes = 0
        self.death: tuple[int, When] | None = None
        self.by: type[BaseException] = KilledError

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    @contextmanager
    def write(self, *, actor: str, now: datetime, expected: int | None = None) -> Iterator[Tx]:
        """A write transaction, and perhaps the end."""
        self.writes += 1
        doomed = self.death is not None and self.death[0] == self.writes
        with self.inner.write(actor=actor, now=now, expected=expected) as tx:
            yield tx
            if doomed and self.death[1] is When.BEFORE:
                raise self.by
        if doomed:
            raise self.by

"""A relay without streams: the program is started in the fake container, and ends as the test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from lxgpu.ports import Call, Streams


class FakeRelay:
    """`ports.Relay`: `carried` are the programs, `during` is called while one runs.

    `status` is how the next ones end, `packing` those that carry folders and files.
    `interrupted`: a signal comes before there is a program.
    """

    def __init__(self, *, status: int = 0, packing: int = 0, during: Callable[[Call], None] | None = None) -> None:
        self.status, self.packing = status, packing
        self.during = during
        self.interrupted = False
        self.carried: list[tuple[Call, Streams | None]] = []
        self.handed: list[str] = []
        self._heard: list[int] = []

    def hear(self, number: int) -> None:
        """A signal comes."""
        self._heard.append(number)

    @property
    def heard(self) -> Sequence[int]:
        """The signals so far."""
        return self._heard

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """The signal comes at the end of what is made in here."""
        yield
        if self.interrupted:
            self._heard.append(2)
            raise KeyboardInterrupt

    def carry(self, call: Call, streams: Streams | None) -> int:
        """Start it, and tell how it ended."""
        self.carried.append((call, streams))
        call.start()
        if self.during is not None:
            self.during(call)
        return self.status if streams is None else self.packing

    @contextmanager
    def packed(self, folder: str) -> Iterator[int]:
        """Nothing to read."""
        self.handed.append(f"in {folder}")
        yield 0

    @contextmanager
    def kept(self, path: str) -> Iterator[int]:
        """Nowhere to write; the name is remembered when all went well."""
        yield 0
        self.handed.append(f"kept {path}")

    @contextmanager
    def unpacked(self, folder: str) -> Iterator[int]:
        """Nowhere to write."""
        self.handed.append(f"out {folder}")
        yield 0

"""A clock that moves when somebody waits, and locks without files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Lock

START = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)


class FakeClock:
    """`ports.Clock`: `sleep` takes no time and moves both clocks on; `jump` moves the wall clock alone."""

    def __init__(self, start: datetime = START) -> None:
        self._wall = start
        self._seconds = 0.0

    def now(self) -> datetime:
        """The time, in UTC."""
        return self._wall

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return self._seconds

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self._wall += timedelta(seconds=seconds)
        self._seconds += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock, as an admin or NTP does."""
        self._wall += timedelta(seconds=seconds)


class FakeLocks:
    """`ports.Locks`: whatever is in `others` is held by another process, for good; threads exclude each other."""

    def __init__(self, clock: FakeClock) -> None:
        self.others: set[str] = set()
        self.held: set[str] = set()
        self._clock = clock
        self._looking = Lock()

    @contextmanager
    def hold(self, name: str, *, wait_s: float, once: bool = False) -> Iterator[bool]:
        """Hold the lock; gives False when another had it for all of `wait_s`."""
        del once  # nothing is left of any
        with self._looking:
            free = name not in self.others | self.held
            if free:
                self.held.add(name)
        if not free:
            self._clock.sleep(wait_s)
            yield False
            return
        try:
            yield True
        finally:
            self.held.discard(name)

"""Sections of the daemon that may fail without stopping the others: each is left alone for a while, and said once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from lxgpu.errors import LxgpuError
from lxgpu.ports import Progress

T = TypeVar("T")
LONGEST_S = 60.0
FATAL = frozenset({"superseded", "other_inventory", "inventory_newer"})
"""After these nothing may be changed by this process any more."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Trouble:
    text: str
    times: int
    again_at: float


class Sections:
    """Runs sections by name. A failing one is left alone for 1 s, 2 s, 4 s … up to a minute (`monotonic` counts)."""

    def __init__(self, monotonic: Callable[[], float], say: Progress) -> None:
        self._monotonic = monotonic
        self._say = say
        self._failing: dict[str, _Trouble] = {}
        self._told: frozenset[str] = frozenset()
        self.failures: dict[str, int] = {}
        """How often each section failed, since the beginning."""

    def run(self, name: str, do: Callable[[], T], *, at_once: bool = False) -> T | None:
        """Do a section's work; None when it failed, or is left alone still (never with `at_once`).

        Raises:
            LxgpuError: one of `FATAL`.
        """
        if not at_once and self.left_s(name) > 0:
            return None
        try:
            value = do()
        except LxgpuError as error:
            if error.code in FATAL:
                raise
            self._failed(name, words(error))
        except Exception as error:  # noqa: BLE001 -- the loop's boundary: it is told, and stops no other section
            self._failed(name, fault(name, error))
        else:
            if self._failing.pop(name, None) is not None:
                self._say(f"{name}: well again")
            return value
        return None

    def left_s(self, name: str) -> float:
        """How long a failing section is still left alone; 0 for one that works."""
        trouble = self._failing.get(name)
        return 0.0 if trouble is None else max(trouble.again_at - self._monotonic(), 0.0)

    def failing(self, name: str) -> bool:
        """Whether a section failed the last time."""
        return name in self._failing

    def tell(self, troubles: Iterable[str]) -> None:
        """Say what troubles a section that goes on by itself: each trouble when it is new and when it is over."""
        now = frozenset(troubles)
        for text in sorted(now - self._told):
            self._say(f"trouble: {text}")
        for text in sorted(self._told - now):
            self._say(f"over: {text}")
        self._told = now

    @property
    def troubles(self) -> tuple[str, ...]:
        """Everything that is wrong now, one line each."""
        return (*(f"{name}: {one.text}" for name, one in sorted(self._failing.items())), *sorted(self._told))

    def _failed(self, name: str, text: str) -> None:
        self.failures[name] = self.failures.get(name, 0) + 1
        before = self._failing.get(name)
        if before is None or before.text != text:
            self._say(f"{name}: {text}")
        times = before.times + 1 if before else 0
        wait_s = min(2.0**times, LONGEST_S)
        self._failing[name] = _Trouble(text, times, self._monotonic() + wait_s)


def fault(name: str, error: Exception) -> str:
    """A fault in one line; where it was goes into the log with `--debug`. To be called where it was caught."""
    _log.debug("a fault in %s", name, exc_info=True)
    return f"a fault in lxgpu: {type(error).__name__}: {error}"


def words(error: LxgpuError) -> str:
    """An error in one line, with its reasons and its problems."""
    problems = (f"{one.where}: {one.text}".removeprefix(": ") for one in error.problems)
    return "; ".join((error.brief, *error.why, *problems))

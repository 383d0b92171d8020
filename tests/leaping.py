"""An event loop by a clock that leaps: what is slept for takes no time, and the loop's clock moves on all the same.

It has no threads, since nobody could say what time it is while one of them works.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from inline_pool import InlinePool


class _Leaps(selectors.DefaultSelector):
    """Waits for no timer: what it would have waited for one is `ahead_s`, in all."""

    ahead_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready."""
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        found = super().select(0)
        if not found:
            self.ahead_s += timeout
        return found


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, leaps: _Leaps) -> None:
        super().__init__(leaps)
        self._leaps = leaps

    def time(self) -> float:
        """Seconds, those that were leapt over too."""
        return super().time() + self._leaps.ahead_s

    def run_in_executor(self, _executor: object, do: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Do it now."""
        return asyncio.wrap_future(InlinePool().submit(do, *args), loop=self)


@contextmanager
def leaping() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """What runs a coroutine in such a loop."""
    with asyncio.Runner(loop_factory=lambda: _Loop(_Leaps())) as runner:
        yield runner.run

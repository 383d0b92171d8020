"""Progress of one or several pieces of work, on stderr.

On a terminal each piece has a living line; elsewhere each step is a line of its own, so that logs tell the
story. With --quiet there is nothing. Threads may report at the same time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from lxgpu.cli.screen import Screen


class Steps:
    """A display of work under way; use it as a context.

    `of(name)` gives the `Progress` callable that services take. `total` is shown as "3 of 20" when given.
    """

    def __init__(self, screen: Screen, *, total: int | None = None) -> None:
        self._screen = screen
        self._total = total
        self._lock = Lock()
        self._doing: dict[str, tuple[str, float]] = {}
        self._ended = 0
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if not self._screen.quiet and sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415 -- for terminals only
            from rich.live import Live  # noqa: PLC0415

            plain = not self._screen.colored(sys.stderr)
            console = Console(stderr=True, no_color=plain, highlight=False)
            self._live = Live(console=console, get_renderable=self._table, refresh_per_second=8, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def of(self, name: str) -> Callable[[str], None]:
        """Returns the callable that reports the steps of one piece of work."""
        return lambda text: self.say(name, text)

    def say(self, name: str, text: str) -> None:
        """One piece of work begins a step."""
        with self._lock:
            since = self._doing.get(name, ("", time.monotonic()))[1]
            self._doing[name] = (text, since)
            if self._live is None:
                self._screen.note(f"{name}: {text}")

    def done(self, name: str, text: str = "done") -> None:
        """One piece of work came to its good end."""
        self._end(name, text)

    def failed(self, name: str, text: str) -> None:
        """One piece of work failed; the error itself is raised or listed elsewhere."""
        self._end(name, f"FAILED: {text}")

    def _end(self, name: str, text: str) -> None:
        with self._lock:
            self._ended += 1
            _, since = self._doing.pop(name, ("", time.monotonic()))
            count = f"[{self._ended}/{self._total}] " if self._total else ""
        line = f"{count}{name}: {text} ({time.monotonic() - since:.1f} s)"
        if self._live is None:
            self._screen.note(line)
        else:
            self._live.console.print(line, markup=False)  # outside the lock: it may draw, and drawing takes the lock

    def _table(self) -> Table:
        from rich.spinner import Spinner  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table.grid(padding=(0, 1))
        with self._lock:
            doing = dict(self._doing)
        now = time.monotonic()
        for name, (text, since) in doing.items():
            table.add_row(Spinner("line"), Text(name), Text(text), Text(f"{now - since:.0f} s"))
        return table

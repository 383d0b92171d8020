"""How the daemon is asked to end: by a signal, in good order, and in bounded time.

The first SIGTERM or SIGINT lets the step in hand end; a step that waits is left where it stands, which is as good as a
crash there, and the journal takes it up at the next start. The second signal ends the process at once.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from lxgpu.drivers.system import SystemClock

PATIENCE_S = 6.0
"""So long the step in hand may go on waiting after the signal."""
LONGEST_S = 9.0
"""Then the process ends, whatever it is at: ten seconds are promised."""
_SLICE_S = 0.25
"""A waiting step looks so often whether it is to end: the signal may have reached another thread."""


class StoppedError(BaseException):
    """A wait was cut short because the process is to end. No `Exception`: nobody but the loop's owner catches it."""


class Stop:
    """Whether and since when the process is to end. `handle` can be read from then on, for `select`."""

    def __init__(self) -> None:
        self._asked_at: float | None = None
        self.handle, self._end = os.pipe()
        os.set_blocking(self._end, False)

    @property
    def asked(self) -> bool:
        """Whether it is to end."""
        return self._asked_at is not None

    def left_s(self) -> float | None:
        """How long a step may still wait; None while nobody asked."""
        return None if self._asked_at is None else self._asked_at + PATIENCE_S - time.monotonic()

    def ask(self) -> None:
        """End soon; may be called by a signal's handler, so it takes no lock."""
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            os.write(self._end, b".")

    def on_signals(self, *, wake: int, reload: Callable[[], None]) -> None:
        """Heed SIGTERM and SIGINT, the second one at once, and call `reload` at SIGHUP.

        `wake` is what the main thread waits for: a signal may reach another thread, or come right before the wait,
        and Python would run the handler when that is over. The kernel's own handler writes into `wake` at once.
        """

        def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 -- a handler's signature
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            self.ask()

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        signal.signal(signal.SIGHUP, lambda _number, _frame: reload())
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def end_in_time(self, last_words: Callable[[], None]) -> None:
        """Watch in the background that the process ends `LONGEST_S` after it was asked; status 0, as a clean end."""

        def watch() -> None:
            select.select([self.handle], (), ())
            time.sleep(LONGEST_S)
            last_words()
            os._exit(0)

        threading.Thread(target=watch, name="end", daemon=True).start()


class StoppableClock(SystemClock):
    """The machine's clock; `sleep` is cut short when the process is to end, and tells `alive` that somebody waits."""

    def __init__(self, stop: Stop, alive: Callable[[], None]) -> None:
        self._stop = stop
        self._alive = alive

    def sleep(self, seconds: float) -> None:
        """Wait.

        Raises:
            StoppedError: the process is to end, and has waited long enough.
        """
        self._alive()
        until = time.monotonic() + seconds
        while (rest := until - time.monotonic()) > 0:
            left = self._stop.left_s()
            if left is not None and left <= 0:
                raise StoppedError
            time.sleep(min(rest, _SLICE_S if left is None else min(left, _SLICE_S)))

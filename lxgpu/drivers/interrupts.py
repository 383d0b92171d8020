"""Signals that ask this process to end, heard instead of obeyed for as long as something has to be put in order."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, Self

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Interrupts:
    """Use it as a context, in the main thread. `fd` can be read when one is heard; one that was ignored stays so."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.answered = 0
        """How many of them were handed on."""
        self._breaking = False
        self._before: dict[int, Any] = {}
        self.fd, self._bell = -1, -1

    def __enter__(self) -> Self:
        self.fd, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        os.close(self.fd)
        os.close(self._bell)

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """In here the first one is a KeyboardInterrupt; those after it are heard, so that what it undoes is undone."""
        if self.heard:
            raise KeyboardInterrupt
        self._breaking = True
        try:
            yield
        finally:
            self._breaking = False

    def take(self) -> None:
        """Empty what makes `fd` readable."""
        with suppress(BlockingIOError):
            while os.read(self.fd, 64):
                pass

    def _hear(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.heard.append(number)
        with suppress(BlockingIOError):  # it is full of those before
            os.write(self._bell, b"!")
        if self._breaking:
            self._breaking = False
            raise KeyboardInterrupt

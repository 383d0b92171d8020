"""HTTP with limits of time that a slow caller cannot get around."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0
"""The lines of a request have come by then, from its first byte on."""
UNREAD_S = 30.0
"""And who does not read an answer for so long gets no more of it."""


class Timely(H11Protocol):
    """HTTP, but a request whose lines do not come to their end in time is no request."""

    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody called."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEAD_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        """The time runs from the first byte of a request until its lines are there."""
        if self._timer is None and self._between():
            self._timer = self.loop.call_later(HEAD_S, self.transport.abort)
        super().data_received(data)
        if self._timer is not None and not self._between():
            self._timer.cancel()
            self._timer = None

    def pause_writing(self) -> None:
        """The caller does not read: for a while that is waited for."""
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        for timer in (self._timer, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _between(self) -> bool:
        """Whether no request is being answered."""
        return getattr(self.cycle, "response_complete", True)  # there is no cycle before the first request

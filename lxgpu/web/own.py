"""One's own things, asked of the daemon: of those who ask for the same at once one asks, and all get its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from lxgpu.services.guestviews import GuestStatus
from lxgpu.services.passes import PERSON
from lxgpu.services.revive import revive
from lxgpu.web.door import NO_SESSION, Door, DoorError, RefusedError
from lxgpu.web.mine import Mine, mine_of
from lxgpu.web.sessions import NobodyError, Reader, Sessions
from lxgpu.web.watching import Seen


class Own:
    """Asks `status` for readers. Tabs of one session that hear of the same news at once are one question."""

    def __init__(self, door: Door, sessions: Sessions) -> None:
        self._door, self._sessions = door, sessions
        self._asked: dict[tuple[str, int], asyncio.Task[Mapping[str, Any]]] = {}

    async def mine(self, seen: Seen, reader: Reader, *, anew: bool = False) -> Mine:
        """One's own things, as the daemon says or, while it is away, as it published them.

        Args:
            seen: what was published last.
            reader: whose they are.
            anew: what is asked already does not do: something was changed since.

        Raises:
            NobodyError: the daemon does not know the session any more.
        """
        if reader.kind != PERSON:
            return mine_of(seen.found, None, reader.name)
        question = self._question(reader.session, seen.version, anew=anew)
        try:
            told = await asyncio.shield(question)
            return mine_of(seen.found, revive(GuestStatus, told), reader.name)
        except RefusedError as error:
            if error.status == NO_SESSION:
                self._sessions.forget(reader.session)
                raise NobodyError from error
            return mine_of(seen.found, None, reader.name, refused=error.what or error.code)
        except (DoorError, ValueError):
            return mine_of(seen.found, None, reader.name)

    def _question(self, session: str, version: int, *, anew: bool) -> asyncio.Task[Mapping[str, Any]]:
        key = (session, version)
        if anew or key not in self._asked:
            made = asyncio.create_task(self._door.get("/v1/status", session))
            self._asked[key] = made
            made.add_done_callback(lambda task: self._answered(key, task))
        return self._asked[key]

    def _answered(self, key: tuple[str, int], task: asyncio.Task[Mapping[str, Any]]) -> None:
        if self._asked.get(key) is task:
            del self._asked[key]
        if not task.cancelled():
            task.exception()  # that nobody waits for it any more is no fault

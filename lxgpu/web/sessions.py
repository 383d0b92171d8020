"""Who reads: the cookie, whom the daemon says it speaks for, and the token that its forms carry."""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime

from lxgpu.services.passes import LONGEST_TEXT, PERSON, VIEWER
from lxgpu.web.door import GLANCE_S, READ_S, Door, DoorError, RefusedError, Room

ANYBODY = "anybody"
COOKIE, SAFE_COOKIE = "lxgpu_session", "__Host-lxgpu_session"
"""The second is its name where the page is called by https; a browser takes it from nobody else then."""
BELIEVED_S = 15.0
"""So long the daemon is not asked again about a session."""
_MOST = 2048
_UNKNOWN = frozenset({401, 403})
_FORM = re.compile(rf"[\x21-\x7e]{{8,{LONGEST_TEXT}}}")


@dataclass(frozen=True, slots=True)
class Reader:
    """Who looks at the page: a person's container (`name`), a viewer, or anybody where the policy says public."""

    kind: str
    name: str = ""
    session: str = ""

    @property
    def token(self) -> str:
        """What each form of this session carries; nobody can make it who has not the session."""
        return hashlib.sha256(b"lxgpu form " + self.session.encode()).hexdigest()[:32]

    def sent(self, token: str) -> bool:
        """Whether a form's token is this session's."""
        return bool(self.session) and hmac.compare_digest(token.encode(errors="replace"), self.token.encode())


class NobodyError(Exception):
    """There is no session, and one is needed."""


class UnknownError(Exception):
    """This process has not seen the session before, and the daemon does not say whose it is.

    `code` is `away`, or `too_often` when too much is asked at once.
    """

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


@dataclass(slots=True)
class _Known:
    reader: Reader
    expires: datetime
    asked_at: float


class Sessions:
    """Sessions that the daemon vouched for. One that was seen still counts while the daemon is away, until it expires.

    Texts that were never seen are asked about by few at a time, so that strangers cannot keep the daemon's door busy.
    """

    def __init__(self, door: Door) -> None:
        self._door = door
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def reader(self, session: str) -> Reader | None:
        """Whom a session speaks for; None: nobody. Raises `UnknownError`."""
        if not _FORM.fullmatch(session):
            return None
        known = self._known.get(_key(session))
        if known is not None and known.expires <= datetime.now(UTC):
            self.forget(session)
            known = None
        if known is not None and time.monotonic() - known.asked_at < BELIEVED_S:
            return known.reader
        try:
            if known is None:
                return await self._ask(session, READ_S, self._door.strangers)
            return await self._ask(session, GLANCE_S, self._door.known)
        except (DoorError, RefusedError) as error:
            if known is None:
                raise UnknownError("away" if isinstance(error, DoorError) else error.code) from error
            known.asked_at = time.monotonic()
            return known.reader

    async def holds(self, session: str) -> bool:
        """Whether it speaks for anybody still, as far as that is known now."""
        try:
            return await self.reader(session) is not None
        except UnknownError:
            return True

    def forget(self, session: str) -> None:
        """Do not believe it any more."""
        self._known.pop(_key(session), None)

    async def _ask(self, session: str, limit_s: float, room: Room) -> Reader | None:
        try:
            told = await self._door.get("/v1/me", session, limit_s=limit_s, room=room)
        except RefusedError as error:
            if error.status not in _UNKNOWN:
                raise
            self.forget(session)
            return None
        reader = Reader(PERSON if told.get("kind") == PERSON else VIEWER, str(told.get("name") or ""), session)
        self._known[_key(session)] = _Known(reader, datetime.fromisoformat(str(told["expires"])), time.monotonic())
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
        return reader


def _key(session: str) -> str:
    return hashlib.sha256(session.encode()).hexdigest()

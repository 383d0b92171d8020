"""What every address of the page needs: all that the page works with, who asks, in which language."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request
from fastapi.responses import HTMLResponse, Response

from lxgpu.ports import Progress
from lxgpu.web.door import Door
from lxgpu.web.forms import Fields, fields
from lxgpu.web.live import Streams
from lxgpu.web.own import Own
from lxgpu.web.parts import LOOKS, Parts, Taste
from lxgpu.web.sessions import ANYBODY, COOKIE, SAFE_COOKIE, NobodyError, Reader, Sessions, UnknownError
from lxgpu.web.statics import Statics
from lxgpu.web.watching import Watch
from lxgpu.web.words import chosen

LANGUAGE_COOKIE, LOOK_COOKIE = "lxgpu_language", "lxgpu_look"


@dataclass(frozen=True, slots=True)
class Web:
    """All that the page works with. `secure`: it is called by https, so its cookie is for https alone."""

    watch: Watch
    door: Door
    sessions: Sessions
    own: Own
    statics: Statics
    parts: Parts
    streams: Streams
    secure: bool
    say: Progress

    @property
    def cookie(self) -> str:
        """What the session's cookie is called."""
        return SAFE_COOKIE if self.secure else COOKIE


def taste_of(request: Request) -> Taste:
    """The reader's language and look."""
    language = chosen(request.cookies.get(LANGUAGE_COOKIE), request.headers.get("accept-language", ""))
    look = request.cookies.get(LOOK_COOKIE, "")
    return Taste(language, look if look in LOOKS else LOOKS[0])


async def reader_of(web: Web, request: Request) -> Reader:
    """Who looks. Raises `NobodyError`, `UnknownError`."""
    session, found = request.cookies.get(web.cookie, ""), web.watch.seen.found
    public = found is not None and found.public
    try:
        reader = await web.sessions.reader(session) if session else None
    except UnknownError:
        if not public:
            raise
        reader = None
    if reader is not None:
        return reader
    if public:
        return Reader(ANYBODY)
    raise NobodyError


def html(text: str, status: int = 200) -> Response:
    """A page, or a part of one."""
    return HTMLResponse(text, status_code=status)


async def fields_of(request: Request) -> Fields:
    """The fields of the form that was sent; none of what is no form."""
    try:
        return fields(await request.body())
    except ValueError:
        return {}

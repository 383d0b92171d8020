"""Pages to look at, their parts, and the stream that keeps them live."""

from __future__ import annotations

import re

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response

from lxgpu.services.passes import PERSON
from lxgpu.web.asking import Web, html, reader_of, taste_of
from lxgpu.web.calendar import DAY, WEEK
from lxgpu.web.parts import models
from lxgpu.web.sessions import ANYBODY


def views(app: FastAPI, web: Web) -> None:
    """Whole pages."""

    @app.get("/")
    async def overview(request: Request) -> Response:
        reader, seen, taste = await reader_of(web, request), web.watch.seen, taste_of(request)
        mine = web.parts.seen_of(seen, reader) if reader.kind == PERSON else None
        cards = web.parts.cards(seen, reader, taste)
        return html(web.parts.page("overview", seen, reader, taste, here="/", mine=mine, cards=cards))

    @app.get("/calendar")
    async def calendar(request: Request) -> Response:
        reader, seen, taste = await reader_of(web, request), web.watch.seen, taste_of(request)
        view, day = _shown(request)
        part = web.parts.calendar(seen, reader, taste, view=view, day=day)
        here = f"/calendar?view={view}&day={day}"
        return html(web.parts.page("calendar", seen, reader, taste, here=here, part=part))

    @app.get("/login")
    async def login(request: Request) -> Response:
        """How one comes in, where the page is public and nobody was asked who they are."""
        reader, seen, taste = await reader_of(web, request), web.watch.seen, taste_of(request)
        if reader.kind != ANYBODY:
            return RedirectResponse("/", 303)
        return html(web.parts.page("login", seen, reader, taste, here="/login", foreign=False, public=True))

    @app.get("/mine")
    async def mine(request: Request) -> Response:
        reader, seen, taste = await reader_of(web, request), web.watch.seen, taste_of(request)
        if reader.kind != PERSON:
            return RedirectResponse("/", 303)
        found = await web.own.mine(seen, reader)
        at = request.query_params.get("at", "")
        at = at if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}", at) else ""
        values = {"mine": found, "models": models(seen.found), "at": at, "here": "/mine"}
        return html(web.parts.page("mine", seen, reader, taste, **values))


def _shown(request: Request) -> tuple[str, int]:
    """Which part of the calendar is asked for."""
    view = WEEK if request.query_params.get("view") == WEEK else DAY
    day = request.query_params.get("day", "0")
    return view, int(day) if day.isascii() and day.isdigit() and len(day) == 1 else 0


def parts(app: FastAPI, web: Web) -> None:
    """What a live page asks for again, and the stream that tells it when."""

    @app.get("/part/cards")
    async def cards(request: Request) -> Response:
        reader = await reader_of(web, request)
        return html(web.parts.cards(web.watch.seen, reader, taste_of(request)))

    @app.get("/part/calendar")
    async def calendar(request: Request) -> Response:
        reader, (view, day) = await reader_of(web, request), _shown(request)
        return html(web.parts.calendar(web.watch.seen, reader, taste_of(request), view=view, day=day))

    @app.get("/part/{name}")
    async def own(request: Request, name: str) -> Response:
        reader, seen, taste = await reader_of(web, request), web.watch.seen, taste_of(request)
        if reader.kind != PERSON or name not in {"mine", "warned"}:
            return PlainTextResponse("there is no such part\n", 404)
        return html(web.parts.part(name, seen, reader, taste, mine=await web.own.mine(seen, reader)))

    @app.get("/live")
    async def live(request: Request) -> Response:
        reader, taste = await reader_of(web, request), taste_of(request)
        shows = request.query_params.get("shows")
        opened = web.streams.open(reader.session, lambda seen: web.parts.age(seen, taste), shows=shows)
        return opened or PlainTextResponse("too many pages are open\n", 429)

"""Coming in by a one-time link, going, bringing a first key, and how a reader wants to see it all."""

from __future__ import annotations

import re
from dataclasses import replace

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from lxgpu.services.passes import LIFE, PassKind
from lxgpu.web.asking import LANGUAGE_COOKIE, LOOK_COOKIE, Web, fields_of, html, reader_of, taste_of
from lxgpu.web.door import KEY_S, NO_SESSION, READ_S, DoorError, RefusedError, Room
from lxgpu.web.parts import LOOKS
from lxgpu.web.sessions import Reader
from lxgpu.web.trouble import Trouble, ended, told, trouble_of
from lxgpu.web.words import LANGUAGES

_NOT_IN = {"away": "in_away", "outcome_unknown": "in_away", "not_allowed": "in_used", "usage": "in_used"}
"""What is said of a link that does not open, by the code of why."""
_YEAR_S = 365 * 86400
_SESSION_S = int(LIFE[PassKind.SESSION].total_seconds())
_OWN_PATH = re.compile(r"/[A-Za-z0-9/_.-]{0,80}(\?[A-Za-z0-9=&_.-]{0,120})?")


def coming_in(app: FastAPI, web: Web) -> None:
    """The one-time link: its secret is in the fragment, which no server and no log ever sees; a script posts it."""

    @app.get("/in")
    async def door(request: Request) -> Response:
        return html(web.parts.page("in", web.watch.seen, None, taste_of(request), here="/in"))

    @app.post("/in")
    async def enter(request: Request) -> Response:
        token = (await fields_of(request)).get("link", "")
        try:
            entered = await web.door.post("/v1/enter", {"token": token}, limit_s=READ_S, room=web.door.strangers)
        except (RefusedError, DoorError) as error:
            trouble = trouble_of(error)
            status, key = trouble.status, _NOT_IN.get(trouble.code)
            if key is None:
                return told(web, request, None, trouble, here="/in")
            return html(web.parts.page("in", web.watch.seen, None, taste_of(request), here="/in", trouble=key), status)
        answer = RedirectResponse("/", 303)
        _cookie(answer, web.cookie, str(entered["session"]), _SESSION_S, secure=web.secure)
        return answer

    @app.post("/out")
    async def leave(request: Request) -> Response:
        reader = await reader_of(web, request)
        if not reader.sent((await fields_of(request)).get("token", "")):
            return RedirectResponse("/", 303)
        if (trouble := await _ended(web, reader)) is not None:
            return told(web, request, reader, trouble)
        web.streams.end_of(reader.session)
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(web.cookie, path="/", secure=web.secure, httponly=True, samesite="strict")
        return answer

    @app.get("/set/{what}/{value}")
    async def taste(what: str, value: str, to: str = "/") -> Response:
        answer = RedirectResponse(to if _OWN_PATH.fullmatch(to) and not to.startswith("//") else "/", 303)
        known = {"language": (LANGUAGE_COOKIE, LANGUAGES), "look": (LOOK_COOKIE, LOOKS)}.get(what)
        if known is not None and value in known[1]:
            _cookie(answer, known[0], value, _YEAR_S, secure=web.secure)
        return answer


async def _ended(web: Web, reader: Reader) -> Trouble | None:
    """End a session, or say why it is not: whoever believed that it was over would leave a door open behind them."""
    web.sessions.forget(reader.session)
    try:
        await web.door.post("/v1/leave", {}, reader.session, limit_s=READ_S)
    except RefusedError as error:
        return None if error.status == NO_SESSION else replace(trouble_of(error), code="still_in")
    except DoorError:
        return Trouble(503, "still_in_away")
    web.sessions.forget(reader.session)  # another tab may have asked in between, and been believed
    return None


def _cookie(answer: Response, name: str, value: str, age_s: int, *, secure: bool) -> None:
    answer.set_cookie(name, value, max_age=age_s, path="/", secure=secure, httponly=True, samesite="strict")


def newcomers(app: FastAPI, web: Web) -> None:
    """An invitation: a public key comes, the steps to log in go."""

    @app.get("/join")
    async def join(request: Request) -> Response:
        return html(web.parts.page("join", web.watch.seen, None, taste_of(request), here="/join"))

    @app.post("/join/look")
    async def invited(request: Request) -> Response:
        return await _told(web, "/v1/invited", request, ("token",), limit_s=READ_S, room=web.door.strangers)

    @app.post("/join/key")
    async def key(request: Request) -> Response:
        return await _told(web, "/v1/key", request, ("token", "key"), limit_s=KEY_S, room=web.door.keys)


async def _told(
    web: Web, route: str, request: Request, names: tuple[str, ...], *, limit_s: float, room: Room
) -> Response:
    """What the daemon says, as JSON for our own script."""
    given = await fields_of(request)
    t = web.parts.words(web.watch.seen, taste_of(request))
    try:
        body = {name: given.get(name, "") for name in names}
        await web.door.awake()
        return JSONResponse(dict(await web.door.post(route, body, limit_s=limit_s, room=room)))
    except RefusedError as error:
        if (route, error.code) == ("/v1/invited", "usage"):  # what the address has is no such text at all
            return JSONResponse({"error": t("join_none")}, error.status)
        return JSONResponse({"error": " ".join([*map(ended, [error.what, *error.why]), error.fix])}, error.status)
    except DoorError:
        return JSONResponse({"error": t("error_away")}, 503)

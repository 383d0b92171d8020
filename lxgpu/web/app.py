"""The page's addresses, put together; nothing is kept here but who reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response

from lxgpu.web import doing, entering, looking
from lxgpu.web.asking import Web, html, taste_of
from lxgpu.web.sessions import NobodyError, UnknownError
from lxgpu.web.trouble import Trouble, told

_FOREVER = "public, max-age=31536000, immutable"


def page(web: Web) -> FastAPI:
    """The application."""

    @asynccontextmanager
    async def watching(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(web.watch.run())
        yield
        web.streams.end()
        task.cancel()

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=watching)
    looking.views(app, web)
    looking.parts(app, web)
    doing.changes(app, web)
    entering.coming_in(app, web)
    entering.newcomers(app, web)
    _others(app, web)
    _errors(app, web)
    return app


def _others(app: FastAPI, web: Web) -> None:
    @app.get("/static/{mark}/{name:path}")
    async def static(request: Request, mark: str, name: str) -> Response:
        found = web.statics.files.get(name)
        if found is None or found.mark != mark:
            return PlainTextResponse("there is no such file\n", 404)
        packs = "gzip" in request.headers.get("accept-encoding", "")
        headers = {"cache-control": _FOREVER, "vary": "accept-encoding"} | (
            {"content-encoding": "gzip"} if packs else {}
        )
        return Response(found.packed if packs else found.plain, media_type=found.kind, headers=headers)

    @app.get("/alive")
    async def alive() -> Response:
        return PlainTextResponse("alive\n")

    @app.get("/favicon.ico")
    async def icon() -> Response:
        return RedirectResponse(web.statics.address("icon.svg"), 307)


def _errors(app: FastAPI, web: Web) -> None:
    """What goes wrong before a page is there, as a page."""

    async def nobody(request: Request, _: Exception) -> Response:
        if request.headers.get("hx-request"):
            return PlainTextResponse("", 401, headers={"hx-refresh": "true"})
        values = {"here": "/", "foreign": _foreign(request), "public": False}
        answer = web.parts.page("login", web.watch.seen, None, taste_of(request), **values)
        return html(answer, 401)

    async def unknown(request: Request, error: Exception) -> Response:
        code = error.code if isinstance(error, UnknownError) else "away"
        if request.headers.get("hx-request"):
            return told(web, request, None, Trouble(503, code))
        return html(web.parts.page("away", web.watch.seen, None, taste_of(request), here="/", code=code), 503)

    async def fault(request: Request, error: Exception) -> Response:
        web.say(f"a fault in the page at {request.url.path[:80]!r}: {type(error).__name__}: {error}")
        return told(web, request, None, Trouble(500, "internal"))

    async def nowhere(request: Request, _: Exception) -> Response:
        return told(web, request, None, Trouble(404, "not_found"))

    app.add_exception_handler(NobodyError, nobody)
    app.add_exception_handler(UnknownError, unknown)
    app.add_exception_handler(Exception, fault)
    app.add_exception_handler(404, nowhere)
    app.add_exception_handler(405, nowhere)


def _foreign(request: Request) -> bool:
    """Whether a link on another site led here: a browser keeps the cookie back then, and sends it at the next click."""
    return request.headers.get("sec-fetch-site", "") in {"cross-site", "same-site"}

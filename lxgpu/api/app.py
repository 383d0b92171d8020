"""What a container may ask for, as routes: the same behind its own socket and behind a session of the page.

Who asks is put into the request's scope by whoever knows it, the socket or the session; nothing in a request says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI, Request
from fastapi.params import Depends
from fastapi.responses import Response

from lxgpu.api.answers import FAILURES, Json, answer_errors
from lxgpu.api.bodies import Cancel, Edit, Extend, Keep, May, Release, Reserve
from lxgpu.api.gate import App, Message, Receive, Send
from lxgpu.api.turns import Turns
from lxgpu.services.guestreasons import GuestReasons
from lxgpu.services.guestviews import GuestAnswer, GuestLink, GuestStatus

if TYPE_CHECKING:
    from lxgpu.services.guest import Guests

ASKER = "lxgpu.asker"
"""The key in a request's scope under which who asks is found."""
_HELP = "gpu help lists what there is"
_ABSENT = "a restart of the container brings the gpu of today"


@dataclass(frozen=True, slots=True)
class Asker:
    """A container that asks, and its turns."""

    name: str
    turns: Turns = field(default_factory=Turns)


def guest_apps(uses: Guests, *, turns: Callable[[], Turns] = Turns) -> Callable[[str], App]:
    """What makes the application of each container; they share one set of routes, and nothing else.

    `turns` makes what a container's changes wait in.
    """
    shared = guest_document_app(uses)

    def made(name: str) -> App:
        asker = Asker(name, turns())

        async def app(scope: Message, receive: Receive, send: Send) -> None:
            scope[ASKER] = asker
            await shared(scope, receive, send)

        return app

    return made


def guest_document_app(uses: Guests) -> FastAPI:
    """The routes of a container's socket, with their document; who asks must be in the scope."""
    app = FastAPI(
        title="lxgpu inside a container",
        description="Served on /var/lib/lxgpu/api.sock in each container; the socket says who asks.",
        version="1",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    answer_errors(app, lambda request, error: uses.fault(request.scope[ASKER].name, error), help_=_HELP, absent=_ABSENT)
    app.include_router(guest_routes(uses))

    @app.post("/v1/web", response_model=GuestLink, responses=FAILURES)
    async def web(request: Request) -> Response:
        """A one-time link to the page."""
        me = _asker(request)
        return Json(await me.turns.change(lambda: uses.web(me.name)))

    @app.post("/v1/leave", response_model=GuestAnswer, responses=FAILURES)
    async def leave(request: Request) -> Response:
        """End all sessions at the page that speak for the container."""
        me = _asker(request)
        return Json(await me.turns.change(lambda: uses.leave(me.name)))

    @app.get("/v1/openapi.json", include_in_schema=False)
    async def document() -> Response:
        return Json(app.openapi())

    return app


def guest_routes(uses: Guests, first: Sequence[Depends] = ()) -> APIRouter:
    """The routes; `first` is done before each, and puts who asks into the scope where that is not there yet."""
    router = APIRouter(dependencies=list(first), responses=FAILURES)
    _questions(router, uses)
    _cards(router, uses)
    _reservations(router, uses)
    return router


def _asker(request: Request) -> Asker:
    found = request.scope[ASKER]
    assert isinstance(found, Asker)  # noqa: S101 -- whoever serves these routes has put it there
    return found


def _questions(router: APIRouter, uses: Guests) -> None:
    @router.get("/v1/status", response_model=GuestStatus)
    async def status(request: Request) -> Response:
        """What the container holds, what it waits for, what is free."""
        me = _asker(request)
        return Json(await me.turns.read(lambda: uses.status(me.name)))

    @router.get("/v1/why", response_model=GuestReasons)
    async def why(request: Request) -> Response:
        """How its present state came about."""
        me = _asker(request)
        return Json(await me.turns.read(lambda: uses.why(me.name)))

    @router.post("/v1/may", response_model=GuestAnswer)
    async def may(request: Request, body: May) -> Response:
        """Whether so many cards can be held at all."""
        me = _asker(request)
        return Json(await me.turns.read(lambda: uses.may(me.name, gpus=body.gpus)))


def _cards(router: APIRouter, uses: Guests) -> None:
    @router.post("/v1/release", response_model=GuestAnswer)
    async def release(request: Request, body: Release) -> Response:
        """Give cards back."""
        me = _asker(request)
        return Json(await me.turns.change(lambda: uses.release(me.name, gpus=body.gpus, busy=body.busy)))

    @router.post("/v1/extend", response_model=GuestAnswer)
    async def extend(request: Request, body: Extend) -> Response:
        """Hold the cards for longer."""
        me = _asker(request)
        return Json(await me.turns.change(lambda: uses.extend(me.name, seconds=body.seconds)))

    @router.post("/v1/keep", response_model=GuestAnswer)
    async def keep(request: Request, body: Keep) -> Response:
        """Keep idle cards for a while."""
        me = _asker(request)
        return Json(await me.turns.change(lambda: uses.keep(me.name, seconds=body.seconds, reason=body.reason)))


def _reservations(router: APIRouter, uses: Guests) -> None:
    @router.post("/v1/reserve", response_model=GuestAnswer)
    async def reserve(request: Request, body: Reserve) -> Response:
        """Book cards, or queue for them."""
        me = _asker(request)
        return Json(await me.turns.change(lambda: uses.reserve(me.name, **dict(body))))

    @router.post("/v1/edit", response_model=GuestAnswer)
    async def edit(request: Request, body: Edit) -> Response:
        """Change what is still to come of a reservation, as one thing."""
        me, changes = _asker(request), dict(body)
        identifier = changes.pop("id")
        return Json(await me.turns.change(lambda: uses.edit(me.name, identifier, **changes)))

    @router.post("/v1/cancel", response_model=GuestAnswer)
    async def cancel(request: Request, body: Cancel) -> Response:
        """Withdraw a reservation."""
        me = _asker(request)
        return Json(await me.turns.change(lambda: uses.cancel(me.name, body.id)))

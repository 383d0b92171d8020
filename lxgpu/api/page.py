"""The application behind the page's door: sessions, and for a person's session what its container may ask for.

The page's process comes through this socket and no other. What it may do is what the session that it shows may do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI, Request
from fastapi.responses import Response
from fastapi.security import HTTPBearer

from lxgpu.api.answers import FAILURES, Json, answer_errors, failed
from lxgpu.api.app import ASKER, Asker, guest_routes
from lxgpu.api.bodies import Enter, NewKey
from lxgpu.api.desks import Desk, Rooms
from lxgpu.api.turns import Turns
from lxgpu.errors import LxgpuError
from lxgpu.services.newkey import Invited, KeyTaken
from lxgpu.services.passes import LONGEST_TEXT, PERSON
from lxgpu.services.visits import Entered, Visitor

if TYPE_CHECKING:
    from lxgpu.services.guest import Guests
    from lxgpu.services.visits import Visits

SESSIONS, STRANGERS, KEYS = 64, 8, 4
"""So many may be at work or wait: to find out whose a session is, to come in by a secret text, to bring a key (which
takes as long as a container takes to get it)."""
_HELP = "load the page again"
_ABSENT = "the page and the daemon are of different versions: restart both"
_ENTER_AGAIN = "gpu web in your container prints a link; for those without one: lxgpu web --link"


@dataclass(frozen=True, slots=True)
class Left:
    """The session has ended."""

    state: str = "done"


class NoSessionError(LxgpuError):
    """There is no session, or it is over: HTTP 401, unlike what a session may not do (403)."""


def page_app(uses: Visits, guests: Guests, turns: Callable[[], Turns] = Turns) -> FastAPI:
    """The application of the page's door; `turns` makes those of one container."""
    app = FastAPI(
        title="lxgpu for its page",
        description="Served on the page's socket in the run directory, for the page's process alone.",
        version="1",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=FAILURES,
    )
    answer_errors(app, lambda request, error: _fault(uses, request, error), help_=_HELP, absent=_ABSENT)

    async def no_session(_: Request, error: Exception) -> Response:
        assert isinstance(error, LxgpuError)  # noqa: S101 -- it is registered for that
        return failed(error, help_=_ENTER_AGAIN, status=401)

    app.add_exception_handler(NoSessionError, no_session)
    rooms, bearer = Rooms(turns), Depends(HTTPBearer(auto_error=False))
    sessions = Desk("sessions", threads=2, places=SESSIONS)

    def visitor(session: str) -> Visitor:
        """Whom it speaks for; an error where that is nobody."""
        found = uses.who(session) if session else None
        if found is None:
            why = "a session lasts a week, and no longer than its container"
            raise NoSessionError("not_allowed", "there is no session, or it is over", why=why, fix=_ENTER_AGAIN)
        return found

    async def as_container(request: Request) -> AsyncIterator[None]:
        """Put the container of the session into the scope, as its socket would."""
        who = await sessions.ask(visitor, _session(request))
        if who.kind != PERSON or who.name is None:
            raise LxgpuError("not_allowed", "who only looks changes nothing", why="this session is no container's")
        async with rooms.of(who.name) as asker:
            request.scope[ASKER] = asker
            yield

    _strangers(app, uses)
    app.include_router(guest_routes(guests, (bearer, Depends(as_container))))

    @app.post("/v1/leave", response_model=Left, dependencies=[bearer])
    async def leave(request: Request) -> Response:
        """End the session."""
        session = _session(request)
        await sessions.ask(visitor, session)
        await sessions.ask(uses.leave, session)
        return Json(Left())

    @app.get("/v1/me", response_model=Visitor, dependencies=[bearer])
    async def me(request: Request) -> Response:
        """Whom the session speaks for."""
        return Json(await sessions.ask(visitor, _session(request)))

    @app.get("/v1/openapi.json", include_in_schema=False)
    async def document() -> Response:
        return Json(app.openapi())

    return app


def _strangers(app: FastAPI, uses: Visits) -> None:
    """What needs no session but a secret text: whoever reaches the page can have the daemon look for one."""
    strangers, keys = Desk("strangers", threads=1, places=STRANGERS), Desk("keys", threads=2, places=KEYS)

    @app.post("/v1/enter", response_model=Entered)
    async def enter(body: Enter) -> Response:
        """Use a one-time link up for a session."""
        return Json(await strangers.ask(uses.enter, body.token, unheard=partial(uses.unheard, body.token)))

    @app.post("/v1/invited", response_model=Invited)
    async def invited(body: Enter) -> Response:
        """Who an invitation is for; it is not used up."""
        return Json(await strangers.ask(uses.invited, body.token))

    @app.post("/v1/key", response_model=KeyTaken)
    async def key(body: NewKey) -> Response:
        """Use an invitation up for a public key."""
        return Json(await keys.ask(uses.key, body.token, body.key))


def _session(request: Request) -> str:
    """The session's text that a request shows; empty for none, and for one that cannot be any."""
    told = request.headers.getlist("authorization")
    scheme, _, text = told[0].partition(" ") if len(told) == 1 else ("", "", "")
    return text if scheme.lower() == "bearer" and len(text) <= LONGEST_TEXT else ""


def _fault(uses: Visits, request: Request, error: Exception) -> None:
    asker = request.scope.get(ASKER)
    uses.fault(asker.name if isinstance(asker, Asker) else "nobody", error)

"""The application behind the page's door: sessions, and for a person's session what its container may ask for.

The page's process comes through this socket and no other. What it may do is what the session that it shows may do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, Protocol, TypeVar

from fastapi import Depends, FastAPI, Request
from fastapi.responses import Response
from fastapi.security import HTTPBearer

from lxgpu.api.answers import FAILURES, Json, answer_errors, failed
from lxgpu.api.app import ASKER, Asker, GuestUses, guest_routes
from lxgpu.api.bodies import Enter, NewKey
from lxgpu.api.turns import Turns
from lxgpu.errors import LxgpuError
from lxgpu.services.passes import LONGEST_TEXT
from lxgpu.services.visits import PERSON, Entered, Invited, KeyTaken, Visitor

P = ParamSpec("P")
T = TypeVar("T")
AT_ONCE = 8
"""So many questions of one container are in the page's hands at once; who has more is told to wait."""
_MOST_ASKERS = 4096
_KEYS = _DESK = 2
_HELP = "load the page again"
_ABSENT = "the page and the daemon are of different versions: restart both"
_ENTER_AGAIN = "gpu web in your container prints a link; for those without one: lxgpu web --link"


class PageUses(Protocol):
    """What the page may ask for in nobody's name, or with a secret text. Errors are `LxgpuError`."""

    def enter(self, token: str) -> Entered:
        """Use a link up for a session."""

    def leave(self, session: str) -> None:
        """End a session."""

    def who(self, session: str) -> Visitor | None:
        """Whom a session speaks for now."""

    def invited(self, token: str) -> Invited:
        """Who an invitation is for."""

    def key(self, token: str, key: str) -> KeyTaken:
        """Use an invitation up for a key."""

    def fault(self, name: str, error: Exception) -> None:
        """Hear of a fault in lxgpu that a request met."""


@dataclass(frozen=True, slots=True)
class Left:
    """The session has ended."""

    state: str = "done"


class NoSessionError(LxgpuError):
    """There is no session, or it is over: HTTP 401, unlike what a session may not do (403)."""


class _Rooms:
    """The turns of each container that comes by the page, and how many of its questions are there now."""

    def __init__(self, turns: Callable[[], Turns]) -> None:
        self._turns = turns
        self._askers: dict[str, Asker] = {}
        self._inside: dict[str, int] = {}

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[Asker]:
        """Take a container's question in.

        Raises:
            LxgpuError: `too_often`: it has too many there already.
        """
        if self._inside.get(name, 0) >= AT_ONCE:
            why = f"{AT_ONCE} questions of {name} wait for their answers"
            raise LxgpuError("too_often", "too many questions at once", why=why, fix="try again in a minute")
        if name not in self._askers and len(self._askers) >= _MOST_ASKERS:
            self._askers = {one: asker for one, asker in self._askers.items() if one in self._inside}
        asker = self._askers.setdefault(name, Asker(name, self._turns()))
        self._inside[name] = self._inside.get(name, 0) + 1
        try:
            yield asker
        finally:
            self._inside[name] -= 1
            if not self._inside[name]:
                del self._inside[name]


class _Desk:
    """Two threads for what is done at once, so that who comes in never waits for questions that LXD has to answer."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_DESK, thread_name_prefix="page-desk")

    async def ask(self, do: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What it gives."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(do, *args, **kwargs))


def page_app(uses: PageUses, guests: GuestUses, turns: Callable[[], Turns] = Turns) -> FastAPI:
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
    rooms, bearer = _Rooms(turns), Depends(HTTPBearer(auto_error=False))
    keys_at_once = asyncio.Semaphore(_KEYS)  # each takes a thread for as long as a container takes to get it
    desk = _Desk()

    async def as_container(request: Request) -> AsyncIterator[None]:
        """Put the container of the session into the scope, as its socket would."""
        visitor = await desk.ask(_visitor, uses, _session(request))
        if visitor.kind != PERSON or visitor.name is None:
            raise LxgpuError("not_allowed", "who only looks changes nothing", why="this session is no container's")
        async with rooms.of(visitor.name) as asker:
            request.scope[ASKER] = asker
            yield

    app.include_router(guest_routes(guests, (bearer, Depends(as_container))))

    @app.post("/v1/enter", response_model=Entered)
    async def enter(body: Enter) -> Response:
        """Use a one-time link up for a session."""
        return Json(await desk.ask(uses.enter, body.token))

    @app.post("/v1/leave", response_model=Left, dependencies=[bearer])
    async def leave(request: Request) -> Response:
        """End the session."""
        session = _session(request)
        await desk.ask(_visitor, uses, session)
        await desk.ask(uses.leave, session)
        return Json(Left())

    @app.get("/v1/me", response_model=Visitor, dependencies=[bearer])
    async def me(request: Request) -> Response:
        """Whom the session speaks for."""
        return Json(await desk.ask(_visitor, uses, _session(request)))

    @app.post("/v1/invited", response_model=Invited)
    async def invited(body: Enter) -> Response:
        """Who an invitation is for; it is not used up."""
        return Json(await desk.ask(uses.invited, body.token))

    @app.post("/v1/key", response_model=KeyTaken)
    async def key(body: NewKey) -> Response:
        """Use an invitation up for a public key."""
        async with keys_at_once:
            return Json(await asyncio.to_thread(uses.key, body.token, body.key))

    @app.get("/v1/openapi.json", include_in_schema=False)
    async def document() -> Response:
        return Json(app.openapi())

    return app


def _visitor(uses: PageUses, session: str) -> Visitor:
    found = uses.who(session) if session else None
    if found is None:
        why = "a session lasts a week, and no longer than its container"
        raise NoSessionError("not_allowed", "there is no session, or it is over", why=why, fix=_ENTER_AGAIN)
    return found


def _session(request: Request) -> str:
    """The session's text that a request shows; empty for none, and for one that cannot be any."""
    told = request.headers.getlist("authorization")
    scheme, _, text = told[0].partition(" ") if len(told) == 1 else ("", "", "")
    return text if scheme.lower() == "bearer" and len(text) <= LONGEST_TEXT else ""


def _fault(uses: PageUses, request: Request, error: Exception) -> None:
    asker = request.scope.get(ASKER)
    uses.fault(asker.name if isinstance(asker, Asker) else "nobody", error)

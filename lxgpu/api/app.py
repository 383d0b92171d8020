"""The application behind one container's socket. Who asks is given to it; nothing in a request says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response

from lxgpu.api.bodies import Cancel, Extend, Keep, May, Release, Reserve
from lxgpu.api.turns import Turns
from lxgpu.errors import Exit, LxgpuError
from lxgpu.plain import plain
from lxgpu.services.guestviews import GuestAnswer, GuestReasons, GuestStatus
from lxgpu.services.nextsteps import reason_of

_HTTP = {
    Exit.FAULT: 500,
    Exit.USAGE: 400,
    Exit.NOT_FOUND: 404,
    Exit.NOT_ALLOWED: 403,
    Exit.REFUSED: 422,
    Exit.CONFLICT: 409,
    Exit.NO_CAPACITY: 409,
    Exit.UNAVAILABLE: 503,
    Exit.TIMED_OUT: 504,
}
_TOO_MANY = 429


class GuestUses(Protocol):
    """What a container, named first, may ask for and do. Errors are `LxgpuError`."""

    def status(self, name: str) -> GuestStatus:
        """What it holds, what it waits for, what is free."""

    def why(self, name: str) -> GuestReasons:
        """How its present state came about."""

    def release(self, name: str, *, gpus: int | None, busy: bool) -> GuestAnswer:
        """Give cards back; all of them for None, those in use only with `busy`."""

    def extend(self, name: str, *, seconds: int) -> GuestAnswer:
        """Hold them for longer."""

    def keep(self, name: str, *, seconds: int, reason: str) -> GuestAnswer:
        """Keep idle cards for a while."""

    def reserve(
        self,
        name: str,
        *,
        gpus: int,
        seconds: int | None,
        at: str | None,
        model: str,
        until: str | None,
        weekly: bool,
        class_name: str,
        note: str,
    ) -> GuestAnswer:
        """Book cards for `seconds` or `until`; `at` is a time in the lab's zone, None for as soon as it can be."""

    def may(self, name: str, *, gpus: int) -> GuestAnswer:
        """Whether it can ever hold so many cards; an error says why not."""

    def cancel(self, name: str, identifier: str) -> GuestAnswer:
        """Withdraw one of its own reservations; another's is `not_found`."""

    def fault(self, name: str, error: Exception) -> None:
        """Hear of a fault in lxgpu that a request met."""


class _Json(JSONResponse):
    """A value of ours in the form that all JSON of lxgpu has."""

    def render(self, content: object) -> bytes:
        return json.dumps(plain(content), ensure_ascii=False, allow_nan=False).encode(errors="replace")


def guest_app(instance: str, uses: GuestUses) -> FastAPI:
    """The application of one container."""
    app = FastAPI(title=f"lxgpu: {instance}", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    _errors(app, lambda error: uses.fault(instance, error))
    turns = Turns()

    @app.get("/v1/status")
    async def status() -> Response:
        return _Json(await turns.read(lambda: uses.status(instance)))

    @app.get("/v1/why")
    async def why() -> Response:
        return _Json(await turns.read(lambda: uses.why(instance)))

    @app.post("/v1/release")
    async def release(body: Release) -> Response:
        return _Json(await turns.change(lambda: uses.release(instance, gpus=body.gpus, busy=body.busy)))

    @app.post("/v1/extend")
    async def extend(body: Extend) -> Response:
        return _Json(await turns.change(lambda: uses.extend(instance, seconds=body.seconds)))

    @app.post("/v1/keep")
    async def keep(body: Keep) -> Response:
        return _Json(await turns.change(lambda: uses.keep(instance, seconds=body.seconds, reason=body.reason)))

    @app.post("/v1/reserve")
    async def reserve(body: Reserve) -> Response:
        def ask() -> GuestAnswer:
            return uses.reserve(instance, **dict(body))

        return _Json(await turns.change(ask))

    @app.post("/v1/may")
    async def may(body: May) -> Response:
        return _Json(await turns.read(lambda: uses.may(instance, gpus=body.gpus)))

    @app.post("/v1/cancel")
    async def cancel(body: Cancel) -> Response:
        return _Json(await turns.change(lambda: uses.cancel(instance, body.id)))

    return app


def _errors(app: FastAPI, fault: Callable[[Exception], None]) -> None:
    """Whatever goes wrong is answered as an error of lxgpu, and shows nothing of the inside."""

    async def known(_: Request, error: Exception) -> Response:
        assert isinstance(error, LxgpuError)  # noqa: S101 -- it is registered for that
        if error.status not in _HTTP or error.status is Exit.FAULT:
            fault(error)
        return _answer(error)

    async def misshapen(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 -- it is registered for that
        told = [f"{'.'.join(str(part) for part in one['loc'][1:]) or 'body'}: {one['msg']}" for one in error.errors()]
        return _answer(LxgpuError("usage", "the request does not fit", why=told[:10], fix="gpu help"))

    async def unreadable(_: Request, __: Exception) -> Response:
        return _answer(LxgpuError("usage", "the request cannot be read", why="it is no JSON"))

    async def nowhere(request: Request, _: Exception) -> Response:
        what = f"there is no {request.method} {str(request.scope['path'])[:80]}"
        return _answer(LxgpuError("not_found", what, fix="a restart of the container brings the gpu of today"))

    async def unknown(_: Request, error: Exception) -> Response:
        fault(error)
        return _answer(LxgpuError("internal", "a fault in lxgpu", fix="tell your admin; the daemon's log has it"))

    app.add_exception_handler(LxgpuError, known)
    app.add_exception_handler(RequestValidationError, misshapen)
    app.add_exception_handler(400, unreadable)
    app.add_exception_handler(404, nowhere)
    app.add_exception_handler(405, nowhere)
    app.add_exception_handler(Exception, unknown)


def _answer(error: LxgpuError) -> Response:
    why = error.why or (reason_of(error.code),)
    told = {"code": error.code, "what": error.brief, "why": why, "fix": error.fix or "gpu help lists what there is"}
    status = _TOO_MANY if error.code == "too_often" else _HTTP.get(error.status, 500)
    return _Json({"error": {**told, "exit": int(error.status)}}, status_code=status)

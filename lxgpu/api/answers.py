"""What HTTP answers of lxgpu look like, whoever serves them: values as all its JSON, errors as on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from lxgpu.api.misfits import misfit
from lxgpu.errors import Exit, LxgpuError
from lxgpu.plain import plain
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
_MOST_TOLD = 10


class Told(BaseModel):
    """An error as the command line tells it: its code, what, why, how to mend it, the exit status of a command."""

    code: str
    what: str
    why: list[str]
    fix: str | None
    exit: int


class Failure(BaseModel):
    """What every answer that is no 200 holds."""

    error: Told


FAILURES: dict[int | str, dict[str, Any]] = {"4XX": {"model": Failure}, "5XX": {"model": Failure}}
"""For the document of an interface: in which form it fails."""


class Json(JSONResponse):
    """A value of ours in the form that all JSON of lxgpu has."""

    def render(self, content: object) -> bytes:
        """The value as JSON text."""
        return json.dumps(plain(content), ensure_ascii=False, allow_nan=False).encode(errors="replace")


def answer_errors(app: FastAPI, fault: Callable[[Request, Exception], None], *, help_: str, absent: str) -> None:
    """Whatever goes wrong is answered as an error of lxgpu, and shows nothing of the inside.

    `fault` hears of what is a fault of ours. `help_` is the remedy where there is no better one, `absent` that of a
    way that there is not.
    """

    async def known(request: Request, error: Exception) -> Response:
        assert isinstance(error, LxgpuError)  # noqa: S101 -- it is registered for that
        if error.status not in _HTTP or error.status is Exit.FAULT:
            fault(request, error)
        return failed(error, help_=help_)

    async def misshapen(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 -- it is registered for that
        return failed(misfit(error.errors()), help_=help_)

    async def unreadable(_: Request, __: Exception) -> Response:
        return failed(LxgpuError("usage", "the request cannot be read", why="it is no JSON"), help_=help_)

    async def nowhere(request: Request, _: Exception) -> Response:
        what = f"there is no {request.method} {str(request.scope['path'])[:80]}"
        return failed(LxgpuError("not_found", what, fix=absent), help_=help_)

    async def unknown(request: Request, error: Exception) -> Response:
        fault(request, error)
        fix = "tell your admin; the daemon's log has it"
        return failed(LxgpuError("internal", "a fault in lxgpu", fix=fix), help_=help_)

    app.add_exception_handler(LxgpuError, known)
    app.add_exception_handler(RequestValidationError, misshapen)
    app.add_exception_handler(400, unreadable)
    app.add_exception_handler(404, nowhere)
    app.add_exception_handler(405, nowhere)
    app.add_exception_handler(Exception, unknown)


def failed(error: LxgpuError, *, help_: str, status: int | None = None) -> Response:
    """An error as an answer; with the HTTP status that belongs to its exit status, or the one given."""
    problems = [": ".join(filter(None, [one.where, one.text])) for one in error.problems[:_MOST_TOLD]]
    why = error.why or problems or (reason_of(error.code),)
    told = {"code": error.code, "what": error.brief, "why": why, "fix": error.fix or help_}
    if status is None:
        status = _TOO_MANY if error.code == "too_often" else _HTTP.get(error.status, 500)
    return Json({"error": {**told, "exit": int(error.status)}}, status_code=status)

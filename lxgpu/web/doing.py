"""What people do: each form is checked for its token, asked of the daemon, and answered beside the form."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, Response

from lxgpu.errors import LxgpuError
from lxgpu.web.asking import NobodyError, Web, fields_of, html, reader_of, taste_of
from lxgpu.web.door import DoorError, RefusedError
from lxgpu.web.forms import ACTIONS
from lxgpu.web.parts import models
from lxgpu.web.sessions import PERSON, Reader

_STATUS = {"too_often": 429}
_NO_SESSION = 401


def changes(app: FastAPI, web: Web) -> None:
    """What people do."""

    @app.post("/do/{name}")
    async def change(request: Request, name: str) -> Response:
        reader = await reader_of(web, request)
        given = await fields_of(request)
        if name not in ACTIONS:
            return PlainTextResponse("there is no such thing to do\n", 404)
        if reader.kind != PERSON or not reader.sent(given.get("token", "")):
            return _said(web, request, reader, code="not_yours", status=403)
        try:
            wanted = ACTIONS[name](given)
            told = await web.door.post(wanted.route, wanted.body, reader.session)
        except LxgpuError as error:
            return _said(web, request, reader, code=error.code, what=error.brief, why=error.why, fix=error.fix)
        except RefusedError as error:
            if error.status == _NO_SESSION:
                web.sessions.forget(reader.session)
                raise NobodyError from error
            status = _STATUS.get(error.code, 422)
            return _said(
                web, request, reader, code=error.code, what=error.what, why=error.why, fix=error.fix, status=status
            )
        except DoorError:
            return _said(web, request, reader, code="unavailable", status=503)
        return await _done(web, request, reader, name, str(told.get("text", "")))


async def _done(web: Web, request: Request, reader: Reader, name: str, text: str) -> Response:
    """What was done, and one's things as they are now."""
    seen, taste = web.watch.seen, taste_of(request)
    values = {"mine": await web.parts.mine(seen, reader), "said": text, "did": name}
    if request.headers.get("hx-request"):
        answer = html(web.parts.part("done", seen, reader, taste, **values))
        answer.headers["hx-trigger"] = f"did-{name}"
        return answer
    values |= {"models": models(seen.found), "at": "", "here": "/mine"}
    return html(web.parts.page("mine", seen, reader, taste, **values))


def _said(web: Web, request: Request, reader: Reader, **told: object) -> Response:
    """Why something was not done: beside the form, whose fields stay."""
    status = told.pop("status", 422)
    error = {"what": "", "why": (), "fix": "", **told}
    seen, taste = web.watch.seen, taste_of(request)
    if request.headers.get("hx-request"):
        answer = html(web.parts.part("error", seen, reader, taste, error=error), int(str(status)))
        answer.headers["hx-retarget"], answer.headers["hx-reswap"] = "#said", "innerHTML show:#said:top"
        return answer
    return html(web.parts.page("problem", seen, reader, taste, error=error, here="/mine"), int(str(status)))

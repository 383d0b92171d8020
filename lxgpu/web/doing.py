"""What people do: each form is checked for its token, asked of the daemon, and answered beside the form."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, Response

from lxgpu.errors import LxgpuError
from lxgpu.services.passes import PERSON
from lxgpu.web.asking import Web, fields_of, html, reader_of, taste_of
from lxgpu.web.door import NO_SESSION, DoorError, RefusedError
from lxgpu.web.forms import ACTIONS, FormError
from lxgpu.web.parts import models
from lxgpu.web.sessions import Reader
from lxgpu.web.trouble import Trouble, told, trouble_of


def changes(app: FastAPI, web: Web) -> None:
    """What people do."""

    @app.post("/do/{name}")
    async def change(request: Request, name: str) -> Response:
        reader = await reader_of(web, request)
        given = await fields_of(request)
        if name not in ACTIONS:
            return PlainTextResponse("there is no such thing to do\n", 404)
        if reader.kind != PERSON:
            return told(web, request, reader, Trouble(403, "not_yours"))
        if not reader.sent(given.get("token", "")):
            return told(web, request, reader, Trouble(403, "other_login"), here="/mine")
        try:
            wanted = ACTIONS[name](given)
            done = await web.door.post(wanted.route, wanted.body, reader.session)
        except (LxgpuError, FormError, RefusedError, DoorError) as error:
            if isinstance(error, RefusedError) and error.status == NO_SESSION:
                web.sessions.forget(reader.session)
            return told(web, request, reader, trouble_of(error), here="/mine")
        return await _done(web, request, reader, name, str(done.get("text", "")))


async def _done(web: Web, request: Request, reader: Reader, name: str, text: str) -> Response:
    """What was done, and one's things as they are now."""
    seen, taste = web.watch.seen, taste_of(request)
    values: dict[str, object] = {"mine": await web.own.mine(seen, reader, anew=True), "said": text, "did": name}
    if request.headers.get("hx-request"):
        answer = html(web.parts.part("done", seen, reader, taste, **values))
        answer.headers["hx-trigger"] = f"did-{name}"
        return answer
    values |= {"models": models(seen.found), "at": "", "here": "/mine"}
    return html(web.parts.page("mine", seen, reader, taste, **values))

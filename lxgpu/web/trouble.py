"""What went wrong, in words: as a page of its own, or beside the form that was sent."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request
from fastapi.responses import Response

from lxgpu.errors import LxgpuError
from lxgpu.web.asking import Web, html, taste_of
from lxgpu.web.door import NO_SESSION, DoorError, RefusedError, SilentError
from lxgpu.web.forms import FormError
from lxgpu.web.sessions import NobodyError, Reader

_MISSHAPEN, _AWAY, _SILENT = 422, 503, 504


@dataclass(frozen=True, slots=True)
class Trouble:
    """An HTTP status, and a code that the catalogue has a headline for, if it is known; the rest is lxgpu's English."""

    status: int
    code: str
    what: str = ""
    why: tuple[str, ...] = ()
    fix: str = ""


def trouble_of(error: LxgpuError | FormError | RefusedError | DoorError) -> Trouble:
    """Of what a form or the daemon said. Raises `NobodyError`: the session is over."""
    match error:
        case FormError():
            return Trouble(_MISSHAPEN, error.key)
        case LxgpuError():
            return Trouble(_MISSHAPEN, error.code, ended(error.brief), tuple(map(ended, error.why)), error.fix or "")
        case RefusedError():
            if error.status == NO_SESSION:
                raise NobodyError from error
            return Trouble(error.status, error.code, ended(error.what), tuple(map(ended, error.why)), error.fix)
        case SilentError():
            return Trouble(_SILENT, "outcome_unknown")
        case _:
            return Trouble(_AWAY, "away")


def ended(text: str) -> str:
    """A sentence of lxgpu's with its stop, so that it does not run into the next one, whoever reads them out."""
    return f"{text}." if text and (text[-1].isalnum() or text[-1] in "'\")]%") else text


def told(web: Web, request: Request, reader: Reader | None, trouble: Trouble, *, here: str = "/") -> Response:
    """The answer: to a form of a live page beside it, its fields stay; else a page that leads back to `here`."""
    seen, taste = web.watch.seen, taste_of(request)
    if request.headers.get("hx-request"):
        answer = html(web.parts.part("error", seen, reader, taste, error=trouble), trouble.status)
        answer.headers["hx-retarget"], answer.headers["hx-reswap"] = "#said", "innerHTML show:#said:top"
        return answer
    return html(web.parts.page("problem", seen, reader, taste, error=trouble, here=here), trouble.status)

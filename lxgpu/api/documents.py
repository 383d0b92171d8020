"""The OpenAPI documents of what the daemon serves, as they are published; made without anybody to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lxgpu.api.app import guest_document_app
from lxgpu.api.page import page_app

if TYPE_CHECKING:
    from lxgpu.services.guest import Guests
    from lxgpu.services.visits import Visits


def documents() -> dict[str, dict[str, Any]]:
    """`guest-api`: of a container's socket; `page-api`: of the page's door."""
    nobody = object()  # the document is made of the shapes alone
    guests, page = cast("Guests", nobody), cast("Visits", nobody)
    return {"guest-api": guest_document_app(guests).openapi(), "page-api": page_app(page, guests).openapi()}

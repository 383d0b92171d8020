"""Both interfaces of the daemon keep their published document, whatever is sent: made-up questions by schemathesis."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import schemathesis
from fakes.guests import FakeGuests
from hypothesis import HealthCheck, settings
from schemathesis import checks
from visitors import Visitors

from lxgpu.api.app import ASKER, Asker, guest_document_app
from lxgpu.api.gate import gate
from lxgpu.api.page import page_app
from lxgpu.api.turns import Turns
from lxgpu.services.visits import Visits

DOCUMENT = "/v1/openapi.json"
EXAMPLES = 40
# A wrong method is as unknown here as a wrong way (404), so that nobody learns of ways by trying methods.
LEFT_OUT = [checks.unsupported_method, checks.allow_header_conformance]


class Staying(Visits):
    """Alice's session never ends."""

    def leave(self, session: str) -> None:
        """Not this one."""


def _turns() -> Turns:
    """As many changes as one likes: what is held here is the shape."""
    return Turns(at_once=10**9, every_s=0.0)


def _guest():
    asker, shared = Asker("alice", _turns()), guest_document_app(FakeGuests())

    async def app(scope, receive, send):
        scope[ASKER] = asker
        await shared(scope, receive, send)

    return gate(app)


# 422: the policy refuses what fits well.
ACCEPTED = {"expected-statuses": ["2xx", "403", "404", "409", "422", "503"]}
REFUSED = {"expected-statuses": ["400", "401", "403", "404", "413"]}
CHECKS = {"positive_data_acceptance": ACCEPTED, "negative_data_rejection": REFUSED}
CONFIG = schemathesis.Config.from_dict({"checks": CHECKS})
FOLDER = TemporaryDirectory()
PEOPLE = Visitors(Path(FOLDER.name))
GUEST = schemathesis.openapi.from_asgi(DOCUMENT, _guest(), config=CONFIG)
PAGE = schemathesis.openapi.from_asgi(
    DOCUMENT, gate(page_app(Staying(lambda: PEOPLE.site), FakeGuests(), _turns)), config=CONFIG
)
held = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


@held
@GUEST.parametrize()
def test_a_containers_socket_keeps_its_document(case):
    """No fault, no answer of another form, nothing accepted that does not fit."""
    case.call_and_validate(excluded_checks=LEFT_OUT)


@held
@PAGE.parametrize()
def test_the_pages_door_keeps_its_document(case):
    """The same with a session."""
    case.call_and_validate(
        excluded_checks=LEFT_OUT, headers={"Authorization": f"Bearer {PEOPLE.texts['alice-session']}"}
    )


@pytest.mark.parametrize(("document", "least"), [(GUEST, 10), (PAGE, 14)], ids=["guest", "page"])
def test_all_that_is_served_is_in_the_document(document, least):
    """So that the tests above meet all of it."""
    assert len([one for one in document.get_all_operations() if one.ok()]) >= least

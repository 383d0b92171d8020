"""What is the reader's: as the daemon says it, else as it was published, without what is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from lively import lively

from lxgpu.model.reservation import OPEN, ReservationState
from lxgpu.services.guestviews import GuestReservation, GuestStatus
from lxgpu.web.mine import mine_of


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    """What is published of a lab."""
    return lively(tmp_path_factory.mktemp("lively"))


def told(row, at, note):
    """The daemon's own answer about one reservation."""
    fields = {name: getattr(row, name) for name in ("id", "kind", "gpus", "model", "state", "start")}
    asked = GuestReservation(**fields, created_at=at, duration_s=3600, until=row.end, dies=None, note=note)
    nothing = {"gpus": (), "keeps": (), "notices": (), "lines": ()}
    return GuestStatus(row.instance, at, "", 5, 1, None, reservations=(asked,), **nothing)


def test_a_note_is_the_one_that_the_daemon_says_now(some):
    """What was published before an edit is older."""
    row = replace(some.reservations[0], note="the old one")
    found, now = replace(some, reservations=(row,)), some.written_at
    (wish,) = mine_of(found, told(row, now, "the new one"), row.instance).wishes
    assert wish.note == "the new one"
    (kept,) = mine_of(found, None, row.instance).wishes
    assert kept.note == "the old one"


@pytest.mark.parametrize("state", ReservationState)
def test_while_the_daemon_is_away_what_is_over_is_not_shown(some, state):
    """Whatever a reservation's states are called."""
    ends = some.written_at + timedelta(hours=1)
    row = replace(some.reservations[0], state=state.value, end=ends)
    shown = mine_of(replace(some, reservations=(row,)), None, row.instance)
    assert (not shown.live, bool(shown.wishes)) == (True, state in OPEN)

"""The login banner: three lines that are right whenever somebody logs in."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from fakes.site import lab_policy, make_site, newcomer
from fakes.system import START

from lxgpu.model.assignment import AssignmentState
from lxgpu.model.reservation import Kind, Reservation, ReservationState
from lxgpu.services import observe
from lxgpu.services.banner import FILE, SHORT, refresh_banner
from lxgpu.services.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Three cards, of which alice has two and ben none; it is 16:00 in the lab."""
    site = make_site(tmp_path, gpus=3, policy=replace(lab_policy(), timezone="Asia/Shanghai"))
    newcomer(site, "alice", gpus=2)
    newcomer(site, "ben")
    return site


def change(site: Site, *rows: object) -> None:
    """Somebody has decided something, and the tick refreshes all banners."""
    with site.write() as tx:
        tx.put(*rows)
    refresh_banner(site, seen=observe.look(site))


def lines(site: Site, name: str) -> list[str]:
    """What somebody reads at a login."""
    return site.board.files[name, FILE].splitlines()


def reservation(site: Site, kind: Kind, **more: object) -> Reservation:
    """Something that ben waits for."""
    state = ReservationState.WAITING
    return Reservation("r1", "ben", "ben", kind, 1, state, site.clock.now(), duration_s=3600, **more)


def test_it_is_there_from_the_first_login_on(site):
    """`create` writes it, before it proves the login."""
    assert lines(site, "ben") == [
        "1 of 3 GPUs free; next at thu 16:00",
        "You hold no GPU.",
        "`gpu` shows more. Help: gpu-admin@lab.example",
    ]


def test_it_says_what_is_held_until_when(site):
    """Cards with the same end together, in the order of their ends; what is past its lease, and what has no end."""
    first, second = site.inventory.read().held_by("alice")
    change(site, replace(first, until=START + timedelta(hours=2)))
    assert lines(site, "alice")[:2] == [
        "1 of 3 GPUs free; next at 18:00",
        "You hold 1 GPU until 18:00, 1 until thu 16:00.",
    ]
    change(site, replace(first, until=START), replace(second, until=None))
    assert lines(site, "alice")[1] == "You hold 1 GPU until someone waits, 1 without an end."


def test_it_warns_of_what_is_about_to_be_taken_and_no_longer(site):
    """The warning stands while it holds, and goes with it."""
    row = min(site.inventory.read().held_by("alice"), key=lambda held: held.slot)
    change(site, replace(row, state=AssignmentState.WARNED, due_at=START + timedelta(minutes=5)))
    assert lines(site, "alice")[2] == "WARNING: RTX 3090 (GPU-00000001) will be taken at 16:05 CST; `gpu why` says why"
    change(site, row)
    assert "WARNING" not in site.board.files["alice", FILE]


def test_it_tells_of_bookings_and_claims(site):
    """What comes, when nothing worse does."""
    start = START + timedelta(hours=17)
    change(site, reservation(site, Kind.BOOKING, start=start, until=start + timedelta(hours=4)))
    assert lines(site, "ben")[2] == "Booked: 1 GPU from tomorrow 09:00 until tomorrow 13:00"
    change(site, reservation(site, Kind.RETURN))
    assert lines(site, "ben")[1] == "You hold no GPU; 1 will come back by itself."


def test_a_prompt_has_what_is_held_in_a_few_words(site):
    """The nearest end; what is about to be taken before that; nothing is asked for it."""
    short = lambda name: site.board.files[name, SHORT]  # noqa: E731 -- a look
    first, second = sorted(site.inventory.read().held_by("alice"), key=lambda held: held.slot)
    assert (short("alice"), short("ben")) == ("2 GPUs until thu 16:00\n", "no GPU\n")
    change(site, replace(first, until=START + timedelta(hours=2)), replace(second, until=None))
    assert short("alice") == "2 GPUs until 18:00\n"
    change(site, replace(first, state=AssignmentState.WARNED, due_at=START + timedelta(minutes=5)))
    assert short("alice") == "2 GPUs, 1 taken at 16:05\n"
    change(site, replace(first, until=START), replace(second, until=None))
    assert short("alice") == "2 GPUs until someone waits\n"
    change(site, replace(first, until=None))
    assert short("alice") == "2 GPUs\n"


def test_only_what_changed_is_written_and_a_full_disk_of_the_host_stops_nobody(site):
    """A tick that changes nothing writes nothing; one folder that cannot be written is said."""
    seen = observe.look(site)
    refresh_banner(site, seen=seen)
    before = site.board.writes
    assert refresh_banner(site, seen=seen) == 0
    assert site.board.writes == before
    row = min(site.inventory.read().held_by("alice"), key=lambda held: held.slot)
    site.board.full.add("alice")
    with site.write() as tx:
        tx.put(replace(row, until=START + timedelta(hours=1)))
    assert refresh_banner(site, seen=seen) == 1
    assert "next at 17:00" in site.board.files["ben", FILE]
    assert site.say.lines[-1].startswith("the login banner of alice is as it was")


def test_while_lxd_is_away_it_counts_nothing_as_free(site):
    """Unknown is not free, and not zero."""
    refresh_banner(site, ["ben"], seen=None)
    assert lines(site, "ben")[0].startswith("an unknown number of ")

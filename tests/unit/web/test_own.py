"""One's own things as the daemon tells them: asked once for all tabs, and every refusal is told as what it is."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from fakes.page_door import page_door

from lxgpu.plain import plain
from lxgpu.services.guestviews import GuestStatus
from lxgpu.services.passes import PERSON
from lxgpu.web.own import Own
from lxgpu.web.sessions import NobodyError, Reader, Sessions, UnknownError
from lxgpu.web.watching import Seen

NOW = datetime.now(UTC)
NOTHING = GuestStatus("alice", NOW, "", 4, 4, None, gpus=(), reservations=(), keeps=(), notices=(), lines=())
ME = {"name": "alice", "kind": PERSON, "expires": (NOW + timedelta(days=1)).isoformat()}
ALICE = Reader(PERSON, "alice", "alice-session")
SEEN = Seen(version=1)


def refusal(code, what):
    """An error as the daemon tells one."""
    return {"error": {"code": code, "what": what, "why": [], "fix": None, "exit": 1}}


def mine(folder, *, status=200, told=None):
    """What is shown of alice when the daemon answers so."""

    async def asked():
        async with page_door(folder, {"/v1/status": (status, plain(NOTHING) if told is None else told)}) as (_, door):
            return await Own(door, Sessions(door)).mine(SEEN, ALICE)

    return asyncio.run(asked())


def test_all_tabs_that_hear_of_the_same_news_are_one_question(tmp_path):
    """Five tabs with two parts each; what comes later, after a change or with newer news is a question of its own."""

    async def asked():
        async with page_door(tmp_path, {"/v1/status": (200, plain(NOTHING))}) as (daemon, door):
            own = Own(door, Sessions(door))
            daemon.free.clear()
            tabs = [asyncio.create_task(own.mine(SEEN, ALICE)) for _ in range(10)]
            await daemon.came.wait()
            changed = asyncio.create_task(own.mine(SEEN, ALICE, anew=True))
            newer = asyncio.create_task(own.mine(replace(SEEN, version=2), ALICE))
            another = asyncio.create_task(own.mine(SEEN, replace(ALICE, session="bob-session")))
            await asyncio.sleep(0)
            daemon.free.set()
            found = await asyncio.gather(*tabs, changed, newer, another)
            at_once = daemon.asked.total()
            await own.mine(SEEN, ALICE)
            return found, at_once, daemon.asked.total()

    found, at_once, later = asyncio.run(asked())
    assert (at_once, later) == (4, 5)
    assert all(one.live for one in found)


def test_who_goes_away_takes_nothing_from_the_others(tmp_path):
    """The tab that asked is closed; the one that waits for the same gets its answer."""

    async def asked():
        async with page_door(tmp_path, {"/v1/status": (200, plain(NOTHING))}) as (daemon, door):
            own = Own(door, Sessions(door))
            daemon.free.clear()
            first, second = (asyncio.create_task(own.mine(SEEN, ALICE)) for _ in range(2))
            await daemon.came.wait()
            first.cancel()
            daemon.free.set()
            return (await second).live, daemon.asked.total()

    assert asyncio.run(asked()) == (True, 1)


@pytest.mark.parametrize("code", ["too_often", "unavailable", "internal", "one_of_tomorrow"])
def test_a_daemon_that_refuses_is_not_said_to_be_silent(tmp_path, code):
    """Its own words are shown."""
    shown = mine(tmp_path, status=429, told=refusal(code, "not just now"))
    assert (shown.live, shown.refused) == (False, "not just now")


def test_a_session_that_is_over_is_forgotten(tmp_path):
    """At once, not only when it would have been asked about again."""

    async def asked():
        answers = {"/v1/me": (200, ME), "/v1/status": (401, refusal("not_allowed", "over"))}
        async with page_door(tmp_path, answers) as (daemon, door):
            sessions = Sessions(door)
            assert await sessions.reader("alice-session") == ALICE
            with pytest.raises(NobodyError):
                await Own(door, sessions).mine(SEEN, ALICE)
            daemon.answers["/v1/me"] = (401, refusal("not_allowed", "over"))
            return await sessions.reader("alice-session")

    assert asyncio.run(asked()) is None


@pytest.mark.parametrize("told", [{"x": 1}, {**plain(NOTHING), "gpus": 3}])
def test_an_answer_that_makes_no_sense_is_none(tmp_path, told):
    """What was published is shown."""
    shown = mine(tmp_path, told=told)
    assert (shown.live, shown.refused) == (False, "")


@pytest.mark.parametrize(("status", "code"), [(429, "too_often"), (500, "internal")])
def test_why_nobody_can_say_whose_a_session_is_is_told(tmp_path, status, code):
    """The daemon answered: it is not away."""

    async def asked():
        async with page_door(tmp_path, {"/v1/me": (status, refusal(code, "no"))}) as (_, door):
            await Sessions(door).reader("alice-session")

    with pytest.raises(UnknownError, match=code):
        asyncio.run(asked())

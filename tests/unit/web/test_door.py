"""The page's way to the daemon: who waits where, and what it means that no answer comes."""

from __future__ import annotations

import asyncio

import pytest
from fakes.page_door import page_door

from lxgpu.web.door import Door, DoorError, RefusedError, Room, SilentError

ANSWERS = {"/v1/status": (200, {"instance": "alice"}), "/v1/extend": (200, {"text": "done"})}
SOON_S = 0.2


def test_strangers_wait_in_a_room_of_their_own(tmp_path):
    """However many come, those who are known are answered; who finds no place is told so at once."""

    async def story():
        async with page_door(tmp_path, ANSWERS | {"/v1/enter": (200, {})}) as (daemon, door):
            door.strangers = Room(2, 1)
            daemon.free.clear()
            inside = [asyncio.create_task(door.post("/v1/enter", {}, room=door.strangers)) for _ in range(3)]
            await daemon.came.wait()
            with pytest.raises(RefusedError) as raised:
                await door.post("/v1/enter", {}, room=door.strangers)
            known = asyncio.create_task(door.get("/v1/status", "alice-session"))
            while not daemon.asked["/v1/status"]:  # noqa: ASYNC110 -- the fake tells of its first question only
                await asyncio.sleep(0)
            daemon.free.set()
            await asyncio.gather(*inside)
            return raised.value.code, (await known)["instance"], await door.post("/v1/enter", {}, room=door.strangers)

    assert asyncio.run(story()) == ("too_often", "alice", {})


def test_a_change_that_was_heard_and_not_answered_may_have_been_made(tmp_path):
    """Unlike one that nobody heard."""

    async def story():
        async with page_door(tmp_path, ANSWERS) as (daemon, door):
            daemon.free.clear()
            with pytest.raises(SilentError):
                await door.post("/v1/extend", {"seconds": 60}, limit_s=SOON_S)
        with pytest.raises(DoorError) as raised:
            await Door(tmp_path / "nowhere").post("/v1/extend", {"seconds": 60})
        return type(raised.value)

    assert asyncio.run(story()) is DoorError


def test_who_gave_up_takes_no_place(tmp_path):
    """A place is free again when its time is over."""

    async def story():
        async with page_door(tmp_path, ANSWERS) as (daemon, door):
            room = Room(1, 0)
            daemon.free.clear()
            with pytest.raises(DoorError):
                await door.get("/v1/status", limit_s=SOON_S, room=room)
            daemon.free.set()
            return await door.get("/v1/status", room=room)

    assert asyncio.run(story()) == {"instance": "alice"}

"""Streams have their places from the moment that they are let in until they end, begun or not."""

from __future__ import annotations

import asyncio
import re

import pytest
from starlette.requests import ClientDisconnect

from lxgpu.web.live import MOST, MOST_ANYBODY, MOST_EACH, Streams
from lxgpu.web.watching import PARTS, Seen, Watch


def streams(folder):
    """None is open."""
    return Streams(Watch(folder), _held)


async def _held(_session):
    """Every session is somebody's."""
    return True


def opened(found, whose, count):
    """So many of so many that were tried."""
    return [one for one in (found.open(whose, lambda _seen: "age") for _ in range(count)) if one is not None]


@pytest.mark.parametrize(("whose", "most"), [("alice-session", MOST_EACH), ("", MOST_ANYBODY)])
def test_so_many_and_no_more_though_none_has_begun(tmp_path, whose, most):
    """Many that come at the same moment are counted one by one; without a session all are one."""
    found = streams(tmp_path)
    assert len(opened(found, whose, most + 3)) == most


def test_those_without_a_session_leave_room_for_the_others(tmp_path):
    """And the rest is bounded too."""
    found = streams(tmp_path)
    opened(found, "", MOST)
    assert len(opened(found, "alice-session", 1)) == 1
    many = [len(opened(found, f"session-{number}", MOST_EACH)) for number in range(MOST)]
    assert sum(many) == MOST - MOST_ANYBODY - 1


def test_one_that_is_broken_off_before_it_began_leaves_its_place(tmp_path):
    """The caller has gone by the time that the first line would be sent."""
    found = streams(tmp_path)

    async def gone(*_message):
        raise OSError("gone")

    async def begin(stream):
        await stream({"type": "http", "asgi": {"spec_version": "2.4"}}, gone, gone)

    for stream in opened(found, "alice-session", MOST_EACH):
        with pytest.raises(ClientDisconnect):
            asyncio.run(begin(stream))
    assert len(opened(found, "alice-session", 1)) == 1


def test_how_old_it_is_comes_again_only_when_it_reads_otherwise(tmp_path, monkeypatch):
    """In between there is a sign of life that no page shows and no screen reader reads out."""
    monkeypatch.setattr("lxgpu.web.live.BEAT_S", 0.01)
    said = ["old", "old", "older", "older"]

    async def heard():
        stream = streams(tmp_path).open("alice-session", lambda _seen: said.pop(0))
        told = [part async for part in _first(stream.body_iterator, 4)]
        await stream.body_iterator.aclose()
        return [part.decode().partition("\n\n")[0].split("\n")[-1] for part in told]

    assert asyncio.run(heard()) == ["data: old", ": still here", "data: older", ": still here"]


@pytest.mark.parametrize("how", ["logged out", "closed by somebody else"])
def test_a_session_that_is_over_gets_no_more(tmp_path, how):
    """Its page is told to ask for its parts, and so learns of it; the streams of others and of nobody go on."""

    async def heard():
        over = set()

        async def holds(session):
            return session not in over

        watch = Watch(tmp_path)
        found = Streams(watch, holds)
        made = {whose: found.open(whose, lambda _seen: "age").body_iterator for whose in ("alice", "bob", "")}
        for parts in made.values():
            await anext(parts)
        if how == "logged out":
            found.end_of("alice")
        else:
            over.add("alice")
        coming = {whose: asyncio.ensure_future(_rest(parts)) for whose, parts in made.items()}
        async with asyncio.timeout(30):
            while not coming["alice"].done():
                await asyncio.sleep(0)
                watch.wake()
        others = [coming[whose].done() for whose in ("bob", "")]
        found.end()
        return b"".join([*await coming["alice"]]).decode(), others, [await coming[whose] for whose in ("bob", "")]

    told, others, rest = asyncio.run(heard())
    assert re.findall(r"event: (\w+)", told) == ["cards", "calendar", "mine"]
    assert others == [False, False]
    assert all(b"event: cards" not in part for parts in rest for part in parts)


@pytest.mark.parametrize(
    ("shows", "told"),
    [
        (None, []),
        ("1-2-3", []),
        ("1-9-3", ["calendar"]),
        ("", ["cards", "calendar", "mine"]),
        ("1-2-3-4-\u00e9", []),
        ("9", ["cards", "calendar", "mine"]),
    ],
)
def test_what_changed_between_the_page_and_its_stream_is_told_first(tmp_path, shows, told):
    """A page says what it was made of; one that comes again after a while does so too."""

    async def heard():
        watch = Watch(tmp_path)
        watch.seen = Seen(7, None, tuple(zip(PARTS, "123", strict=True)))
        found = Streams(watch, _held)
        stream = found.open("alice-session", lambda _seen: "age", shows=shows)
        coming = [await anext(stream.body_iterator) for _ in range(1 + len(told))]
        found.end()
        return b"".join([*coming, *await _rest(stream.body_iterator)]).decode()

    assert re.findall(r"event: (\w+)", asyncio.run(heard()))[1:] == told


async def _rest(parts):
    return [part async for part in parts]


async def _first(parts, count):
    for _ in range(count):
        yield await anext(parts)

"""Times and ids as people type and read them around reservations, on a whole site of fakes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from dealings import type_at
from fakes.site import make_site, newcomer
from fakes.system import FakeClock

from lxgpu.cli import main
from lxgpu.figures import n_gpus
from lxgpu.model.quota import BASE_TERMS, Policy
from lxgpu.model.rules import BookingRules, PriorityClass, Rules
from lxgpu.services.tick import tick

POLICY = Policy(
    timezone="Asia/Shanghai",
    contact="gpu-admin@lab.example",
    classes={"normal": PriorityClass("normal", priority=50, min_runtime_s=0, grace_s=2, term_wait_s=2)},
    defaults=replace(BASE_TERMS, limit=4, lease_s=86400),
    rules=Rules(bookings=BookingRules(bind_before_s=15)),
)


@pytest.fixture
def lxgpu(tmp_path, monkeypatch, capsys):
    """Lxgpu typed at two cards, bob's and carol's containers without any, and a daemon."""
    site = make_site(tmp_path, gpus=2, policy=POLICY, clock=FakeClock(datetime.now(UTC)))
    for name in ("bob", "carol"):
        newcomer(site, name)
    type_at(site, monkeypatch)

    def typed(*words, status=0):
        ended = main.run(words)
        shown = capsys.readouterr()
        assert ended == status, f"lxgpu {' '.join(words)}: {ended}\n{shown.err}"
        return shown.out, shown.err

    typed.site = site
    return typed


def made(lxgpu, *words):
    """The reservations that a command made or shows."""
    return json.loads(lxgpu(*words, "-o", "json")[0])["items"]


def test_an_id_is_whole_wherever_it_stands(lxgpu):
    """One of a series has a longer id: shortened it would be another booking's."""
    rows = made(lxgpu, "reserve", "bob", "--gpus", "1", "--at", "+1h", "--for", "1h", "--weekly")
    second = rows[1]["id"]
    assert second == f"{rows[0]['id']}-2"
    for words in (("edit", second, "--note", "x"), ("show", second), ("cancel", second)):
        out, err = lxgpu("reservation", *words)
        assert second in out
        assert f"{rows[0]['id']} " not in out + err


def test_the_zone_is_said_once_below_what_has_times(lxgpu, monkeypatch):
    """In wide tables and on terminals; programs get UTC anyway, and a table off a terminal stays as it is."""
    lxgpu("reserve", "bob", "--gpus", "1", "--at", "tomorrow 14:00", "--until", "18:00")
    assert lxgpu("reservations", "-o", "wide")[1].count("times in Asia/Shanghai") == 1
    for form in ("table", "json", "csv"):
        assert "Asia/Shanghai" not in "".join(lxgpu("reservations", "-o", form))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert lxgpu("reservations")[1].count("times in Asia/Shanghai") == 1


def test_a_clock_time_alone_ends_the_booking_on_its_own_day(lxgpu):
    """Of tomorrow's booking 18:00 is tomorrow's; what ends before it begins is told with both times."""
    (row,) = made(lxgpu, "reserve", "bob", "--gpus", "1", "--at", "Tomorrow 2pm", "--until", "18:00")
    assert row["end"][10:] == "T10:00:00Z"
    (row,) = made(lxgpu, "reservation", "edit", row["id"], "--until", "8pm")
    assert row["start"][:10] == row["end"][:10]
    assert row["end"][10:] == "T12:00:00Z"
    _, words = lxgpu("reservation", "edit", row["id"], "--until", "today 23:59", status=2)
    assert "14:00 Asia/Shanghai until " in words
    _, words = lxgpu("reserve", "bob", "--gpus", "1", "--for", "1h", "--until", "18:00", status=2)
    assert "both --for and --until were given" in words
    assert "give it a time" in lxgpu("reserve", "bob", "--gpus", "1", "--for", "0", status=2)[1]


def test_a_rehearsal_says_what_the_command_would_say(lxgpu):
    """Of what must wait its place, an estimate and for what; of what is refused the next step and whom to ask."""
    lxgpu("reserve", "bob", "--gpus", "2", "--for", "4h")
    wish = ("reserve", "carol", "--gpus", "1", "--for", "1h")
    shown, words = lxgpu(*wish, "--dry-run")
    assert "it waits: " in shown
    assert "1 GPU for carol waits as number 1 in the line, likely from " in words
    (plan,) = made(lxgpu, *wish, "--dry-run")
    assert plan["when"] is not None
    real = lxgpu(*wish)[1]
    assert words.splitlines()[-1].partition(", likely")[0] in real
    wish = ("reserve", "carol", "--gpus", "9", "--for", "1h")
    fixes = [
        next(line for line in lxgpu(*wish, *more, status=5)[1].splitlines() if line.startswith("fix:"))
        for more in ((), ("--dry-run",))
    ]
    assert fixes[0] == fixes[1]
    assert "contact: gpu-admin@lab.example" in fixes[0]


def test_where_there_is_no_room_the_answer_is_the_command_for_the_next_time(lxgpu):
    """Typed as it stands it is granted."""
    lxgpu("reserve", "bob", "--gpus", "2", "--at", "tomorrow 09:00", "--for", "4h", "--class", "normal")
    wish = ("reserve", "carol", "--gpus", "1", "--at", "tomorrow 10:00", "--for", "90min")
    for more in ((), ("--dry-run",)):
        _, words = lxgpu(*wish, *more, status=7)
        assert 'fix: lxgpu reserve carol --gpus 1 --for 1h30m --at "tomorrow 13:00"' in words
    assert (
        "booked for carol from tomorrow 13:00 until" in lxgpu(*wish[:4], "--at", "tomorrow 13:00", "--for", "1h30m")[1]
    )


def test_numbers_of_cards_are_each_bookings_own(lxgpu):
    """Whoever books twice hears that both count; at another time nothing is said."""
    lxgpu("reserve", "bob", "--gpus", "1", "--at", "tomorrow 09:00", "--for", "4h")
    _, words = lxgpu("reserve", "bob", "--gpus", "1", "--at", "tomorrow 12:00", "--for", "4h")
    assert re.search(r"bob has another booking of 1 GPU then \(r[0-9a-f]{7}\); together 2", words)
    _, words = lxgpu("reserve", "bob", "--gpus", "1", "--at", "tomorrow 18:00", "--for", "1h")
    assert "together" not in words


def test_longer_until_a_time_is_the_difference(lxgpu):
    """`extend --until` ends there; no longer, or said twice, is refused; far options are not offered."""
    lxgpu("reserve", "bob", "--gpus", "1", "--for", "1h")
    for _ in range(5):
        lxgpu.site.clock.sleep(1)
        tick(lxgpu.site)
    until = lxgpu.site.clock.now().replace(second=0, microsecond=0) + timedelta(hours=30)
    lxgpu("extend", "bob", "--until", until.isoformat().replace("+00:00", "Z"))
    (row,) = made(lxgpu, "reservations", "bob")
    assert abs(datetime.fromisoformat(row["end"]) - until) < timedelta(seconds=2)
    _, words = lxgpu("extend", "bob", "--until", "+1h", status=2)
    assert "it lasts until " in words
    assert "both --for and --until" in lxgpu("extend", "bob", "--until", "18:00", "--for", "1h", status=2)[1]
    assert "how much longer" in lxgpu("extend", "bob", status=2)[1]
    assert "--run-dir" not in lxgpu("attach", "bob", "--until", "18:00", status=2)[1]
    assert "did you mean --gpu or --gpus?" in lxgpu("attach", "bob", "--gpsu", "1", status=2)[1]


def test_a_series_is_one_row_for_people(lxgpu):
    """Its times are in wide tables and for programs; --series is for those that are of one."""
    rows = made(
        lxgpu, "reserve", "bob", "--gpus", "1", "--at", "tomorrow 09:00", "--for", "1h", "--weekly", "--note", "lab"
    )
    shown = lxgpu("reservations")[0].splitlines()
    assert [line.split()[0] for line in shown[2:]] == [rows[0]["id"]]
    assert re.search(rf"weekly, {len(rows)} times until .*; lab$", shown[2])
    assert shown[0] == f"{len(rows)} booked"
    assert len(lxgpu("reservations", "-o", "wide")[0].splitlines()) == len(rows) + 2
    assert len(made(lxgpu, "reservations")) == len(rows)
    lxgpu("reservation", "edit", rows[0]["id"], "--gpus", "2")
    assert len(lxgpu("reservations")[0].splitlines()) == 4
    (alone,) = made(lxgpu, "reserve", "carol", "--gpus", "1", "--at", "tomorrow 18:00", "--for", "1h")
    for more in ((), ("--dry-run",)):
        words = lxgpu("reservation", "cancel", alone["id"], "--series", *more, status=2)[1]
        assert f"{alone['id']} is not one of a weekly series" in words


def test_what_ended_early_shows_when_it_really_ended(lxgpu):
    """In the midst of its time its end is when."""
    lxgpu("reserve", "bob", "--gpus", "1", "--for", "4h")
    for _ in range(5):
        lxgpu.site.clock.sleep(1)
        tick(lxgpu.site)
    (running,) = made(lxgpu, "reservations", "bob")
    lxgpu.site.clock.sleep(600)
    lxgpu("reservation", "cancel", running["id"])
    (gone,) = made(lxgpu, "reservations", "-a")
    assert (
        timedelta(0) < datetime.fromisoformat(gone["end"]) - datetime.fromisoformat(gone["start"]) < timedelta(hours=1)
    )


def test_what_was_given_up_before_its_start_says_when(lxgpu):
    """The state does, and its times stay those that were booked."""
    (ahead,) = made(lxgpu, "reserve", "carol", "--gpus", "1", "--at", "tomorrow 18:00", "--for", "1h")
    lxgpu("reservation", "cancel", ahead["id"])
    line = next(line for line in lxgpu("reservations", "-a")[0].splitlines() if line.startswith(ahead["id"]))
    assert re.search(r" cancelled [0-2][0-9]:[0-5][0-9] .*tomorrow 18:00  tomorrow 19:00", line)


def test_the_calendar_is_whole_off_a_terminal_too(lxgpu):
    """With its legend and zone; how far it looks goes with it alone."""
    wish = ("reserve", "bob", "--gpus", "1", "--at", "tomorrow 09:00", "--for", "1h")
    first, *_, last = made(lxgpu, *wish, "--weekly")
    shown, _ = lxgpu("reservations", "--calendar")
    assert f"a  bob 1 GPU ({first['id']}): booked from tomorrow 09:00 until tomorrow 10:00" in shown
    assert "bookings are after this" in shown
    assert shown.endswith("times in Asia/Shanghai\n")
    assert last["id"] in lxgpu("reservations", "--calendar", "--days", "31")[0]
    assert first["id"] not in lxgpu("reservations", "--calendar", "--from", "+3d", "--for", "2d")[0]
    assert "go with --calendar" in lxgpu("reservations", "--days", "3", status=2)[1]
    assert "both --for and --days" in lxgpu("reservations", "--calendar", "--days", "3", "--for", "2d", status=2)[1]


def test_where_nothing_is_done_nothing_is_said_to_be_done(lxgpu):
    """Cards that are held already, and none to give back."""
    words = lxgpu("release", "bob", "--all")[1]
    assert "it holds no GPU, so nothing was given back" in words
    assert "attached" in lxgpu("attach", "bob", "--gpus", "1")[1]
    words = lxgpu("attach", "bob", "--gpus", "1", "--for", "1h")[1]
    assert "it holds 1 GPU already; --gpus +1 would add one; lxgpu extend bob --for 1h makes the lease longer" in words
    assert "attached" not in words


def test_a_card_that_left_its_booking_shows_its_own_end(lxgpu):
    """Of two the booking keeps one; the other one is over now, and is no part of it any more."""
    lxgpu("reserve", "bob", "--gpus", "2", "--for", "4h")
    for _ in range(5):
        lxgpu.site.clock.sleep(1)
        tick(lxgpu.site)
    (row,) = made(lxgpu, "reservations", "bob")
    lxgpu("reservation", "edit", row["id"], "--gpus", "1")
    (bob,) = made(lxgpu, "show", "bob")
    ends = {card["reservation"]: card["lease_until"] for card in bob["gpus"]}
    assert ends[row["id"]] == row["end"]
    assert datetime.fromisoformat(ends[None]) <= lxgpu.site.clock.now()


@pytest.mark.parametrize(("count", "text"), [(0, "0 GPUs"), (1, "1 GPU"), (2, "2 GPUs")])
def test_cards_are_counted_in_words(count, text):
    """One is not many."""
    assert n_gpus(count) == text

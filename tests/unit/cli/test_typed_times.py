"""Times and ids as people type and read them around reservations, on a whole site of fakes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from fakes.site import make_site, newcomer
from fakes.system import FakeClock

from lxgpu import resident, wiring
from lxgpu.cli import main
from lxgpu.model.quota import BASE_TERMS, Policy
from lxgpu.model.rules import BookingRules, PriorityClass, Rules
from lxgpu.services.statusfile import DaemonView

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
    seam = {
        "site": lambda say, **_: replace(site, say=say),
        "inventory": lambda **_: site.inventory,
        "engine": lambda: site.engine,
        "watcher": lambda: site.engine,
        "probe": lambda _known=None: site.probe,
        "policy": lambda _say: POLICY,
        "settings": lambda: site.settings,
        "host_name": lambda: site.host,
    }
    for name, made in seam.items():
        monkeypatch.setattr(wiring, name, made)
    monkeypatch.setattr(resident, "status", lambda: DaemonView(running=True))

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

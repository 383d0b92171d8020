"""Whether containers use their cards, as it is shown, and as it is taken from what the daemon published."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta

import pytest
from fakes.site import make_site, newcomer

from lxgpu.model.gpu import GpuProcess, Reading
from lxgpu.model.usage import IdleVerdict, Use
from lxgpu.plain import plain
from lxgpu.services import looking, observe
from lxgpu.services.cards import card_views, verdict
from lxgpu.services.idleviews import idle_view, published_idle, published_verdicts
from lxgpu.services.listing import instance_items
from lxgpu.services.publish import published
from lxgpu.services.report import instance_views
from lxgpu.services.sampling import take_samples
from lxgpu.services.statusfile import DaemonView, write


@pytest.fixture
def site(tmp_path):
    """Alice holds two cards, bob none; ten minutes were watched, and a window has passed."""
    made = make_site(tmp_path, gpus=3)
    newcomer(made, "alice", gpus=2)
    newcomer(made, "bob")
    for _ in range(800):
        take_samples(made, observe.look(made, readings=True), made.inventory.read())
        made.clock.sleep(10)
    return made


def publish(site):
    """What the daemon writes down."""
    found = published(site, DaemonView(running=True))
    site.settings.state_dir.mkdir(parents=True, exist_ok=True)
    write(site.settings.state_dir, found)
    return found


def first(site):
    """The card that alice got first."""
    return site.inventory.read().held_by("alice")[0].slot.gpu


def test_one_word_for_all_cards_of_a_container():
    """Busy when one is, idle when all are and since the last began, else not known; nothing held, nothing said."""
    made = IdleVerdict(Use.IDLE, since=(now := make_now())), IdleVerdict(Use.IDLE, since=now + timedelta(1))
    assert (idle_view(made).verdict, idle_view(made).since) == ("idle", now + timedelta(1))
    busy = IdleVerdict(Use.BUSY, since=now)
    assert (idle_view((*made, busy)).verdict, idle_view((*made, busy)).since) == ("busy", now)
    unknown = IdleVerdict(Use.UNKNOWN, since=now)
    assert (idle_view((*made, unknown)).verdict, idle_view((*made, unknown)).since) == ("unknown", None)
    assert idle_view(()).verdict is None


def make_now():
    """Some instant."""
    from fakes.system import START  # noqa: PLC0415 -- a constant

    return START


def test_what_the_daemon_judged_is_what_ls_and_show_tell(site):
    """In JSON the same by both ways; a container without cards has no verdict."""
    found = publish(site)
    assert {view.name: view.idle.verdict for view in found.instances} == {"alice": "idle", "bob": None}
    idle = published_idle(str(site.settings.state_dir))
    records, seen = site.inventory.read(), site.engine.instances()
    items = instance_items(records, seen, "gpu1", idle=idle)
    views = instance_views(records, seen, site.settings, idle=idle)
    assert [item["idle"] for item in items] == [item["idle"] for item in plain(views)]
    assert items[0]["idle"]["verdict"] == "idle"
    assert items[0]["idle"]["since"].endswith("Z")


def test_a_card_at_work_a_while_ago_is_not_idle_now(site):
    """Between two bursts its reading says nothing is done, and the judgement counts."""
    site.probe.utilization[first(site)] = 90
    take_samples(site, observe.look(site, readings=True), site.inventory.read())
    site.probe.utilization[first(site)] = 0
    site.clock.sleep(10)
    found = publish(site)
    by_card = {view.uuid: view.verdict for view in found.gpus}
    assert by_card[first(site)] == "busy"
    judged = published_verdicts(str(site.settings.state_dir))
    assert judged == by_card
    look = looking.look(site.engine, site.probe, site.inventory.read(), host=site.host, at=site.clock.now())
    cards = card_views(look.records, look.seen, look.readings, mode=lambda _: None, judged=judged)
    assert {view.uuid: view.verdict for view in cards.views} == by_card


def test_what_was_published_long_ago_says_nothing(site):
    """A daemon that has gone, a file that is damaged, none at all: not known."""
    folder = site.settings.state_dir
    assert published_idle(str(folder)) == {}
    publish(site)
    path = folder / "status.json"
    then = time.time() - 1000
    os.utime(path, (then, then))
    assert published_idle(str(folder)) == {}
    assert published_verdicts(str(folder)) == {}
    for text in ("{half", "[]", json.dumps({"instances": [{"name": 1}], "gpus": [3]})):
        path.write_text(text)
        assert published_idle(str(folder)) == {}
        assert published_verdicts(str(folder)) == {}


@pytest.mark.parametrize(
    ("processes", "word"),
    [
        ((), "idle"),
        (None, "unknown"),
        ((GpuProcess(1, 5, "compute"),), "foreign"),
        ((GpuProcess(1, 5, "graphics"),), "idle"),
        ((GpuProcess(1, 5, "compute"), GpuProcess(2, 5, "compute", instance="alice")), "busy"),
        ((GpuProcess(2, 5, "compute", instance="alice"),), "busy"),
    ],
)
def test_a_process_of_the_host_alone_is_foreign(processes, word):
    """It belongs to nobody; a display server is no use; with a container's process the card is busy."""
    reading = Reading("GPU-1", make_now(), utilization_percent=0, memory_used_bytes=0, processes=processes)
    assert verdict(reading) == word

"""The last day of a card by half hours: means of what was read, and nothing where nobody looked."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from fakes.site import make_site, newcomer
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.inventory.memory import MemoryInventory
from lxgpu.model.usage import Sample
from lxgpu.services.publish import published
from lxgpu.services.statusfile import DaemonView
from lxgpu.services.useline import EVERY_S, LATE, STEP_S, STEPS, UseLines

T0 = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)
CARD = "GPU-1"
CARDS = (CARD, "GPU-2")


class Counted(MemoryInventory):
    """Remembers what was asked for."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def samples(self, *, since, uuid=None):
        """Those kept."""
        self.asked.append((since, uuid))
        return super().samples(since=since, uuid=uuid)


def at(seconds):
    """So long after the beginning, which is the first second of a half hour."""
    return T0 + timedelta(seconds=seconds)


def looked(first, last, percent, *, card=CARD, every=10):
    """A sample each ten seconds, in seconds after the beginning."""
    return [Sample(at(one), card, percent, 0) for one in range(first, last, every)]


def percents(samples, now, *, lines=None):
    """The line of the card at an instant, newest first, as long as it says anything."""
    inventory = MemoryInventory()
    inventory.add_samples(samples)
    found = (lines or UseLines()).lines(inventory, cards=CARDS, now=now)
    assert all(len(one.percents) == STEPS for one in found.values())
    return found[CARD].percents[::-1] if CARD in found else None


def test_a_half_hour_is_the_mean_of_its_readings():
    """Ten minutes at 90 and twenty at 30 are 50; the half hour that lasts is as far as it has gone."""
    samples = [*looked(0, 600, 90), *looked(600, 1800, 30), *looked(1800, 2400, 80)]
    found = percents(samples, at(2400))
    assert found[:2] == (80.0, 50.0)
    assert set(found[2:]) == {None}


def test_many_looks_at_once_weigh_no_more_than_their_time():
    """Commands make the daemon look more often, which makes nobody busier."""
    samples = [*looked(0, 900, 100, every=1), *looked(900, 1861, 0, every=60)]
    assert percents(samples, at(1920))[1] == 50.0


@pytest.mark.parametrize(
    ("samples", "why"),
    [
        (looked(0, 1800, None), "NVML says nothing"),
        (looked(0, 600, 70), "nobody looked for most of it"),
        (looked(0, 1800, 70, every=600), "a reading speaks for a minute, not for ten"),
        ([], "there is no card like that"),
    ],
)
def test_what_was_not_seen_is_not_known(samples, why):
    """Never 0, and never what a few minutes say of half an hour."""
    found = percents(samples, at(1900))
    assert found is None or set(found) == {None}, why


def test_a_lab_that_has_just_begun_is_seen_at_once():
    """Of the half hour that lasts still half a minute is enough; once it is over, half of it must have been seen."""
    samples = looked(1200, 1260, 80)
    assert percents(samples, at(1285)) == (None,) * STEPS
    assert percents(samples, at(1320))[0] == 80.0
    assert percents(samples, at(1900)) == (None,) * STEPS


def test_it_begins_a_day_ago_at_a_half_hour():
    """48 steps, the last one is now's."""
    inventory = MemoryInventory()
    inventory.add_samples(looked(0, 3600, 5))
    view = UseLines().lines(inventory, cards=CARDS, now=at(3599))[CARD]
    assert view.step_s == STEP_S
    assert view.start == at(1800 - 47 * 1800)


def test_it_is_worked_out_once_a_minute_with_one_small_query():
    """One query a card at the beginning; then what is new, for all cards together."""
    inventory, lines = Counted(), UseLines()
    inventory.add_samples(looked(0, 7200, 40))
    for second in range(3600, 3600 + 600, 10):
        lines.lines(inventory, cards=CARDS, now=at(second))
    first, rest = inventory.asked[:2], inventory.asked[2:]
    assert [uuid for _, uuid in first] == list(CARDS)
    assert len(rest) == (600 - 10) // EVERY_S
    assert all(uuid is None and since >= at(3600) - LATE for since, uuid in rest)


def test_another_inventory_and_a_clock_set_back_begin_anew():
    """What is remembered of the one says nothing of the other."""
    lines = UseLines()
    assert percents(looked(0, 1800, 40), at(1900), lines=lines)[1] == 40.0
    assert percents(looked(0, 1800, 60), at(1900), lines=lines)[1] == 60.0
    assert percents(looked(0, 900, 20), at(900), lines=lines)[0] == 20.0


@given(
    st.lists(st.tuples(st.integers(1, 900), st.sampled_from(CARDS), st.none() | st.integers(0, 100)), max_size=60),
    st.lists(st.integers(1, 4000), max_size=20),
)
def test_kept_up_it_is_what_reading_all_gives(steps, looks):
    """However often it is asked for meanwhile, and however the readings lie."""
    whole, second = [], 0
    for gap, card, percent in steps:
        second += gap
        whole.append(Sample(at(second), card, percent, 0))
    inventory, lines, now = MemoryInventory(), UseLines(), 0
    inventory.add_samples(whole)
    end = at(second + 3600)
    for gap in looks:
        now += gap
        if at(now) < end:
            lines.lines(inventory, cards=CARDS, now=at(now))
    kept = lines.lines(inventory, cards=CARDS, now=end)
    anew = UseLines().lines(inventory, cards=CARDS, now=end)
    for card, view in anew.items():
        assert kept[card].percents == view.percents


@given(st.lists(st.tuples(st.integers(1, 900), st.integers(0, 100)), min_size=1, max_size=60))
def test_a_mean_lies_between_what_was_read(steps):
    """No figure is lower than the lowest reading or higher than the highest."""
    samples, second = [], 0
    for gap, percent in steps:
        second += gap
        samples.append(Sample(at(second), CARD, percent, 0))
    found = percents(samples, at(second + 120))
    known = [one for one in found or () if one is not None]
    assert all(min(p for _, p in steps) <= one <= max(p for _, p in steps) for one in known)


def test_it_is_published(tmp_path):
    """Of every card of which something was read."""
    site = make_site(tmp_path, gpus=2)
    newcomer(site, "alice", gpus=1)
    card = site.engine.cards[0].uuid
    now = site.clock.now()
    site.inventory.add_samples(
        replace(one, at=now - timedelta(seconds=3600) + (one.at - T0), uuid=card) for one in looked(0, 3600, 33)
    )
    found = published(site, DaemonView(running=True)).use
    assert set(found) == {card}
    assert {one for one in found[card].percents if one is not None} == {33.0}

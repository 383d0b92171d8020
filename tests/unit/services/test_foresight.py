"""Forecasts on a whole site of fakes: off they change and cost nothing, proven they have their small say."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from fakes.site import lab_policy, make_site, newcomer

from lxgpu.model.assignment import Assignment, AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.model.rules import ForecastRules, ForecastUse, IdleRules
from lxgpu.model.usage import Sample
from lxgpu.policy.forecast import learn
from lxgpu.services import observe
from lxgpu.services.foresight import FILE, RENEW, STALE, Past, expected_free, foresee, foreseen, look_back, renew
from lxgpu.services.longwatch import LongWatch
from lxgpu.services.tick import look, tick
from lxgpu.simulate.backtest import LABS, history

STEP = timedelta(minutes=10)
NAMES = ("alice", "bob", "carol", "dave")


def site_of(folder, use=ForecastUse.PROVEN):
    """Four people with a card each; a window of idleness is half an hour."""
    rules = replace(lab_policy().rules, idle=IdleRules(window_s=1800, warn_s=()), forecast=ForecastRules(use))
    site = make_site(folder, gpus=4, policy=replace(lab_policy(), rules=rules))
    for name in NAMES:
        newcomer(site, name, gpus=1)
    return site


def watched(site, lab, *, weeks=8):
    """Samples each ten minutes of a made-up lab up to now."""
    now = site.clock.now()
    since = now - timedelta(weeks=weeks)
    made = history(LABS[lab](UTC), holders=4, since=since, until=now, seed=3)
    for number, name in enumerate(NAMES):
        (held,) = site.inventory.read().held_by(name)
        quiet = [one for one in made if one.who == f"holder{number}"]
        times = (since + count * STEP for count in range(int((now - since) / STEP)))
        site.inventory.add_samples(
            [Sample(at, held.slot.gpu, 0 if _within(quiet, at) else 90, 0, 0, name) for at in times]
        )


def _within(quiet, at):
    while quiet and quiet[0].until <= at:
        del quiet[0]
    return bool(quiet) and quiet[0].since <= at


def taken(site):
    """What a decision would look at now."""
    return look(site, observe.look(site, readings=True), site.inventory.read())


def test_off_by_default_nothing_is_read_written_or_told(tmp_path, monkeypatch):
    """Whatever the past says, and whatever was noted when it was on."""
    site = site_of(tmp_path, use=ForecastUse.NEVER)
    assert lab_policy().rules.forecast.use is ForecastUse.NEVER
    tick(site)
    assert not (site.settings.run_dir / FILE).exists()
    (site.settings.run_dir / FILE).write_text("{}", encoding="utf-8")
    monkeypatch.setattr(type(site.settings.run_dir), "read_text", None)  # to read anything would fail
    assert foreseen(site.settings.run_dir, site.policy(), site.clock.now()).returns == {}
    assert renew(site) is False


def test_proven_in_a_lab_with_office_hours_each_holder_has_a_chance(tmp_path):
    """Made by the tick, told by a file, renewed after ten minutes, of no use after an hour."""
    site = site_of(tmp_path)
    watched(site, "office")
    assert taken(site).returns == {}, "nobody made one yet"
    assert tick(site).troubles == ()
    told = taken(site).returns
    assert set(told) == set(NAMES)
    assert all(0 < chance < 1 for chance in told.values())
    assert renew(site) is False
    site.clock.sleep(RENEW.total_seconds())
    assert renew(site) is True
    site.clock.sleep(STALE.total_seconds())
    assert taken(site).returns == {}


def test_the_chance_told_is_that_of_the_hour(tmp_path):
    """By day far above that by night; the scores of the last hours are kept, not taken anew."""
    site = site_of(tmp_path)
    watched(site, "office")
    past = look_back(site.inventory, site.inventory.read(), site.policy(), now=site.clock.now())
    begin = foresee(past, site.policy(), site.clock.now())
    monday = datetime(2027, 1, 4, 10, tzinfo=UTC)
    weeks = (site.clock.now() - monday) // timedelta(weeks=1) + 1
    day = monday + weeks * timedelta(weeks=1)
    at_day = foresee(past, site.policy(), day, measured=begin)
    at_night = foresee(past, site.policy(), day - timedelta(hours=7), measured=begin)
    assert at_day.scores == begin.scores
    assert at_day.scored_at == begin.at
    assert all(at_day.returns[name] > 3 * at_night.returns[name] for name in NAMES)


def test_what_is_not_proven_has_no_say(tmp_path):
    """In a lab without a pattern the scores are there to be read, and no chance is."""
    site = site_of(tmp_path)
    watched(site, "steady")
    tick(site)
    found = foreseen(site.settings.run_dir, site.policy(), site.clock.now())
    assert found.returns == found.frees == {}
    asked = {one.within_s: one for one in found.scores if one.what == "comes back"}
    assert asked[3600].asked > 1000
    assert not asked[3600].proven


def test_a_lab_without_a_past_has_no_forecast(tmp_path):
    """And no trouble with it."""
    site = site_of(tmp_path)
    assert tick(site).troubles == ()
    found = foreseen(site.settings.run_dir, site.policy(), site.clock.now())
    assert (found.returns, found.frees) == ({}, {})
    past = look_back(site.inventory, site.inventory.read(), site.policy(), now=site.clock.now())
    assert expected_free(past, site.policy(), site.clock.now()) == ()
    assert [one for one in found.scores if one.asked] == []


@pytest.mark.parametrize("text", ["", "[]", "{", '{"at": 1}'])
def test_a_file_that_nobody_can_read_says_nothing(tmp_path, text):
    """And is written anew."""
    site = site_of(tmp_path)
    site.settings.run_dir.mkdir(parents=True)
    (site.settings.run_dir / FILE).write_text(text, encoding="utf-8")
    assert foreseen(site.settings.run_dir, site.policy(), site.clock.now()).returns == {}
    assert renew(site) is True


def test_what_is_kept_up_is_what_would_be_read_anew(tmp_path):
    """Bit by bit, as the daemon does, or all at once, as a command does."""
    site = site_of(tmp_path)
    watched(site, "office", weeks=2)
    kept, now = LongWatch(), site.clock.now()
    cards = [gpu.uuid for gpu in site.engine.cards]
    since, rules = now - timedelta(weeks=3), site.policy().rules.idle
    for hours in range(300, -1, -7):
        kept.refresh(site.inventory, rules, cards=cards, since=since, now=now - timedelta(hours=hours))
    bit_by_bit = kept.refresh(site.inventory, rules, cards=cards, since=since, now=now)
    at_once = LongWatch().refresh(site.inventory, rules, cards=cards, since=since, now=now)
    assert len(at_once) > 20
    assert set(bit_by_bit) == set(at_once)
    stricter = replace(rules, window_s=7200)
    assert kept.refresh(site.inventory, stricter, cards=cards, since=since, now=now) == LongWatch().refresh(
        site.inventory, stricter, cards=cards, since=since, now=now
    ), "another window is another past"


def test_a_holder_without_an_end_is_expected_to_go_when_it_is_as_likely_as_not(tmp_path):
    """Only where that is proven, and only of those without an end."""
    site = site_of(tmp_path)
    now, policy = site.clock.now(), site.policy()
    past = Past(_short_holdings(now), _two_held(now), 2)
    found = foresee(past, policy, now)
    assert [one.proven for one in found.scores if (one.what, one.within_s) == ("gives back", 86400)] == [True]
    rates = learn(past.stretches["gives back"], policy.zone, half_life_s=28 * 86400, now=now)
    assert rates is not None
    assert found.frees == {"open": rates.likely_at("alice", now)}
    doubted = replace(found, scores=tuple(replace(one, proven=False) for one in found.scores))
    assert foresee(past, policy, now, measured=doubted).frees == {}
    free = expected_free(past, policy, now)
    assert len(free) == 12
    assert all(0 <= number <= 2 for number in free)


def _short_holdings(now):
    """Cards that are given back in office hours; the same stretches stand for cards as such."""
    made = history(LABS["office"](UTC), holders=6, since=now - timedelta(weeks=12), until=now, seed=1)
    return {"comes back": (), "gives back": made, "card taken": made, "card freed": made}


def _two_held(now):
    """One with an end and one without."""
    begin = now - timedelta(hours=1)
    open_ended = Assignment("open", Slot("c0"), "alice", AssignmentState.ACTIVE, begin, since=begin)
    return open_ended, replace(open_ended, id="lease", slot=Slot("c1"), instance="bob", until=now + timedelta(days=3))

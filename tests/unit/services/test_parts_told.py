"""What people read about a part of a card: one name everywhere, and who is in the way of another division."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.site import lab_policy, make_gpus, make_site, newcomer

from lxgpu.cli.columns import gpu_columns, in_lines
from lxgpu.cli.timeline import legend
from lxgpu.config.shipped import shipped
from lxgpu.model.request import GpuRequest, ReserveRequest
from lxgpu.model.rules import CardRule, Mode
from lxgpu.policy.policyplan import effects_of
from lxgpu.services import explain, lending, observe
from lxgpu.services.banner import booked_line, holds_line, short_line
from lxgpu.services.calendarview import calendar
from lxgpu.services.cards import card_views
from lxgpu.services.guestviews import guest_status
from lxgpu.services.headline import count
from lxgpu.services.noticewords import cards
from lxgpu.services.publish import published
from lxgpu.services.reserve import reserve
from lxgpu.services.statusfile import DaemonView
from lxgpu.services.tick import tick
from lxgpu.web.calendar import bar_text, calendar_model
from lxgpu.web.mine import mine_of
from lxgpu.web.parts import models
from lxgpu.web.words import Words, catalogue

QUARTER = "* 0.25"
CARD = make_gpus(1)[0].uuid


def policy(rule):
    """The lab's policy, with this rule for the first card."""
    made = lab_policy()
    return replace(made, rules=replace(made.rules, cards={CARD: rule}))


@pytest.fixture
def site(tmp_path):
    """Alice and bob have a quarter each of the first of two cards; bob has booked one for later."""
    made = make_site(tmp_path, gpus=2, policy=policy(CardRule(Mode.TIMESHARE, 4)))
    for name in ("alice", "bob", "carol"):
        newcomer(made, name)
    tick(made)
    for name in ("alice", "bob"):
        request = GpuRequest(name, "", 0, model=QUARTER)
        lending.attach(made, name, number=1, more=False, request=request, lease_s=None)
    at = made.clock.now() + timedelta(hours=5)
    reserve(made, ReserveRequest("carol", "carol", 1, 3600, model=QUARTER, at=at))
    return made


def clock(at):
    """A time of day."""
    return f"{at:%H:%M}"


def views(site):
    """The cards as `gpus` shows them."""
    records, seen = site.inventory.read(), observe.look(site, readings=True)
    return card_views(records, seen, seen.readings, mode=lambda uuid: site.policy().rules.card(uuid).mode.value)


def test_who_holds_a_part_reads_so_where_they_are(site):
    """In `gpu`, the banner, the prompt and notices; the booking's line says which part was asked for."""
    records, now = site.inventory.read(), site.clock.now()
    told = guest_status(
        records, "alice", count=count(views(site).views, now), verdicts={}, line={}, said=(), timezone="UTC", now=now,
        show=clock,
    )  # fmt: skip
    assert told.lines[1] == "alice holds 1/4 of a GPU"
    assert told.lines[2].startswith("  1/4 of RTX 3090 (GPU-00000001/1/4), ")
    (gpu,) = told.gpus
    assert (gpu.slot, gpu.uuid, gpu.model) == (f"{CARD}/1/4", CARD, "NVIDIA RTX 3090 1/4")
    assert holds_line(records, "alice", now=now, show=clock).startswith("You hold 1/4 of a GPU ")
    assert short_line(records, "alice", now=now, show=clock).startswith("1/4 of a GPU")
    carol = next(row for row in records.instances if row.name == "carol")
    assert booked_line(records, carol, show=clock).startswith("Booked: 1/4 of RTX 3090 from ")
    assert str(cards([f"{CARD}/2/4"], records)) == "1/4 of RTX 3090 (GPU-00000001/2/4)"


def test_the_table_of_cards_has_a_line_for_each_part(site):
    """Below the card's own, which says what is free of it; a whole card is one line as ever."""
    found = views(site)
    columns = gpu_columns(found.views, found.notes, clock, form="table")[:4]
    lines = [[column.cell(item) for column in columns] for item in in_lines(found.views)]
    assert [line[0] for line in lines] == [
        "GPU-00000001",
        *(f"GPU-00000001/{n}/4" for n in (1, 2, 3, 4)),
        "GPU-00000002",
    ]
    assert [line[1] for line in lines] == ["RTX 3090", *["1/4 of RTX 3090"] * 4, "RTX 3090"]
    assert [line[2] for line in lines] == ["2 of 4 parts free", "active", "active", "free", "free", "free"]
    assert [line[3] for line in lines] == ["-", "alice", "bob", "-", "-", "-"]


def test_why_and_the_calendar_tell_part_by_part(site):
    """Holders in the order of the parts, a line a part, and what is booked by its name."""
    records, now, found = site.inventory.read(), site.clock.now(), views(site)
    told = explain.about_gpu(records, found.views[0], "", (), show=clock, now=now)
    assert [reason.subject for reason in told] == [f"{CARD}/1/4", f"{CARD}/2/4"]
    shown = calendar(records, now=now)
    assert [line.name for line in shown.lines] == [
        *(f"{CARD}/{n}/4" for n in (1, 2, 3, 4)), make_gpus(2)[1].uuid, "NVIDIA RTX 3090 1/4",
    ]  # fmt: skip
    assert any("carol 1/4 of RTX 3090 (" in line for line in legend(shown, show=clock))


def test_the_page_calls_it_the_same(site):
    """The calendar's rows and bars, what is mine, and what may be asked for."""
    found = published(site, DaemonView(running=False))
    t = Words(catalogue(shipped("templates") / "web/words.yaml"), "en", found.written_at, site.policy().zone)
    drawn = calendar_model(found, view="day", day=0, zone=site.policy().zone, me="carol")
    assert [row.name.partition("/")[2] for row in drawn.rows] == ["1/4", "2/4", "3/4", "4/4", "", ""]
    assert [row.model for row in drawn.rows][3:] == ["1/4 of RTX 3090", "RTX 3090", "1/4 of RTX 3090"]
    assert bar_text(drawn.rows[5].bars[0], t).startswith("carol booked 1/4 of a GPU: ")
    (held,) = mine_of(found, None, "alice").held
    assert (held.name, held.model) == ("GPU-00000001/1/4", "1/4 of RTX 3090")
    (wish,) = mine_of(found, None, "carol").wishes
    assert (t.cards(wish.gpus, wish.asked), wish.model) == ("1/4 of a GPU", "RTX 3090")
    assert models(found) == (("NVIDIA RTX 3090 1/4", "1/4 of RTX 3090"), ("NVIDIA RTX 3090", "RTX 3090"))
    assert t.cards(1, QUARTER) == "a part of a GPU (0.25 or more)"


def test_a_plan_of_the_policy_names_who_is_in_the_way(site):
    """One line a holder, and that they keep it; what is divided as before is no effect."""
    snapshot = observe.snapshot(site)
    assert effects_of(snapshot, site.policy()) == ()
    told = [effect for effect in effects_of(snapshot, policy(CardRule(Mode.TIMESHARE, 2))) if effect.code == "divides"]
    assert [effect.subject for effect in told] == [CARD, "alice", "bob"]
    assert f"{CARD} is to be 2 time shares, and stays 4 time shares until nobody has any of it" in told[1].text
    assert f"alice holds {CARD}/1/4" in told[1].text
    assert told[1].text.endswith("and keeps it")

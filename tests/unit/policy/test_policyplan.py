"""What an edit of the policy would do to the living: told before it is done, with names, numbers and times."""

from __future__ import annotations

from dataclasses import replace

import pytest
from inventory_rows import assignment, at, card, instance
from reservation_rows import booking, request

from lxgpu.model.gpu import Gpu
from lxgpu.model.quota import BASE_TERMS, NOTHING, Group, Policy, Terms, Total
from lxgpu.model.reservation import Reservation
from lxgpu.model.rules import BookingRules, PageRules, PreemptionRules, PriorityClass, Rules
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.policy.policyplan import at_odds, effects_of

NOW = at(0)
MODEL = "NVIDIA A100"
NORMAL = PriorityClass("normal", priority=50, min_runtime_s=0, grace_s=300, term_wait_s=120)
POLICY = Policy(
    classes={"normal": NORMAL, "urgent": PriorityClass("urgent", priority=100, who=("*",), min_runtime_s=0)},
    defaults=replace(BASE_TERMS, limit=2),
    groups={"vision": Group("vision", members=("alice", "bob"), total=Total(guaranteed=1, limit=4))},
    rules=Rules(preemption=PreemptionRules(fence_timeout_s=120)),
)


def world(*rows):
    """Two cards, which alice holds; bob has none."""
    gpus = tuple(Gpu(f"GPU-{number}", f"0000:0{number}:00.0", MODEL, "gpu1") for number in (1, 2))
    held = [assignment(f"a{gpu.uuid}", gpu.uuid, class_name="normal", until=at(600)) for gpu in gpus]
    reservations = tuple(row for row in rows if isinstance(row, Reservation))
    others = [row for row in rows if not isinstance(row, Reservation)]
    records = Records(
        1,
        None,
        instances=(instance("alice"), instance("bob")),
        assignments=tuple(others or held),
        reservations=reservations,
        cards=tuple(card(gpu.uuid, pci=gpu.pci, model=MODEL) for gpu in gpus),
    )
    return Snapshot(NOW, records, Observation("gpu1", "", NOW, gpus), POLICY)


def with_users(**users):
    """The policy with other words on some people."""
    return replace(POLICY, users={name: replace(NOTHING, **terms) for name, terms in users.items()})


def told(snapshot, new):
    """Codes and subjects, with numbers."""
    return [(effect.code, effect.subject, effect.gpus) for effect in effects_of(snapshot, new)]


def test_the_same_policy_does_nothing():
    """Also when somebody is over it already: that is no effect of the edit, and is told without one."""
    assert effects_of(world(), POLICY) == ()
    less = with_users(alice={"limit": 1})
    over = replace(world(), policy=less)
    assert effects_of(over, less) == ()
    assert [effect.code for effect in at_odds(over)] == ["over_limit"]


def test_who_may_look_at_the_page_is_told_both_ways():
    """Names become visible to everybody, or those who only looked are shut out; left as it is, nothing is said."""
    public = replace(POLICY, rules=replace(POLICY.rules, page=PageRules(public=True)))
    (opened,) = effects_of(world(), public)
    assert (opened.code, opened.subject, opened.gpus, opened.at) == ("page_opens", "everybody", None, None)
    assert "without a login" in opened.text
    (closed,) = effects_of(replace(world(), policy=public), POLICY)
    assert (closed.code, closed.subject) == ("page_closes", "everybody")
    assert "lxgpu web --link" in closed.text
    assert effects_of(replace(world(), policy=public), public) == ()


def test_a_lower_limit_takes_nothing_while_nobody_waits():
    """It says what goes first, and that nothing goes at once."""
    (effect,) = effects_of(world(), with_users(alice={"limit": 1}))
    assert (effect.code, effect.gpus, effect.at) == ("over_limit", 1, None)
    assert effect.text == ("alice holds 2 and may hold 1: nothing is taken at once, 1 goes first when somebody waits")


def test_a_lower_limit_takes_a_card_for_who_waits():
    """The rehearsal is the decision itself: from whom, when the grace is over, for whom."""
    waits = request("q1", "bob", class_name="normal")
    effects = effects_of(world(waits), with_users(alice={"limit": 1}))
    assert [(effect.code, effect.subject) for effect in effects] == [("over_limit", "alice"), ("takes", "alice")]
    assert effects[1].text.startswith("takes 1 GPU from alice at 08:05, for bob: alice holds 2 and may hold 1")
    assert (effects[1].gpus, effects[1].at) == (1, at(5))


def test_the_newest_booking_beyond_a_limit_is_trimmed():
    """From its beginning on; the older one stays as it is, and one that fits is nobody's loss."""
    older = booking("r1", gpus=1, class_name="normal")
    newer = booking("r2", gpus=2, class_name="normal", created_at=at(1))
    apart = booking("r3", gpus=1, class_name="normal", created_at=at(2), start=at(300), until=at(400))
    snapshot = world(older, newer, apart)
    (effect,) = effects_of(replace(snapshot, policy=with_users(bob={"limit": 3})), with_users(bob={"limit": 2}))
    assert (effect.code, effect.subject, effect.gpus) == ("booking_surplus", "bob", 1)
    assert effect.at == at(60)
    assert effect.text == "takes 1 GPU from bob at 09:00: booking r2 of 2, may have 2 then"


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (with_users(alice={"until": at(-1)}), ("person_ended", "alice", 2)),
        (replace(POLICY, classes={"other": replace(NORMAL, name="other")}), ("class_gone", "alice", 2)),
        (
            replace(POLICY, classes={**POLICY.classes, "normal": replace(NORMAL, max_gpus=1)}),
            ("over_class_limit", "alice", 1),
        ),
        (
            replace(POLICY, groups={"vision": replace(POLICY.groups["vision"], total=Total(limit=1, guaranteed=1))}),
            ("over_group_limit", "vision", 1),
        ),
        (
            replace(POLICY, groups={"vision": replace(POLICY.groups["vision"], total=Total(limit=4))}),
            ("less_guaranteed", "vision", 1),
        ),
    ],
)
def test_every_kind_of_loss_is_told(new, expected):
    """An end, a class that is gone, bounds of classes and groups, a guarantee."""
    assert expected in told(world(), new)


def test_a_class_that_somebody_holds_and_may_use_no_more():
    """They keep the card; asking again is over."""
    held = assignment("a1", "GPU-1", class_name="urgent")
    closed = replace(POLICY, classes={**POLICY.classes, "urgent": replace(POLICY.classes["urgent"], who=("root",))})
    assert told(world(held), closed) == [("class_not_allowed", "alice", 1)]


def test_a_persons_own_guarantee_that_shrinks():
    """Only as far as they hold cards under it."""
    before = replace(world(), policy=replace(POLICY, users={"alice": Terms(guaranteed=2)}))
    assert told(before, with_users(alice={"guaranteed": 1})) == [("less_guaranteed", "alice", 1)]
    assert told(before, with_users(alice={"guaranteed": 3, "limit": 3})) == []


def test_more_for_somebody_is_no_finding():
    """A higher limit, a new class, a longer lease: nobody loses."""
    more = replace(
        POLICY,
        defaults=replace(POLICY.defaults, limit=8, lease_s=10**6),
        classes={**POLICY.classes, "low": PriorityClass("low", priority=1)},
    )
    assert effects_of(world(), more) == ()


def test_bookings_that_could_not_be_made_any_more_are_told():
    """Larger, longer, or further ahead than the new rules have it: each with its times, and that it stays."""
    row = booking("r1", gpus=2, class_name="normal", start=at(60), until=at(300))
    rules = BookingRules(max_gpus=1, longest_s=3600, horizon_s=2 * 3600)
    effects = effects_of(world(row), replace(POLICY, rules=replace(POLICY.rules, bookings=rules)))
    stays = "it stays, and no other like it can be made"
    assert [(effect.code, effect.subject, effect.at, effect.text) for effect in effects] == [
        (
            "beyond_horizon",
            "bob",
            at(60),
            f"booking r1 of bob at 09:00 ends at 13:00, and bookings may reach until 10:00: {stays}",
        ),
        (
            "booking_too_large",
            "bob",
            at(60),
            f"booking r1 of bob at 09:00 has 2 GPUs, and one booking may have 1: {stays}",
        ),
        (
            "booking_too_long",
            "bob",
            at(60),
            f"booking r1 of bob at 09:00 lasts 4h, and one booking may last 1h: {stays}",
        ),
    ]

"""What a person may have: levels, groups, overrides, classes."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lxgpu.model.instance import Limits
from lxgpu.model.quota import Change, Group, Override, Policy, Terms, Total
from lxgpu.model.rules import Allowance, CardRule, Mode, PriorityClass, Rules, SharedData, SharingRules

NOW = datetime(2027, 5, 2, tzinfo=UTC)
DAY = timedelta(days=1)
CLASSES = {
    "urgent": PriorityClass("urgent", priority=100, preemptible=False, who=("@gpu-admins", "zoe")),
    "normal": PriorityClass("normal", priority=50, preemption_threshold=80),
    "scavenge": PriorityClass("scavenge", priority=10),
}


def _limit(policy: Policy, person: str, *, unix: tuple[str, ...] = (), now: datetime = NOW, **levels: Terms) -> int:
    return policy.entitlement(person, policy.groups_of(person, unix), now, **levels).limit


def test_each_level_wins_over_the_one_below():
    """Flag > user > group's each > profile > defaults."""
    policy = Policy(
        defaults=Policy().defaults,
        groups={"vision": Group("vision", members=("bob", "carol"), each=Terms(limit=3))},
        users={"carol": Terms(limit=4)},
    )
    profile = Terms(limit=2)
    assert _limit(policy, "alice") == 1
    assert _limit(policy, "alice", profile=profile) == 2
    assert _limit(policy, "bob", profile=profile) == 3
    assert _limit(policy, "carol", profile=profile) == 4
    assert _limit(policy, "carol", profile=profile, flags=Terms(limit=5)) == 5


def test_a_level_that_says_nothing_lets_the_lower_one_through():
    """Each field stands for itself."""
    policy = Policy(users={"alice": Terms(cpu=2)})
    found = policy.entitlement("alice", frozenset(), NOW)
    assert (found.cpu, found.limit, found.memory_bytes) == (2, 1, 32 * 2**30)


GROUPS = {
    "a": Group("a", members=("bob",), each=Terms(limit=2, class_name="scavenge", until=NOW + DAY)),
    "b": Group("b", members=("bob",), each=Terms(limit=1, class_name="normal", cpu=4)),
    "c": Group("c", members=("bob",), each=Terms(until=NOW + 3 * DAY, gpu_hours=Allowance(10, 3600))),
}


@pytest.mark.parametrize("order", list(itertools.permutations(GROUPS)))
def test_of_several_groups_the_better_value_counts_in_any_order(order):
    """More cards, the higher class, the later end; the order of the file does not matter."""
    policy = Policy(classes=CLASSES, groups={name: GROUPS[name] for name in order})
    found = policy.entitlement("bob", policy.groups_of("bob", ()), NOW)
    assert (found.limit, found.class_name, found.cpu) == (2, "normal", 4)
    assert found.until == NOW + 3 * DAY
    assert found.gpu_hours == Allowance(10, 3600)
    assert found.groups == ("a", "b", "c")


def test_members_come_by_name_by_unix_group_and_by_a_star():
    """`@name` is a Unix group of the host, `*` is everybody."""
    policy = Policy(
        groups={
            "vision": Group("vision", members=("@vision", "alice")),
            "all": Group("all", members=("*",)),
        }
    )
    assert policy.groups_of("alice", ()) == {"vision", "all"}
    assert policy.groups_of("bob", ("vision",)) == {"vision", "all"}
    assert policy.groups_of("vision", ()) == {"all"}


def test_an_override_holds_in_its_half_open_time_and_at_its_level_only():
    """From its start on, until its end and no longer; a user's own limit still wins over the group's."""
    policy = Policy(
        groups={"vision": Group("vision", members=("bob", "carol"), each=Terms(limit=2), total=Total(2, 6))},
        users={"carol": Terms(limit=1)},
        overrides=(Override(NOW, NOW + DAY, groups={"vision": Change(limit=12, each=Terms(limit=5))}),),
    )
    before, last = NOW - timedelta(microseconds=1), NOW + DAY - timedelta(microseconds=1)
    assert [_limit(policy, "bob", now=at) for at in (before, NOW, last, NOW + DAY)] == [2, 5, 5, 2]
    assert [policy.group_total("vision", at).limit for at in (before, NOW, last, NOW + DAY)] == [6, 12, 12, 6]
    assert policy.group_total("vision", NOW).guaranteed == 2
    assert _limit(policy, "carol") == 1


def test_the_last_override_of_one_value_wins():
    """As in the file: what stands below."""
    overrides = tuple(Override(NOW, NOW + DAY, users={"bob": Terms(limit=limit)}) for limit in (3, 7, 5))
    assert _limit(Policy(overrides=overrides), "bob") == 5


def test_a_limit_below_the_guarantee_counts():
    """Nobody is promised more than they may hold."""
    policy = Policy(users={"bob": Terms(limit=1, guaranteed=3)})
    assert policy.entitlement("bob", frozenset(), NOW).guaranteed == 1


def test_each_card_adds_to_the_limits():
    """CPU and memory grow with the cards, disk and processes do not."""
    found = Policy().entitlement("bob", frozenset(), NOW)
    gib = 2**30
    assert found.limits(0) == Limits(cpu=8, memory_bytes=32 * gib, disk_bytes=200 * gib, processes=16384)
    assert found.limits(2) == Limits(cpu=24, memory_bytes=160 * gib, disk_bytes=200 * gib, processes=16384)


def test_an_end_is_half_open():
    """At the moment itself the time is over."""
    policy = Policy(users={"bob": Terms(until=NOW)})
    found = policy.entitlement("bob", frozenset(), NOW)
    assert found.ended(NOW)
    assert not found.ended(NOW - timedelta(microseconds=1))
    assert not policy.entitlement("eve", frozenset(), NOW).ended(NOW)


@pytest.mark.parametrize(
    ("person", "unix", "allowed"),
    [
        ("bob", (), {"normal", "scavenge"}),
        ("zoe", (), {"urgent", "normal", "scavenge"}),
        ("root", ("gpu-admins",), {"urgent", "normal", "scavenge"}),
        ("carol", (), {"scavenge"}),
    ],
)
def test_people_use_their_own_class_or_a_lower_one_unless_who_says_more(person, unix, allowed):
    """`who` only adds."""
    policy = Policy(classes=CLASSES, users={"carol": Terms(class_name="scavenge")})
    found = {name for name in [*CLASSES, "nix"] if policy.may_use(name, person, unix, NOW)}
    assert found == allowed


def test_who_yields_to_whom():
    """By priority, bounded by the threshold of the holder's class, never where it is not preemptible."""
    yields = {(a, b) for a in CLASSES for b in CLASSES if CLASSES[a].yields_to(CLASSES[b])}
    assert yields == {("normal", "urgent"), ("scavenge", "normal"), ("scavenge", "urgent")}


def test_admins_and_managers():
    """By name or Unix group; root always is an admin."""
    policy = Policy(admins=("ann", "@wheel"), groups={"v": Group("v", managers=("carol", "@leads"))})
    assert policy.is_admin("ann", ())
    assert policy.is_admin("bob", ("wheel",))
    assert policy.is_admin("root", ())
    assert not policy.is_admin("bob", ("users",))
    assert policy.manages("v", "carol", ())
    assert policy.manages("v", "bob", ("leads",))
    assert not policy.manages("v", "bob", ())
    assert not policy.manages("w", "carol", ())


def test_shared_data_goes_to_its_groups():
    """Without groups it is for all."""
    data = {
        "b": SharedData("b", path="/b", at="/b", groups=("vision",)),
        "a": SharedData("a", path="/a", at="/a"),
    }
    assert [item.name for item in Policy(data=data).data_for(())] == ["a"]
    assert [item.name for item in Policy(data=data).data_for(("vision",))] == ["a", "b"]


def test_a_card_is_divided_by_its_own_entry_then_the_longest_prefix_then_as_all():
    """One entry can stand for cards whose UUIDs begin alike."""
    mig, share = CardRule(Mode.MIG, slices=("1g.10gb",)), CardRule(Mode.TIMESHARE, slots=2)
    whole = CardRule(Mode.EXCLUSIVE)
    rules = Rules(cards={"GPU-ab*": mig, "GPU-abc*": share, "GPU-abcd": whole})
    assert rules.card("GPU-abcd") == whole
    assert rules.card("GPU-abce") == share
    assert rules.card("GPU-abd") == mig
    assert rules.card("GPU-x") == CardRule(Mode.EXCLUSIVE)
    assert Rules(sharing=SharingRules(default=Mode.TIMESHARE, slots=3)).card("GPU-x") == CardRule(
        Mode.TIMESHARE, slots=3
    )


@given(
    limits=st.lists(st.integers(0, 9) | st.none(), max_size=4),
    own=st.integers(0, 9) | st.none(),
    guaranteed=st.integers(0, 9) | st.none(),
)
def test_an_entitlement_never_has_gaps(limits, own, guaranteed):
    """Whatever the levels leave out, there is a limit, and the guarantee is not above it."""
    groups = {f"g{n}": Group(f"g{n}", members=("bob",), each=Terms(limit=limit)) for n, limit in enumerate(limits)}
    policy = Policy(groups=groups, users={"bob": Terms(limit=own, guaranteed=guaranteed)})
    found = policy.entitlement("bob", policy.groups_of("bob", ()), NOW)
    said = [limit for limit in limits if limit is not None]
    assert found.limit == (own if own is not None else max(said, default=1))
    assert 0 <= found.guaranteed <= found.limit

"""What each group owns: whole servers in proportion, and what a policy guarantees."""

from __future__ import annotations

import pytest

from lxgpu.errors import LxgpuError
from lxgpu.model.quota import Group, Policy, Terms, Total
from lxgpu.simulate.jobs import Job, Lab, Workload
from lxgpu.simulate.shares import divided, owned_cards, owned_servers


def _workload(**demand_s):
    return Workload("w", tuple(Job(name, name, 1, 0, seconds, group=name) for name, seconds in demand_s.items()))


def _policy(**cards):
    return Policy(groups={name: Group(name, total=Total(guaranteed=count)) for name, count in cards.items()})


@pytest.mark.parametrize(
    ("weights", "total", "least", "given"),
    [
        ({"a": 1, "b": 3, "c": 8}, 12, 1, {"a": 1, "b": 3, "c": 8}),
        ({"a": 50, "b": 30, "c": 20}, 4, 1, {"a": 2, "b": 1, "c": 1}),
        ({"a": 1, "b": 99}, 10, 1, {"a": 1, "b": 9}),
        ({"a": 1, "b": 1, "c": 98}, 3, 1, {"a": 1, "b": 1, "c": 1}),
        ({"a": 1, "b": 99}, 10, 0, {"a": 0, "b": 10}),
        ({"a": 0, "b": 0}, 4, 1, {"a": 2, "b": 2}),
        ({"a": 0, "b": 5}, 4, 1, {"a": 1, "b": 3}),
        ({}, 4, 1, {}),
    ],
    ids=[
        "exact",
        "largest remainder",
        "at least one",
        "no more than there are",
        "none",
        "no demand",
        "one idle",
        "empty",
    ],
)
def test_things_are_divided_by_largest_remainder(weights, total, least, given):
    """Things are divided by largest remainder."""
    assert divided(weights, total, least) == given


def test_without_a_policy_a_group_owns_servers_in_proportion_to_what_it_asks_for():
    """Without a policy a group owns servers in proportion to what it asks for."""
    workload = _workload(a=100, b=310, c=790)
    assert owned_servers(workload, Lab(12, 8)) == {"a": 1, "b": 3, "c": 8}
    assert owned_cards(workload, Lab(12, 8)) == {"a": 8, "b": 24, "c": 64}


def test_with_a_policy_its_guarantees_count():
    """With a policy its guarantees count."""
    workload = _workload(a=100, b=310, c=790)
    policy = _policy(a=16, b=16, other=64)
    assert owned_servers(workload, Lab(4, 8), policy) == {"a": 2, "b": 1, "c": 1}
    assert owned_cards(workload, Lab(4, 8), policy) == {"a": 16, "b": 16, "c": 0}


@pytest.mark.parametrize(
    ("members", "total", "cards"),
    [
        (("a", "ann"), 0, 4),
        (("a", "ann"), 3, 4),
        (("a", "ann"), 9, 9),
        (("ann", "ben", "b"), 0, 4),
        (("@staff",), 0, 2),
        (("*",), 1, 2),
        ((), 5, 5),
    ],
    ids=[
        "each of two",
        "each, and less together",
        "more together",
        "who asks elsewhere counts there",
        "whom a Unix group means is who asks",
        "everybody is who asks",
        "nobody",
    ],
)
def test_what_is_guaranteed_to_each_member_is_the_groups_too(members, total, cards):
    """What is guaranteed to each member is the group's too, if that is more than what it has together."""
    one = Group("a", members, Total(guaranteed=total), each=Terms(guaranteed=2, limit=8))
    policy = Policy(groups={"a": one, "b": Group("b", ("b",), Total(guaranteed=1))})
    workload = _workload(a=100, b=300)
    assert owned_cards(workload, Lab(4, 8), policy)["a"] == cards


def test_a_policy_without_guarantees_divides_servers_by_demand():
    """A policy without guarantees divides servers by demand."""
    assert owned_servers(_workload(a=100, b=300), Lab(4, 8), Policy()) == {"a": 1, "b": 3}


def test_more_groups_than_servers_cannot_have_one_each_but_share_the_cards():
    """More groups than servers cannot have one each but share the cards."""
    workload = _workload(a=100, b=100, c=200)
    with pytest.raises(LxgpuError, match="3 groups cannot have a server each of 2"):
        owned_servers(workload, Lab(2, 8))
    assert owned_cards(workload, Lab(2, 8)) == {"a": 4, "b": 4, "c": 8}

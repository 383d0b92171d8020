"""How owners ask: leases that end where others have booked, on the host where they disturb least, in one class."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lxgpu.model.quota import Policy, Terms
from lxgpu.model.rules import PriorityClass
from lxgpu.simulate.jobs import MONDAY, Burst, Job, Lab, Workload
from lxgpu.simulate.owners import Owners
from lxgpu.simulate.runs import missing_classes
from lxgpu.simulate.site import Site

HOUR = 3600
POLICY = Policy(
    classes={"normal": PriorityClass("normal", 50), "scavenge": PriorityClass("scavenge", 10)},
    defaults=Terms(limit=8, class_name="normal", lease_s=72 * HOUR),
)
HOLDER = Job("h", "ann", 1, 0, 10 * HOUR, bursts=(Burst(0, 60),))
DUE = Job("d", "bob", 2, 0, HOUR, deadline_s=4 * HOUR)


def _site(servers=1, *, policy=POLICY, names=("ann", "bob")):
    site = Site(Lab(servers, 2), policy, MONDAY)
    for name in names:
        site.make(name, name)
    return site, Owners(site)


def _leases(site, name="ann"):
    return [(site.server(row.slot), site.seconds(row.until), row.class_name) for row in site.held(name)]


def test_a_lease_ends_where_others_have_booked_its_card():
    """As the daemon says when it grants one: the booking begins in time."""
    site, owners = _site()
    _, (booked,) = owners.book("bob", DUE, left_s=HOUR, now_s=0)
    assert owners.lease("ann", HOLDER, 10 * HOUR)
    assert _leases(site) == [(0, site.seconds(booked.start), "normal")]


@pytest.mark.parametrize(("allowed_h", "wants_h", "has_h"), [(72, 10, 10), (6, 10, 6)])
def test_a_lease_is_no_longer_than_wanted_and_than_its_owner_may(allowed_h, wants_h, has_h):
    """What the policy gives at a time is enough for nobody who stays longer: they keep it until somebody waits."""
    site, owners = _site(policy=replace(POLICY, defaults=replace(POLICY.defaults, lease_s=allowed_h * HOUR)))
    assert owners.lease("ann", HOLDER, wants_h * HOUR)
    assert _leases(site) == [(0, has_h * HOUR, "normal")]


def test_a_lease_is_taken_where_the_cards_are_not_booked_and_the_fewest_are_kept_free():
    """Not on the host with the lowest number."""
    site, owners = _site(3, names=("ann", "bob", "cid"))
    owners.book("bob", DUE, left_s=HOUR, now_s=0)
    site.keep(site.desk(0))
    assert owners.lease("ann", HOLDER, 10 * HOUR)
    assert owners.lease("cid", replace(HOLDER, owner="cid"), 10 * HOUR)
    assert {server for name in ("ann", "cid") for server, _, _ in _leases(site, name)} == {1}


def test_the_class_that_a_lease_has_is_the_one_that_it_is_admitted_in():
    """Not the one that the person is usually in."""
    classes = {**POLICY.classes, "free": PriorityClass("free", 60), "normal": PriorityClass("normal", 50, max_gpus=1)}
    site, owners = _site(policy=replace(POLICY, classes=classes, defaults=replace(POLICY.defaults, class_name="free")))
    assert not owners.lease("ann", replace(HOLDER, gpus=2), HOUR)
    assert owners.lease("ann", HOLDER, HOUR)
    assert _leases(site) == [(0, HOUR, "normal")]


@pytest.mark.parametrize(
    ("job", "wanted"),
    [
        (Job("a", "a", 1, 0, HOUR), {"scavenge"}),
        (Job("a", "a", 1, 0, HOUR, class_name="own"), {"own"}),
        (HOLDER, {"normal"}),
        (replace(DUE, deadline_s=100 * HOUR), {"scavenge", "normal"}),
        (replace(DUE, deadline_s=HOUR), {"normal"}),
        (replace(DUE, class_name="own"), {"own"}),
    ],
)
def test_the_classes_that_a_policy_lacks_are_those_that_owners_ask_in(job, wanted):
    """A job with a deadline far ahead asks in two."""
    assert missing_classes(Workload("w", (job,)), replace(POLICY, classes={})) == sorted(wanted)

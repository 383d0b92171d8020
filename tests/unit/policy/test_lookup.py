"""Tables sorted once: the same table is not looked at again, and a changed one is never taken for it."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from calendar_worlds import holding, policy_of, reservation, world

from lxgpu.model.instance import Instance, InstanceState
from lxgpu.policy.admission import entitlement
from lxgpu.policy.lookup import (
    bookings_by_owner,
    by_card,
    by_instance,
    instances_by_name,
    owners_by_instance,
    promised_by_pool,
    ready_instances,
    with_instance,
    without_instance,
)
from lxgpu.policy.tables import Once, once


def test_a_table_is_looked_at_once_for_as_long_as_it_is_the_same_one() -> None:
    """An equal table that is another one is looked at for itself, and old ones are forgotten."""
    looks: list[tuple[int, ...]] = []

    @once
    def total(rows: tuple[int, ...]) -> int:
        looks.append(rows)
        return sum(rows)

    tables = [(1, 2, number) for number in range(30)]
    assert [total(table) for table in tables for _ in range(3)] == [
        3 + number for number in range(30) for _ in range(3)
    ]
    assert looks == tables
    assert total((*tables[29][:2], 29)) == 32
    assert total(tables[0]) == 3
    assert len(looks) == 32


def test_threads_may_share_what_is_known() -> None:
    """While one forgets a table another asks for it: each gets its own answer."""
    tables, total = [(number,) for number in range(3)], Once(sum, kept=2)

    def ask(step: int) -> None:
        for number in range(60_000):
            table = tables[number * step % 3]
            assert total(table) == table[0]

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(ask, (1, 2, 4, 5))) == [None] * 4
    finally:
        sys.setswitchinterval(before)


def test_what_is_asked_for_after_a_change_is_the_changed_table(tmp_path: Path) -> None:
    """A row that ends is gone from every answer."""
    rows = [reservation("b1", "bob", **{"from": 1, "until": 2})]
    records = world(policy_of("{version: 1}", tmp_path), reservations=rows, held=[holding(0, "A100-0", "bob")]).records
    assert set(promised_by_pool(records.reservations)) == {("h", "NVIDIA A100")}
    assert set(bookings_by_owner(records.reservations)) == set(by_instance(records.assignments)) == {"bob"}
    over = replace(records, reservations=(), assignments=())
    assert not promised_by_pool(over.reservations)
    assert not bookings_by_owner(over.reservations)
    assert not by_card(over.assignments)
    assert not by_instance(over.assignments)


def test_an_entitlement_follows_the_policy_the_groups_and_the_time(tmp_path: Path) -> None:
    """What is remembered is never another's."""
    text = """{version: 1, defaults: {limit: 1}, groups: {vision: {members: ["@vision"], each: {limit: 3}}},
    overrides: [{from: 2027-03-02, until: 2027-03-03, defaults: {limit: 2}}]}"""
    snapshot = world(policy_of(text, tmp_path))
    assert [entitlement(snapshot, "alice").limit for _ in range(2)] == [1, 1]
    assert entitlement(replace(snapshot, unix_groups={"alice": frozenset({"vision"})}), "alice").limit == 3
    assert entitlement(replace(snapshot, now=snapshot.now.replace(day=2)), "alice").limit == 2
    other = policy_of("{version: 1, defaults: {limit: 7}}", tmp_path)
    assert entitlement(replace(snapshot, policy=other), "alice").limit == 7
    assert entitlement(snapshot, "alice").limit == 1


def test_a_table_of_instances_that_changes_by_one_hands_on_what_is_found_in_it() -> None:
    """The same as in the same rows of which nothing is known; one that is stopped is not ready."""
    at = datetime(2027, 3, 1, tzinfo=UTC)
    rows = tuple(Instance(name, f"{name}s-owner", "h", InstanceState.READY, at) for name in "abc")
    stopped = Instance("d", "eve", "h", InstanceState.READY, at, running=False)
    more = with_instance(rows, stopped)
    fewer = without_instance(more, "b")
    assert fewer == (rows[0], rows[2], stopped)
    for table in (rows, more, fewer):
        anew = (*table,)
        assert instances_by_name(table) == instances_by_name(anew)
        assert owners_by_instance(table) == owners_by_instance(anew)
        assert ready_instances(table) == ready_instances(anew) == {row.name for row in table} - {"d"}

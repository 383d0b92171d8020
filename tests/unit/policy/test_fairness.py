"""Decayed use: what is long ago counts less, and only what somebody had counts at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from calendar_worlds import holding, hours, policy_of, world

from lxgpu.policy.fairness import decayed_use, used_s

DAY = "{version: 1, reservations: {half_life: 1d}, users: {bob: {weight: 4}}}"


def test_one_half_life_ago_counts_half(tmp_path: Path) -> None:
    """A minute of a day ago against a minute of now."""
    minute = 1 / 60
    past = [
        holding(0, "A100-0", "alice", since=-minute, closed=0, state="closed"),
        holding(1, "A100-0", "bob", since=-24 - minute, closed=-24, state="closed"),
        holding(2, "A100-0", "carol", since=-48 - minute, closed=-48, state="closed"),
    ]
    snapshot = world(policy_of(DAY, tmp_path), past=past)
    assert decayed_use(snapshot, "alice") == pytest.approx(60, rel=1e-3)
    assert decayed_use(snapshot, "bob") == pytest.approx(30, rel=1e-3)
    assert decayed_use(snapshot, "carol") == pytest.approx(15, rel=1e-3)


def test_a_use_of_always_is_worth_no_more_than_its_half_life_allows(tmp_path: Path) -> None:
    """The sum of all halves is bounded: half-life over ln 2."""
    past = [holding(0, "A100-0", "alice", since=-(10**5), closed=0, state="closed")]
    snapshot = world(policy_of(DAY, tmp_path), past=past)
    assert decayed_use(snapshot, "alice") == pytest.approx(86400 / 0.693147, rel=1e-4)


def test_use_adds_up_over_cards_and_goes_on_while_they_are_held(tmp_path: Path) -> None:
    """Two cards for an hour are what one is for two, as near as decay lets it be."""
    held = [holding(number, f"A100-{number}", "alice", since=-1) for number in range(2)]
    snapshot = world(policy_of(DAY, tmp_path), held=held)
    assert decayed_use(snapshot, "alice") == pytest.approx(7200, rel=0.02)
    assert used_s(snapshot, "alice", hours(-0.5)) == 3600
    assert used_s(snapshot, "bob", hours(-5)) == 0


def test_promises_and_quarantines_are_nobodys_use(tmp_path: Path) -> None:
    """What is only planned, or stuck after its holder left, is not held against anybody."""
    held = [
        holding(0, "A100-0", "alice", since=-1, state="planned"),
        holding(1, "A100-1", "alice", since=-1, state="quarantined"),
    ]
    assert decayed_use(world(policy_of(DAY, tmp_path), held=held), "alice") == 0


def test_what_a_deleted_container_used_counts_for_the_person_of_its_name(tmp_path: Path) -> None:
    """Deleting a container does not wash its owner's hands."""
    past = [holding(0, "A100-0", "alice", since=-3, closed=-2, state="closed")]
    snapshot = world(policy_of(DAY, tmp_path), past=past)

    gone = replace(snapshot, records=replace(snapshot.records, instances=()))
    assert used_s(gone, "alice", hours(-9)) == 3600


@pytest.mark.parametrize("behind", [1, 24, 24 * 365, 24 * 365 * 40], ids=["an hour", "a day", "a year", "since 1987"])
def test_a_clock_that_is_behind_counts_nothing_that_is_to_come(tmp_path: Path, behind: int) -> None:
    """A server that boots with an old clock decides its queue all the same."""
    past = [
        holding(0, "A100-0", "alice", since=1, closed=2, state="closed"),
        holding(1, "A100-1", "alice", since=-2 - behind, closed=-1 - behind, state="closed"),
    ]
    snapshot = world(policy_of(DAY, tmp_path), past=past)
    early = replace(snapshot, now=hours(-behind))
    assert decayed_use(early, "alice") == pytest.approx(3600 * 0.5 ** (1.5 / 24), rel=0.01)
    assert used_s(early, "alice", hours(-(10**5) * 5)) == 3600

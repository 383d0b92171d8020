"""The quick look never says no where the long one finds somebody to take."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from desk_worlds import site
from hypothesis import given, settings
from hypothesis import strategies as st

from lxgpu.policy import preemption
from lxgpu.policy.desk import Desk
from lxgpu.policy.grounds import within_reach
from lxgpu.policy.guarantees import ledger
from lxgpu.policy.pending import need_of

SITES = st.builds(lambda seed: site(random.Random(seed)), st.integers(0, 10_000_000))  # noqa: S311 -- made-up sites


@settings(max_examples=400)
@given(snapshot=SITES, hours=st.sampled_from((0, 1, 30)))
def test_whoever_can_be_taken_is_found_though_a_quick_look_comes_first(snapshot, hours) -> None:
    """For every need of the site, now and later, with and without an admin's word."""
    desk = Desk(snapshot)
    for row in desk.mine():
        asked = replace(row, no_warning="an order") if hours == 1 else row
        need = need_of(desk, asked)
        need = replace(need, at=need.at + hours * (need.at - snapshot.now), gpus=max(1, need.gpus))
        quick = preemption.candidates(snapshot, need)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(preemption, "any_ground", lambda *_all: True)
            assert preemption.candidates(snapshot, need) == quick


@settings(max_examples=400)
@given(snapshot=SITES, hours=st.sampled_from((0, 1, 30)))
def test_no_more_cards_are_taken_in_time_than_are_within_reach(snapshot, hours) -> None:
    """For every need of the site, now and later; it is often fewer than are held."""
    desk = Desk(snapshot)
    for row in desk.mine():
        need = need_of(desk, row)
        need = replace(need, at=need.at + hours * (need.at - snapshot.now), gpus=max(1, need.gpus))
        taken = sum(len(unit.slots) for unit in preemption.units(snapshot, need))
        assert taken <= within_reach(snapshot, need, ledger(snapshot, need.reservation))

"""A rehearsal of several creations tells what would really happen to each."""

from __future__ import annotations

from pathlib import Path

from fakes.site import make_site, newcomer, request_for

from lxgpu.errors import Exit
from lxgpu.model.plan import Plan, Verdict
from lxgpu.model.quota import Policy
from lxgpu.services import ending
from lxgpu.services.provision import plan_all
from lxgpu.services.refusal import refusal
from lxgpu.services.untrash import untrash


def status_of(plan: Plan) -> Exit:
    """The status that carrying a plan out would end with now."""
    error = refusal(plan, "create", Policy())
    return Exit.OK if error is None else error.status


def test_one_free_card_is_granted_to_the_first_row_only(tmp_path: Path) -> None:
    """Each row is planned as if those before it had been made; the rest hear what the real command would end with."""
    site = make_site(tmp_path, gpus=1)
    first, second, again = plan_all(
        site, [request_for(site, "ann", gpus=1), request_for(site, "ben", gpus=1), request_for(site, "ann")]
    )
    assert (first.decision, status_of(first)) == (Verdict.GRANTED, Exit.OK)
    assert status_of(second) == Exit.NO_CAPACITY
    assert status_of(again) == Exit.CONFLICT
    assert not site.inventory.read().instances


def test_back_from_the_trash_a_person_has_their_own_keys(tmp_path: Path) -> None:
    """Deleting closes the keys; bringing back opens the same ones, so that nobody is locked out of their own."""
    site = make_site(tmp_path, gpus=1)
    newcomer(site, "alice")
    before = {(key.fingerprint, key.line) for key in site.inventory.read().keys}
    ending.delete(site, "alice", purge=False)
    assert not site.inventory.read().keys
    untrash(site, "trash-alice")
    assert {(key.fingerprint, key.line) for key in site.inventory.read().keys} == before


def test_while_nvml_is_out_of_order_no_card_is_lent(tmp_path: Path) -> None:
    """What could not be proven free again is not given away; a container without cards is made all the same."""
    site = make_site(tmp_path, gpus=2)
    site.probe.error = "NVML cannot be used: Driver/library version mismatch"
    with_card, without = plan_all(site, [request_for(site, "ann", gpus=1), request_for(site, "ben")])
    assert status_of(with_card) == Exit.NO_CAPACITY
    assert any("mismatch" in reason.text for reason in with_card.reasons)
    assert status_of(without) == Exit.OK

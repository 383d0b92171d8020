"""Keep: idle cards are left alone for a while, by somebody's word."""

from __future__ import annotations

import uuid

from lxgpu.errors import LxgpuError
from lxgpu.model.quota import Policy
from lxgpu.model.reservation import Keep
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.keeping import Kept, booked_soon, decide_keep, told_soon
from lxgpu.ports import Tx
from lxgpu.services import observe
from lxgpu.services.begin import decided
from lxgpu.services.identity import ensure_identity, mirror_promises
from lxgpu.services.lending import ready_instance, ready_row
from lxgpu.services.refusal import refusal
from lxgpu.services.site import Site
from lxgpu.units import format_duration, short_duration


def plan_keep(site: Site, name: str, *, seconds: int, reason: str) -> Kept:
    """What a keep would come to; nothing is written."""
    row = ready_instance(site, name)
    snapshot = observe.snapshot(site, people=[row.owner])
    return decide_keep(snapshot, name, seconds=seconds, reason=_said(reason), identifier="")


def keep(site: Site, name: str, *, seconds: int, reason: str) -> Keep:
    """Leave a container's idle cards alone for so many seconds from now; a keep that runs is made longer.

    Errors: `not_held`; `over_keep`, with what is left; `usage`: no reason.
    """
    ensure_identity(site)
    row = ready_instance(site, name)
    text = _said(reason)
    identifier = f"k{uuid.uuid4().hex[:7]}"

    def write(tx: Tx, now: Snapshot) -> Keep:
        ready_row(now, name)
        found = decide_keep(now, name, seconds=seconds, reason=text, identifier=identifier)
        check(found, name, now)
        assert found.row is not None  # noqa: S101 -- it was granted
        tx.put(found.row)
        detail = {"until": found.row.until.isoformat(), "reason": text, "left_s": found.left_s}
        tx.event("kept", name, rule="keep", detail=detail)
        site.say(
            f"{short_duration(found.left_s)} of keeping is left" if found.left_s else "no more can be kept for now"
        )
        soon = booked_soon(now, name, found.row.until)
        if soon is not None:
            site.say(told_soon(now, soon))
        return found.row

    kept = decided(site, observe.snapshot(site, people=[row.owner]), write)
    mirror_promises(site)
    return kept


def check(found: Kept, name: str, now: Snapshot) -> None:
    """Raise what a keep was refused for, with what is left."""
    error = refused(found, name, policy=now.policy, held=len(now.records.held_by(name)))
    if error is not None:
        raise error


def refused(found: Kept, name: str, *, policy: Policy, held: int) -> LxgpuError | None:
    """What a keep is refused for, with what is left; None when it is granted. `held` is how many cards there are."""
    error = refusal(found.plan, f"keep {name}", policy)
    if error is not None and error.code == "over_keep":
        left_s = found.left_s // 60 * 60
        error.fix = (
            f"lxgpu keep {name} --for {format_duration(left_s)} --reason 'what for'"
            if left_s
            else f"book the time: lxgpu reserve {name} --gpus {held} --for 4h"
        )
    return error


def _said(reason: str) -> str:
    text = " ".join(reason.split())
    if not text:
        raise LxgpuError("usage", "a keep needs a reason", why="those who wait can read it", fix="--reason 'what for'")
    return text

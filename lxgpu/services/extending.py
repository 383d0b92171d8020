"""Extend: cards for longer than was said."""

from __future__ import annotations

from datetime import datetime

from lxgpu.errors import LxgpuError
from lxgpu.model.quota import Policy
from lxgpu.model.reservation import Reservation
from lxgpu.model.snapshot import Snapshot
from lxgpu.policy.extending import Extended, decide_extend, first_end
from lxgpu.ports import Tx
from lxgpu.services import observe
from lxgpu.services.begin import decided
from lxgpu.services.holds import mirror_holds
from lxgpu.services.identity import ensure_identity, mirror_promises
from lxgpu.services.lending import ready_instance, ready_row
from lxgpu.services.refusal import refusal
from lxgpu.services.site import Site
from lxgpu.units import short_duration


def plan_extend(site: Site, name: str, *, seconds: int) -> Extended:
    """What an extension would come to; nothing is written."""
    row = ready_instance(site, name)
    return decide_extend(observe.snapshot(site, people=[row.owner]), name, seconds=seconds)


def ends(site: Site, name: str) -> datetime | None:
    """When the first of a container's cards goes; None: it holds none until a time."""
    ready_instance(site, name)
    return first_end(observe.snapshot(site), name)


def extend(site: Site, name: str, *, seconds: int) -> datetime:
    """Let a container hold its cards for so many seconds more; gives the (earliest) new end.

    Errors: what the policy or a booking says against it, with how much longer is possible.
    """
    ensure_identity(site)
    row = ready_instance(site, name)
    snapshot = observe.snapshot(site, people=[row.owner])

    def write(tx: Tx, now: Snapshot) -> Extended:
        ready_row(now, name)
        found = decide_extend(now, name, seconds=seconds)
        check(found, name, now)
        tx.put(*found.rows)
        detail = {
            "until": found.until.isoformat() if found.until else None,
            "seconds": seconds,
            "gpus": [step.gpu for step in found.plan.steps],
            "reservation": next((one.id for one in found.rows if isinstance(one, Reservation)), None),
        }
        tx.event("extended", name, rule="booking" if detail["reservation"] else "lease", detail=detail)
        return found

    found = decided(site, snapshot, write)
    mirror_holds(site, name)
    mirror_promises(site)
    assert found.until is not None  # noqa: S101 -- it was granted
    return found.until


def check(found: Extended, name: str, now: Snapshot) -> None:
    """Raise what an extension was refused for, with what could be had instead."""
    error = refused(found, name, policy=now.policy)
    if error is not None:
        raise error


def refused(found: Extended, name: str, *, policy: Policy) -> LxgpuError | None:
    """What an extension is refused for, with what could be had instead; None when it is granted."""
    error = refusal(found.plan, f"extend {name}", policy)
    if error is not None and found.offer_s is not None:
        error.fix = f"lxgpu extend {name} --for {short_duration(found.offer_s)}; or {error.fix}"
    return error

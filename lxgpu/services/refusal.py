"""A plan that was not granted, as the error that says so."""

from __future__ import annotations

from lxgpu.errors import CATALOGUE, Exit, LxgpuError
from lxgpu.model.plan import Plan, Verdict
from lxgpu.model.quota import Policy

# Which reason names the error when there are several: what cannot be cured by waiting comes first.
_ORDER = (Exit.USAGE, Exit.NOT_FOUND, Exit.NOT_ALLOWED, Exit.CONFLICT, Exit.REFUSED, Exit.NO_CAPACITY)

_FIXES = {
    "over_limit": "ask for less, give some back (lxgpu release), or have the policy file changed",
    "over_group_limit": "wait until the group gives some back, or have the policy file changed",
    "no_capacity": "lxgpu gpus shows who holds them; lxgpu reserve waits in line",
    "not_free": "lxgpu gpus --free lists the free ones",
    "exists": "lxgpu show NAME; --if-not-exists leaves it as it is",
    "no_such_gpu": "lxgpu gpus lists the cards",
    "no_such_model": "lxgpu gpus lists the models",
    "busy": "name the card with --gpu, or give --yes to end its processes",
}


def raise_if_refused(plan: Plan, what: str, policy: Policy) -> None:
    """Do nothing for a granted plan; else raise its gravest reason, with all of them in `why`."""
    if plan.decision in {Verdict.GRANTED, Verdict.AFTER_PREEMPTION}:
        return
    gravest = min(plan.reasons, key=lambda reason: _ORDER.index(CATALOGUE[reason.code].status))
    fix = _FIXES.get(gravest.code, f"lxgpu explain {gravest.code}")
    if CATALOGUE[gravest.code].status is Exit.REFUSED:
        fix = f"{fix}; contact: {policy.contact}"
    raise LxgpuError(
        gravest.code,
        f"{what}: {gravest.text}",
        why=[reason.text for reason in plan.reasons if reason is not gravest],
        fix=fix,
        details={"reasons": [{"code": reason.code, "text": reason.text} for reason in plan.reasons]},
    )

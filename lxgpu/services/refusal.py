"""A plan that was not granted: the error that says so, and the line of history that lets `why` explain it later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lxgpu.errors import CATALOGUE, Exit, LxgpuError
from lxgpu.model.plan import Plan, Reason, Verdict
from lxgpu.model.quota import Policy
from lxgpu.services.contact import with_contact
from lxgpu.services.nextsteps import FIX
from lxgpu.services.site import Site

# Which reason names the error when there are several: what cannot be cured by waiting comes first.
_ORDER = (Exit.USAGE, Exit.NOT_FOUND, Exit.NOT_ALLOWED, Exit.CONFLICT, Exit.REFUSED, Exit.NO_CAPACITY)

_REMEMBERED = frozenset({Exit.NOT_ALLOWED, Exit.REFUSED, Exit.NO_CAPACITY})
"""What the policy or the lack of cards refused; a wrong word or a name that is taken is no refusal."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How many cards were asked for, and for how long (None: it was not said)."""

    gpus: int
    seconds: int | None = None


def raise_if_refused(plan: Plan, what: str, policy: Policy, *, fix: str = "") -> None:
    """Do nothing for a granted plan; else raise its gravest reason, with all of them in `why`."""
    error = refusal(plan, what, policy, fix=fix)
    if error is not None:
        raise error


def refusal(plan: Plan, what: str, policy: Policy, *, fix: str = "") -> LxgpuError | None:
    """The error that `raise_if_refused` raises; `fix` is a remedy that somebody knows better."""
    gravest = _gravest(plan)
    if gravest is None:
        return None
    fix = fix or FIX[gravest.code]
    if CATALOGUE[gravest.code].status is Exit.REFUSED and gravest.code != "busy":  # that one is not the policy's
        fix = with_contact(fix, policy.contact)
    return LxgpuError(
        gravest.code,
        f"{what}: {gravest.text}",
        why=[reason.text for reason in plan.reasons if reason is not gravest],
        fix=fix,
        details={"reasons": [{"code": reason.code, "text": reason.text} for reason in plan.reasons]},
    )


def _gravest(plan: Plan) -> Reason | None:
    if plan.decision in {Verdict.GRANTED, Verdict.AFTER_PREEMPTION} or not plan.reasons:
        return None
    return min(plan.reasons, key=lambda reason: _ORDER.index(CATALOGUE[reason.code].status))


@contextmanager
def recording(site: Site, subject: str, asked: Asked | None = None) -> Iterator[None]:
    """What is refused to `subject` in here becomes an event, kind `refused`, before the error goes on.

    `asked` is what was asked for, where that was cards: what is refused for want of them says what the lab lacks.
    """
    try:
        yield
    except LxgpuError as error:
        record_refusal(site, error, subject, asked)
        raise


def record_refusal(site: Site, error: LxgpuError, subject: str, asked: Asked | None = None) -> None:
    """Note a refusal in the history; errors of other kinds are none. It stands outside what was rolled back."""
    if error.status not in _REMEMBERED:
        return
    detail = {"message": error.brief, "why": list(error.why), **error.details}
    if asked is not None:
        detail |= {"asked_gpus": asked.gpus, "asked_s": asked.seconds}
    try:
        with site.write() as tx:
            tx.event("refused", subject, rule=error.code, detail=detail)
    except LxgpuError as failed:  # the refusal is what people must hear of
        site.say(f"the refusal could not be noted in the history: {failed.brief}")

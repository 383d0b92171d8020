"""What `lxgpu web --link`, `--close` and `keys invite` would do (`--dry-run`): no secret is made, nothing written."""

from __future__ import annotations

from datetime import timedelta

from lxgpu.instants import format_utc
from lxgpu.model.names import check_person
from lxgpu.model.plan import Plan, PlannedStep, Verdict
from lxgpu.services.invitations import open_until, views
from lxgpu.services.links import INVITE_LIFE, check_life, link_mark, open_ones, theirs
from lxgpu.services.passbook import PassReader
from lxgpu.services.passes import LIFE, PassKind
from lxgpu.services.site import Site
from lxgpu.units import short_duration

VIEWERS = "-"
"""In a plan: those who only look."""


def plan_link(site: Site, name: str = "") -> Plan:
    """A link for a container, or for a viewer. Errors: those of `links.link`."""
    link_mark(site, name)
    why = f"opens once, within {short_duration(LIFE[PassKind.LINK].total_seconds())}; whoever has it can use it"
    return _plan("link", name or VIEWERS, why)


def plan_close(site: Site, name: str = "") -> Plan:
    """The end of all sessions and links of a container, or of the viewers; without steps when there are none."""
    now, records = site.clock.now(), site.inventory.read()
    passes = PassReader().read(site.settings.state_dir)
    number = len(open_ones(theirs(records, passes, name), now))
    why = f"{number} session{'s' * (number != 1)} and links end"
    return _plan("close", name or VIEWERS, why) if number else Plan(Verdict.GRANTED)


def plan_invite(site: Site, person: str, *, life: timedelta = INVITE_LIFE) -> Plan:
    """An invitation. Errors: those of `links.invite`."""
    check_life(check_person(person), life)
    there = open_until(site, person)
    void = f"; the one until {format_utc(there)} is void then" if there else ""
    return _plan("invite", person, f"takes one key, within {short_duration(life.total_seconds())}{void}")


def plan_withdraw(site: Site, person: str) -> Plan:
    """The end of an invitation, open or used; without steps when there is none."""
    there = views(site.settings.state_dir, site.clock.now())
    mine = [f"{one.state} until {format_utc(one.expires)}" for one in there if one.person == check_person(person)]
    return _plan("withdraw", person, "; ".join(mine)) if mine else Plan(Verdict.GRANTED)


def _plan(do: str, whose: str, why: str) -> Plan:
    return Plan(Verdict.GRANTED, steps=(PlannedStep(do, whose, why=why),))

"""One look at everything a decision may depend on: LXD, the host and the inventory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from lxgpu.model.quota import Policy
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.policy.borrowing import without_borrowers
from lxgpu.policy.lent import lent
from lxgpu.services.site import Site


def look(site: Site, *, readings: bool = False) -> Observation:
    """What the host shows now; NVML is asked only with `readings`.

    With them, LXD is not asked for the cards again while nothing has moved (see `cardmemory`).
    """
    at, stamp = site.clock.now(), site.probe.card_stamp()
    with ThreadPoolExecutor(max_workers=3) as pool:  # three that wait for others, side by side
        gpus = None if readings and not site.cards.empty else pool.submit(site.engine.gpus)
        sightings = pool.submit(site.engine.instances, with_state=False)
        sample = site.probe.readings() if readings else None
        known = site.cards.recall(stamp, sample) if sample and gpus is None else None
        found = known or (gpus or pool.submit(site.engine.gpus)).result()
        if sample and known is None:
            site.cards.keep(stamp, sample, found)
        return Observation(
            host=site.host,
            boot_id=site.probe.boot_id(),
            at=at,
            gpus=found,
            sightings=sightings.result(),
            readings=sample,
        )


def snapshot(site: Site, *, people: Iterable[str] = (), readings: bool = False) -> Snapshot:
    """Everything one decision may look at; `people` are those who are not in the inventory yet."""
    seen = look(site, readings=readings)
    return of(site, seen, site.inventory.read(), people=people)


def of(site: Site, seen: Observation, records: Records, *, people: Iterable[str] = ()) -> Snapshot:
    """A Snapshot of what was seen and of rows read by the caller, in a transaction for instance.

    Cards are divided as those rows say, and what borrowers do on them is left out.
    """
    policy, seen = site.policy(), lent(without_borrowers(seen, records), records)
    holders = {row.instance for row in records.assignments}
    concerned = {row.owner for row in records.instances if row.name in holders} | set(people)
    return Snapshot(
        now=site.clock.now(),
        records=records,
        seen=seen,
        policy=policy,
        unix_groups=groups_of(policy, site.unix_groups, concerned),
    )


def groups_of(
    policy: Policy, unix_groups: Callable[[str], frozenset[str]], people: Iterable[str]
) -> dict[str, frozenset[str]]:
    """The Unix groups of people, by name; nobody is asked where the policy names none."""
    return {name: unix_groups(name) for name in set(people)} if _asks_unix_groups(policy) else {}


def _asks_unix_groups(policy: Policy) -> bool:
    """Whether the policy names any Unix group: looking people up may mean asking LDAP, one by one."""
    named = (*(item.members for item in policy.groups.values()), *(item.who for item in policy.classes.values()))
    return any(name.startswith("@") for names in named for name in names)

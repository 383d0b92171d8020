"""The rows of one host out of an inventory of several: what is decided and done there looks at no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lxgpu.model.gpu import Slot
from lxgpu.model.reservation import Reservation
from lxgpu.model.snapshot import Records

_OF_HOSTS = (
    *("instances", "assignments", "slots", "cards", "operations"),
    *("reservations", "keeps", "notices", "borrowings"),
)
"""The tables whose rows are of one host each."""


@dataclass(frozen=True, slots=True)
class Homes:
    """On which host things are: containers by name, cards by UUID; what is on none that is named is on the `first`."""

    first: str
    hosts: dict[str, str]
    instances: dict[str, str]
    cards: dict[str, str]

    @classmethod
    def of(cls, records: Records, hosts: Sequence[str]) -> Homes:
        """Those of an inventory; `hosts` are named in the settings, first the one that lxgpu runs on."""
        first, there = hosts[0], {name: name for name in hosts}
        return cls(
            first=first,
            hosts=there,
            instances={row.name: there.get(row.host, first) for row in records.instances},
            cards={row.uuid: there.get(row.host, first) for row in records.cards},
        )

    def instance(self, name: str) -> str:
        """The host of a container."""
        return self.instances.get(name, self.first)

    def slot(self, slot: Slot) -> str:
        """The host of a slot."""
        return self.cards.get(slot.card, self.first)

    def reservation(self, row: Reservation) -> str:
        """The host of a reservation: that of its container, which lives on one."""
        return self.instances.get(row.instance) or self.hosts.get(row.host, self.first)


def rows_of(records: Records, host: str, *, hosts: Sequence[str]) -> Records:
    """The rows of one of several hosts, with those of all others in `elsewhere`; people and keys are everybody's.

    `hosts` are all that the settings name, the one that lxgpu runs on first: it has what is on none of them.
    """
    homes = Homes.of(records, hosts)
    others = _those(records, homes, lambda place: place != host)
    if not any(getattr(others, table) for table in _OF_HOSTS):
        return records
    return replace(_those(records, homes, lambda place: place == host), elsewhere=(others,))


def everywhere(records: Records) -> Records:
    """The rows of all hosts, of what `rows_of` gives; rows of an inventory that has but one host as they are."""
    if not records.elsewhere:
        return records
    parts = (records, *records.elsewhere)
    return replace(
        records,
        instances=tuple(row for part in parts for row in part.instances),
        assignments=tuple(row for part in parts for row in part.assignments),
        slots=tuple(row for part in parts for row in part.slots),
        cards=tuple(row for part in parts for row in part.cards),
        operations=tuple(row for part in parts for row in part.operations),
        reservations=tuple(row for part in parts for row in part.reservations),
        keeps=tuple(row for part in parts for row in part.keeps),
        notices=tuple(row for part in parts for row in part.notices),
        borrowings=tuple(row for part in parts for row in part.borrowings),
        elsewhere=(),
    )


def home_of(records: Records, subject: str, *, hosts: Sequence[str]) -> str:
    """The host of what a text names: a container, a card's UUID, a reservation's id or its beginning, or a person."""
    homes = Homes.of(records, hosts)
    if subject in homes.instances:
        return homes.instances[subject]
    if subject in homes.cards:
        return homes.cards[subject]
    near = [row for row in records.reservations if row.id.startswith(subject)]
    if len(near) == 1:
        return homes.reservation(near[0])
    return hosts_of(records, subject, hosts=hosts)[0]


def hosts_of(records: Records, person: str, *, hosts: Sequence[str]) -> tuple[str, ...]:
    """The hosts on which a person has a container of their own; the first where they have none."""
    homes = Homes.of(records, hosts)
    mine = (homes.instance(row.name) for row in records.instances if row.owner == person and not row.throw_away)
    return tuple(dict.fromkeys(mine)) or (homes.first,)


def _those(records: Records, homes: Homes, chosen: Callable[[str], bool]) -> Records:
    def of(name: str) -> bool:
        return chosen(homes.instance(name))

    return replace(
        records,
        instances=tuple(row for row in records.instances if of(row.name)),
        assignments=tuple(row for row in records.assignments if of(row.instance)),
        slots=tuple(row for row in records.slots if chosen(homes.hosts.get(row.host) or homes.slot(row.slot))),
        cards=tuple(row for row in records.cards if chosen(homes.cards[row.uuid])),
        operations=tuple(row for row in records.operations if of(row.instance)),
        reservations=tuple(row for row in records.reservations if chosen(homes.reservation(row))),
        keeps=tuple(row for row in records.keeps if of(row.instance)),
        notices=tuple(row for row in records.notices if of(row.instance)),
        borrowings=tuple(row for row in records.borrowings if of(row.instance)),
    )

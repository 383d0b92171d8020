"""A person's public keys: listed, added, removed; in the inventory, in LXD's record, and inside the container."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from lxgpu.config.keys import PublicKey, parse_keys
from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Instance, InstanceState, Key, Power
from lxgpu.model.plan import Plan, PlannedStep, Verdict
from lxgpu.model.snapshot import Records, Snapshot
from lxgpu.ports import Tx
from lxgpu.services import observe
from lxgpu.services.account import give_account
from lxgpu.services.begin import decided, make_way, new_operation
from lxgpu.services.configure import configure, picture
from lxgpu.services.identity import ensure_identity, mirror_promises
from lxgpu.services.invitations import end_invitation
from lxgpu.services.operations import carry_out
from lxgpu.services.provision import look_at_ground, new_person
from lxgpu.services.recipes import Recipe, Step, Work
from lxgpu.services.site import Site

_REACHED = frozenset({InstanceState.READY, InstanceState.SUSPENDED})
_SHORTEST = 6
"""Characters of a fingerprint's beginning, `SHA256:` left out, that are enough to name a key."""


@dataclass(frozen=True, slots=True)
class KeyView:
    """One key: schema `lxgpu.keys/v1`."""

    person: str
    fingerprint: str
    type: str
    comment: str
    options: str
    added_at: datetime


def views(records: Records, person: str) -> tuple[KeyView, ...]:
    """A person's keys, oldest first; error `not_found`: nobody of that name is known."""
    if records.person(person) is None:
        raise LxgpuError(
            "not_found",
            f"there is no person {person}",
            fix=f"lxgpu keys add {person} FILE keeps keys for a container to come",
        )
    mine = sorted((key for key in records.keys if key.person == person), key=lambda key: (key.added_at, key.line))
    return tuple(_view(key) for key in mine)


def everybodys(records: Records) -> tuple[KeyView, ...]:
    """The keys of all people, by name, each one's oldest first."""
    return tuple(_view(key) for key in sorted(records.keys, key=lambda key: (key.person, key.added_at, key.line)))


def plan_add(site: Site, person: str, keys: Sequence[PublicKey]) -> Plan:
    """What adding would do; nothing is written."""
    records = site.inventory.read()
    old = {key.fingerprint for key in records.keys if key.person == person}
    where = _where(records, person)
    return _plan(
        PlannedStep("keep" if key.fingerprint in old else "add", where, why=f"{key.fingerprint} {key.comment}".strip())
        for key in keys
    )


def add(site: Site, person: str, keys: Sequence[PublicKey]) -> int:
    """Keys for a person, who need not have a container yet; gives how many are new."""
    ensure_identity(site)
    ground = look_at_ground(site, person)
    fresh: list[Key] = []

    def write(tx: Tx, now: Snapshot) -> None:
        fresh.clear()
        known = now.records.person(person)
        if known is None:
            tx.put(new_person(now, person, ground, ports=site.settings.network.ports))
        old = {key.fingerprint for key in now.records.keys if key.person == person}
        fresh.extend(
            Key(person=person, fingerprint=key.fingerprint, line=key.text, added_at=now.now)
            for key in keys
            if key.fingerprint not in old
        )
        tx.put(*fresh)
        for key in fresh:
            tx.event("key_added", _where(now.records, person), detail={"person": person, "key": key.fingerprint})

    _write(site, person, write)
    return len(fresh)


def plan_remove(site: Site, person: str, fingerprint: str) -> Plan:
    """What removing would do; nothing is written."""
    records = site.inventory.read()
    key = find_key(records, person, fingerprint)
    last = "; nobody can log in as them any more" if is_last(records, person) else ""
    return _plan([PlannedStep("remove", _where(records, person), why=f"{key.fingerprint}{last}")])


def remove(site: Site, person: str, fingerprint: str) -> None:
    """Take a key away; who is logged in by it stays so. The invitation by which it came ends, lest it come again."""
    ensure_identity(site)
    gone = find_key(site.inventory.read(), person, fingerprint)
    end_invitation(site, person, gone.fingerprint)

    def write(tx: Tx, now: Snapshot) -> None:
        key = find_key(now.records, person, fingerprint)
        tx.drop(key)
        detail = {"person": person, "key": key.fingerprint}
        tx.event("key_removed", _where(now.records, person), detail=detail)

    _write(site, person, write)


def again(site: Site, person: str) -> None:
    """Write a person's keys as they are into their container on one more host."""
    _write(site, person, lambda _tx, _now: None)


def is_last(records: Records, person: str) -> bool:
    """Whether a person has no other key left."""
    return sum(key.person == person for key in records.keys) <= 1


def find_key(records: Records, person: str, text: str) -> Key:
    """The key that a fingerprint, or the beginning of one, names.

    Raises:
        LxgpuError: `not_found`; `usage`: several keys begin so, or it is too short to name one.
    """
    mine = [key for key in records.keys if key.person == person]
    wanted = text.removeprefix("SHA256:")
    hits = [key for key in mine if key.fingerprint.removeprefix("SHA256:").startswith(wanted)]
    if len(wanted) < _SHORTEST:
        raise LxgpuError("usage", f"{text!r} is too short to name a key", fix=f"lxgpu keys ls {person} lists them")
    if len(hits) > 1:
        lines = [key.fingerprint for key in hits]
        raise LxgpuError("usage", f"{text} is the beginning of {len(hits)} fingerprints", why=lines)
    if not hits:
        known = [key.fingerprint for key in mine] or f"{person} has no keys"
        raise LxgpuError("not_found", f"{person} has no key {text}", why=known, fix=f"lxgpu keys ls {person}")
    return hits[0]


def inside(work: Work) -> None:
    """The keys into the running container; into a stopped one they come as it starts."""
    site, wanted = work.site, picture(work.site, work.name, gpus=work.gpus())
    seen = configure(site, wanted, operation=work.operation.id)
    if seen.power is Power.RUNNING:
        give_account(site, wanted)
    else:
        site.say("it does not run; its keys are written when it starts")


def not_inside(work: Work) -> None:
    """Undo: nothing is taken back, for the inventory says what is meant to be; that it is not inside yet is told."""
    with work.site.write() as tx:
        tx.event("keys_not_written", work.name, detail={"why": work.operation.error})
    work.site.say(f"the keys inside {work.name} are as they were; they are written when it starts next")


KEYS = Recipe(kind="keys", steps=(Step("inside", "", inside),), undo=(Step("told", "", not_inside),))


def _write(site: Site, person: str, change: Callable[[Tx, Snapshot], None]) -> None:
    """Change the rows; then LXD's record and the container, where the person has one, in an operation of its own."""
    snapshot = observe.snapshot(site)
    housed = _housed(snapshot.records, person)

    def begin(tx: Tx, now: Snapshot) -> str | None:
        row = _housed(now.records, person)
        if (row and row.name) != (housed and housed.name):
            raise LxgpuError("conflict", f"{person}'s container changed in between", fix="repeat the command")
        for mine in now.records.instances:
            if mine.owner == person and not mine.throw_away:
                make_way(tx, now, mine.name)
        change(tx, now)
        if row is None:
            return None
        operation = new_operation(site, kind="keys", instance=row.name)
        tx.put(operation)
        return operation.id

    if housed is None:
        decided(site, snapshot, begin)
    else:
        carry_out(site, KEYS, housed.name, lambda: decided(site, snapshot, begin), gpus=snapshot.seen.gpus)
    mirror_promises(site)


def _housed(records: Records, person: str) -> Instance | None:
    mine = (row for row in records.instances if row.owner == person and not row.throw_away)
    return next((row for row in mine if row.state in _REACHED), None)


def _where(records: Records, person: str) -> str:
    """The container that a person's keys belong into; without one the person's own name."""
    row = _housed(records, person)
    return row.name if row else person


def _view(key: Key) -> KeyView:
    read = parse_keys(key.line)[0]
    return KeyView(key.person, key.fingerprint, read.type, read.comment, read.options, key.added_at)


def _plan(steps: Iterable[PlannedStep]) -> Plan:
    return Plan(decision=Verdict.GRANTED, steps=tuple(steps))

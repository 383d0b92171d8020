"""Passes: what a secret text lets its bearer do for a time. Links open once, sessions last; pure.

Of a text only its SHA-256 is kept. It is random and so long that nobody guesses it, nor from its hash.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from lxgpu.model.instance import Instance, InstanceState
from lxgpu.model.snapshot import Records

PERSON, VIEWER = "person", "viewer"
"""Whom a session speaks for: somebody with a container, or somebody who only looks."""
LIVES = frozenset({InstanceState.READY, InstanceState.SUSPENDED})
"""The states of containers whose passes hold."""


class PassKind(StrEnum):
    """A `link` becomes a session, once; a `session` is a browser's.

    A link that was taken is `used` until its time is over, since the answer may not have been heard. An `invite` takes
    a newcomer's key, once, and is `joined` from then on: it shows how to log in.
    """

    LINK = "link"
    INVITE = "invite"
    SESSION = "session"
    USED = "used"
    JOINED = "joined"


OF_CONTAINERS = frozenset({PassKind.LINK, PassKind.SESSION, PassKind.USED})
"""Kinds that are a container's, or a viewer's; the others are a person's."""
LIFE = {PassKind.LINK: timedelta(minutes=10), PassKind.INVITE: timedelta(days=7), PassKind.SESSION: timedelta(days=7)}
SHOWS = timedelta(days=7)
"""So long at least an invitation shows the way in after it took its key."""
MOST = {PassKind.LINK: 5, PassKind.INVITE: 1, PassKind.SESSION: 20}
"""So many of a kind one has at a time; one more ends its oldest. A new invite so ends the one before."""
MOST_VIEWERS = 500
"""The same for sessions and links of viewers, who have no name."""
LONGEST_TEXT = 100
_BYTES = 32


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass. `name` is a container (of an invite: a person), empty for a viewer, who may only look.

    `mark` is which container it was given for: one that is made anew under the name is another, and one that is renamed
    is the same. `name` is what it was called then. Of a joined one it is the fingerprint of the key.
    """

    digest: str
    kind: PassKind
    name: str
    mark: str
    expires: datetime

    @property
    def whose(self) -> str:
        """Whose it is: a container, whatever it is called by now, or a person; empty for a viewer."""
        return self.mark or self.name if self.kind in OF_CONTAINERS else self.name


def new_text() -> str:
    """A secret text of 256 bits, in characters that may stand in an address."""
    return secrets.token_urlsafe(_BYTES)


def issued(
    passes: Iterable[Pass], text: str, kind: PassKind, *, name: str, mark: str = "", now: datetime, life: timedelta
) -> tuple[tuple[Pass, ...], Pass]:
    """The passes with a new one, which `text` opens; without those that are over, and no more of one than `MOST`."""
    made = Pass(_digest(text), kind, name, mark, now + life)
    left = [one for one in passes if one.expires > now]
    same = [one for one in left if (one.kind, one.whose) == (kind, made.whose)]
    most = MOST[kind] if name else MOST_VIEWERS
    gone = {one.digest for one in same[: max(0, len(same) - most + 1)]}
    return (*(one for one in left if one.digest not in gone), made), made


def found(passes: Iterable[Pass], text: str, kind: PassKind, *, now: datetime) -> Pass | None:
    """The pass of that kind that `text` opens now. All are compared, each in the same time whatever it is."""
    wanted, hit = _digest(text), None
    for one in passes:
        if hmac.compare_digest(one.digest, wanted) and one.kind is kind and one.expires > now:
            hit = one
    return hit


def used(passes: Iterable[Pass], one: Pass) -> tuple[Pass, ...]:
    """The passes with that link used up."""
    return (*without(passes, one), replace(one, kind=PassKind.USED))


def joined(passes: Iterable[Pass], one: Pass, *, mark: str, now: datetime) -> tuple[tuple[Pass, ...], Pass]:
    """The passes with an invite that has taken the key of that fingerprint; an earlier one of theirs goes."""
    made = replace(one, kind=PassKind.JOINED, mark=mark, expires=max(one.expires, now + SHOWS))
    return (*ended(without(passes, one), PassKind.JOINED, made.whose), made), made


def without(passes: Iterable[Pass], gone: Pass) -> tuple[Pass, ...]:
    """The passes but that one."""
    return tuple(one for one in passes if one.digest != gone.digest)


def ended(passes: Iterable[Pass], kind: PassKind, whose: str) -> tuple[Pass, ...]:
    """The passes without those of a kind that one has."""
    return tuple(one for one in passes if (one.kind, one.whose) != (kind, whose))


def taken_back(passes: Iterable[Pass], person: str, fingerprint: str) -> tuple[Pass, ...]:
    """The passes without the invite by which a person brought the key of that fingerprint."""
    gone = (PassKind.JOINED, person, fingerprint)
    return tuple(one for one in passes if (one.kind, one.name, one.mark) != gone)


def brought_back(passes: Iterable[Pass], one: Pass) -> tuple[Pass, ...]:
    """The passes with one that was used up for nothing.

    Not so where it was taken back meanwhile, or where there is a newer one of its kind for the same.
    """
    passes = tuple(passes)
    if not any(other.digest == one.digest for other in passes):
        return passes
    kept = without(passes, one)
    if any((other.kind, other.whose) == (one.kind, one.whose) for other in kept):
        return kept
    return (*kept, one)


def stands(records: Records, one: Pass) -> bool:
    """Whether a pass is a viewer's, or the container that it was given for lives."""
    row = _container(records, one)
    return not one.name or (row is not None and row.state in LIVES)


def called(records: Records, one: Pass) -> str:
    """What the container of a pass is called by now; empty for a viewer."""
    row = _container(records, one)
    return one.name if row is None else row.name


def mark_of(row: Instance) -> str:
    """Which container it is, whatever it is called."""
    return row.uuid or row.created_at.isoformat()


def _container(records: Records, one: Pass) -> Instance | None:
    """The container that a pass was given for, by its mark: it may have been renamed since."""
    return next((row for row in records.instances if one.mark and mark_of(row) == one.mark), None)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()

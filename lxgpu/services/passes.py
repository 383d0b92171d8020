"""Passes: what a secret text lets its bearer do for a time. Links open once, sessions last; pure.

Of a text only its SHA-256 is kept. It is random and so long that nobody guesses it, nor from its hash.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class PassKind(StrEnum):
    """A `link` becomes a session, once; an `invite` takes a newcomer's key, once; a `session` is a browser's."""

    LINK = "link"
    INVITE = "invite"
    SESSION = "session"


LIFE = {PassKind.LINK: timedelta(minutes=10), PassKind.INVITE: timedelta(days=7), PassKind.SESSION: timedelta(days=7)}
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
    is the same. `name` is what it was called then.
    """

    digest: str
    kind: PassKind
    name: str
    mark: str
    expires: datetime

    @property
    def whose(self) -> str:
        """Whose it is: a container, whatever it is called by now, or a person; empty for a viewer."""
        return self.mark or self.name


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


def without(passes: Iterable[Pass], gone: Pass) -> tuple[Pass, ...]:
    """The passes but that one."""
    return tuple(one for one in passes if one.digest != gone.digest)


def ended(passes: Iterable[Pass], kind: PassKind, whose: str) -> tuple[Pass, ...]:
    """The passes without those of a kind that one has."""
    return tuple(one for one in passes if (one.kind, one.whose) != (kind, whose))


def brought_back(passes: Iterable[Pass], one: Pass) -> tuple[Pass, ...]:
    """The passes with one that was used up for nothing, unless there is a newer one of its kind for the same by now."""
    kept = tuple(passes)
    if any((other.kind, other.whose) == (one.kind, one.whose) for other in kept):
        return kept
    return (*kept, one)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()

"""The page's door: who comes in by a link, who a session speaks for, and the key that a newcomer brings.

The page's process holds no power: each change is asked for with the session of the container that it is made for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError
from lxgpu.services.passbook import PassReader, passes_of
from lxgpu.services.passes import (
    LIFE,
    PERSON,
    VIEWER,
    Pass,
    PassKind,
    called,
    found,
    issued,
    new_text,
    stands,
    used,
    without,
)
from lxgpu.services.site import Site

if TYPE_CHECKING:
    from lxgpu.services.newkey import Invited, KeyTaken

_OVER = "it opens once and for a short time; `gpu web` in your container prints a new one"


@dataclass(frozen=True, slots=True)
class Entered:
    """A link was taken: the `session` is for the browser alone. `name` is a container, None for a viewer."""

    session: str
    name: str | None
    kind: str
    expires: datetime


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whom a session speaks for: a `person`'s container, or a `viewer`, who changes nothing and has no name."""

    name: str | None
    kind: str
    expires: datetime


class Visits:
    """The uses of the page's door, with a secret text each. `site` gives the site as it is now; threads share it."""

    def __init__(self, site: Callable[[], Site]) -> None:
        self._site = site
        self._reader = PassReader()

    def enter(self, token: str) -> Entered:
        """Use a link up for a session.

        Raises:
            LxgpuError: `not_allowed`: it was used already, is over, or its container is no more.
        """
        if self._find(token, PassKind.LINK) is None:
            raise _used()  # before the lock is asked for, and the inventory, which strangers are not to hold up
        site, text = self._site(), new_text()
        now, life, records = site.clock.now(), LIFE[PassKind.SESSION], site.inventory.read()
        with passes_of(site) as book:
            link = found(book.passes, token, PassKind.LINK, now=now)
            if link is None or not stands(records, link):
                raise _used()
            name = called(records, link)
            book.passes, made = issued(
                used(book.passes, link),
                text,
                PassKind.SESSION,
                name=name,
                mark=link.mark,
                now=now,
                life=life,
            )
        return Entered(text, name or None, _kind(made), made.expires)

    def unheard(self, token: str, entered: Entered) -> None:
        """Nobody heard what `enter` answered: its session is over, and the link opens again until its own end."""
        site = self._site()
        with passes_of(site) as book:
            now = site.clock.now()
            session = found(book.passes, entered.session, PassKind.SESSION, now=now)
            link = found(book.passes, token, PassKind.USED, now=now)
            if session is not None:
                book.passes = without(book.passes, session)
            if link is not None:
                book.passes = (*without(book.passes, link), replace(link, kind=PassKind.LINK))

    def leave(self, session: str) -> None:
        """End a session; one that is over, or never was, is no error."""
        site = self._site()
        with passes_of(site) as book:
            mine = found(book.passes, session, PassKind.SESSION, now=site.clock.now())
            if mine is not None:
                book.passes = without(book.passes, mine)

    def who(self, session: str) -> Visitor | None:
        """Whom a session speaks for now; None: nobody."""
        mine = self._find(session, PassKind.SESSION)
        if mine is None:
            return None
        records = self._site().inventory.read()
        return Visitor(called(records, mine) or None, _kind(mine), mine.expires) if stands(records, mine) else None

    def invited(self, token: str) -> Invited:
        """Who an invitation is for; see `newkey.invited`."""
        from lxgpu.services.newkey import invited  # noqa: PLC0415 -- loaded when somebody comes

        return invited(self._site(), self._find, token)

    def key(self, token: str, key: str) -> KeyTaken:
        """Use an invitation up for a key; see `newkey.take_key`."""
        from lxgpu.services.newkey import take_key  # noqa: PLC0415 -- see invited

        return take_key(self._site(), self._find, token, key)

    def fault(self, name: str, error: Exception) -> None:
        """A fault of ours goes into the daemon's log."""
        self._site().say(f"a question of the page ({name}) met a fault in lxgpu: {type(error).__name__}: {error}")

    def _find(self, text: str, kind: PassKind) -> Pass | None:
        """The pass of a kind that a text opens, by the file alone: cheap, and no lock is asked for."""
        site = self._site()
        return found(self._reader.read(site.settings.state_dir), text, kind, now=site.clock.now())


def _used() -> LxgpuError:
    return LxgpuError("not_allowed", "this link is used up, or over", why=_OVER)


def _kind(one: Pass) -> str:
    return PERSON if one.name else VIEWER

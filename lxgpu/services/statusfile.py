"""status.json: what the daemon last saw, for everybody who may neither open the inventory nor ask LXD.

An unprivileged reader cannot open the database (its log must be writable), so the daemon publishes, in the JSON shapes
of the commands, what they would show. The page, `ls`, `gpus` and `status` of people who are not root read it.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import get_ident

from lxgpu.errors import cannot_write
from lxgpu.plain import plain
from lxgpu.regular import open_regular
from lxgpu.services.calendarview import Calendar
from lxgpu.services.cardviews import GpuView, UseView
from lxgpu.services.daemonfigures import DaemonFigures
from lxgpu.services.overview import StatusView
from lxgpu.services.reservationviews import ReservationView
from lxgpu.services.revive import revive
from lxgpu.services.views import InstanceView

FILE = "status.json"
_PASS = 0o011
SCHEMA = "lxgpu.published/v1"
MOST_BYTES = 16 * 1024 * 1024
"""What is longer was written by nobody of ours: a lab of 200 containers and 1,000 bookings has a megabyte."""
STALE_S = 90.0
"""The daemon writes at least every 30 s; what is older than this was written by one that has gone, or hangs."""


@dataclass(frozen=True, slots=True)
class PauseView:
    """Who let the daemon take nothing new, why, since when."""

    who: str
    why: str
    when: datetime


@dataclass(frozen=True, slots=True)
class PolicyState:
    """Whether the policy file is in force; else `error` says why the last good one is."""

    ok: bool
    error: str | None = None


@dataclass(frozen=True, slots=True)
class DaemonView:
    """The daemon: schema `lxgpu.daemon/v1`. `pid` is None when none runs; then the rest is of the last one.

    `ticked_at` is the last tick that came to its end, `next_at` when the next one is due at the latest. `figures` are
    what it counts of itself since it began.
    """

    running: bool
    pid: int | None = None
    started_at: datetime | None = None
    ticked_at: datetime | None = None
    next_at: datetime | None = None
    troubles: tuple[str, ...] = ()
    paused: PauseView | None = None
    policy: PolicyState = PolicyState(ok=True)
    figures: DaemonFigures = field(default_factory=DaemonFigures)


@dataclass(frozen=True, slots=True)
class Published:
    """All that status.json holds. `notes` say of each card that is not simply free or held why, by UUID.

    `calendar` reaches as far as `calendarview.MOST`. `timezone` is the lab's, by its IANA name, and `contact` whom
    people ask: who reads this cannot read the policy.
    `use` is the last day of each card, by UUID; a card of which nothing was ever read has none.
    `public` is the policy's `page.public`, which the page cannot read itself.
    """

    written_at: datetime
    headline: str
    status: StatusView
    daemon: DaemonView
    instances: tuple[InstanceView, ...] = ()
    gpus: tuple[GpuView, ...] = ()
    notes: dict[str, str] = field(default_factory=dict)
    reservations: tuple[ReservationView, ...] = ()
    calendar: Calendar | None = None
    timezone: str = "UTC"
    contact: str = ""
    use: dict[str, UseView] = field(default_factory=dict)
    public: bool = False

    def age_s(self, now: datetime) -> float:
        """How far from now it was written. What a wrong clock dated ahead of now is as far from being true."""
        return abs((now - self.written_at).total_seconds())

    def old(self, now: datetime) -> bool:
        """Whether it says nothing about now any more."""
        return self.age_s(now) >= STALE_S

    def stale(self, now: datetime) -> bool:
        """Whether its writer has gone, or hangs."""
        return self.old(now) or not self.daemon.running


def write(folder: Path, published: Published) -> None:
    """Put status.json into a folder, whole at every moment, for everybody to read.

    Raises:
        LxgpuError: `inventory_storage`: it cannot be written.
    """
    target, aside = folder / FILE, folder / f".{FILE}.{os.getpid()}.{get_ident()}"
    text = json.dumps({"schema": SCHEMA, **_object(published)}, ensure_ascii=False, allow_nan=False)
    try:
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o644)  # whatever the umask
            file.write(text + "\n")
        aside.replace(target)
    except OSError as error:
        with suppress(OSError):
            aside.unlink()
        raise cannot_write(target, error) from error


def read(folder: Path) -> Published | None:
    """What was published last; None when nothing was, it is no file, or it is not to be read or understood."""
    try:
        with open_regular(folder / FILE) as file:
            text = file.read(MOST_BYTES + 1)
        found = json.loads(text.decode()) if len(text) <= MOST_BYTES else {}
        if found.get("schema") != SCHEMA:
            return None
        return revive(Published, found)
    except (OSError, ValueError, AttributeError, RecursionError):
        return None


def open_to_readers(folder: Path) -> None:
    """Let everybody reach files of a folder by their names, and list none; what is secret in it is closed by itself.

    Raises:
        LxgpuError: `inventory_storage`, `not_allowed`: there is no such folder and it cannot be made.
    """
    try:
        folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        mode = folder.stat().st_mode
        if mode & _PASS != _PASS:
            folder.chmod(stat.S_IMODE(mode) | _PASS)
    except OSError as error:
        raise cannot_write(folder, error) from error


def _object(published: Published) -> dict[str, object]:
    found = plain(published)
    assert isinstance(found, dict)  # noqa: S101 -- a dataclass becomes an object
    return found

"""passes.json in the state directory: the passes there are, for root alone, changed whole and under a lock.

Commands and the daemon write it. A link is used up under the lock, so that of two who bring it one is let in. A file
that is broken is kept aside; one of a newer lxgpu is left to that.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu.errors import LxgpuError, cannot_write
from lxgpu.services.passes import Pass, PassKind

if TYPE_CHECKING:
    from lxgpu.services.site import Site

FILE, LOCK = "passes.json", "passes.lock"
BROKEN = tuple(f"{FILE}.bad{number}" for number in ("", *(f"-{one}" for one in range(2, 6))))
"""What a broken file is called from then on: the first name that is free; with none left the last is lost."""
_VERSION = 2
_SCHEMA = f"lxgpu.passes/v{_VERSION}"
_ANY_SCHEMA = re.compile(r"lxgpu\.passes/v(\d{1,9})")
_DIGEST = re.compile("[0-9a-f]{64}")
_WAIT_S, _AGAIN_S = 5.0, 0.01


@dataclass(slots=True)
class Passbook:
    """The passes while the lock is held: what `passes` are at its end is written, if they are others than before."""

    passes: tuple[Pass, ...]


def read_passes(folder: Path) -> tuple[Pass, ...]:
    """The passes as they are; none where there is no file, or a broken one.

    Raises:
        LxgpuError: `not_allowed`, `inventory_storage`: it cannot be read, or is of a newer lxgpu.
    """
    return _understood(folder / FILE) or ()  # whoever had a pass in a file that is broken asks for a new one


def broken(folder: Path) -> tuple[Path, ...]:
    """The broken files of passes: one in place still, and those that were kept aside. Raises as `read_passes`."""
    now = () if _understood(folder / FILE) is not None else (folder / FILE,)
    return (*now, *(folder / name for name in BROKEN if os.path.lexists(folder / name)))


def _understood(path: Path) -> tuple[Pass, ...] | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, encoding="utf-8") as file:
            told = json.load(file)
        schema = told.get("schema")
        if (known := _ANY_SCHEMA.fullmatch(schema)) and int(known[1]) > _VERSION:
            raise _newer(path, schema)
        return tuple(_pass(entry) for entry in told["passes"]) if known and int(known[1]) else None
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise _closed(path, error) from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


class PassReader:
    """Reads the passes again and again: the file is parsed when it is another one than the last time."""

    def __init__(self) -> None:
        self._known: tuple[tuple[object, ...], tuple[Pass, ...]] = ((), ())

    def read(self, folder: Path) -> tuple[Pass, ...]:
        """As `read_passes`; each change of the file is a new file, with its own number and time."""
        try:
            there = (folder / FILE).lstat()
        except OSError:
            return read_passes(folder)
        mark = (folder, there.st_ino, there.st_mtime_ns, there.st_size)
        known, passes = self._known
        if mark != known:
            passes = read_passes(folder)
            self._known = (mark, passes)
        return passes


@contextmanager
def opened(folder: Path, lost: Callable[[Path], object]) -> Iterator[Passbook]:
    """The passes, to be changed while nobody else does; `lost` hears where a broken file was put, and all of it ended.

    Raises:
        LxgpuError: `not_allowed`, `inventory_storage`; `conflict`: others hold the lock for too long.
    """
    handle = _lock(folder / LOCK)
    try:
        found = _understood(folder / FILE)
        if found is None:
            lost(_set_aside(folder))
        book = Passbook(found or ())
        before = book.passes
        yield book
        if book.passes != before:
            _write(folder / FILE, book.passes)
    finally:
        os.close(handle)


def _set_aside(folder: Path) -> Path:
    """Keep a broken file for whoever wants to know; gives where."""
    free = next((name for name in BROKEN if not os.path.lexists(folder / name)), BROKEN[-1])
    try:
        return (folder / FILE).replace(folder / free)
    except OSError as error:
        why = f"it is broken, and cannot be kept as {free}: {error.strerror or error}"
        raise _unusable(folder / FILE, why, f"look at it, then rm {folder / FILE}") from error


@contextmanager
def passes_of(site: Site) -> Iterator[Passbook]:
    """The passes, to be changed; that all are over because their file broke stands in the history."""

    def lost(kept: Path) -> None:
        site.say(
            f"the file of the page's links, sessions and invitations was broken: all are over; it is kept as {kept}"
        )
        with site.write() as tx:
            tx.event("passes_lost", site.host, detail={"kept": str(kept)})

    with opened(site.settings.state_dir, lost) as book:
        yield book


def _lock(path: Path) -> int:
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _closed(path, error) from error
    ends = time.monotonic() + _WAIT_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends:
                os.close(handle)
                raise LxgpuError("conflict", f"{path} is locked by somebody", fix="repeat in a moment") from None
            time.sleep(_AGAIN_S)
        except OSError as error:
            os.close(handle)
            raise _closed(path, error) from error
        else:
            return handle


def _write(path: Path, passes: Sequence[Pass]) -> None:
    entries = [[one.digest, one.kind.value, one.name, one.mark, int(one.expires.timestamp())] for one in passes]
    aside = path.with_name(f".{path.name}.new")  # nobody else has the lock
    try:
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            json.dump({"schema": _SCHEMA, "passes": entries}, file)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink()
        raise cannot_write(path, error) from error


def _pass(entry: object) -> Pass:
    if not isinstance(entry, list):
        raise TypeError
    digest, kind, name, mark, expires = entry
    if not _DIGEST.fullmatch(digest):
        raise ValueError
    return Pass(digest, PassKind(kind), str(name), str(mark), datetime.fromtimestamp(int(expires), UTC))


def _closed(path: Path, error: OSError) -> LxgpuError:
    if isinstance(error, PermissionError) and os.geteuid() != 0:
        return LxgpuError("not_allowed", f"{path} is root's alone", why=error.strerror or (), fix="run it with sudo")
    return _unusable(path, error.strerror or str(error), "lxgpu doctor looks for more")


def _newer(path: Path, schema: str) -> LxgpuError:
    fix = f"install that lxgpu again; or rm {path}, which ends all links, sessions and invitations of the page"
    return _unusable(path, f"a newer lxgpu has written it ({schema})", fix)


def _unusable(path: Path, why: str, fix: str) -> LxgpuError:
    return LxgpuError("inventory_storage", f"{path} cannot be opened", why=why, fix=fix)

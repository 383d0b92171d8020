"""The inventory as a whole: checked, written out, kept aside, and brought back. Put together as `wiring` does it."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu import wiring
from lxgpu.errors import LxgpuError

if TYPE_CHECKING:
    from lxgpu.inventory.transfer import Contents
    from lxgpu.model.operation import Identity
    from lxgpu.services.site import Site


def check_database() -> None:
    """Error `inventory_damaged` when the file itself is not sound."""
    from lxgpu.inventory.store import open_readonly  # noqa: PLC0415

    with open_readonly(_path()) as opened:
        opened.check()


def export_text(*, events: int) -> str:
    """The inventory as YAML."""
    from lxgpu.inventory.transfer import export_yaml  # noqa: PLC0415

    return export_yaml(wiring.inventory(), events=events)


def parse_inventory(text: str, *, name: str) -> Contents:
    """An exported inventory, checked whole; error `bad_file` with every mistake."""
    from lxgpu.inventory.transfer import import_yaml  # noqa: PLC0415

    return import_yaml(text, name=name)


def replace_inventory(site: Site, contents: Contents) -> None:
    """Put an exported inventory's rows in the place of those there are."""
    from lxgpu.inventory.transfer import replace_rows  # noqa: PLC0415

    with site.write() as tx:
        replace_rows(tx, contents.records)
        if contents.records.identity is not None:
            tx.identify(contents.records.identity)
        tx.event("imported", site.host, detail={"instances": len(contents.records.instances)})


def backup(target: Path) -> None:
    """A copy of the whole inventory; error `not_found` when there is none."""
    from lxgpu.inventory.store import open_inventory, open_readonly  # noqa: PLC0415

    open_readonly(_path()).close()  # which makes none where there is none
    with open_inventory(_path()) as opened:
        opened.backup(target)


def keep_aside() -> Path:
    """A copy of the present inventory beside it, named by the time, before it is replaced."""
    target = wiring.settings().state_dir / f"{wiring.INVENTORY}.replaced-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    backup(target)
    return target


def is_damaged() -> bool:
    """Whether there is an inventory's file, and it is not sound."""
    try:
        wiring.database_there()
    except LxgpuError as error:
        if error.code != "inventory_damaged":
            raise
        return True
    return False


def put_damaged_aside() -> Path:
    """Move a damaged inventory out of the way; gives where it is kept."""
    from lxgpu.inventory.restoring import put_aside  # noqa: PLC0415

    return put_aside(_path(), now=datetime.now(UTC))


def backup_identity(source: Path) -> Identity | None:
    """Which inventory a backup is of; error `bad_file` for what is no sound backup."""
    from lxgpu.inventory.restoring import identity_of_backup  # noqa: PLC0415

    return identity_of_backup(source)


def restore(source: Path) -> Path | None:
    """Put a backup in the inventory's place; gives where the old one is kept."""
    from lxgpu.inventory.restoring import restore_inventory  # noqa: PLC0415

    return restore_inventory(_path(), source, now=datetime.now(UTC))


def write_private(target: Path, text: str) -> None:
    """Write a file that only its owner reads."""
    try:
        with os.fdopen(os.open(target, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                os.fchmod(file.fileno(), 0o600)  # one that is there keeps its mode otherwise
            file.write(text)
    except OSError as error:
        raise LxgpuError("usage", f"{target} cannot be written: {error.strerror}") from error


def _path() -> Path:
    return wiring.settings().state_dir / wiring.INVENTORY

"""The policy in force: the file, or the last good one while the file is broken.

The last good one is kept as JSON beside the inventory. It also saves time: while the file is the same (inode, size,
times), it is read from there, without YAML and pydantic (1 ms instead of 150).
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lxgpu import __version__
from lxgpu.config.build import build_policy
from lxgpu.config.policy import no_unix_groups, read_policy
from lxgpu.errors import LxgpuError
from lxgpu.model.quota import Policy

if TYPE_CHECKING:
    from lxgpu.config.sense import UnixGroups

_FRESH_S = 2.0
"""A file changed this recently may change again within the same time stamp: its stamp says nothing yet."""


@dataclass(frozen=True, slots=True)
class InForce:
    """The policy in force; `broken` is why the file is not it, `unkept` why it could not be kept for later."""

    policy: Policy
    broken: LxgpuError | None = None
    unkept: str = ""


def policy_in_force(
    path: Path, *, kept: Path, cards: int | None = None, unix_groups: UnixGroups = no_unix_groups
) -> InForce:
    """Returns the policy of the file, or of the last good one.

    Args:
        path: policy.yaml.
        kept: where the last good one is kept; a file of root's, mode 0600.
        cards: how many cards there are, if known; looked at when the file is read anew.
        unix_groups: who is in which Unix group of this host.

    Raises:
        LxgpuError: `bad_file`: the file is broken or missing, and no good one is kept.
    """
    stamp = _stamp(path)
    last = _read_kept(kept)
    if last is not None and stamp is not None and last["stamp"] == stamp:
        return InForce(build_policy(last["plain"]))
    try:
        plain = read_policy(path, cards=cards, unix_groups=unix_groups)
    except LxgpuError as error:
        if last is None:
            raise
        return InForce(build_policy(last["plain"]), broken=error)
    return InForce(build_policy(plain), unkept=_keep(kept, plain=plain, stamp=stamp))


def _stamp(path: Path) -> list[int] | None:
    """What changes when the file does; None when there is no file, or it is too fresh to tell."""
    try:
        found = path.stat()
    except OSError:
        return None
    if abs(time.time() - found.st_mtime) < _FRESH_S:
        return None
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _read_kept(kept: Path) -> dict[str, Any] | None:
    """What is kept, if this version of lxgpu wrote it and nobody but its owner could change it."""
    try:
        with kept.open(encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            value = json.load(file)
    except (OSError, ValueError):
        return None
    safe = found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022
    if not safe or not isinstance(value, dict) or value.get("lxgpu") != __version__:
        return None
    return value


def _keep(kept: Path, *, plain: dict[str, Any], stamp: list[int] | None) -> str:
    """Writes it aside and moves it into place; returns why that failed, or nothing."""
    aside = kept.with_name(f".{kept.name}.{os.getpid()}")
    text = json.dumps({"lxgpu": __version__, "stamp": stamp, "plain": plain})
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        aside.replace(kept)
    except OSError as error:
        with suppress(OSError):
            aside.unlink()
        return f"{kept}: {error.strerror or error}"
    return ""

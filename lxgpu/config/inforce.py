"""The policy in force: the file, or the last good one while the file is broken."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lxgpu.config.build import build_policy
from lxgpu.config.kept import keep, read_kept, stamp
from lxgpu.config.policy import no_unix_groups, read_policy
from lxgpu.errors import LxgpuError
from lxgpu.model.quota import Policy

if TYPE_CHECKING:
    from lxgpu.config.sense import UnixGroups


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
        kept: where the last good one is kept; also read in place of the file while that is the same.
        cards: how many cards there are, if known; looked at when the file is read anew.
        unix_groups: who is in which Unix group of this host.

    Raises:
        LxgpuError: `bad_file`: the file is broken or missing, and no good one is kept.
    """
    before = stamp(path)
    last = read_kept(kept)
    if last is not None and before and last["stamp"] == before:
        return InForce(build_policy(last["plain"]))
    try:
        plain = read_policy(path, cards=cards, unix_groups=unix_groups)
    except LxgpuError as error:
        if last is None:
            raise
        return InForce(build_policy(last["plain"]), broken=error)
    return InForce(build_policy(plain), unkept=keep(kept, stamp=before, plain=plain))

"""Whether containers use their cards, as people and scripts see it; pure but for reading what was published.

`ls` must cost hardly more than `lxc list`, so it takes the daemon's last word instead of judging samples itself.
"""

from __future__ import annotations

import os

from lxgpu.regular import open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from lxgpu.model.gpu import Slot
    from lxgpu.model.snapshot import Records
    from lxgpu.model.usage import IdleVerdict
    from lxgpu.services.views import IdleView, InstanceView

FRESH_S = 90.0
"""What was published longer ago says nothing about now."""


def idle_view(verdicts: Iterable[IdleVerdict]) -> IdleView:
    """One word for all cards of a container: busy when one is, idle when all are, since the last change of that."""
    from lxgpu.model.usage import Use  # noqa: PLC0415 -- not for `ls`
    from lxgpu.services.views import IdleView  # noqa: PLC0415

    found = list(verdicts)
    if not found:
        return IdleView()
    uses = {one.use for one in found}
    if Use.BUSY not in uses and uses != {Use.IDLE}:
        return IdleView(verdict=Use.UNKNOWN.value)
    use = Use.BUSY if Use.BUSY in uses else Use.IDLE
    since = max((one.since for one in found if one.use is use and one.since is not None), default=None)
    return IdleView(verdict=use.value, since=since)


def with_idle(
    views: Iterable[InstanceView], records: Records, verdicts: Mapping[Slot, IdleVerdict]
) -> tuple[InstanceView, ...]:
    """The containers with what is judged of their cards; one that holds none has no verdict."""
    from dataclasses import replace  # noqa: PLC0415

    slots: dict[str, list[IdleVerdict]] = {}
    for row in records.assignments:
        if row.live and row.slot in verdicts:
            slots.setdefault(row.instance, []).append(verdicts[row.slot])
    return tuple(replace(view, idle=idle_view(slots.get(view.name, []))) for view in views)


def published_idle(state_dir: str) -> dict[str, dict[str, str | None]]:
    """The field `idle` of each container as the daemon published it lately; empty when it did not."""
    try:
        return {item["name"]: item["idle"] for item in _published(state_dir, "instances") if item["gpus"]}
    except (LookupError, TypeError):
        return {}


def published_verdicts(state_dir: str) -> dict[str, str]:
    """The verdict on each card as the daemon published it lately, by UUID; empty when it did not."""
    try:
        return {item["uuid"]: item["verdict"] for item in _published(state_dir, "gpus")}
    except (LookupError, TypeError):
        return {}


def _published(state_dir: str, noun: str) -> list[Any]:
    import json  # noqa: PLC0415 -- each import is counted here
    import time  # noqa: PLC0415

    try:
        with open_regular(f"{state_dir}/status.json") as file:
            if abs(time.time() - os.fstat(file.fileno()).st_mtime) > FRESH_S:
                return []
            return list(json.load(file)[noun])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return []

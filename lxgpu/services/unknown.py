"""A name that nothing has: the one error that says so, with what was probably meant; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import InstanceState
from lxgpu.model.snapshot import Records


def no_container(records: Records, name: str) -> LxgpuError:
    """Error `not_found` for a container's name; deleted ones are not offered."""
    names = [row.name for row in records.instances if row.state is not InstanceState.TRASHED]
    return LxgpuError(
        "not_found", f"there is no container {name}", fix=f"{meant(name, names)}lxgpu ls lists those there are"
    )


def check_known(records: Records, name: str, *, past: Callable[[str], bool]) -> None:
    """Error `not_found` for a name that no container has or had; `past` tells whether the history has it."""
    closed = any(row.instance == name for row in records.reservations)
    if records.instance(name) is None and not closed and not past(name):
        raise no_container(records, name)


def meant(name: str, names: Iterable[str]) -> str:
    """`did you mean alice? `, or nothing when no name is near."""
    from difflib import get_close_matches  # noqa: PLC0415 -- for the error only

    near = get_close_matches(name, sorted(names), n=2)
    return f"did you mean {' or '.join(near)}? " if near else ""

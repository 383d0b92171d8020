"""What LXD and the socket below it say, in the words of lxgpu's errors."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from lxgpu.errors import LxgpuError

NOT_FOUND = 404
CONFLICT = 409
STALE = 412
SHUT = 503

# Only whole sentences count: a device that failed also says "address already in use" or "not found".
_BUSY = re.compile(r"instance is busy|matching non-reusable operation", re.IGNORECASE)
_EXISTS = re.compile(
    r"entry already exists|UNIQUE constraint failed: \w+\.|^Name .* already in use|fingerprint already exists"
    r"|by that name already exists|^(?:Volume|Snapshot|Alias|Instance).* already exists",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"(?:instance|image|volume|snapshot|pool|network|alias)(?: not found| not provided\b.*)$"
    r"|^snapshot .* does not exist$",
    re.IGNORECASE,
)
_ALREADY = re.compile(r"is already (?:running|stopped|frozen)|isn't running|is not running", re.IGNORECASE)
_READ_BACK = "lxgpu reads back what was done and goes on from there; repeat the command"

_LOOK = "lxgpu doctor looks for the cause"


def is_busy(text: str) -> bool:
    """Whether LXD refused only because something else is going on with the instance (nothing was begun)."""
    return _BUSY.search(text) is not None


def is_already(text: str) -> bool:
    """Whether LXD says that the instance has the asked-for state (to be read back, not believed)."""
    return _ALREADY.search(text) is not None


def refusal(
    what: str, *, status: int, text: str, log: Sequence[str] = (), details: Mapping[str, object] | None = None
) -> LxgpuError:
    """LXD answered, and the answer is no. `log` are lines of the instance's log that tell the cause.

    `status` is the HTTP status, or 0 for an operation that was begun and failed.
    """
    if status == STALE:
        return LxgpuError("conflict", f"{what}: it was changed by somebody else in between", why=text)
    if is_busy(text):
        return LxgpuError("conflict", f"{what}: LXD is busy with it", why=text, fix="try again in a few seconds")
    if status == SHUT:
        return LxgpuError("unavailable", f"{what}: LXD is starting up or shutting down", why=text, fix=_LOOK)
    if status == CONFLICT or _EXISTS.search(text):
        return LxgpuError("exists", f"{what}: it exists already", why=text)
    if status == NOT_FOUND or _MISSING.search(text):
        return LxgpuError("not_found", f"{what}: LXD knows no such thing", why=text)
    return LxgpuError("engine", f"{what}: LXD refused", why=(text or f"HTTP status {status}", *log), details=details)


def not_sent(socket: str, error: BaseException, what: str) -> LxgpuError:
    """The server was not reached, so nothing was changed; missing, refused and denied are told apart."""
    if isinstance(error, FileNotFoundError):
        why = f"there is no socket at {socket}"
        fix = (
            "install or start LXD (systemctl start lxd.socket, or snap start lxd), or name its socket in the settings;"
        )
        labs = labs_up()
        if lab := _lab_of(socket):
            fix = f"lxgpu lab up --name {lab} starts the lab's LXD"
        elif labs:
            fix = f'eval "$(lxgpu lab env --name {labs[0]})" enters the lab; or {fix.removesuffix(";")}'
            fix += f" (other labs: {', '.join(labs[1:])})" if labs[1:] else ""
        else:
            fix += ' a lab is entered by eval "$(lxgpu lab env --name LAB)"'
    elif isinstance(error, ConnectionRefusedError):
        why = f"nobody listens on {socket}; the daemon has stopped or is being restarted"
        lab = _lab_of(socket)
        how = f"lxgpu lab up --name {lab}" if lab else "systemctl start lxd, or snap start lxd"
        fix = f"start LXD ({how}) and repeat the command"
    elif isinstance(error, PermissionError):
        why = f"{socket} may not be opened by this user"
        fix = "run the command as root, or as a member of the group that owns the socket (ls -l shows it)"
    else:
        why = f"{socket}: {error}"
        fix = _LOOK
    return LxgpuError("unavailable", f"{what}: LXD cannot be reached", why=why, fix=fix)


def _lab_of(socket: str) -> str:
    """The lab whose LXD has the socket, or the one that this process is in; empty outside of labs."""
    inside, place = os.environ.get("LXGPU_LAB", ""), Path(socket).parent.parent
    return place.name if inside and place.parent == _lab_root() else inside


def labs_up() -> list[str]:
    """The labs of this machine whose LXD has a socket, by name; none where nobody may look."""
    try:
        return sorted(place.name for place in _lab_root().iterdir() if (place / "lxd" / "unix.socket").is_socket())
    except OSError:
        return []


def _lab_root() -> Path:
    return Path(os.environ.get("LXGPU_LAB_ROOT") or "/var/lib/lxgpu-lab")


def no_answer(error: BaseException, what: str, seconds: float) -> LxgpuError:
    """A question (not a change) got no whole answer."""
    why = f"no answer in {seconds:g} s" if isinstance(error, TimeoutError) else str(error)
    return LxgpuError("unavailable", f"{what}: LXD does not answer", why=why, fix=_LOOK)


def outcome_unknown(what: str, why: str, seconds: float) -> LxgpuError:
    """A change was sent and nobody knows whether it was or will be made."""
    brief = f"{what}: not known whether it was done"
    return LxgpuError("outcome_unknown", brief, why=(why, f"the deadline was {seconds:g} s"), fix=_READ_BACK)

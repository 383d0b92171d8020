"""Folders and files of this host, packed, unpacked and kept with the rights of who calls: root's are nobody's to lend.

Who may run lxgpu by sudo reads and writes here what they could read and write without it. Whatever a container hands
back, tar takes no path out of the folder, and follows no link that came with it.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from lxgpu.errors import LxgpuError

_MOST = 4096
_SOON_S = 10.0
_MOST_OF = 0.9
"""Of the room that is free for a new file: one person's fills no disk."""
_WELL = frozenset({0, -signal.SIGPIPE})
"""How tar ends that did its work; by SIGPIPE, when who read had all that it wanted."""


@contextmanager
def packed(folder: str) -> Iterator[int]:
    """A descriptor to read the folder from, as tar has it.

    Raises:
        LxgpuError: `usage`: it cannot be read.
    """
    with _tar(["-c", "-f", "-", "-C", folder, "."], folder, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None  # noqa: S101 - asked for
        yield program.stdout.fileno()


@contextmanager
def unpacked(folder: str) -> Iterator[int]:
    """A descriptor to write to; what tar has written there is in the folder at the end.

    Raises:
        LxgpuError: `usage`: it cannot be written.
    """
    words = ["-x", "-f", "-", "-C", folder, "--no-same-owner", "--no-same-permissions"]
    with _tar(words, folder, stdin=subprocess.PIPE) as program:
        assert program.stdin is not None  # noqa: S101 - asked for
        yield program.stdin.fileno()


@contextmanager
def kept(path: str) -> Iterator[int]:
    """A descriptor to write a packed tar to; at the end it is a new file, which only the caller reads, or nothing is.

    It was read through once then. Whatever a container hands out, it takes no more than most of the room that is there.

    Raises:
        LxgpuError: `usage`: it cannot be written, is no whole archive, or something of that name is there.
    """
    part = f"{path}.{secrets.token_hex(4)}.part"
    try:
        words = ["sh", "-c", 'ulimit -f "$1"; set -C; umask 077; exec cat >"$0"', part, str(_blocks(path))]
        with _program(words, path, stdin=subprocess.PIPE) as program:
            assert program.stdin is not None  # noqa: S101 - asked for
            yield program.stdin.fileno()
        # Moved by the caller's rights as well, and never over anything.
        move = 'tar -t -z -f "$0" >/dev/null && mv -nT -- "$0" "$1" && test ! -e "$0"'
        with _program(["sh", "-c", move, part, path], path):
            pass
    finally:
        Path(part).unlink(missing_ok=True)


def _blocks(path: str) -> int:
    """How much a file there may take, in the 512 bytes that ulimit counts in."""
    try:
        there = os.statvfs(Path(path).parent)
    except OSError as error:
        raise LxgpuError("usage", f"{path} cannot be written", why=error.strerror or str(error)) from error
    return int(there.f_bavail * there.f_frsize * _MOST_OF) // 512


def _tar(words: Sequence[str], folder: str, **ends: int) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return _program(["tar", *words], folder, **ends)


@contextmanager
def _program(words: Sequence[str], folder: str, **ends: Any) -> Iterator[subprocess.Popen[bytes]]:  # noqa: ANN401 -- Popen's
    with TemporaryFile() as said:
        try:
            # A group of its own, which Ctrl-C does not reach.
            program = subprocess.Popen(words, stderr=said, process_group=0, **_caller(), **ends)
        except OSError as error:
            raise LxgpuError("usage", f"{folder} cannot be handed over", why=error.strerror or str(error)) from error
        try:
            yield program
            _end(program)
        except (LxgpuError, OSError):
            _end(program, within_s=_SOON_S)
            if program.returncode in {*_WELL, -signal.SIGKILL}:
                raise  # else what ended by itself is why the rest went wrong
        finally:
            _end(program, within_s=0)
        if program.returncode not in _WELL:
            said.seek(0)
            raise LxgpuError(
                "usage",
                f"{folder} cannot be handed over whole",
                why=said.read(_MOST).decode(errors="replace").splitlines()[:5] or _ending(program),
                fix="give a folder that the account behind sudo may read and write, and that has room",
            )


def _ending(program: subprocess.Popen[bytes]) -> str:
    if program.returncode == -signal.SIGXFSZ:
        return "it takes nearly all the room that is free there"
    return f"it ended with status {program.returncode}"


def _end(program: subprocess.Popen[bytes], *, within_s: float | None = None) -> None:
    """Nothing more comes for it; it ends by itself, or is ended after that time."""
    for end in (program.stdin, program.stdout):
        if end is not None:
            with suppress(OSError):
                end.close()
    try:
        program.wait(within_s)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


def _caller() -> dict[str, Any]:
    """The rights of the person behind sudo; this process's own where there is none."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    name = os.environ.get("SUDO_USER", "")
    if os.geteuid() != 0 or not (uid.isdigit() and gid.isdigit() and name) or uid == "0":
        return {}
    return {"user": int(uid), "group": int(gid), "extra_groups": os.getgrouplist(name, int(gid))}

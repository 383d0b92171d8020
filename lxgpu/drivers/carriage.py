"""Folders of this host, packed and unpacked by tar with the rights of who calls: root's are nobody's to lend.

Who may run lxgpu by sudo reads and writes here what they could read and write without it. Whatever a container hands
back, tar takes no path out of the folder, and follows no link that came with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from typing import Any

from lxgpu.errors import LxgpuError

_MOST = 4096


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
def _tar(words: Sequence[str], folder: str, **ends: Any) -> Iterator[subprocess.Popen[bytes]]:  # noqa: ANN401 -- Popen's
    with TemporaryFile() as said:
        try:
            # A group of its own, which Ctrl-C does not reach.
            program = subprocess.Popen(["tar", *words], stderr=said, process_group=0, **_caller(), **ends)
        except OSError as error:
            raise LxgpuError("usage", f"{folder} cannot be handed over", why=error.strerror or str(error)) from error
        whole = False
        try:
            yield program
            whole = True
        finally:
            for end in (program.stdin, program.stdout):
                if end is not None:
                    with suppress(OSError):
                        end.close()
            if not whole:
                program.kill()
            program.wait()
        if program.returncode not in {0, -signal.SIGPIPE}:  # whoever read had all that it wanted
            said.seek(0)
            raise LxgpuError(
                "usage",
                f"{folder} cannot be handed over whole",
                why=said.read(_MOST).decode(errors="replace").splitlines()[:5] or f"tar: status {program.returncode}",
                fix="give a folder that the account behind sudo may read and write",
            )


def _caller() -> dict[str, Any]:
    """The rights of the person behind sudo; this process's own where there is none."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    name = os.environ.get("SUDO_USER", "")
    if os.geteuid() != 0 or not (uid.isdigit() and gid.isdigit() and name) or uid == "0":
        return {}
    return {"user": int(uid), "group": int(gid), "extra_groups": os.getgrouplist(name, int(gid))}

"""Runs the real command, with pipes or on a terminal of its own."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def _clean(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without what would change our output, and with what the test sets."""
    kept = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}}
    return {**kept, "PYTHONPATH": os.pathsep.join(sys.path), **env}


@pytest.fixture
def lxgpu() -> Run:
    """Run lxgpu with pipes."""

    def run(*words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "lxgpu", *words]
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            text=True,
            capture_output=True,
            env=_clean(env or {}),
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def on_terminal() -> Callable[..., tuple[int, str]]:
    """Run a Python program on a pseudo-terminal, type keys; gives its exit status and all it wrote."""

    def run(program: Sequence[str], *, keys: bytes = b"", env: Mapping[str, str] | None = None) -> tuple[int, str]:
        parent, child = pty.openpty()
        environment = _clean({"TERM": "xterm", "COLUMNS": "80", **(env or {})})
        with subprocess.Popen(
            [sys.executable, *program], stdin=child, stdout=child, stderr=child, env=environment, start_new_session=True
        ) as process:
            os.close(child)
            os.write(parent, keys)
            written = _read_all(parent)
        os.close(parent)
        return process.returncode, written.decode().replace("\r\n", "\n")

    return run


def _read_all(terminal: int) -> bytes:
    pieces = []
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux says EIO when the last writer has gone
            return b"".join(pieces)
        pieces.append(piece)

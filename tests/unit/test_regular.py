"""Files that people name are read if they are files, and nothing else is waited for."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lxgpu.cli import main
from lxgpu.regular import NO_FILE, open_regular


def test_a_file_is_read(tmp_path: Path) -> None:
    """Also by way of a link."""
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"text")
    link.symlink_to(file)
    for path in (file, link):
        with open_regular(path) as found:
            assert found.read() == b"text"


def odd_ones(folder: Path) -> list[Path]:
    """A pipe that nobody writes to, a socket, a device."""
    pipe, door = folder / "pipe", folder / "door"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(door))
    return [pipe, door, Path("/dev/zero")]


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    """Nothing waits for a writer, and nothing reads a device without an end."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in odd_ones(tmp_path):
        with pytest.raises(OSError, match="no regular file"):
            open_regular(path)
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(
    "words",
    [
        ("policy", "check"),
        ("policy", "show"),
        ("policy", "plan"),
        ("inventory", "restore", "--yes"),
        ("inventory", "import", "--yes"),
        ("image", "import", "--alias", "x"),
        ("lab", "up", "--policy"),
        ("create", "--from"),
        ("simulate", "--servers", "1", "--gpus-per-server", "1"),
    ],
    ids=" ".join,
)
def test_a_pipe_that_nobody_writes_to_stops_no_command(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused, with why and what to do."""
    for path in odd_ones(tmp_path):
        status = main.run([*words, str(path), "--state-dir", str(tmp_path), "--run-dir", str(tmp_path)])
        told = capsys.readouterr().err
        assert status == 2, told
        assert NO_FILE in told
        assert "fix: " in told

"""What every board promises, asked of the folder on the host and of the fake; no link leads the real one away."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fakes.people import FakeBoard

from lxgpu.drivers.board import FolderBoard
from lxgpu.errors import LxgpuError


@pytest.fixture(params=["fake", "real"])
def board(request, tmp_path):
    """A board, with a folder for alice and one for ben."""

    def made(name: str) -> str:
        (tmp_path / name).mkdir(exist_ok=True)
        return str(tmp_path / name)

    return FakeBoard() if request.param == "fake" else FolderBoard(made)


def test_what_is_written_is_read(board):
    """In one container's folder only, and a file that is not there is empty."""
    assert board.write("alice", "notice", "bob ≥ alice\n")
    assert board.read("alice", "notice") == "bob ≥ alice\n"
    assert (board.read("ben", "notice"), board.read("alice", "banner")) == ("", "")


def test_the_same_again_is_no_change(board):
    """So that each tick may write."""
    assert [board.write("alice", "banner", text) for text in ("a", "a", "b", "")] == [True, False, True, True]


def test_a_file_is_as_old_as_the_last_write_that_found_it_right(folder):
    """Inside it is read when nobody answers: it says how long it has been so."""
    board = FolderBoard(lambda name: str(folder.with_name(name)))
    board.write("alice", "banner", "a")
    os.utime(folder / "banner", (1, 1))
    assert not board.write("alice", "banner", "a")
    assert (folder / "banner").stat().st_mtime > 1


def test_a_move_takes_everything_along_once(board):
    """In the place of what was there; a second time finds nothing to do, and harms nothing."""
    board.write("alice", "notice", "hers")
    board.write("ben", "banner", "an earlier ben's")
    for _ in range(2):
        board.move("alice", "ben")
        assert [board.read("ben", file) for file in ("notice", "banner")] == ["hers", ""]
    assert board.read("alice", "notice") == ""


def test_what_is_removed_is_read_by_nobody(board):
    """Whoever has the name next finds an empty folder; a second time is no error."""
    board.write("alice", "notice", "hers")
    board.remove("alice")
    board.remove("alice")
    assert board.read("alice", "notice") == ""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Alice's folder."""
    (tmp_path / "alice").mkdir()
    return tmp_path / "alice"


@pytest.fixture
def real(folder: Path) -> FolderBoard:
    """The board of the host."""
    return FolderBoard(lambda name: str(folder.parent / name))


def test_everybody_inside_can_read_it_whatever_the_umask(real, folder):
    """And nothing else is left in the folder."""
    before = os.umask(0o077)
    try:
        real.write("alice", "notice", "x")
    finally:
        os.umask(before)
    assert (folder / "notice").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in folder.iterdir()] == ["notice"]


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_root_of_a_privileged_container_left_there_is_replaced(real, folder, tmp_path, kind):
    """A link is not followed, neither reading nor writing; a pipe hangs nobody."""
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    if kind == "link":
        (folder / "notice").symlink_to(secret)
    else:
        os.mkfifo(folder / "notice")
    assert real.read("alice", "notice") == ""
    assert real.write("alice", "notice", "x")
    assert real.read("alice", "notice") == "x"
    assert secret.read_text() == "of the host"


def test_a_folder_that_is_none_is_an_error_and_leaves_nothing(real, folder):
    """The folder is gone, or a link; a directory stands in the file's place."""
    (folder.parent / "ben").symlink_to(folder)
    for name in ("zoe", "ben"):
        with pytest.raises(LxgpuError, match=f"folder of {name}"):
            real.write(name, "notice", "x")
    (folder / "notice").mkdir()
    with pytest.raises(LxgpuError):
        real.write("alice", "notice", "x")
    assert [path.name for path in folder.iterdir()] == ["notice"]

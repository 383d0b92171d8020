"""Folders are packed and unpacked with the rights of who calls, and nothing leads out of them."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

from lxgpu.drivers.carriage import kept, packed, unpacked
from lxgpu.errors import LxgpuError

NOBODY = 65534


@pytest.fixture
def nobody(monkeypatch):
    """The person behind sudo is one without rights."""
    for name, value in (("UID", str(NOBODY)), ("GID", str(NOBODY)), ("USER", "nobody")):
        monkeypatch.setenv(f"SUDO_{name}", value)


def archive(*members: tuple[str, bytes | str]) -> bytes:
    """A tar of files (bytes) and links (text)."""
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return found.getvalue()


PACKED = gzip.compress(archive(("work.txt", os.urandom(200_000))))


def put(folder: Path, content: bytes) -> None:
    """Unpack it there."""
    with unpacked(str(folder)) as target:
        os.write(target, content)


def test_a_folder_comes_out_as_it_went_in(tmp_path):
    """Whole, and the rest of the target stays."""
    source, target = tmp_path / "a", tmp_path / "b"
    (source / "src").mkdir(parents=True)
    target.mkdir()
    (source / "src" / "x").write_bytes(bytes(1000))
    (target / "mine").write_text("there")
    with packed(str(source)) as start, os.fdopen(os.dup(start), "rb") as stream:
        put(target, stream.read())
    assert (target / "src" / "x").read_bytes() == bytes(1000)
    assert (target / "mine").read_text() == "there"


def test_a_reader_may_stop_early(tmp_path):
    """A program inside that wants no more is no error."""
    (tmp_path / "x").write_bytes(bytes(1_000_000))
    with packed(str(tmp_path)) as start:
        os.read(start, 10)


@pytest.mark.parametrize("name", ["../out", "{}/out", "x/../../out"])
def test_no_path_leads_out(tmp_path, name):
    """Whatever a container hands back; it is put below, or refused."""
    folder = tmp_path / "in"
    folder.mkdir()
    with suppress(LxgpuError):
        put(folder, archive((name.format(tmp_path), b"evil")))
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_no_link_leads_out(tmp_path):
    """Nor by a link that came before."""
    folder = tmp_path / "in"
    folder.mkdir()
    with pytest.raises(LxgpuError):
        put(folder, archive(("way", str(tmp_path)), ("way/out", b"evil")))
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("nobody")
def test_what_the_caller_may_not_read_is_not_handed_over(tmp_path):
    """Root's rights are not lent by sudo."""
    tmp_path.chmod(0o700)
    with pytest.raises(LxgpuError) as refused, packed(str(tmp_path)) as start:
        assert os.read(start, 65536) == b""
    assert refused.value.code == "usage"


@pytest.mark.usefixtures("nobody")
def test_where_the_caller_may_not_write_nothing_is_written(tmp_path):
    """Nor is root's folder a place to put anything."""
    with pytest.raises(LxgpuError):
        put(tmp_path, archive(("x", b"evil")))
    assert not list(tmp_path.iterdir())


def keep(path: Path, content: bytes) -> None:
    """Write it there."""
    with kept(str(path)) as target, open(target, "wb", closefd=False) as stream:
        stream.write(content)


def test_what_is_kept_is_there_whole_and_only_for_who_asked(tmp_path):
    """A new file of mode 600, and nothing beside it."""
    keep(tmp_path / "a b.tar.gz", PACKED)
    assert (tmp_path / "a b.tar.gz").read_bytes() == PACKED
    assert [(path.name, path.stat().st_mode & 0o777) for path in tmp_path.iterdir()] == [("a b.tar.gz", 0o600)]


@pytest.mark.parametrize("content", [b"", b"no archive", PACKED[:-9], bytes(100_000)])
def test_what_is_no_whole_archive_is_not_kept(tmp_path, content):
    """Whoever is root in a container says what its tar writes."""
    with pytest.raises(LxgpuError) as refused:
        keep(tmp_path / "x", content)
    assert refused.value.code == "usage"
    assert list(tmp_path.iterdir()) == []


def test_one_archive_fills_no_disk(tmp_path, monkeypatch):
    """What writes without end is cut off before the room that is there is used up."""
    monkeypatch.setattr("lxgpu.drivers.carriage._MOST_OF", 0.0)
    with pytest.raises(LxgpuError) as refused:
        keep(tmp_path / "x", bytes(10_000_000))
    assert refused.value.code == "usage"
    assert list(tmp_path.iterdir()) == []


def test_what_breaks_off_leaves_nothing(tmp_path):
    """Ctrl-C too."""

    def broken() -> None:
        with kept(str(tmp_path / "x")) as target:
            os.write(target, b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", ["older", "nowhere/x"])
def test_nothing_is_kept_over_something_or_nowhere(tmp_path, there):
    """What was there stays as it was."""
    (tmp_path / "older").write_text("older")
    with pytest.raises(LxgpuError) as refused:
        keep(tmp_path / there, PACKED)
    assert refused.value.code == "usage"
    assert [path.read_text() for path in tmp_path.iterdir()] == ["older"]


@pytest.mark.usefixtures("nobody")
def test_what_is_kept_is_kept_with_the_rights_of_the_person_behind_sudo(tmp_path):
    """Where they may not write, nothing is written; where they may, it is theirs."""
    mine, open_to_all = tmp_path / "mine", tmp_path / "open"
    for folder, mode in ((mine, 0o755), (open_to_all, 0o777)):
        folder.mkdir()
        folder.chmod(mode)
    for up in (tmp_path, *tmp_path.parents):
        if not up.stat().st_mode & 0o001:  # pytest's own folders
            up.chmod(up.stat().st_mode | 0o111)
    with pytest.raises(LxgpuError):
        keep(mine / "x", PACKED)
    keep(open_to_all / "x", PACKED)
    assert (list(mine.iterdir()), (open_to_all / "x").stat().st_uid) == ([], NOBODY)

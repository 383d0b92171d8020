"""passes.json: root's alone, whole at every moment, and of two who come with one link one is let in."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from lxgpu.errors import LxgpuError
from lxgpu.services import passbook
from lxgpu.services.passbook import BROKEN, FILE, LOCK, PassReader, broken, read_passes
from lxgpu.services.passes import LIFE, PassKind, found, issued, new_text, without

NEWER = '{"schema": "lxgpu.passes/v3", "passes": []}'
NOW = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)


def opened(folder):
    """The passes, where none is lost."""
    return passbook.opened(folder, lambda kept: pytest.fail(f"lost: {kept}"))


def _give(folder, kind=PassKind.LINK, name="alice"):
    text = new_text()
    with opened(folder) as book:
        book.passes, _ = issued(book.passes, text, kind, name=name, mark="m", now=NOW, life=LIFE[kind])
    return text


def test_what_is_written_is_read_and_for_root_alone(tmp_path):
    """Also under an umask that would give it to everybody."""
    before = os.umask(0)
    try:
        text = _give(tmp_path)
    finally:
        os.umask(before)
    one = found(read_passes(tmp_path), text, PassKind.LINK, now=NOW)
    assert one is not None
    assert (one.name, one.mark, one.expires) == ("alice", "m", NOW + LIFE[PassKind.LINK])
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in (FILE, LOCK)} == {0o600}
    assert text not in (tmp_path / FILE).read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE, LOCK]


def test_of_many_who_come_with_one_link_one_is_let_in(tmp_path):
    """At the same moment, in threads, each with a lock of its own."""
    text, start = _give(tmp_path), threading.Barrier(8)

    def come(_):
        start.wait(30)
        with opened(tmp_path) as book:
            mine = found(book.passes, text, PassKind.LINK, now=NOW)
            if mine is None:
                return False
            book.passes = without(book.passes, mine)
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(come, range(8))) == 1
    assert read_passes(tmp_path) == ()


def test_who_reads_again_and_again_sees_each_change_at_once(tmp_path):
    """Also one of the same length, made in the same moment."""
    reader = PassReader()
    assert reader.read(tmp_path) == ()
    for _ in range(20):
        text = _give(tmp_path)
        assert found(reader.read(tmp_path), text, PassKind.LINK, now=NOW) is not None
        with opened(tmp_path) as book:
            book.passes = ()
        assert reader.read(tmp_path) == ()
    (tmp_path / FILE).unlink()
    assert reader.read(tmp_path) == ()


def _with(*entry):
    """The file with one entry."""
    return json.dumps({"schema": "lxgpu.passes/v1", "passes": [entry]})


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "null", '{"schema": 1}', '{"schema": "lxgpu.passes/v1", "passes": [1]}', "\xff",
        _with("é" * 64, "link", "alice", "m", 4102444800), _with("0" * 64, "key", "alice", "m", 4102444800),
        _with("0" * 64, "link", "alice", "m", 10**20), _with(0, "link", "alice", "m", 0), _with("0" * 64),
        "[" * 100_000, '{"schema": "lxgpu.passes/v0", "passes": []}', '{"schema": "lxgpu.keys/v2", "passes": []}',
    ],
    ids=range(14),
)  # fmt: skip
def test_a_file_that_is_broken_lets_nobody_in_and_is_kept_aside(tmp_path, content):
    """Whoever had a pass asks for another; what was there can be looked at, and is told of."""
    (tmp_path / FILE).write_text(content)
    assert read_passes(tmp_path) == ()
    assert broken(tmp_path) == (tmp_path / FILE,)
    kept = []
    with passbook.opened(tmp_path, kept.append):
        pass
    assert kept == [tmp_path / BROKEN[0]]
    text = _give(tmp_path)
    assert found(read_passes(tmp_path), text, PassKind.LINK, now=NOW) is not None
    assert kept[0].read_text() == content
    assert broken(tmp_path) == tuple(kept)


def test_broken_files_are_numbered_and_do_not_pile_up(tmp_path):
    """The first ones stay, however many come; a folder that has the name of one is in nobody's way."""
    (tmp_path / BROKEN[0]).mkdir()
    for number in range(8):
        (tmp_path / FILE).write_text(str(number))
        with passbook.opened(tmp_path, lambda _: None):
            pass
    assert [(tmp_path / name).read_text() for name in BROKEN[1:]] == ["0", "1", "2", "7"]
    assert len(list(tmp_path.iterdir())) == len(BROKEN) + 1


def test_a_broken_file_that_cannot_be_kept_is_an_error_in_words(tmp_path):
    """It is not thrown away, and the error says what to do."""
    for name in BROKEN:
        (tmp_path / name).mkdir()
    (tmp_path / FILE).write_text("x")
    with pytest.raises(LxgpuError) as raised, opened(tmp_path):
        pass
    assert raised.value.code == "inventory_storage"
    assert f"rm {tmp_path / FILE}" in raised.value.fix
    assert (tmp_path / FILE).read_text() == "x"


def test_a_file_of_a_newer_lxgpu_is_left_to_that(tmp_path):
    """Neither read, nor changed, nor put aside: the error says who wrote it."""
    (tmp_path / FILE).write_text(NEWER)
    for use in (lambda: read_passes(tmp_path), lambda: broken(tmp_path), lambda: _give(tmp_path)):
        with pytest.raises(LxgpuError) as raised:
            use()
        assert "a newer lxgpu has written it (lxgpu.passes/v3)" in raised.value.why
    assert (tmp_path / FILE).read_text() == NEWER
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE, LOCK]


def test_a_link_in_its_place_is_not_followed(tmp_path):
    """Neither read from, nor written through."""
    other = tmp_path / "other"
    other.write_text(json.dumps({"schema": "lxgpu.passes/v1", "passes": []}))
    (tmp_path / FILE).symlink_to(other)
    with pytest.raises(LxgpuError):
        read_passes(tmp_path)


def test_what_fails_inside_writes_nothing(tmp_path):
    """The passes are as they were."""
    _give(tmp_path)
    before = (tmp_path / FILE).read_bytes()

    def fail():
        with opened(tmp_path) as book:
            book.passes = ()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (tmp_path / FILE).read_bytes() == before


def test_a_lock_that_somebody_holds_is_not_waited_for_without_end(tmp_path, monkeypatch):
    """It says who is in the way of what."""
    monkeypatch.setattr(passbook, "_WAIT_S", 0.05)
    with (tmp_path / LOCK).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(LxgpuError) as raised, opened(tmp_path):
            pass
    assert raised.value.code == "conflict"

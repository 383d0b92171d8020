"""A run directory in which nothing can be made: one clean error wherever something of ours is to be made there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fakes.site import make_site

from lxgpu.drivers.only_one import OnlyOne, runner
from lxgpu.drivers.system import FileLocks
from lxgpu.drivers.wake import Wake, poke
from lxgpu.errors import Exit, LxgpuError
from lxgpu.services import pausing, statusfile
from lxgpu.services.clockset import watch_clock
from lxgpu.services.statusfile import PauseView

NOW = datetime(2027, 3, 1, 8, tzinfo=UTC)


@contextmanager
def refused_cleanly() -> Iterator[None]:
    """What is done within ends with the error of the storage, why and what to do."""
    with pytest.raises(LxgpuError) as caught:
        yield
    assert caught.value.code == "inventory_storage"
    assert caught.value.status is Exit.UNAVAILABLE
    assert "cannot be written" in caught.value.brief
    assert caught.value.why
    assert caught.value.fix


def locked(run: Path) -> None:
    """Take a lock."""
    with FileLocks(run / "locks").hold("alice", wait_s=0):
        pytest.fail("a lock that is nowhere")


DEEDS: dict[str, Callable[[Path], object]] = {
    "lock": locked,
    "daemon": lambda run: OnlyOne(run, now=NOW),
    "wake": Wake,
    "pause": lambda run: pausing.pause(run, PauseView("root", "x", NOW)),
    "folder": statusfile.open_to_readers,
}


@pytest.mark.parametrize("name", DEEDS)
def test_a_file_where_the_run_directory_should_be(name: str, tmp_path: Path) -> None:
    """Root may write everywhere, but not below a file."""
    (tmp_path / "run").write_text("")
    with refused_cleanly():
        DEEDS[name](tmp_path / "run" / "lxgpu")


def test_a_folder_in_the_place_of_a_lock(tmp_path: Path) -> None:
    """Whatever stands there."""
    (tmp_path / "locks" / "alice.lock").mkdir(parents=True)
    (tmp_path / "daemon.lock").mkdir()
    (tmp_path / "wake").mkdir()
    for name in ("lock", "daemon", "wake"):
        with refused_cleanly():
            DEEDS[name](tmp_path)


def test_who_only_looks_is_not_stopped(tmp_path: Path) -> None:
    """Nobody is at work there, and nothing is paused."""
    (tmp_path / "run").write_text("")
    run = tmp_path / "run" / "lxgpu"
    assert runner(run) is None
    assert poke(run) is False
    assert pausing.paused(run) is None


def test_the_clock_is_noted_nowhere_and_that_is_said_cleanly(tmp_path: Path) -> None:
    """A tick names it as its trouble."""
    site = make_site(tmp_path, gpus=1)
    site.settings.run_dir.parent.mkdir(parents=True, exist_ok=True)
    site.settings.run_dir.write_text("")
    with refused_cleanly():
        watch_clock(site)


def test_a_lock_that_can_be_made_is_one(tmp_path: Path) -> None:
    """The other way about."""
    with FileLocks(tmp_path / "locks").hold("alice", wait_s=0) as held:
        assert held
    one = OnlyOne(tmp_path, now=NOW)
    assert json.loads((tmp_path / "daemon.lock").read_text())["started_at"] == NOW.isoformat()
    one.close()

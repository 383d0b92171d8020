"""status.json: whole at every moment, for everybody, and read back as what was written."""

from __future__ import annotations

import json
import os
import socket
import stat
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from dealings import wish
from fakes.faults import Fault
from fakes.site import make_site, newcomer
from json_shapes import faults

from lxgpu.errors import LxgpuError
from lxgpu.services import statusfile
from lxgpu.services.calendarview import BarKind
from lxgpu.services.idleviews import published_verdicts
from lxgpu.services.publish import published
from lxgpu.services.reserve import reserve
from lxgpu.services.revive import revive
from lxgpu.services.statusfile import DaemonView, PauseView, PolicyState


@pytest.fixture
def site(tmp_path):
    """Alice holds two of three cards."""
    made = make_site(tmp_path, gpus=3)
    newcomer(made, "alice", gpus=2, lease_s=3600)
    made.settings.state_dir.mkdir()
    return made


@pytest.fixture
def daemon(site):
    """A daemon with everything to tell."""
    now = site.clock.now()
    return DaemonView(
        running=True,
        pid=4711,
        started_at=now,
        ticked_at=now,
        next_at=now + timedelta(seconds=10),
        troubles=("notices: no mail",),
        paused=PauseView(who="root", why="a driver update", when=now),
        policy=PolicyState(ok=False, error="policy.yaml has a mistake"),
    )


def test_what_is_written_is_read_back(site, daemon):
    """Views, times and what is unknown, all as they were."""
    found = published(site, daemon)
    statusfile.write(site.settings.state_dir, found)
    assert statusfile.read(site.settings.state_dir) == found
    assert found.headline.startswith("1 of 3 GPUs free")
    assert [view.name for view in found.instances] == ["alice"]
    assert len(found.gpus) == 3


@pytest.mark.parametrize(("ahead_s", "old"), [(0, False), (89, False), (90, True), (-89, False), (-90, True)])
def test_what_was_written_long_ago_or_in_the_future_says_nothing_of_now(site, daemon, ahead_s, old):
    """A clock that ran ahead hides no daemon that has gone."""
    found = published(site, daemon)
    now = found.written_at - timedelta(seconds=ahead_s)
    assert (found.old(now), found.stale(now)) == (old, old)
    gone = replace(found, daemon=replace(daemon, running=False))
    assert (gone.old(now), gone.stale(now)) == (old, True)


def test_the_calendar_of_a_week_is_in_it(site, daemon):
    """Who has which card and what is booked, no further than a week, and nothing that is over."""
    reserve(site, wish("alice", gpus=3, at=site.clock.now() + timedelta(days=1)), begin=False)
    reserve(site, wish("alice", gpus=3, at=site.clock.now() + timedelta(days=8)), begin=False)
    statusfile.write(site.settings.state_dir, published(site, daemon))
    found = statusfile.read(site.settings.state_dir)
    assert found.calendar.end - found.calendar.now == timedelta(days=7)
    bars = {line.name: [(bar.kind, bar.instance, bar.gpus) for bar in line.bars] for line in found.calendar.lines}
    *cards, (model, booked) = bars.items()
    assert [bars for _, bars in cards] == [[(BarKind.HELD, "alice", 0)]] * 2 + [[]]
    assert (model, booked) == ("NVIDIA RTX 3090", [(BarKind.BOOKED, "alice", 3)])
    assert (found.timezone, found.contact) == ("UTC", "gpu-admin@lab.example")


def test_the_json_has_the_shapes_of_the_commands(site, daemon):
    """Scripts read instances, gpus and status here as with `-o json`."""
    statusfile.write(site.settings.state_dir, published(site, daemon))
    document = json.loads((site.settings.state_dir / "status.json").read_text())
    assert document["schema"] == "lxgpu.published/v1"
    wrong = [text for noun in ("instances", "gpus") for item in document[noun] for text in faults(noun, item)]
    assert wrong + faults("status", document["status"]) + faults("daemon", document["daemon"]) == []
    assert document["written_at"].endswith("Z")


def test_everybody_may_read_it_and_nobody_else_may_write_it(site, daemon):
    """Mode 0644, in a folder that can be passed and not listed."""
    folder = site.settings.state_dir
    folder.chmod(0o700)
    statusfile.open_to_readers(folder)
    statusfile.write(folder, published(site, daemon))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o711
    assert stat.S_IMODE((folder / "status.json").stat().st_mode) == 0o644
    assert [path.name for path in folder.iterdir()] == ["status.json"], "nothing is left beside it"


def test_without_lxd_it_says_what_is_known(site, daemon):
    """The people do not learn less from the file than from the command."""
    site.engine.inject(Fault.DOWN, call="put_promises", after=100)
    with suppress(LxgpuError):
        site.engine.put_promises({}, etag=None)
    found = published(site, daemon)
    assert found.instances[0].state == "unreachable"
    assert any(problem.subject == "LXD" for problem in found.status.problems)


def test_a_folder_that_cannot_be_written_is_one_error(site, daemon):
    """A full or missing disk is told in words, and the old file stays."""
    with pytest.raises(LxgpuError) as caught:
        statusfile.write(site.settings.state_dir / "gone", published(site, daemon))
    assert caught.value.code == "inventory_storage"


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '{"schema": "lxgpu.published/v2"}', '{"schema": "lxgpu.published/v1"}', "\x00",
        "[" * 100_000,
    ],
    ids=range(8),
)  # fmt: skip
def test_what_cannot_be_understood_is_as_good_as_nothing(tmp_path, text):
    """Half a file, another version, somebody's joke: no fault, no answer."""
    (tmp_path / "status.json").write_text(text)
    assert statusfile.read(tmp_path) is None
    assert statusfile.read(tmp_path / "nowhere") is None


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket", "device"])
def test_what_is_no_file_is_as_good_as_nothing_and_not_waited_for(tmp_path, kind):
    """A pipe that nobody writes to, a folder, a socket, a device without an end; for those too who ask for one part."""
    path = tmp_path / statusfile.FILE
    with socket.socket(socket.AF_UNIX) as made:
        match kind:
            case "pipe":
                os.mkfifo(path)
            case "folder":
                path.mkdir()
            case "socket":
                made.bind(str(path))
            case _:
                path.symlink_to("/dev/zero")
        assert statusfile.read(tmp_path) is None
        assert published_verdicts(str(tmp_path)) == {}


def test_what_is_larger_than_any_lab_is_not_read(site, daemon):
    """However much follows; just below the bound it is read."""
    folder = site.settings.state_dir
    statusfile.write(folder, published(site, daemon))
    path, size = folder / statusfile.FILE, (folder / statusfile.FILE).stat().st_size
    with path.open("a") as file:
        file.write(" " * (statusfile.MOST_BYTES - size))
    assert statusfile.read(folder) is not None
    with path.open("a") as file:
        file.write(" ")
    assert statusfile.read(folder) is None


def test_a_newer_writer_is_understood():
    """Keys that this version does not know are left alone."""
    assert revive(DaemonView, {"running": True, "mood": "fine"}) == DaemonView(running=True)
    with pytest.raises(ValueError, match="no DaemonView"):
        revive(DaemonView, [1])

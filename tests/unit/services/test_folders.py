"""The host's folder of a container goes where the container goes, and is read by nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.services import ending, renaming, untrash
from lxgpu.services.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Alice has something on her board."""
    made = make_site(tmp_path, gpus=1)
    newcomer(made, "alice")
    made.board.write("alice", "notice", "hers")
    return made


def noticed(site: Site) -> dict[str, str]:
    """Whose notice is what."""
    return {name: text for (name, file), text in site.board.files.items() if file == "notice"}


def test_a_rename_takes_it_along(site: Site) -> None:
    """And nothing stays under the old name."""
    renaming.rename(site, "alice", "box")
    assert noticed(site) == {"box": "hers"}


def test_the_trash_keeps_it_and_gives_it_back(site: Site) -> None:
    """The next container of that name does not read it; one that lies in the trash does not hang on the folder."""
    ending.delete(site, "alice", purge=False)
    assert noticed(site) == {"trash-alice": "hers"}
    assert "lxgpu" not in site.engine.machines["default", "trash-alice"].devices
    untrash.untrash(site, "trash-alice")
    assert noticed(site) == {"alice": "hers"}
    assert "lxgpu" in site.engine.machines["default", "alice"].devices


def test_it_goes_with_the_container(site: Site) -> None:
    """By --purge at once, and out of the trash."""
    ending.delete(site, "alice", purge=True)
    assert noticed(site) == {}
    newcomer(site, "bob")
    site.board.write("bob", "notice", "his")
    ending.delete(site, "bob", purge=False)
    ending.delete(site, "trash-bob", purge=True)
    assert noticed(site) == {}


def test_a_folder_that_cannot_be_moved_is_said_and_stops_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk of the host that is out of order keeps nobody from deleting."""

    def broken(*_: str) -> None:
        raise LxgpuError("unavailable", "the folder of alice on this host cannot be used")

    monkeypatch.setattr(site.board, "move", broken)
    ending.delete(site, "alice", purge=False)
    assert site.inventory.read().instance("trash-alice") is not None
    assert any("stays" in line for line in site.say.lines)

"""Real sockets of two containers, over a fake of what stands behind them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes.guests import FakeGuests

from lxgpu.api.app import guest_apps
from lxgpu.api.serving import Bounds, Sockets
from lxgpu.api.turns import Turns

READ_S = 1.0


@dataclass(frozen=True)
class Opened:
    """`folder / NAME` holds a container's socket."""

    folder: Path
    uses: FakeGuests
    sockets: Sockets

    def path(self, name: str) -> Path:
        """Where a container's socket is."""
        return self.folder / name / "api.sock"


@pytest.fixture
def guests(tmp_path: Path) -> Iterator[Opened]:
    """Alice's and bob's sockets are open; requests are to be there within a second.

    After the first ten changes the next turn is an hour away: no test hangs on how fast those are.
    """
    uses = FakeGuests()
    for name in ("alice", "bob"):
        (tmp_path / name).mkdir()
    apps = guest_apps(uses, turns=lambda: Turns(every_s=3600))
    made = Sockets(apps, lambda name: str(tmp_path / name), Bounds(read_s=READ_S, life_s=4))
    assert made.follow(["alice", "bob"]) == {}
    yield Opened(tmp_path, uses, made)
    uses.hold.set()
    made.close()

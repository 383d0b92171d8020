"""The daemon's sockets as a process of its own that can be stopped: `python stoppable.py FOLDER`.

Alice's is in FOLDER/alice, the page's door in FOLDER/run; what stands behind them are stand-ins. Once they are open it
prints the secret of alice's session.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from fakes.guests import FakeGuests
from visitors import Visitors

from lxgpu.api.app import guest_apps
from lxgpu.api.page import page_app
from lxgpu.api.serving import Sockets


def serve(folder: Path) -> None:
    """Until somebody ends it."""
    people, uses = Visitors(folder), FakeGuests()
    app = page_app(people.visits, uses)
    guests, page = Sockets(guest_apps(uses), lambda name: str(folder / name)), Sockets(lambda _: app, str)
    (folder / "alice").mkdir()
    (folder / "run" / "page").mkdir(parents=True)
    troubles = {**guests.follow(["alice"]), **page.follow([str(folder / "run" / "page")])}
    if troubles:
        raise SystemExit(str(troubles))
    sys.stdout.write(people.texts["alice-session"] + "\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))

"""Who comes by the page: a site with alice and bob, and the secret texts that it gave out, called by names."""

from __future__ import annotations

from pathlib import Path

from fakes.site import make_site, newcomer

from lxgpu.services import links
from lxgpu.services.passbook import read_passes
from lxgpu.services.passes import PassKind
from lxgpu.services.visits import Visits


class Visitors:
    """`texts` has `alice-session`, `bob-session`, `viewer-session`, `alice-link` and `carol-invite`."""

    def __init__(self, folder: Path) -> None:
        (folder / "state").mkdir(exist_ok=True)
        self.site = make_site(folder)
        for name in ("alice", "bob"):
            newcomer(self.site, name)
        self.visits = Visits(lambda: self.site)
        self.texts = {f"{name or 'viewer'}-session": self.come_in(name) for name in ("alice", "bob", "")}
        self.texts["alice-link"] = self.link("alice")
        self.texts["carol-invite"] = _secret(links.invite(self.site, "carol"))

    def link(self, name: str = "") -> str:
        """The secret of a new link."""
        return _secret(links.link(self.site, name))

    def come_in(self, name: str = "") -> str:
        """A new session."""
        return self.visits.enter(self.link(name)).session

    @property
    def sessions(self) -> int:
        """How many there are."""
        return [one.kind for one in read_passes(self.site.settings.state_dir)].count(PassKind.SESSION)

    @property
    def faults(self) -> list[str]:
        """What the daemon's log learnt of faults in lxgpu."""
        return [line for line in self.site.say.lines if "met a fault" in line]


def _secret(address: links.Address) -> str:
    return address.url.partition("#")[2]

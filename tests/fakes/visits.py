"""Uses of the page's door without a site: sessions, links and an invitation from a table."""

from __future__ import annotations

from datetime import timedelta

from fakes.guests import NOW

from lxgpu.errors import LxgpuError
from lxgpu.services.visits import Entered, Invited, KeyTaken, Visitor

ENDS = NOW + timedelta(days=7)


class FakeVisits:
    """`api.page.PageUses`: the session of a container is its name and `-session`."""

    def __init__(self) -> None:
        self.sessions = {f"{name}-session": name for name in ("alice", "bob")} | {"viewer-session": None}
        self.links = {"alice-link": "alice"}
        self.keys: list[tuple[str, str]] = []
        self.faults: list[tuple[str, Exception]] = []

    def enter(self, token: str) -> Entered:
        """Once."""
        if token not in self.links:
            raise LxgpuError("not_allowed", "this link is used up, or over")
        return Entered("alice-session", self.links.pop(token), "person", ENDS)

    def leave(self, session: str) -> None:
        """Gone."""
        self.sessions.pop(session, None)

    def who(self, session: str) -> Visitor | None:
        """By the table."""
        if session not in self.sessions:
            return None
        name = self.sessions[session]
        return Visitor(name, "person" if name else "viewer", ENDS)

    def invited(self, token: str) -> Invited:
        """Carol."""
        if not token.startswith("carol-invite"):
            raise LxgpuError("not_allowed", "this invitation is used up, or over")
        return Invited("carol", ENDS, "the admin")

    def key(self, token: str, key: str) -> KeyTaken:
        """Remembered."""
        self.invited(token)
        self.keys.append((token, key))
        return KeyTaken("carol", "SHA256:x", None, "kept")

    def fault(self, name: str, error: Exception) -> None:
        """Remembered."""
        self.faults.append((name, error))

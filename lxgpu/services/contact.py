"""Whom to ask, as the policy names them; pure. It may be an address with dots, so it never stands within a sentence."""

from __future__ import annotations

MARK = "contact: "
ASK = "ask your admin"
"""What one does who can do nothing else; it goes with the contact."""


def with_contact(fix: str, contact: str) -> str:
    """A remedy with the contact as its last part, once."""
    return "; ".join(filter(None, [without_contact(fix), f"{MARK}{contact}"]))


def without_contact(fix: str) -> str:
    """A remedy without that part."""
    return fix.partition(MARK)[0].rstrip("; ")

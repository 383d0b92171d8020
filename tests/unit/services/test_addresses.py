"""The address of a new container is one that nobody has."""

from __future__ import annotations

from dataclasses import replace

from fakes.site import make_site, newcomer


def below(address):
    """The one before it."""
    head, _, last = address.rpartition(".")
    return f"{head}.{int(last) - 1}"


def test_a_leased_address_is_given_to_nobody(tmp_path):
    """A stopped template may have it for an hour; the bridge would give another one, and the filter drop that."""
    site = make_site(tmp_path)
    first = newcomer(site, "alice").address
    site.engine.net = replace(site.engine.net, leased=frozenset({below(first)}))
    assert newcomer(site, "bob").address == below(below(first))

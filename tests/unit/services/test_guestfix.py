"""Remedies as they are told inside: what the person can type there, what the admin can, and whom to ask."""

from __future__ import annotations

import re

import pytest

from lxgpu.services.guestfix import inside, told_inside
from lxgpu.services.nextsteps import FIX

CONTACT = "https://wiki.lab.example/gpu;v=2. Room 4"
CASES = {
    "lxgpu extend alice --for 1h; or ask for less": "gpu extend 1h; or ask for less",
    "lxgpu release alice --all": "gpu release",
    "lxgpu keep alice --for 6h --reason 'what for'": 'gpu keep 6h --reason "what for"',
    "lxgpu keep alice --for 6h": 'gpu keep 6h --reason "what for"',
    "book the time: lxgpu reserve alice --gpus 2 --for 4h": "book the time: gpu reserve 2 --for 4h",
    "lxgpu why alice": "gpu why",
    f'lxgpu reserve alice --gpus 2 --for 4h --at "tomorrow 09:00" --class low; contact: {CONTACT}': (
        f'gpu reserve 2 --for 4h --at "tomorrow 09:00" --class low; contact: {CONTACT}'
    ),
    "lxgpu reservation cancel r1a2b3c4 gives this one up": "gpu cancel r1a2b3c4 gives this one up",
    "lxgpu restart alice --yes": f"your admin can: lxgpu restart alice --yes; contact: {CONTACT}",
    "lxgpu show NAME": f"ask your admin; contact: {CONTACT}",
    f"lxgpu explain over_limit; contact: {CONTACT}": f"your admin can: lxgpu explain over_limit; contact: {CONTACT}",
    "repeat in a moment": "repeat in a moment",
    "repeat in a moment; lxgpu history shows how it goes": (
        f"repeat in a moment; your admin can: lxgpu history shows how it goes; contact: {CONTACT}"
    ),
    "": f"ask your admin; contact: {CONTACT}",
}


@pytest.mark.parametrize("fix", CASES, ids=lambda fix: fix or "none")
def test_a_remedy_is_told_in_words_that_help_inside(fix):
    """Word for word."""
    assert inside(fix, "alice", CONTACT) == CASES[fix]


@pytest.mark.parametrize("fix", [*FIX.values(), *CASES])
def test_no_command_of_the_host_stands_there_as_if_it_were_theirs(fix):
    """Each one is the admin's, and can be typed as it stands."""
    told = inside(fix, "alice", CONTACT)
    assert told
    assert told.endswith(f"contact: {CONTACT}") or "contact" not in told, "last and alone: it is no part of a sentence"
    for part in told.removesuffix(CONTACT).split("; "):
        assert "lxgpu " not in part.removeprefix("your admin can: lxgpu ")
        assert not re.search(r"\b(NAME|GPU|FILE)\b", part)


def test_a_reason_says_whose_its_remedy_is():
    """As `gpu why` prints it."""
    assert told_inside("it was taken out of service: fan; lxgpu gpu open ends that") == (
        "it was taken out of service: fan; your admin can: lxgpu gpu open ends that"
    )
    assert told_inside("LXD has an instance that lxgpu did not make") == "LXD has an instance that lxgpu did not make"

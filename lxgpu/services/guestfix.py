"""Remedies in words that help inside a container: what one can type there, what an admin can, whom to ask; pure."""

from __future__ import annotations

import re

from lxgpu.services.contact import ASK, MARK, with_contact, without_contact

_REASON = r"""(?: --reason (?:'[^']*'|"[^"]*"|\S+))?"""
_PLACES = re.compile(r"\b(?:NAME|GPU|ID|FILE|COMMAND|CODE)\b")
_HOST = re.compile(r"\blxgpu [a-z]")


def inside(fix: str, name: str, contact: str) -> str:
    """A remedy of the command line for who sits in the container `name`.

    What only the host has is named as the admin's, when it can be typed as it stands, else left out; then it is said
    whom to ask.
    """
    parts = [_translated(part.strip(), name) for part in without_contact(fix).split(";") if part.strip()]
    mine = [part for part in parts if not _HOST.search(part)]
    theirs = [f"your admin can: {part}" for part in parts if _HOST.search(part) and not _PLACES.search(part)]
    told = "; ".join([*mine, *theirs]) or ASK
    alone = mine and len(mine) == len(parts) and MARK not in fix
    return told if alone else with_contact(told, contact)


def told_inside(text: str) -> str:
    """A sentence whose remedy is a command of the host, with whose it is."""
    return re.sub(r"; (?=lxgpu [a-z])", "; your admin can: ", text)


def _translated(part: str, name: str) -> str:
    mine = re.escape(name)
    rules = (
        (rf"lxgpu extend {mine} --for (\S+)", r"gpu extend \1"),
        (rf"lxgpu release {mine}(?: --all)?", "gpu release"),
        (rf"lxgpu keep {mine} --for (\S+){_REASON}", r'gpu keep \1 --reason "what for"'),
        (rf"lxgpu reserve {mine} --gpus (\d+)", r"gpu reserve \1"),
        (rf"lxgpu why (?:{mine}|r[0-9a-f]+)", "gpu why"),
        (rf"lxgpu show (?:{mine}|NAME) lists", "gpu lists"),
        (r"lxgpu reservation cancel (\S+)", r"gpu cancel \1"),
        (r"lxgpu reservations(?: --calendar)? shows when they are free", "gpu shows when the next one is free"),
        (r"lxgpu reservations lists", "gpu lists"),
        (r"lxgpu reserve asks for a time", "gpu reserve 1 --for 4h asks for a time"),
        (r"lxgpu gpus shows who holds them until when", "gpu shows when the next one is free"),
        (r"lxgpu gpus(?: --free)? lists [a-z ]+", "gpu shows how many are free"),
        (r" \(lxgpu release\)", " (gpu release)"),
        (r"(?<=: )lxgpu reserve$", "gpu reserve 1 --for 4h"),
        (r"name the card with --gpu, or give --yes to end its processes", "gpu release --yes ends what uses it"),
        (r"or have one given back", "or give one back"),
        (r"have the policy file changed", "have your admin change the policy"),
    )
    for pattern, words in rules:
        part = re.sub(pattern, words, part)
    return part

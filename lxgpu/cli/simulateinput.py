"""What `lxgpu simulate` runs on: the demand, the lab, the rules and the policies, as they were typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from lxgpu.errors import LxgpuError

if TYPE_CHECKING:
    from lxgpu.cli.screen import Screen
    from lxgpu.model.quota import Policy
    from lxgpu.simulate.jobs import Lab, Workload
    from lxgpu.simulate.rules import Make


MADE_UP = (4, 8)
"""Servers of a made-up lab, and cards of each, where nothing else is said."""

MOST_CARDS = 1_000_000
"""Cards of the largest lab."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The words of the command line."""

    file: Path | None
    synthetic: str | None
    history_s: int | None
    servers: int | None
    gpus_per_server: int | None
    rules: tuple[str, ...]
    policies: tuple[Path, ...]
    seed: int
    html: Path | None


def chosen(screen: Screen, wanted: Wanted) -> tuple[Workload, Lab]:
    """The demand and the lab.

    Raises:
        LxgpuError: `usage`: no input or several, a lab of no known size. `bad_file`: what is wrong with the file.
            `not_found`: there is no such made-up lab, or nothing has happened in that time.
    """
    typed = (("FILE", wanted.file), ("--synthetic", wanted.synthetic), ("--history", wanted.history_s))
    given = [name for name, value in typed if value is not None]
    if len(given) != 1:
        what = f"{' and '.join(given)} are {len(given)} things to simulate" if given else "there is nothing to simulate"
        why = "what is asked for comes from a trace (FILE), is made up (--synthetic), or was asked for here (--history)"
        raise LxgpuError("usage", what, why=why, fix="name one of them, as in lxgpu simulate --synthetic lab")
    if wanted.history_s is not None:
        return _history(screen, wanted, wanted.history_s)
    from lxgpu.simulate.jobs import Lab  # noqa: PLC0415 -- not for --help

    if wanted.synthetic is not None:
        from lxgpu.simulate.synthetic import generate  # noqa: PLC0415 -- not for --help

        lab = bounded(Lab(wanted.servers or MADE_UP[0], wanted.gpus_per_server or MADE_UP[1]))
        return generate(wanted.synthetic, lab, seed=wanted.seed), lab
    from lxgpu.simulate.readers import read  # noqa: PLC0415 -- not for --help

    lab = bounded(Lab(*_size(wanted)))
    return read(cast("Path", wanted.file)), lab


def _history(screen: Screen, wanted: Wanted, lasts_s: int) -> tuple[Workload, Lab]:
    """What was asked for here, by the groups of the policy in force, on the cards that are known."""
    from datetime import timedelta  # noqa: PLC0415 -- not for --help

    from lxgpu.cli.report import ground  # noqa: PLC0415
    from lxgpu.cli.times import lab_times  # noqa: PLC0415
    from lxgpu.model.quota import Policy  # noqa: PLC0415
    from lxgpu.simulate.jobs import Lab  # noqa: PLC0415
    from lxgpu.simulate.readers.history import history, own_lab  # noqa: PLC0415

    times, policy = lab_times(screen)
    since = times.now - timedelta(seconds=lasts_s)
    found = ground(policy or Policy(), since)
    workload = history(found, since=since, now=times.now)
    own = own_lab(found.records.cards)
    if own is None:
        return workload, bounded(Lab(*_size(wanted)))
    return workload, bounded(Lab(wanted.servers or own.servers, wanted.gpus_per_server or own.gpus_per_server))


def bounded(lab: Lab) -> Lab:
    """The lab, if it is one that can be played: each card of it takes memory.

    Raises:
        LxgpuError: `usage`: it is too large.
    """
    if lab.cards <= MOST_CARDS:
        return lab
    what = f"the lab is too large: {lab.servers:,} x {lab.gpus_per_server:,} cards"
    fix = "name smaller --servers or --gpus-per-server"
    raise LxgpuError("usage", what, why=f"{MOST_CARDS:,} cards are the most that can be simulated", fix=fix)


def _size(wanted: Wanted) -> tuple[int, int]:
    """Servers and cards of each, which a trace does not tell."""
    if wanted.servers is not None and wanted.gpus_per_server is not None:
        return wanted.servers, wanted.gpus_per_server
    typed = (("--servers", wanted.servers), ("--gpus-per-server", wanted.gpus_per_server))
    lacking = [name for name, value in typed if value is None]
    what = f"{' and '.join(lacking)} {'are' if len(lacking) > 1 else 'is'} missing"
    why = "what is simulated says what was asked for, not on how many cards"
    fix = f"add {' '.join(f'{name} N' for name in lacking)}"
    raise LxgpuError("usage", f"the lab has no size: {what}", why=why, fix=fix)


def policies(wanted: Wanted, lab: Lab) -> list[tuple[str, Policy]]:
    """Each policy file with its name as it was typed; its guarantees are held against the simulated cards.

    Raises:
        LxgpuError: `bad_file`, with all mistakes.
    """
    if not wanted.policies:
        return []
    from lxgpu.config.policy import load_policy  # noqa: PLC0415 -- where one was typed

    return [(str(path), load_policy(path, cards=lab.cards)) for path in wanted.policies]


def rule_names() -> Sequence[str]:
    """The rules there are."""
    from lxgpu.simulate.rules import RULES  # noqa: PLC0415 -- not for --help

    return tuple(RULES)


def known_rule(name: str) -> str:
    """The name, if there is such a rule.

    Raises:
        LxgpuError: `usage`, with those there are.
    """
    names = rule_names()
    if name in names:
        return name
    from difflib import get_close_matches  # noqa: PLC0415 -- for the error only

    near = get_close_matches(name, names, n=1)
    fix = f"did you mean --rule {near[0]}?" if near else "name one of them"
    raise LxgpuError("usage", f"there is no rule {name!r}", why=f"the rules are {', '.join(names)}", fix=fix)


def maker(name: str) -> Make:
    """What makes the rule of that name."""
    from lxgpu.simulate.rules import make  # noqa: PLC0415 -- not for --help

    return make(name)

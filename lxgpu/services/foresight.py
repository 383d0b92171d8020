"""What is forecast from the lab's own past, and how good that was: worked out now and then, noted in a file for all.

The file is in the run directory, so that commands and the daemon decide by the same numbers and only one of them
reads the past. Where the policy does not ask for it (`forecast: {use: never}`) nothing is read or written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from lxgpu.errors import cannot_write
from lxgpu.model.assignment import KEPT, Assignment
from lxgpu.model.quota import Policy
from lxgpu.model.rules import ForecastUse
from lxgpu.model.snapshot import Records
from lxgpu.plain import plain
from lxgpu.policy.brier import Score, score
from lxgpu.policy.forecast import Rates, Stretch, free_cards, learn
from lxgpu.policy.stretches import card_times, holdings
from lxgpu.ports import Inventory
from lxgpu.services.longwatch import LongWatch
from lxgpu.services.revive import revive
from lxgpu.services.site import Site

FILE = "forecast"
RENEW = timedelta(minutes=10)
"""So long a forecast is used before the next one is made."""
STALE = timedelta(hours=1)
"""One that is older (nobody makes them any more) has no say."""
SCORED_FOR = timedelta(hours=6)
"""So long the scores count before they are taken anew, which costs more than the forecast itself."""
ASKED = timedelta(weeks=4)
"""On so much of the past it is measured."""
BEFORE_S = 2 * 28 * 86400
"""At least so much more of it is learnt from; else two half-lives."""
SOON_S = 3600
"""A holder who comes back within this makes taking the card a mistake: the chance of that breaks ties."""
HOURS = 12
"""So many hours ahead free cards are told."""
AHEAD_S: Mapping[str, tuple[int, ...]] = {
    "comes back": (900, SOON_S, 7200),
    "gives back": (4 * 3600, 86400),
    "card taken": (SOON_S, 4 * 3600),
    "card freed": (SOON_S, 4 * 3600),
}
"""What is forecast, and within which times it is measured: an idle holder, one who holds, a free card, a held one."""
_DECIDES = {"comes back": SOON_S, "gives back": 86400}


@dataclass(frozen=True, slots=True)
class ScoreView:
    """The Brier scores (0 is best) of one question on the days asked about, as `lxgpu.policy.brier.Score`."""

    what: str
    within_s: int
    asked: int
    came: int
    forecast: float | None
    same: float | None
    usual: float | None
    proven: bool


@dataclass(frozen=True, slots=True)
class Foresight:
    """What is told at `at`.

    `returns` is each holder's chance to work within an hour if it is idle, `frees` when assignments without an end are
    expected to be over, by id; both empty where the forecast is not proven. `scores`, of those questions that have a
    say, are of `scored_at` (None: there are none).
    """

    at: datetime
    scored_at: datetime | None = None
    returns: Mapping[str, float] = field(default_factory=dict)
    frees: Mapping[str, datetime] = field(default_factory=dict)
    scores: tuple[ScoreView, ...] = ()


@dataclass(frozen=True, slots=True)
class Past:
    """What a forecast is made of: of each question the stretches in which it stood open, and what is held now."""

    stretches: Mapping[str, Sequence[Stretch]]
    rows: tuple[Assignment, ...]
    cards: int


def foreseen(run_dir: Path, policy: Policy, now: datetime) -> Foresight:
    """What was noted last, if the policy asks for it and it is no older than an hour; else one that says nothing."""
    nothing = Foresight(now)
    if policy.rules.forecast.use is ForecastUse.NEVER:
        return nothing
    found = _noted(run_dir)
    return found if found is not None and found.at <= now < found.at + STALE else nothing


def renew(site: Site) -> bool:
    """Make and note a new forecast where the policy asks for one and the last is old; returns whether it did."""
    policy, now = site.policy(), site.clock.now()
    if policy.rules.forecast.use is ForecastUse.NEVER:
        return False
    last = _noted(site.settings.run_dir)
    if last is not None and last.at <= now < last.at + RENEW:
        return False
    found = look_back(site.inventory, site.inventory.read(), policy, now=now, watch=site.watch.long, alive=site.alive)
    fresh = last is not None and last.scored_at is not None and last.scored_at <= now < last.scored_at + SCORED_FOR
    _note(site.settings.run_dir, foresee(found, policy, now, measured=last if fresh else None))
    return True


def look_back(
    inventory: Inventory,
    records: Records,
    policy: Policy,
    *,
    now: datetime,
    watch: LongWatch | None = None,
    alive: Callable[[], None] = lambda: None,
) -> Past:
    """Read the past, as far back as it counts. Without a `watch` all samples are read."""
    since = now - ASKED - timedelta(seconds=max(BEFORE_S, 2 * policy.rules.forecast.half_life_s))
    cards = [card.uuid for card in records.cards if not card.closed]
    watch = watch or LongWatch()
    idle = watch.refresh(inventory, policy.rules.idle, cards=cards, since=since, now=now, alive=alive)
    rows = (*records.assignments, *inventory.closed_since(since))
    begun = min((row.since for row in rows if row.since), default=now)
    free, held = card_times(rows, cards, since=max(since, begun), now=now)
    stretches = {"comes back": idle, "gives back": holdings(rows, now), "card taken": free, "card freed": held}
    return Past(stretches, records.assignments, len(cards))


def scores(past: Past, policy: Policy, now: datetime, *, of: Collection[str] = AHEAD_S) -> tuple[ScoreView, ...]:
    """How good the forecast was on the last four weeks, each day told from the days before it; `of` names questions."""
    found = []
    for what, ahead in AHEAD_S.items():
        if what not in of:
            continue
        made = score(
            past.stretches[what],
            policy.zone,
            half_life_s=policy.rules.forecast.half_life_s,
            since=now - ASKED,
            now=now,
            within_s=ahead,
        )
        found += [_view(what, one) for one in made]
    return tuple(found)


def foresee(past: Past, policy: Policy, now: datetime, *, measured: Foresight | None = None) -> Foresight:
    """The forecast at an instant; what is not proven on the lab's own past has no say.

    `measured` is an earlier one whose scores still count.
    """
    told = scores(past, policy, now, of=_DECIDES) if measured is None else measured.scores
    scored_at = now if measured is None else measured.scored_at
    proven = {
        what
        for what, within in _DECIDES.items()
        for one in told
        if (one.what, one.within_s) == (what, within) and one.proven
    }
    back, given = (_rates(past, policy, what, now) for what in ("comes back", "gives back"))
    kept = [row for row in past.rows if row.state in KEPT]
    returns, frees = {}, {}
    if back is not None and "comes back" in proven:
        returns = {row.instance: back.chance(row.instance, now, SOON_S) for row in kept}
    if given is not None and "gives back" in proven:
        open_ended = [row for row in kept if row.until is None and row.reservation is None]
        ends = {row.id: given.likely_at(row.instance, now) for row in open_ended}
        frees = {key: end for key, end in ends.items() if end is not None}
    return Foresight(now, scored_at, returns, frees, told)


def expected_free(past: Past, policy: Policy, now: datetime) -> tuple[float, ...]:
    """How many cards are expected to be free after one hour, two, …, twelve; empty where too little was seen."""
    taken, freed = (_rates(past, policy, what, now) for what in ("card taken", "card freed"))
    if taken is None or freed is None:
        return ()
    held = len({row.slot.card for row in past.rows if row.live})
    return tuple(free_cards(taken, freed, free=max(0, past.cards - held), held=held, at=now, hours=HOURS))


def _rates(past: Past, policy: Policy, what: str, now: datetime) -> Rates | None:
    return learn(past.stretches[what], policy.zone, half_life_s=policy.rules.forecast.half_life_s, now=now)


def _view(what: str, one: Score) -> ScoreView:
    return ScoreView(what, one.within_s, one.asked, one.came, one.forecast, one.same, one.usual, one.proven)


def _noted(run_dir: Path) -> Foresight | None:
    """What was noted last; None when nothing was, or nobody can read it."""
    try:
        return revive(Foresight, json.loads((run_dir / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def _note(run_dir: Path, found: Foresight) -> None:
    aside = run_dir / f".{FILE}.{os.getpid()}"
    try:
        run_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
        aside.write_text(json.dumps(plain(found)), encoding="utf-8")
        aside.replace(run_dir / FILE)
    except OSError as error:
        raise cannot_write(run_dir / FILE, error) from error

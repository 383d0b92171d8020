"""A small lab that lives second by second: what happens is written in few words, and so is what is true then.

The real tick runs each second, turned by the real daemon over a site of fakes. Cards are single letters, `ab` are two;
times are seconds from the beginning. The words are the methods of `Lab`, one for each deed and each check.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from fakes.site import make_gpus, make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.gpu import Gpu
from lxgpu.model.quota import BASE_TERMS, Group, Policy, Terms, Total
from lxgpu.model.request import GpuRequest, ReserveRequest
from lxgpu.model.reservation import Kind, Reservation
from lxgpu.model.rules import Allowance, BookingRules, IdleRules, PreemptionRules, PriorityClass, Rules
from lxgpu.services import extending, inservice, keeping, lending, power
from lxgpu.services import reserve as reserving
from lxgpu.services.daemon import Daemon
from lxgpu.services.site import Site
from lxgpu.services.tick import tick

LETTERS = "abcdefgh"
GRACE, TERM_WAIT, FENCE = 4, 2, 6
LEAD = GRACE + TERM_WAIT + FENCE
CLASSES: Mapping[str, Mapping[str, Any]] = {
    "urgent": {"priority": 100, "preemptible": False},
    "high": {"priority": 80},
    "normal": {"priority": 50},
    "low": {"priority": 20},
    "scavenge": {"priority": 10},
}
IDLE: Mapping[str, Any] = {"window_s": 10, "warn_s": (), "protect_memory_s": 1000, "protect_ssh_s": 5}
BOOKINGS: Mapping[str, Any] = {"no_show_s": 60, "give_up_after_s": 40, "bind_before_s": 15, "max_gpus": 8}
_THERE = {AssignmentState.ACTIVE, AssignmentState.WARNED}


class _Policy:
    """`PolicyWatch` without news: an edit counts from the next look at it."""

    error = ""

    def look(self, *, anew: bool = False) -> None:
        """Nothing to tell."""


class Lab:
    """One scenario. `done` is what was told and what stands in history since the last check, by person."""

    def __init__(self, folder: Path, case: Mapping[str, Any]) -> None:
        self.rules = policy(case.get("policy", {}))
        models: Mapping[str, str] = case.get("models", {})
        plain = make_gpus(int(case.get("cards", 1)))
        cards = [replace(gpu, model=models.get(LETTERS[n], gpu.model)) for n, gpu in enumerate(plain)]
        self.site: Site = replace(make_site(folder, gpus=cards), policy=lambda: self.rules)
        self.cards: dict[str, Gpu] = dict(zip(LETTERS, cards, strict=False))
        self.names = {gpu.uuid: letter for letter, gpu in self.cards.items()}
        for name in case["people"]:
            newcomer(self.site, name)
        self.ids: dict[str, str] = {}
        self.refusal = ""
        self.begin = self.site.clock.now()
        self._seen = len(self.site.inventory.events())
        self._daemon = Daemon(
            make_site=lambda: self.site,
            tick=tick,
            policy=_Policy(),
            pause=lambda: None,
            publish=lambda _site, _view: None,
            clock=self.site.clock,
            say=lambda _text: None,
            pid=1,
        )

    def play(self, step: Mapping[str, Any]) -> None:
        """One step: deeds and checks, in the order they are written. `refused` is the code of the deed before it."""
        for word, what in step.items():
            if word == "refused":
                assert self.refusal == what, f"refused: {self.refusal or 'nothing'}"
                self.refusal = ""
                continue
            assert not self.refusal, f"refused: {self.refusal}"
            try:
                getattr(self, word)(what)
            except LxgpuError as error:
                self.refusal = error.code

    def end(self) -> None:
        """The last deed went well, and nothing is in trouble."""
        assert not self.refusal, f"refused: {self.refusal}"
        assert self._daemon.view.troubles == ()

    # ---- deeds

    def wait(self, seconds: int) -> None:
        """Time passes, with a turn of the daemon each second."""
        for _ in range(seconds):
            self.site.clock.sleep(1)
            self._look_busy()
            self._daemon.turn()

    def until(self, at: int) -> None:
        """Time passes until so many seconds after the beginning."""
        self.wait(round((self.at(at) - self.site.clock.now()).total_seconds()))

    def lend(self, deed: Mapping[str, Any]) -> None:
        """`lxgpu attach` of `cards`: `to`, and if they matter `class`, `for` so long; they work unless `idle`."""
        cards = str(deed["cards"])
        wanted = GpuRequest(
            deed["to"],
            deed["to"],
            more=len(cards),
            uuids=tuple(self.cards[one].uuid for one in cards),
            class_name=deed.get("class", ""),
        )
        lending.attach(self.site, deed["to"], number=len(cards), more=True, request=wanted, lease_s=deed.get("for"))
        if not deed.get("idle"):
            self.work({deed["to"]: cards})

    def work(self, deed: Mapping[str, str]) -> None:
        """A process begins on each card; `a+b` is one process on both."""
        for name, cards in deed.items():
            for part in cards.split() if " " in cards else [cards] if "+" in cards else list(cards):
                nodes = [node for one in part.replace("+", "") for node in self.cards[one].nodes]
                self.site.probe.run(self.site.engine.init(name), nodes)
        self._look_busy()

    def rest(self, cards: str) -> None:
        """What runs on cards ends."""
        for one in cards:
            for process in [item for item in self.site.probe.processes if set(self.cards[one].nodes) & item.nodes]:
                self.site.probe.end(process.process)
        self._look_busy()

    def stuck(self, cards: str) -> None:
        """What runs on cards does not end, whatever is done to it."""
        for one in cards:
            for process in self.site.probe.processes:
                process.stuck |= bool(set(self.cards[one].nodes) & process.nodes)

    def deaf(self, cards: str) -> None:
        """What runs on cards does not hear TERM."""
        for one in cards:
            for process in self.site.probe.processes:
                process.ignores_term |= bool(set(self.cards[one].nodes) & process.nodes)

    def log_in(self, name: str) -> None:
        """An SSH session is open from now on."""
        self.site.probe.sessions[self.site.engine.init(name)] = 1

    def reserve(self, deed: Mapping[str, Any]) -> None:
        """`lxgpu reserve`: `as` a name for the cases, `by`, `gpus`, `for` so long; `from` when, `weekly` and more."""
        wanted = ReserveRequest(
            instance=deed["by"],
            owner=deed["by"],
            gpus=deed.get("gpus", 1),
            duration_s=deed.get("for", 100),
            at=self.at(deed["from"]) if "from" in deed else None,
            weekly=deed.get("weekly", False),
            model=deed.get("model", "*"),
            class_name=deed.get("class", ""),
            no_warning=deed.get("no_warning", ""),
        )
        booked = reserving.reserve(self.site, wanted)
        for number, row in enumerate(booked.reservations):
            self.ids[deed["as"] + (f"-{number + 1}" if number else "")] = row.id

    def cancel(self, name: str) -> None:
        """`lxgpu reservation cancel`."""
        reserving.cancel(self.site, self.ids[name])

    def edit(self, deed: Mapping[str, Any]) -> None:
        """`lxgpu reservation edit`: `of` which, to so many `gpus`, to end so many seconds `sooner`."""
        row = self.site.inventory.reservation(self.ids[deed["of"]])
        assert row is not None
        sooner = timedelta(seconds=deed.get("sooner", 0))
        until = row.until - sooner if row.until and sooner else None
        reserving.edit(self.site, row.id, gpus=deed.get("gpus"), until=until)

    def give_back(self, deed: Mapping[str, Any]) -> None:
        """`lxgpu release`: `by`, `number` or `cards`; `busy` also what works."""
        uuids = tuple(self.cards[one].uuid for one in deed.get("cards", ""))
        number = deed.get("number")
        lending.release(self.site, deed["by"], count=number, uuids=uuids, busy=deed.get("busy", False))

    def extend(self, deed: Mapping[str, Any]) -> None:
        """`lxgpu extend`: `by`, for so long."""
        extending.extend(self.site, deed["by"], seconds=deed["for"])

    def keep(self, deed: Mapping[str, Any]) -> None:
        """`lxgpu keep`: `by`, for so long."""
        keeping.keep(self.site, deed["by"], seconds=deed["for"], reason="thinking")

    def policy(self, edit: Mapping[str, Any]) -> None:
        """The policy file has other people, groups, classes or rules from now on."""
        self.rules = policy(edit, base=self.rules)

    def jump(self, seconds: int) -> None:
        """Somebody sets the wall clock; instants are counted with it."""
        self.site.clock.jump(seconds)

    def stop(self, name: str) -> None:
        """`lxgpu stop`."""
        power.stop_instance(self.site, name, force=False)

    def start(self, name: str) -> None:
        """`lxgpu start`."""
        power.start(self.site, name)

    def close(self, cards: str) -> None:
        """`lxgpu gpu close`."""
        for one in cards:
            inservice.close(self.site, self.cards[one].uuid, reason="dust")

    def open(self, cards: str) -> None:
        """`lxgpu gpu open`."""
        for one in cards:
            inservice.open_again(self.site, self.cards[one].uuid)

    # ---- checks

    def holds(self, wanted: Mapping[str, str]) -> None:
        """Who has which cards, warned or not; nobody else has any."""
        rows = self.site.inventory.read().assignments
        found: dict[str, str] = dict.fromkeys(wanted, "")
        for row in sorted(rows, key=lambda item: item.slot):
            if row.state in _THERE:
                found[row.instance] = found.get(row.instance, "") + self.names[row.slot.gpu]
        assert found == wanted

    def in_state(self, wanted: Mapping[str, str]) -> None:
        """The state of whoever has a card, `free` where nobody has; `→ bob` behind it says to whom it goes next."""
        records, found = self.site.inventory.read(), {}
        for one in wanted:
            rows = [row for row in records.assignments if self.names[row.slot.gpu] == one]
            state = next((row.state.value for row in rows if row.live), "free")
            then = next((row.instance for row in rows if row.state is AssignmentState.PLANNED), "")
            found[one] = f"{state} → {then}" if then else state
        assert found == wanted

    def ends(self, wanted: Mapping[str, int | None]) -> None:
        """Until when a card is lent."""
        held = {self.names[row.slot.gpu]: row.until for row in self.site.inventory.read().assignments if row.live}
        assert {one: self._seconds(held[one]) for one in wanted} == wanted

    def reservations(self, wanted: Mapping[str, str]) -> None:
        """The state of each, and where it is not one card, `2x` before it."""
        assert {name: self._shown(self.ids[name]) for name in wanted} == wanted

    def claims(self, wanted: Mapping[str, int]) -> None:
        """How many cards are owed to whom."""
        rows = [row for row in self.site.inventory.read().reservations if row.kind is Kind.RETURN]
        assert {name: sum(row.gpus for row in rows if row.instance == name) for name in wanted} == wanted

    def claim_dies(self, wanted: Mapping[str, int]) -> None:
        """When the claim of each ends."""
        rows = [row for row in self.site.inventory.read().reservations if row.kind is Kind.RETURN]
        assert {row.instance: self._seconds(row.dies) for row in rows} == wanted

    def happened(self, wanted: list[str]) -> None:
        """Lines of history since it was asked last, in this order: `kind of whom` or `kind of whom by rule`."""
        lines = iter(self._history("told"))
        missing = [line for line in wanted if not any(_says(found, line) for found in lines)]
        assert not missing, self._history("told")
        self._seen = len(self.site.inventory.events(limit=100_000))

    def never(self, wanted: list[str]) -> None:
        """Lines that are not in history since `happened` was asked last."""
        assert not [line for line in wanted if any(_says(found, line) for found in self._history("told"))]

    def told(self, wanted: Mapping[str, list[str]]) -> None:
        """What people heard since the beginning, each kind once in the order it was heard first."""
        told = [event for event in self._events() if event.kind == "told"]
        found = {name: list(dict.fromkeys(event.rule for event in told if event.subject == name)) for name in wanted}
        assert found == wanted

    # ---- the machinery

    def at(self, seconds: int) -> datetime:
        """So many seconds after the beginning."""
        return self.begin + timedelta(seconds=seconds)

    def _seconds(self, at: datetime | None) -> int | None:
        return None if at is None else round((at - self.begin).total_seconds())

    def _shown(self, identifier: str) -> str:
        row: Reservation | None = self.site.inventory.reservation(identifier)
        assert row is not None
        return f"{row.gpus}x {row.state.value}" if row.gpus != 1 else row.state.value

    def _events(self) -> list[Any]:
        return list(reversed(self.site.inventory.events(limit=100_000)))

    def _history(self, *but: str) -> list[str]:
        new = [event for event in self._events()[self._seen :] if event.kind not in but]
        return [f"{event.kind} of {event.subject} by {event.rule or '-'}" for event in new]

    def _look_busy(self) -> None:
        """A card computes while a process is on it."""
        held = {node for item in self.site.probe.processes for node in item.nodes}
        for gpu in self.cards.values():
            self.site.probe.utilization[gpu.uuid] = 90 if held & set(gpu.nodes) else 0


def _says(found: str, line: str) -> bool:
    return found == line or found.startswith(f"{line} by ")


def policy(edit: Mapping[str, Any], *, base: Policy | None = None) -> Policy:
    """A policy in seconds: everybody may have 8 cards in class normal, where nothing else is said or was before."""
    if base is None:
        classes = {name: _class(name, terms) for name, terms in CLASSES.items()}
        rules = Rules(
            idle=IdleRules(**IDLE),
            preemption=PreemptionRules(fence_timeout_s=FENCE),
            bookings=BookingRules(**BOOKINGS),
        )
        base = Policy(classes=classes, defaults=replace(BASE_TERMS, limit=8), rules=rules)
    users = {**base.users, **{name: Terms(**terms) for name, terms in edit.get("people", {}).items()}}
    groups = {
        name: Group(name, tuple(each["members"]), Total(each.get("guaranteed", 0), each.get("limit")))
        for name, each in edit.get("groups", {}).items()
    }
    changed = {
        name: _class(name, {**_said(base.classes[name]), **terms}) for name, terms in edit.get("classes", {}).items()
    }
    rules = replace(
        base.rules,
        idle=replace(base.rules.idle, **edit.get("idle", {})),
        bookings=replace(base.rules.bookings, **edit.get("bookings", {})),
    )
    return replace(
        base, users=users, groups={**base.groups, **groups}, classes={**base.classes, **changed}, rules=rules
    )


def _class(name: str, terms: Mapping[str, Any]) -> PriorityClass:
    usual = {"min_runtime_s": 0, "grace_s": GRACE, "term_wait_s": TERM_WAIT}
    cap = terms.get("max_preemptions")
    bounded = {"max_preemptions": Allowance(*cap) if isinstance(cap, list) else cap}
    return PriorityClass(**{**usual, "name": name, **terms, **bounded})


def _said(chosen: PriorityClass) -> dict[str, Any]:
    return {item.name: getattr(chosen, item.name) for item in fields(chosen)}

"""A host with three people under pressure: cards, jobs in every mood, faults, commands, and the tick between them."""

from __future__ import annotations

import copy
import shutil
import tempfile
import weakref
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any

from fakes.faults import KilledError, When
from fakes.mortal import MortalInventory
from fakes.site import HostOfSite, make_gpus, make_site, newcomer
from fakes.slicer import FakeSlicer
from fakes.system import FakeClock
from seeded_ids import begin_anew
from taking_oracle import Judged, Truth

from lxgpu.errors import LxgpuError
from lxgpu.inventory.memory import MemoryInventory
from lxgpu.model.devices import gpus_in
from lxgpu.model.gpu import DeviceNode, Gpu, Slot, card_of, is_part
from lxgpu.model.instance import Power
from lxgpu.model.layout import divide, layout_of, names
from lxgpu.model.quota import BASE_TERMS, Policy, Terms
from lxgpu.model.request import GpuRequest, ReserveRequest
from lxgpu.model.rules import (
    Allowance,
    BookingRules,
    CardRule,
    IdleRules,
    Mode,
    PreemptionRules,
    PriorityClass,
    Rules,
)
from lxgpu.model.snapshot import Records
from lxgpu.model.usage import Use
from lxgpu.policy.placement import fits
from lxgpu.services import ending, extending, inservice, keeping, lending, power
from lxgpu.services.reserve import cancel, edit, reserve
from lxgpu.services.site import Site
from lxgpu.services.tick import tick
from lxgpu.services.ticked import Ticked
from lxgpu.services.watch import Watch

PEOPLE = ("alice", "bob", "carol")
A, B = "NVIDIA RTX 3090", "NVIDIA RTX 3090 Ti"
A100 = "NVIDIA A100-SXM4-40GB"
WHOLE_CARD = CardRule(Mode.EXCLUSIVE)
BIND_S, NO_SHOW_S, GIVE_UP_S, WINDOW_S = 15, 25, 60, 12
CLASSES = {
    "urgent": PriorityClass("urgent", 90, who=("alice",), min_runtime_s=8, grace_s=3, term_wait_s=1),
    "normal": PriorityClass(
        "normal", 50, min_runtime_s=5, grace_s=3, term_wait_s=2, max_preemptions=Allowance(2, 3600)
    ),
    "low": PriorityClass("low", 10, min_runtime_s=0, grace_s=1, term_wait_s=1),
    "fixed": PriorityClass("fixed", 40, preemptible=False, min_runtime_s=5, grace_s=2, term_wait_s=1),
}


def make_policy(*, guaranteed: tuple[int, int, int] = (2, 1, 0), limit: int = 4, **more: Any) -> Policy:
    """Seconds instead of hours. `guaranteed` is for alice, bob and carol."""
    users = {name: Terms(guaranteed=number) for name, number in zip(PEOPLE, guaranteed, strict=True)}
    return Policy(
        contact="gpu-admin@lab.example",
        classes=CLASSES,
        users=users,
        defaults=replace(BASE_TERMS, limit=limit, lease_s=600),
        rules=Rules(
            idle=IdleRules(window_s=WINDOW_S, warn_s=(), protect_memory_s=30, protect_ssh_s=20),
            preemption=PreemptionRules(fence_timeout_s=5, **more),
            bookings=BookingRules(
                horizon_s=15 * 86400,
                no_show_s=NO_SHOW_S,
                give_up_after_s=GIVE_UP_S,
                bind_before_s=BIND_S,
                notice_s=(120, 40),
                claim_life_s=900,
                free_window_s=200,
            ),
        ),
    )


POLICIES = {
    "usual": make_policy(),
    "tight": make_policy(limit=1, guaranteed=(1, 1, 0)),
    "carol": make_policy(guaranteed=(0, 1, 2)),
    "open": make_policy(guaranteed=(0, 0, 0)),
    "strict": make_policy(stop_stuck=True),
}


class LivingHost(HostOfSite):
    """Cards are in use as far as there are processes on them; `lazy` ones compute nothing."""

    def readings(self) -> Any:
        """One sample; what works shows."""
        self.utilization = {gpu.uuid: 90 if self.works(gpu) else 0 for gpu in self._gpus()}
        return super().readings()

    def works(self, gpu: Gpu, of: int | None = None, *, lazy: bool = False) -> bool:
        """Whether a process, of the container of that init alone where one is given, computes on a card.

        With `lazy` those count too that compute nothing.
        """
        mine = set(gpu.nodes)
        there = (one for one in self._running() if of is None or one.init == of)
        return any((lazy or one.process.command != "lazy") and mine & one.nodes for one in there)


class Mortal(MortalInventory):
    """`death` counts from when it is set."""

    def doom(self, number: int, when: When) -> None:
        """Die at the write of that number from now on."""
        self.writes, self.death = 0, (number, when)


@cache
def _prepared(models: tuple[str, ...]) -> tuple[Site, MemoryInventory]:
    """The host with everybody's containers, once for each set of cards."""
    begin_anew()
    cards = [replace(gpu, model=model) for gpu, model in zip(make_gpus(len(models)), models, strict=True)]
    inner = MemoryInventory()
    folder = _folder()
    site = make_site(folder, gpus=cards, policy=POLICIES["usual"], inventory=inner)
    for name in PEOPLE:
        newcomer(site, name)
    tick(site)
    shutil.rmtree(folder)
    return site, inner


def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="lxgpu-world-"))


class World:
    """What a test does to the host. Commands that are refused, and those that die, are part of life."""

    def __init__(self, models: tuple[str, ...] = (A, A, A), *, rule: CardRule = WHOLE_CARD) -> None:
        """`rule`: how the last card is divided."""
        first, inner = _prepared(models)
        begin_anew()  # the ids of this world are its own: no run before has a say in their order
        engine = _twin(first.engine)
        clock = FakeClock(first.clock.now())
        self.policy = POLICIES["usual"]
        self._divided: dict[int, Policy] = {}
        self._rules = {engine.cards[-1].uuid: rule} if rule != WHOLE_CARD else {}
        truth = Truth(
            policy=self.in_force,
            use=self.use,
            sick=self.sick,
            lent=lambda: divide(engine.cards, {uuid: layout_of(rule) for uuid in self._rules}),
            boot=lambda: self.site.probe.boot,
        )
        self.judge = Judged(_twin(inner), truth)
        self.mortal = Mortal(self.judge)
        folder = _folder()
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        site = make_site(folder, gpus=list(engine.cards), inventory=self.mortal, engine=engine, clock=clock)
        probe = LivingHost(clock, engine)
        probe._rules = copy.deepcopy(first.probe._rules)  # noqa: SLF001 -- the containers run since before
        self.site: Site = replace(site, probe=probe, slicer=FakeSlicer(probe), policy=self.in_force)
        engine.hook = self._written
        self.next: Ticked | None = None
        self.dead = 0
        self.wrong: list[str] = []
        if self._rules:
            self.tick()

    def in_force(self) -> Policy:
        """The policy of now, which divides the card whatever else it says."""
        if not self._rules:
            return self.policy
        known = self._divided.get(id(self.policy))  # the same object each time, as decisions remember much by it
        if known is None:
            rules = replace(self.policy.rules, cards=self._rules)
            known = self._divided[id(self.policy)] = replace(self.policy, rules=rules)
        return known

    # ---- the world as it is

    def card(self, uuid: str) -> Gpu:
        """A card by its UUID, or by the name of a part of it."""
        return next(gpu for gpu in self.site.engine.cards if gpu.uuid == card_of(uuid))

    def use(self, uuid: str) -> Use:
        """Whether a card, or whoever has that part of it, works, as one would see it if one could."""
        probe, card = self.site.probe, card_of(uuid)
        if probe.error is not None or card in probe.faults or card in probe.unlisted:
            return Use.UNKNOWN
        holder = self.judge.inner.read().holder(Slot(uuid)) if is_part(uuid) else None
        if is_part(uuid) and holder is None:
            return Use.IDLE
        whose = None if holder is None else self.machine(holder.instance)
        if Slot(uuid).profile:  # NVML does not say how busy a slice is
            there = probe.works(self.card(uuid), of=whose and whose.init_pid, lazy=True)
            return Use.UNKNOWN if there else Use.IDLE
        return Use.BUSY if probe.works(self.card(uuid), of=whose and whose.init_pid) else Use.IDLE

    def sick(self, uuid: str) -> bool:
        """Whether NVML says nothing good of a card."""
        return self.site.probe.error is not None or card_of(uuid) in self.site.probe.faults

    def machine(self, name: str) -> Any:
        """LXD's own view of somebody's container, None when it is not there."""
        return self.site.engine.machines.get(("default", name))

    def cards_of(self, name: str) -> set[str]:
        """The cards that LXD gives an instance."""
        found = self.machine(name)
        return set(gpus_in(found.devices, self.site.engine.cards)) if found else set()

    def _written(self, moment: str, call: str, name: str) -> None:
        del name
        if moment == "after" and call == "update":
            self.check_attached()

    # ---- what must hold at any time

    def check_attached(self) -> None:
        """No card is attached to two instances, but for one whose parts they hold."""
        seen: dict[str, str] = {}
        shared = {(row.instance, row.slot.card) for row in self.judge.inner.read().assignments if is_part(row.slot.gpu)}
        for _, name in self.site.engine.machines:
            for uuid in self.cards_of(name):
                if (name, uuid) in shared:
                    continue
                if uuid in seen:
                    self.wrong.append(f"{uuid} is attached to {seen[uuid]} and to {name}")
                seen[uuid] = name

    def check(self) -> None:
        """What opens is held; what holds a card holds it by right; and the judge has nothing to say."""
        records, engine, probe = self.judge.inner.read(), self.site.engine, self.site.probe
        holders: defaultdict[str, set[str]] = defaultdict(set)
        for row in records.assignments:
            if row.live:
                holders[row.slot.card].add(row.instance)
        for name in PEOPLE:
            found = self.machine(name)
            if found is None or found.init_pid is None:
                continue
            for gpu in engine.cards:
                opens = probe.openable(found.init_pid, engine.nodes(name) & set(gpu.nodes))
                if opens and name not in holders[gpu.uuid]:
                    self.wrong.append(f"{name} can open {gpu.uuid}, which is held by {holders[gpu.uuid]}")
            self._check_slices(name, found.init_pid, records)
        for one in probe._running():  # noqa: SLF001 -- everybody who is alive
            name = engine.by_pid(one.init) if one.init is not None else None
            for gpu in engine.cards:
                if one.nodes & set(gpu.nodes) and name not in holders[gpu.uuid]:
                    self.wrong.append(f"a process of {name} has {gpu.uuid}, which is held by {holders[gpu.uuid]}")
        assert not self.wrong, self.wrong
        assert not self.judge.wrong, self.judge.wrong

    def _check_slices(self, name: str, init: int, records: Records) -> None:
        """Of the capabilities inside nobody opens others' than their own."""
        for slot, nodes in self.slices().items():
            opens = self.site.probe.openable(init, self.site.engine.nodes(name) & nodes)
            holder = records.holder(Slot(slot))
            if opens and (holder is None or holder.instance != name):
                self.wrong.append(f"{name} can open {slot}, which is held by {holder and holder.instance}")

    def slices(self) -> dict[str, frozenset[DeviceNode]]:
        """The capability nodes of each MIG slice that is made, by its slot."""
        found = {}
        for uuid, made in self.site.probe.sliced.items():
            slots = names(uuid, layout_of(self._rules[uuid]))
            found |= {slot: frozenset(one.nodes) for slot, one in zip(slots, made, strict=False)}
        return found

    # ---- commands

    def do(self, act: Callable[[Site], Any], *, by: str = "") -> Any:
        """A command, by whoever's hand; refused or killed, it gives None."""
        self.judge.truth.by_hand = {by} if by else set()
        self.sleep(0.01)  # no two looks are at the same instant
        try:
            return act(self.site)
        except LxgpuError as error:
            if error.code == "internal":
                raise
            return None
        except KilledError:
            self.reborn()
            return None
        finally:
            self.judge.truth.by_hand = set()

    def reborn(self) -> None:
        """Another process goes on, which remembers nothing."""
        self.dead += 1
        self.calm()
        self.site = replace(self.site, watch=Watch())

    def calm(self) -> None:
        """Nobody dies any more."""
        self.mortal.death = None
        engine = self.site.engine
        engine._injections = [one for one in engine._injections if not isinstance(one.fault, When)]  # noqa: SLF001

    def tick(self, *, paused: bool = False) -> Ticked | None:
        """One tick of the daemon."""
        ticked: Ticked | None = self.do(lambda site: tick(site, paused=paused))
        self.next = ticked
        return ticked

    def sleep(self, seconds: float) -> None:
        """Time passes, nobody looks."""
        self.site.clock.sleep(seconds)

    def jump(self, seconds: float) -> None:
        """The wall clock is set; the tick that finds it takes nothing."""
        self.site.clock.jump(seconds)
        self.tick()

    def reserve(self, name: str, gpus: int, seconds: int, *, ahead: float | None = None, **more: Any) -> Any:
        """`lxgpu reserve NAME`."""
        at = None if ahead is None else self.site.clock.now() + timedelta(seconds=ahead)
        request = ReserveRequest(instance=name, owner=name, gpus=gpus, duration_s=seconds, at=at, **more)
        return self.do(lambda site: reserve(site, request))

    def cancel(self, identifier: str, *, series: bool = False) -> Any:
        """`lxgpu reservation cancel ID`."""
        return self.do(lambda site: cancel(site, identifier, series=series))

    def edit(self, identifier: str, **more: Any) -> Any:
        """`lxgpu reservation edit ID`."""
        return self.do(lambda site: edit(site, identifier, **more))

    def attach(
        self, name: str, number: int, *, class_name: str = "", lease_s: int | None = None, model: str = "*"
    ) -> None:
        """`lxgpu attach NAME --gpus +N`."""
        request = GpuRequest(instance=name, owner=name, more=number, class_name=class_name, model=model)
        self.do(
            lambda site: lending.attach(site, name, number=number, more=True, request=request, lease_s=lease_s),
            by=name,
        )

    def release(self, name: str, count: int | None) -> None:
        """`lxgpu release NAME`."""
        self.do(lambda site: lending.release(site, name, count=count, busy=True), by=name)

    def switch(self, name: str, how: str) -> None:
        """Start, stop, suspend, resume, delete and make again."""
        acts: dict[str, Callable[[Site], Any]] = {
            "start": lambda site: power.start(site, name),
            "stop": lambda site: power.stop_instance(site, name, force=False),
            "kill": lambda site: power.stop_instance(site, name, force=True),
            "restart": lambda site: power.restart(site, name, force=False),
            "suspend": lambda site: ending.suspend(site, name, reason="holidays"),
            "resume": lambda site: ending.resume(site, name),
            "delete": lambda site: ending.delete(site, name, purge=True),
            "create": lambda site: newcomer(site, name),
            "extend": lambda site: extending.extend(site, name, seconds=60),
            "keep": lambda site: keeping.keep(site, name, seconds=60, reason="busy soon"),
        }
        self.do(acts[how], by=name)

    def service(self, uuid: str, *, closed: bool) -> None:
        """A card out of service by hand, and back."""
        if closed:
            self.do(lambda site: inservice.close(site, uuid, reason="fan"))
        else:
            self.do(lambda site: inservice.open_again(site, uuid))

    # ---- jobs

    def job(self, name: str, *, mood: str = "good", cards: int = 99) -> None:
        """A program in a container opens the cards that it can."""
        found = self.machine(name)
        if found is None or found.power is not Power.RUNNING:
            return
        moods: dict[str, dict[str, Any]] = {
            "good": {},
            "slow": {"ends_after_s": 1.5},
            "deaf": {"ignores_term": True},
            "phoenix": {"respawns": True},
            "stuck": {"stuck": True},
            "lazy": {"command": "lazy", "memory_bytes": 2**30},
        }
        chosen = self.site.engine.cards[:cards]
        nodes = [node for gpu in chosen for node in gpu.nodes]
        nodes += [node for gpu in chosen for one in self.site.probe.sliced.get(gpu.uuid, ()) for node in one.nodes]
        self.site.probe.run(found.init_pid, nodes, **moods[mood])

    def end_jobs(self, name: str | None = None, *, mood: str | None = None) -> None:
        """Programs end by themselves."""
        for one in list(self.site.probe.processes):
            if name is None or (one.init is not None and self.site.engine.by_pid(one.init) == name):
                if mood == "stuck" and not one.stuck:
                    continue
                one.respawns = False
                self.site.probe.end(one.process)

    # ---- the end

    def heal(self) -> None:
        """Every fault is over."""
        self.calm()
        engine, probe = self.site.engine, self.site.probe
        engine._injections, engine._down = [], 0  # noqa: SLF001 -- for the rest of the run nothing fails
        probe.error = None
        probe.faults.clear()
        probe.unlisted.clear()
        probe.hidden.clear()
        probe.sessions.clear()
        self.end_jobs(mood="stuck")
        self.policy = POLICIES["usual"]

    def restless(self) -> list[str]:
        """What is still under way, in words; empty when all has come to its end."""
        records = self.judge.inner.read()
        passing = {"planned", "attaching", "warned", "releasing", "quarantined"}
        found = [f"{row.kind} of {row.instance} at {row.step}" for row in records.operations if row.live]
        found += [
            f"{row.instance} {row.slot} {row.state.value} for {row.reservation}"
            for row in records.assignments
            if row.state.value in passing
        ]
        found += [
            f"{row.kind.value} {row.id} of {row.instance} {row.state.value} {row.gpus} {row.pool or row.model}"
            for row in records.reservations
            if row.open and self.feasible(row.gpus, row.pool or row.model)
        ]
        found += [f"notice {row.kind} of {row.instance}" for row in records.notices]
        return found

    def ahead(self, text: str, now: datetime) -> bool:
        """Whether what is under way only waits for a start; the clock may be set back while one is got ready."""
        words = text.split()
        to_come = {row.id for row in self.judge.inner.read().reservations if row.start is not None and row.start > now}
        return "scheduled" in words or (not to_come.isdisjoint(words) and bool({"preparing", "planned"} & {*words}))

    def feasible(self, gpus: int, pattern: str) -> bool:
        """Whether there are so many cards of one model at all."""
        models = [gpu.model for gpu in self.judge.truth.lent()]
        models = [model for model in models if model == pattern or (pattern not in models and fits(model, pattern))]
        return any(models.count(model) >= gpus for model in models)

    def settle(self) -> None:
        """Healed, with ticks when something is due, all comes to its end; each one that waits has its share of them."""
        self.heal()
        most = 250 + 100 * sum(row.open for row in self.judge.inner.read().reservations)
        for card in self.judge.inner.read().cards:
            self.service(card.uuid, closed=False)
        for _ in range(most):
            self.tick()
            self.check()
            left = self.restless()
            if not left:
                return
            due = self.next.next_at if self.next else None
            now = self.site.clock.now()
            waits = [text for text in left if not self.ahead(text, now)]
            moves = [text for text in waits if not text.startswith(("request", "booking"))]
            longest = 20.0 if moves else 600.0 if waits else 86400.0
            wait = (due - now).total_seconds() if due and not (waits and not moves) else longest
            self.sleep(min(max(wait, 0.5), longest))
        raise AssertionError(f"it does not come to an end: {left}")


def _twin(thing: Any) -> Any:
    """A copy that shares nothing but its programs."""
    return copy.deepcopy(thing, {id(thing._lock): RLock()})  # noqa: SLF001 -- a lock cannot be copied

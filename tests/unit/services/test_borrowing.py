"""Idle cards lent on: consent on both sides, the sentry at work, and no trace of it when anything ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.faults import KilledError, When
from fakes.mortal import MortalInventory
from fakes.site import lab_policy, make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.inventory.memory import MemoryInventory
from lxgpu.model.borrowing import BorrowState
from lxgpu.model.request import GpuRequest
from lxgpu.model.rules import BorrowRules, PriorityClass, SharingRules
from lxgpu.services import borrowed, borrowing, lending, observe, power, rebuild
from lxgpu.services.cards import card_views
from lxgpu.services.configure import configure, picture, set_rule
from lxgpu.services.sentry import Sentry, Told
from lxgpu.services.tick import tick
from lxgpu.services.verify import verify

GIB = 2**30
IDLE_S, YIELD_S = 30, 20


def policy_with(*, lends=True, borrows=True, reserve=None):
    """Everybody lends on in class normal, and may borrow in class low."""
    policy = lab_policy()
    rules = BorrowRules(idle_s=IDLE_S, yield_end_s=YIELD_S, reserve_bytes=reserve)
    low = PriorityClass("low", priority=10, min_runtime_s=0, grace_s=2, term_wait_s=2, borrow=borrows)
    return replace(
        policy,
        classes={**policy.classes, "low": low},
        defaults=replace(policy.defaults, lend_idle=lends),
        rules=replace(policy.rules, sharing=SharingRules(borrow=rules)),
    )


class Stage:
    """Alice holds the one card, bob and carol have none; time passes with ticks, and with looks of the sentry."""

    def __init__(self, folder, inventory=None, **how):
        self.site = make_site(folder, gpus=1, policy=policy_with(**how), inventory=inventory)
        newcomer(self.site, "alice", gpus=1)
        newcomer(self.site, "bob")
        newcomer(self.site, "carol")
        self.told: list[Told] = []
        self.sentry = Sentry(self.site, self.told.append)
        self.passes(IDLE_S + 10)

    @property
    def card(self):
        """The card."""
        return self.site.engine.cards[0]

    @property
    def row(self):
        """The borrowing there is."""
        return next(iter(self.site.inventory.read().borrowings), None)

    def passes(self, seconds, *, watched=True):
        """So long the daemon and the sentry are at work."""
        for second in range(int(seconds)):
            self.site.clock.sleep(1)
            if watched:
                self.sentry.look()
            told, self.told[:] = list(self.told), []
            borrowed.heard(self.site, told)
            if second % 5 == 0:
                tick(self.site)

    def borrow(self, name="bob"):
        """As `lxgpu attach NAME --gpus 1 --borrow`."""
        rows = borrowing.borrow(self.site, GpuRequest(name, "", 1, class_name="low"))
        self.passes(3)
        return rows

    def job(self, name, gib=1):
        """A program in a container that has the card."""
        return self.site.probe.run(self.site.engine.init(name), self.card.nodes, memory_bytes=gib * GIB)

    def opens(self, name):
        """Whether a container's rule leaves the card open."""
        return bool(self.site.probe.openable(self.site.engine.init(name), self.card.nodes))

    def still(self, process):
        """Whether it stands still."""
        return self.row is not None and process in self.site.brake.held(self.row.id)

    def has(self, name):
        """Whether the card is among a container's devices."""
        return any(one["type"] == "gpu" for one in self.site.engine.instance(name).devices.values())


@pytest.fixture
def stage(tmp_path):
    """Alice's card has been idle for long enough."""
    return Stage(tmp_path)


def refused(stage, name="bob", class_name="low"):
    """The code of the error that a borrowing ends with."""
    with pytest.raises(LxgpuError) as error:
        borrowing.borrow(stage.site, GpuRequest(name, "", 1, class_name=class_name))
    assert stage.row is None
    return error.value.code


def test_an_idle_card_is_lent_on_and_its_holder_keeps_it(stage):
    """Bob can open the card, alice holds it, and nothing is odd about that."""
    stage.borrow()
    assert stage.row.state is BorrowState.LENT
    assert stage.opens("bob")
    assert stage.opens("alice")
    assert [row.instance for row in stage.site.inventory.read().assignments] == ["alice"]
    assert verify(stage.site) == ()
    tick(stage.site)
    assert stage.has("bob")


def test_nobody_borrows_without_consent_or_in_another_class(tmp_path):
    """The holder's policy says yes and the class may; else it is refused."""
    assert refused(Stage(tmp_path / "a", lends=False)) == "no_capacity"
    assert refused(Stage(tmp_path / "b", borrows=False)) == "class_not_allowed"
    assert refused(Stage(tmp_path / "c"), class_name="normal") == "class_not_allowed"


def test_a_card_at_work_is_not_lent_on(stage):
    """Not with a process of its holder's on it, and not right after."""
    process = stage.job("alice")
    assert refused(stage) == "no_capacity"
    stage.passes(10)
    stage.site.probe.end(process)
    stage.passes(5)
    assert refused(stage) == "no_capacity"
    stage.passes(IDLE_S + 10)
    stage.borrow()


def test_a_class_bounds_what_is_borrowed_in_it_and_a_model_is_heeded(tmp_path):
    """What one person may hold in a class is what they may hold and borrow; no other model is borrowed."""
    stage = Stage(tmp_path)
    policy = stage.site.policy()
    bounded = {**policy.classes, "low": replace(policy.classes["low"], max_gpus=0)}
    stage.site = replace(stage.site, policy=lambda: replace(policy, classes=bounded))
    assert refused(stage) == "over_class_limit"
    stage.site = replace(stage.site, policy=lambda: policy)
    for model in ("A100", "* 0.25"):
        with pytest.raises(LxgpuError) as error:
            borrowing.borrow(stage.site, GpuRequest("bob", "", 1, class_name="low", model=model))
        assert error.value.code == "no_capacity"


def test_a_sentry_that_died_has_opened_nothing_for_the_next_one(stage):
    """The card was opened, and nobody heard of it: the next sentry closes it first."""
    borrowing.borrow(stage.site, GpuRequest("bob", "", 1, class_name="low"))
    for _ in range(2):
        stage.site.clock.sleep(1)
        stage.sentry.look()
    assert stage.opens("bob")
    mine = stage.job("bob")
    stage.sentry = Sentry(stage.site, lambda _told: None)
    stage.sentry.look(alive=False)
    assert not stage.opens("bob")
    assert stage.still(mine)


def test_one_borrower_a_card(stage):
    """Carol finds nothing while bob has it."""
    stage.borrow()
    with pytest.raises(LxgpuError) as error:
        stage.borrow("carol")
    assert error.value.code == "no_capacity"


def test_the_holders_first_process_stops_the_borrower(stage):
    """Bob's program stands still and nothing new of his opens the card; it goes on when alice has been idle again."""
    stage.borrow()
    mine = stage.job("bob")
    stage.passes(5)
    assert not stage.still(mine)
    work = stage.job("alice")
    stage.sentry.look()
    assert stage.still(mine)
    assert not stage.opens("bob")
    assert stage.opens("alice")
    (told,) = stage.told
    assert (told.did, told.latency_s <= 2) == ("stopped", True)
    stage.passes(2)
    assert stage.row.state is BorrowState.STOPPED
    stage.site.probe.end(work)
    stage.passes(IDLE_S - 5)
    assert stage.still(mine)
    stage.passes(10)
    assert not stage.still(mine)
    assert stage.row.state is BorrowState.LENT


def test_a_holder_who_stays_has_the_card_alone(stage):
    """After the time to yield bob's program is ended and the card leaves his container."""
    stage.borrow()
    mine = stage.job("bob")
    stage.job("alice")
    stage.passes(YIELD_S + 8)
    assert not stage.site.probe.alive(mine)
    assert stage.row is None
    assert not stage.has("bob")
    assert verify(stage.site) == ()


def test_the_reserve_stays_free(tmp_path):
    """Who takes more memory than the reserve leaves is ended at the next look."""
    stage = Stage(tmp_path, reserve=8 * GIB)
    stage.borrow()
    mine = stage.job("bob", gib=17)
    stage.passes(7)
    assert not stage.site.probe.alive(mine)
    assert stage.row is None


def test_what_nvml_does_not_tell_is_the_holders_work(stage):
    """Bob is stopped when the card cannot be seen."""
    stage.borrow()
    mine = stage.job("bob")
    stage.site.probe.unlisted.add(stage.card.uuid)
    stage.sentry.look()
    assert stage.still(mine)


def test_who_steps_out_of_the_freezer_is_ended(stage):
    """Root inside can move a frozen program out; the next look finds it and ends it."""
    stage.borrow()
    mine = stage.job("bob")
    stage.job("alice")
    stage.passes(2)
    stage.site.brake.step_out(mine)
    stage.passes(1)
    assert not stage.site.probe.alive(mine)


def test_without_a_daemon_everybody_stops_and_then_ends(stage):
    """At once, and for good when none comes back."""
    stage.borrow()
    mine = stage.job("bob")
    stage.sentry.look(alive=False)
    assert stage.still(mine)
    assert not stage.opens("bob")
    stage.site.clock.sleep(31)
    stage.sentry.look(alive=False)
    assert not stage.site.probe.alive(mine)


def test_a_sentry_that_ends_leaves_nobody_frozen(stage):
    """What stood still is killed, and neither of it nor of a borrowing that is over by then is anything kept."""
    stage.borrow()
    mine = stage.job("bob")
    stage.job("alice")
    stage.passes(2)
    assert stage.still(mine)
    stage.sentry.end_all("the daemon was ended")
    assert not stage.site.probe.alive(mine)
    assert stage.site.brake.empty
    borrowed.give_back(stage.site, "bob")
    stage.sentry.end_all("the daemon was ended")
    assert stage.site.brake.empty


def test_a_new_sentry_stops_first_whom_it_finds_at_a_card(stage):
    """It does not know since when the card has been idle."""
    stage.borrow()
    mine = stage.job("bob")
    stage.sentry = Sentry(stage.site, stage.told.append)
    stage.sentry.look()
    assert stage.still(mine)
    assert not stage.opens("bob")
    stage.passes(IDLE_S + 3)
    assert not stage.still(mine)


def test_other_changes_of_the_borrower_never_open_the_card(stage):
    """Whatever else is written and ruled while bob is stopped: the card stays closed, and among his devices."""
    stage.borrow()
    stage.job("alice")
    stage.passes(2)
    wanted = picture(stage.site, "bob", gpus=stage.site.engine.gpus())
    set_rule(stage.site, wanted, configure(stage.site, wanted, operation="test"))
    assert not stage.opens("bob")
    assert stage.has("bob")


def test_the_holder_is_idle_while_the_borrower_works(stage):
    """What bob does on the card is no use of alice's: samples show none, and she may give it back as an idle one."""
    stage.borrow()
    stage.job("bob", gib=3)
    stage.site.probe.utilization[stage.card.uuid] = 97
    stage.passes(10)
    last = stage.site.inventory.samples(since=stage.site.clock.now().replace(year=2000))[-1]
    assert (last.utilization_percent, last.processes, last.memory_used_bytes) == (0, 0, 0)


def test_giving_back_ends_what_is_lent_on_first(stage):
    """Alice's release is at its end when bob's program is gone and the card is proven free."""
    stage.borrow()
    mine = stage.job("bob")
    assert lending.release(stage.site, "alice", count=None, busy=False)
    assert not stage.site.probe.alive(mine)
    assert stage.row is None
    assert not stage.has("bob")
    record = stage.site.inventory.read().slots[0]
    assert record.proven(stage.site.probe.boot_id())
    assert verify(stage.site) == ()


def test_a_borrower_that_stops_has_nothing_at_its_next_start(stage):
    """Stopped by lxgpu or behind its back: the card is not open at the next start, and soon off its devices."""
    stage.borrow()
    stage.site.engine.stop("bob", timeout_s=0, force=True)
    stage.site.engine.start("bob")
    assert not stage.opens("bob")
    stage.passes(6)
    assert stage.row is None
    assert not stage.has("bob")
    stage.passes(IDLE_S)
    stage.borrow()
    power.restart(stage.site, "bob", force=False)
    assert stage.row is None
    assert not stage.has("bob")


def test_given_back_by_name_or_all(stage):
    """A borrowed card is named as any other; what is not borrowed is not touched."""
    stage.borrow()
    assert borrowed.give_back(stage.site, "alice") == ()
    pci = stage.card.pci
    assert borrowed.give_back(stage.site, "bob", [pci]) == (pci,)
    assert stage.row is None
    stage.borrow()
    assert borrowed.give_back(stage.site, "bob") == (stage.card.uuid,)
    assert [row.instance for row in stage.site.inventory.read().assignments] == ["alice"]


def test_a_busy_container_is_opened_at_the_next_look(stage):
    """Somebody is at work on bob's container just then: the sentry waits for a second, not for another idle time."""
    borrowing.borrow(stage.site, GpuRequest("bob", "", 1, class_name="low"))
    with stage.site.locks.hold("bob", wait_s=0):
        stage.passes(4)
        assert not stage.opens("bob")
    stage.passes(2)
    assert stage.opens("bob")


def test_consent_withdrawn_ends_it(stage):
    """The next tick ends what the policy lets nobody do any more."""
    stage.borrow()
    stage.site = replace(stage.site, policy=lambda: policy_with(lends=False))
    tick(stage.site)
    assert stage.row is None
    assert not stage.has("bob")


def test_a_rebuilt_inventory_ends_what_is_lent_on(stage):
    """It knows of no borrowing, and takes off what bob does not hold; alice keeps her card."""
    stage.borrow()
    mine = stage.job("bob")
    rebuild.rebuild(stage.site)
    for _ in range(4):
        stage.site.clock.sleep(5)
        tick(stage.site)
    assert not stage.site.probe.alive(mine)
    assert not stage.has("bob")
    assert [row.instance for row in stage.site.inventory.read().assignments] == ["alice"]
    assert verify(stage.site) == ()


def test_both_sides_are_told(stage):
    """The card says to whom it is lent on, the borrower's banner and reasons that it may stop at any moment."""
    stage.borrow()
    tick(stage.site)
    records = stage.site.inventory.read()
    seen = observe.look(stage.site)
    note = card_views(records, seen, None, mode=lambda _uuid: None).notes[stage.card.uuid]
    assert note == "lent on to bob while alice leaves it idle"
    assert "1 GPU borrowed: what runs there may stop at any moment" in stage.site.board.read("bob", "banner")
    assert "borrowed" not in stage.site.board.read("alice", "banner")
    stage.job("alice")
    stage.passes(3)
    records = stage.site.inventory.read()
    note = card_views(records, seen, None, mode=lambda _uuid: None).notes[stage.card.uuid]
    assert note == "alice is at work; what bob runs on it, lent on to them, stands still"


@pytest.mark.parametrize("when", list(When)[:2])
@pytest.mark.parametrize("write", range(1, 9))
def test_killed_at_any_write_nothing_stays_half_done(tmp_path, write, when):
    """Borrowing or giving back is cut short: a tick leaves a whole borrowing or none, and the card with alice."""
    inventory = MortalInventory(MemoryInventory())
    stage = Stage(tmp_path, inventory=inventory)
    inventory.death = (inventory.writes + write, when)
    try:
        stage.borrow()
        borrowed.give_back(stage.site, "bob")
    except KilledError:
        pass
    inventory.death = None
    stage.sentry = Sentry(stage.site, stage.told.append)
    stage.passes(10)
    assert (stage.row is not None) is stage.has("bob")
    assert stage.opens("bob") is (stage.row is not None and stage.row.state is BorrowState.LENT)
    assert verify(stage.site) == ()
    lending.release(stage.site, "alice", count=None, busy=True)
    assert stage.row is None
    assert not stage.has("bob")

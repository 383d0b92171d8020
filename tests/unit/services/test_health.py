"""Faults of cards: what is broken goes out of service and stays so, and whoever is concerned is told, once."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import pytest
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.assignment import AssignmentState
from lxgpu.model.gpu import Slot
from lxgpu.services import inservice, lending, observe
from lxgpu.services.health import check_health
from lxgpu.services.identity import KEY_PROMISES
from lxgpu.services.sampling import take_samples
from lxgpu.services.watch import Watch


@pytest.fixture
def site(tmp_path):
    """Two cards; alice holds the first."""
    made = make_site(tmp_path)
    newcomer(made, "alice", gpus=1)
    return made


def card(site):
    """Alice's card."""
    (held,) = site.inventory.read().held_by("alice")
    return next(gpu for gpu in site.engine.cards if gpu.uuid == held.slot.gpu)


def check(site):
    """One look, and what health makes of it."""
    return check_health(site, observe.look(site, readings=True))


def quarantine(site, gpu):
    """Why the card is in quarantine."""
    record = site.inventory.read().slot(Slot(gpu.uuid))
    return record.quarantine if record else ""


def events(site, kind="xid"):
    """The history of one kind."""
    return [event for event in site.inventory.events() if event.kind == kind]


@pytest.mark.parametrize(
    ("number", "helps"), [(79, "reboot the host"), (48, "nvidia-smi --gpu-reset"), (95, "nvidia-smi --gpu-reset")]
)
def test_a_broken_card_goes_out_of_service_and_its_holder_keeps_it(site, number, helps):
    """Alice still has it and is told; after her release nobody gets it, and LXD carries the promise."""
    mine = card(site)
    site.kernel_log.tell(mine.pci, number)
    assert check(site) == 1
    assert quarantine(site, mine).startswith(f"Xid {number}: ")
    assert helps in quarantine(site, mine)
    (held,) = site.inventory.read().held_by("alice")
    assert held.state is AssignmentState.ACTIVE
    (told,) = site.inventory.read().notices
    assert (told.kind, told.instance, told.person, told.about) == ("health", "alice", "alice", held.id)
    assert (told.facts["xid"], told.facts["yours"], told.facts["kept"]) == (number, False, False)
    assert f"Xid {number}" in site.engine.promises[KEY_PROMISES]
    lending.release(site, "alice", count=None, busy=True)
    assert quarantine(site, mine).startswith(f"Xid {number}: ")
    with pytest.raises(LxgpuError):
        newcomer(site, "bob", gpus=2)


@pytest.mark.parametrize("number", [13, 31])
def test_a_users_own_program_is_told_to_its_user(site, number):
    """The card stays in service, and the holder hears that the program did it."""
    site.kernel_log.tell(card(site).pci, number)
    check(site)
    assert not quarantine(site, card(site))
    (told,) = site.inventory.read().notices
    assert (told.instance, told.facts["yours"]) == ("alice", True)


def test_a_program_of_nobody_or_of_the_holder_before_is_told_to_nobody(site):
    """A fault of a free card, and one from before the present holder had it."""
    free = next(gpu for gpu in site.engine.cards if gpu.uuid != card(site).uuid)
    site.kernel_log.tell(free.pci, 31)
    site.clock.sleep(10)
    newcomer(site, "bob", gpus=1)
    check(site)
    assert not site.inventory.read().notices
    assert [event.subject for event in events(site)] == [free.uuid]


@pytest.mark.parametrize("number", [74, 999])
def test_what_is_not_clear_alerts_the_admins_only(site, number):
    """No quarantine, nothing for the holder; a notice without a person is the admins'."""
    site.kernel_log.tell(card(site).pci, number)
    check(site)
    assert not quarantine(site, card(site))
    (told,) = site.inventory.read().notices
    assert (told.instance, told.person, told.facts["kept"]) == ("", "", True)


def test_a_card_that_nobody_knows_is_noted(site):
    """An address that is no card of this host: history and admins, no row for a slot."""
    site.kernel_log.tell("0000:ff:00.0", 79)
    check(site)
    assert [event.subject for event in events(site)] == ["0000:ff:00.0"]
    assert not any(record.quarantine for record in site.inventory.read().slots)


def test_each_line_is_acted_upon_once_across_restarts(site):
    """Also when the process died between the inventory and its note of how far it read, and after `gpu open`."""
    mine = card(site)
    site.kernel_log.tell(mine.pci, 48)
    check(site)
    inservice.open_again(site, mine.uuid)
    site.kernel_log.forget()
    check(site)
    assert not quarantine(site, mine)
    assert (len(events(site)), len(site.inventory.read().notices)) == (1, 1)
    site.kernel_log.tell(mine.pci, 48)
    check(site)
    assert quarantine(site, mine)


def test_the_same_fault_over_and_over_is_one_story(site):
    """A program that faults at every step is told of once an hour, and the history is not filled with it."""
    for _ in range(30):
        site.kernel_log.tell(card(site).pci, 13)
        site.kernel_log.tell(card(site).pci, 13)
        check(site)
        site.clock.sleep(60)
    assert len(site.inventory.read().notices) == 1
    assert len(events(site)) == 3
    assert events(site)[-1].detail["times"] == 2


def test_a_reset_is_not_undone_by_a_graver_fault(site):
    """A card that also fell off the bus needs the reboot; what came before is not forgotten."""
    site.kernel_log.tell(card(site).pci, 48)
    check(site)
    site.kernel_log.tell(card(site).pci, 79)
    check(site)
    assert quarantine(site, card(site)).startswith("Xid 79: ")
    assert "Xid 48" in quarantine(site, card(site))
    site.kernel_log.tell(card(site).pci, 95)
    check(site)
    assert quarantine(site, card(site)).startswith("Xid 79: ")


def test_a_failed_fence_does_not_hide_the_fault(site):
    """A process that nothing ends holds the broken card: both reasons stand, and a later proof ends neither."""
    mine = card(site)
    process = site.probe.run(site.engine.init("alice"), mine.nodes, stuck=True)
    site.kernel_log.tell(mine.pci, 48)
    check(site)
    with pytest.raises(LxgpuError, match="could not be proven free"):
        lending.release(site, "alice", count=None, busy=True)
    assert quarantine(site, mine).startswith("Xid 48: ")
    assert str(process.pid) in quarantine(site, mine)
    site.probe.end(process)
    lending.release(site, "alice", count=None, busy=True)
    assert quarantine(site, mine).startswith("Xid 48: ")


def test_opening_by_hand_leaves_the_card_with_its_holder(site):
    """The admin has reset it while alice kept it: nothing is proven, nobody loses anything."""
    mine = card(site)
    site.kernel_log.tell(mine.pci, 48)
    check(site)
    site.probe.run(site.engine.init("alice"), mine.nodes)
    assert inservice.open_again(site, mine.uuid)
    (held,) = site.inventory.read().held_by("alice")
    assert (held.state, quarantine(site, mine)) == (AssignmentState.ACTIVE, "")


def test_a_card_that_does_not_answer_is_not_opened(site):
    """Nothing faulty comes back by itself, nor by hand while NVML calls it lost."""
    mine = card(site)
    site.kernel_log.tell(mine.pci, 79)
    check(site)
    site.probe.faults[mine.uuid] = "lost"
    with pytest.raises(LxgpuError) as caught:
        inservice.open_again(site, mine.uuid)
    assert caught.value.code == "quarantined"
    assert quarantine(site, mine)


def test_a_fault_between_the_grant_and_the_attach_stops_the_attach(site):
    """A card that breaks at this very moment is not handed over, and the next try gets a whole one or none."""
    free = next(gpu for gpu in site.engine.cards if gpu.uuid != card(site).uuid)
    create = site.engine.create

    def broken_meanwhile(*args: object, **how: object) -> None:
        create(*args, **how)
        site.kernel_log.tell(free.pci, 79)
        check(site)

    site.engine.create = broken_meanwhile
    with pytest.raises(LxgpuError, match="are broken"):
        newcomer(site, "bob", gpus=1)
    assert quarantine(site, free).startswith("Xid 79")
    assert not site.inventory.read().held_by("bob")


def test_a_log_that_cannot_be_read_is_said(site):
    """The error goes up to whoever looks, which names it; what NVML says is acted upon all the same."""
    site.kernel_log.error = "permission denied"
    site.probe.faults[card(site).uuid] = "lost"
    for _ in range(2):
        with pytest.raises(LxgpuError) as caught:
            check(site)
    assert caught.value.code == "unavailable"
    assert len(events(site, "sick")) == 1


def test_a_card_that_nvml_loses_is_told_once_and_when_it_is_back(site):
    """One bad look is nothing; two are told to the holder, however long it lasts and whoever looks."""
    mine = card(site)
    site.probe.faults[mine.uuid] = "lost"
    check(site)
    assert not events(site, "sick")
    for _ in range(3):
        check(site)
    site.watch.sick = None
    check(site)
    assert len(events(site, "sick")) == 1
    (told,) = site.inventory.read().notices
    assert (told.instance, told.facts["xid"]) == ("alice", None)
    del site.probe.faults[mine.uuid]
    check(site)
    check(site)
    assert len(events(site, "well")) == 1


class Meanwhile:
    """An inventory in which another process does something just before the first write of this one."""

    def __init__(self, inventory, do):
        self._inventory, self._do = inventory, do

    def __getattr__(self, name):
        if name == "write":
            do, self._do = self._do, None
            if do is not None:
                do()
        return getattr(self._inventory, name)


def other(site):
    """The same host in the eyes of another process, which remembers nothing."""
    log = copy(site.kernel_log)
    return replace(site, kernel_log=log, watch=Watch())


@pytest.mark.parametrize("number", [79, 13])
def test_two_ticks_at_once_act_upon_a_fault_once(site, number):
    """The daemon's and a command's, which read the line at the same moment."""
    mine = card(site)
    site.kernel_log.tell(mine.pci, number)
    second = other(site)
    check(replace(site, inventory=Meanwhile(site.inventory, lambda: check(second))))
    assert len(events(site)) == 1
    assert len(site.inventory.read().notices) == 1


def test_two_ticks_at_once_tell_of_a_lost_card_once_and_of_its_return_once(site):
    """Whoever of the two writes first."""
    mine, second = card(site), other(site)
    site.probe.faults[mine.uuid] = "lost"
    check(site)
    check(second)
    check(replace(site, inventory=Meanwhile(site.inventory, lambda: check(second))))
    assert len(events(site, "sick")) == 1
    assert len(site.inventory.read().notices) == 1
    del site.probe.faults[mine.uuid]
    check(replace(site, inventory=Meanwhile(site.inventory, lambda: check(second))))
    assert len(events(site, "well")) == 1


def test_a_lost_card_is_told_of_by_processes_that_look_once(site):
    """`daemon run --once` from a timer: two looks are two looks, whoever took them, and so is the one after."""
    mine = card(site)

    def once():
        fresh = other(site)
        seen = observe.look(fresh, readings=True)
        take_samples(fresh, seen, fresh.inventory.read())
        check_health(fresh, seen)
        site.clock.sleep(300)

    once()
    site.probe.faults[mine.uuid] = "lost"
    once()
    assert not events(site, "sick")
    once()
    once()
    assert len(events(site, "sick")) == 1
    del site.probe.faults[mine.uuid]
    once()
    once()
    assert len(events(site, "well")) == 1


def test_how_far_the_log_was_read_is_noted_at_every_look(site):
    """Also when there was no fault in it."""
    noted = []
    site.kernel_log.seen = lambda: noted.append(1)
    check(site)
    site.kernel_log.tell(card(site).pci, 13)
    check(site)
    assert noted == [1, 1]

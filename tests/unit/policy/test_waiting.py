"""Why a reservation waits, and what would have to change."""

from __future__ import annotations

from dataclasses import replace

from inventory_rows import assignment, at, card, instance
from reservation_rows import booking, claim, request

from lxgpu.model.assignment import SlotRecord
from lxgpu.model.gpu import Gpu, Readings, Slot
from lxgpu.model.quota import BASE_TERMS, Policy
from lxgpu.model.reservation import Reservation
from lxgpu.model.rules import PreemptionRules, PriorityClass, Rules
from lxgpu.model.snapshot import Observation, Records, Snapshot
from lxgpu.policy.waiting import why_waiting

NOW = at(0)
CLASSES = {
    "normal": PriorityClass("normal", priority=50, min_runtime_s=3600, grace_s=300),
    "scavenge": PriorityClass("scavenge", priority=10, min_runtime_s=1800, grace_s=60, term_wait_s=60),
}
POLICY = Policy(
    classes=CLASSES,
    defaults=replace(BASE_TERMS, limit=4),
    rules=Rules(preemption=PreemptionRules(fence_timeout_s=120)),
)


def world(*rows, closed=""):
    """Two cards."""
    gpus = tuple(Gpu(f"GPU-{number}", f"0000:0{number}:00.0", "NVIDIA A100", "gpu1") for number in (1, 2))
    names = ("alice", "bob", "carol")
    records = Records(
        1,
        None,
        instances=tuple(instance(name) for name in names),
        assignments=tuple(row for row in rows if not isinstance(row, Reservation)),
        reservations=tuple(row for row in rows if isinstance(row, Reservation)),
        cards=(card("GPU-1", closed=closed, closed_by="root" if closed else ""), card("GPU-2")),
    )
    return Snapshot(NOW, records, Observation("gpu1", "", NOW, gpus), POLICY)


def lease(gpu="GPU-1", instance="alice", **fields):
    """A card since this minute, until in an hour."""
    usual = {"class_name": "normal", "since": at(0), "created_at": at(0), "until": at(60)}
    return assignment(f"a{gpu}", gpu, instance=instance, **{**usual, **fields})


def told(snapshot, row):
    """Codes and sentences."""
    return [(reason.code, reason.text) for reason in why_waiting(snapshot, row)]


def test_equals_need_not_yield_and_it_is_said_until_when():
    """In short first; then each card with its holder, until when, and the two classes that were compared."""
    row = request(class_name="normal")
    first, *cards = told(world(lease(), lease("GPU-2", until=None), row), row)
    assert first[0] == "no_capacity"
    assert cards == [
        (
            "need_not_yield",
            "alice has GPU-1 until 09:00, in class normal (50), and need not yield to normal (50)",
        ),
        (
            "need_not_yield",
            "alice has GPU-2 without an end, in class normal (50), and need not yield to normal (50)",
        ),
    ]


def test_a_card_that_may_be_had_later_says_from_when():
    """The minimum runtime has to pass, then grace, TERM and the fence."""
    row = request(class_name="normal", gpus=2)
    snapshot = world(lease(class_name="scavenge"), lease("GPU-2", "bob"), row)
    later, other = told(snapshot, row)[1:]
    assert later == (
        "later",
        "alice's GPU-1 can be had from 08:34 on: class scavenge (10) yields to class normal (50)",
    )
    assert other[0] == "need_not_yield"


def test_who_is_before_it_is_named():
    """An older request and a claim of others; one's own place is none before oneself."""
    row = request("q2", class_name="normal", created_at=at(5))
    first = request("q1", "bob", class_name="normal")
    snapshot = world(lease(), lease("GPU-2"), first, claim(), row)
    before = [text for code, text in told(snapshot, row) if code == "before"]
    assert before == ["before it: alice's claim c1, 1 GPU", "before it: bob's request q1, 1 GPU"]
    of_first = [text for code, text in told(snapshot, first) if code == "before"]
    assert of_first == ["before it: alice's claim c1, 1 GPU"]


def test_a_card_out_of_service_is_no_holders_fault():
    """Closed by an admin: said with the reason."""
    row = request(class_name="normal", gpus=2)
    assert ("out_of_service", "GPU-1 is closed by root: fan") in told(world(row, closed="fan"), row)


def test_when_nothing_stands_in_its_way_that_is_said():
    """Free cards: it begins at the next look."""
    row = request(class_name="normal")
    assert [code for code, _ in told(world(row), row)] == ["can_begin"]


def test_cards_out_of_service_are_named_as_what_is_in_the_way_and_no_booking():
    """Nobody booked anything: it is the quarantine, the fault or the admin."""
    row = request(class_name="normal", gpus=2, duration_s=3600)
    stuck = world(row)
    slots = tuple(SlotRecord(Slot(gpu), "gpu1", quarantine="held by nobody knows whom") for gpu in ("GPU-1", "GPU-2"))
    stuck = replace(stuck, records=replace(stuck.records, slots=slots))
    assert told(stuck, row)[0] == (
        "no_capacity",
        "2 GPUs of NVIDIA A100 asked for, 0 are in service: 2 in quarantine",
    )
    hung = world(row, closed="fan")
    hung = replace(hung, seen=replace(hung.seen, readings=Readings(error="NVML does not answer")))
    code, text = told(hung, row)[0]
    assert code == "no_capacity"
    assert text.endswith("0 are in service: 1 closed by an admin, 1 that NVML cannot read")
    assert not [text for _, text in told(hung, row) if "booked by others" in text or "can be had" in text]


def test_a_booking_ahead_gets_its_cards_shortly_before_it_begins():
    """Two hours before nothing can be said of cards; a quarter of an hour before it can."""
    row = booking(start=at(120), until=at(180), instance="bob", owner="bob", gpus=1)
    assert told(world(row), row) == [
        ("not_yet", "its cards are chosen shortly before it begins, from 09:45 on"),
    ]
    soon = replace(row, start=at(10), until=at(70))
    assert [code for code, _ in told(world(soon), soon)] == ["can_begin"]

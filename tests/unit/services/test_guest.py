"""What a container may do for itself over its socket, on a whole site of fakes; the daemon's turns are ticks."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from dealings import give, go_on, policy
from fakes.faults import Fault
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.model.request import ReserveRequest
from lxgpu.services import ending
from lxgpu.services.guest import Guests
from lxgpu.services.guestworld import FRESH_S
from lxgpu.services.reserve import cancel, reserve
from lxgpu.services.tick import tick

POLICY = replace(policy(limit=2, no_show_s=600, give_up_after_s=900), timezone="Asia/Shanghai")


class Woken:
    """How often the daemon was woken."""

    times = 0

    def __call__(self) -> None:
        """Once more."""
        self.times += 1


@pytest.fixture
def site(tmp_path):
    """Two cards: alice holds one at low class, bob has none; noon in the lab's zone is 04:00 UTC."""
    site = make_site(tmp_path, gpus=2, policy=POLICY, actor="daemon")
    newcomer(site, "alice")
    newcomer(site, "bob")
    give(site, "alice", 1, class_name="low")
    return site


@pytest.fixture
def woken():
    """The daemon's bell."""
    return Woken()


@pytest.fixture
def guests(site, woken):
    """The uses of the sockets."""
    return Guests(lambda: site, woken)


def states(site, name):
    """What it holds."""
    return [row.state.value for row in site.inventory.read().held_by(name)]


def last(site, kind):
    """The newest event of a kind."""
    return next(event for event in site.inventory.events() if event.kind == kind)


def test_status_tells_of_the_container_and_of_the_host_in_numbers_only(guests):
    """Its cards with their time, how many are free; of the others nothing but that."""
    told = guests.status("alice")
    assert (told.total, told.free) == (2, 1)
    assert told.headline == "1 of 2 GPUs free; next at tomorrow 16:00"
    assert told.lines[0] == f"{told.headline} (times in Asia/Shanghai)"
    assert told.lines[1:] == (
        "alice holds 1 GPU",
        "  RTX 3090 (GPU-00000001), until tomorrow 16:00, whether it is used is not known",
    )
    assert guests.status("bob").gpus == ()
    assert "alice" not in str(guests.status("bob"))


def test_status_tells_the_use_as_it_is_judged(site, guests):
    """Idle since when, and until when it is left alone."""
    go_on(site, 15)
    assert ", idle since 16:00" in guests.status("alice").lines[2]
    guests.keep("alice", seconds=3600, reason="loading data")
    told = guests.status("alice")
    assert told.gpus[0].use == "idle"
    assert ", left to you until 17:00" in told.lines[2]
    assert told.lines[-1] == "kept until 17:00: loading data"


def test_status_tells_where_a_waiting_request_stands(site, guests):
    """Its place in the line and when it may begin, and no word of who is before it; once it begins there is none."""
    give(site, "alice", 1)
    newcomer(site, "carol")
    reserve(site, ReserveRequest("carol", "carol", 2, 3600))
    site.clock.sleep(1)
    guests.reserve("bob", gpus=2, seconds=3600, at=None, model="*")
    tick(site)
    told = guests.status("bob")
    (mine,) = told.reservations
    assert (mine.state, mine.position) == ("waiting", 2)
    assert mine.estimate is not None
    assert told.lines[-1].endswith(
        ", waiting since 16:00, number 2 in the line, likely from tomorrow 17:00 (an estimate, no promise)"
    )
    assert "carol" not in str(told)
    (first,) = [row for row in site.inventory.read().reservations if row.owner == "carol"]
    cancel(site, first.id)
    assert guests.status("bob").reservations[0].position == 1


def test_status_goes_on_without_lxd(site, guests):
    """What the inventory knows is told; how many are free is not known, and never zero."""
    site.engine.inject(Fault.DOWN, call="put_promises", after=100)
    with pytest.raises(LxgpuError):
        site.engine.put_promises({}, etag=None)
    told = guests.status("alice")
    assert told.free is None
    assert told.headline.startswith("an unknown number of 2 GPUs free")
    assert len(told.gpus) == 1


def test_status_shares_one_look_at_lxd(site, guests):
    """However many ask, LXD is asked once in a while."""
    guests.status("alice")
    before = site.engine.requests
    for name in ("alice", "bob") * 5:
        guests.status(name)
    assert site.engine.requests == before
    site.clock.sleep(FRESH_S + 0.1)
    guests.status("alice")
    assert site.engine.requests > before


def test_a_release_is_written_down_and_the_daemon_does_the_rest(site, guests, woken):
    """Accepted at once, in the owner's name; the card is free soon after."""
    answer = guests.release("alice", gpus=None, busy=False)
    assert (answer.state, answer.text, len(answer.slots)) == ("accepted", "1 GPU is on the way back", 1)
    assert states(site, "alice") == ["releasing"]
    assert woken.times == 1
    assert last(site, "releasing").actor == "alice (inside alice)"
    assert "is being given back" in guests.status("alice").lines[2]
    go_on(site, 8)
    assert states(site, "alice") == []
    assert last(site, "released").detail["outcome"] == "given back"


def test_a_release_of_nothing_is_done_at_once(guests, woken):
    """Nothing is looked at for it, and nobody woken."""
    assert guests.release("bob", gpus=None, busy=False).state == "done"
    assert woken.times == 0


def test_a_card_in_use_is_given_back_when_told_so(site, guests):
    """First the error with what to type inside; with `busy` it goes."""
    site.probe.run(site.engine.instance("alice").init_pid, site.engine.cards[0].nodes)
    with pytest.raises(LxgpuError) as caught:
        guests.release("alice", gpus=None, busy=False)
    assert (caught.value.code, caught.value.fix) == ("busy", "gpu release --yes ends what uses it")
    assert states(site, "alice") == ["active"]
    assert guests.release("alice", gpus=None, busy=True).state == "accepted"


def test_a_container_that_lxgpu_is_at_work_on_is_left_alone(site, guests):
    """No thread waits long for a lock."""
    site.locks.others.add("alice")
    with pytest.raises(LxgpuError, match="at work on alice"):
        guests.release("alice", gpus=None, busy=False)
    assert states(site, "alice") == ["active"]


def test_two_releases_at_once_do_not_meet(guests):
    """The second is told that the first is under way."""
    guests.release("alice", gpus=1, busy=False)
    with pytest.raises(LxgpuError) as caught:
        guests.release("alice", gpus=1, busy=False)
    assert caught.value.code == "conflict"


def test_what_is_given_back_stays_given_back(site, guests):
    """A booking whose cards are given back ends with them, and does not fetch them again."""
    guests.reserve("bob", gpus=1, seconds=3600, at=None, model="*")
    go_on(site, 5)
    assert states(site, "bob") == ["active"]
    guests.release("bob", gpus=None, busy=True)
    go_on(site, 15)
    assert states(site, "bob") == []
    assert guests.status("bob").reservations == ()


def test_extend_moves_the_end(site, guests, woken):
    """By so much more; told in the lab's zone."""
    before = site.inventory.read().held_by("alice")[0].until
    answer = guests.extend("alice", seconds=7200)
    assert answer.text.startswith("yours until tomorrow 18:00")
    assert (answer.until - before).total_seconds() == 7200
    assert last(site, "extended").actor == "alice (inside alice)"
    assert woken.times == 1


def test_keep_writes_the_reason_down(site, guests):
    """With whose word it was."""
    answer = guests.keep("alice", seconds=3600, reason="loading data")
    assert answer.text.startswith("until 17:00 CST no card of yours is taken for lying idle; 7h of keeping is left")
    assert answer.text.endswith("bookings, guarantees, higher classes and the end of a lease count all the same")
    assert [(row.instance, row.reason) for row in site.inventory.read().keeps] == [("alice", "loading data")]


def test_reserve_books_for_the_owner_and_leaves_the_beginning_to_the_daemon(site, guests, woken):
    """The victims are warned at its next turn, in the daemon's name and not in the asker's."""
    answer = guests.reserve("bob", gpus=2, seconds=3600, at=None, model="*")
    assert len(answer.reservations) == 1
    assert "2 GPUs" in answer.text
    assert "the cards come at 16:00" in answer.text
    assert (states(site, "alice"), woken.times) == (["active"], 1)
    assert last(site, "reserved").actor == "bob (inside bob)"
    go_on(site, 1)
    assert states(site, "alice") == ["warned"]
    assert last(site, "warned").actor == "daemon"
    assert "is taken for bob at 16:00" in guests.status("alice").lines[2]
    go_on(site, 12)
    assert states(site, "bob") == ["active", "active"]
    (claim,) = [line for line in guests.status("alice").lines if "claim" in line and ": " in line[:12]]
    assert "claim on 1 GPU (RTX 3090) since 16:00" in claim


def test_times_are_those_of_the_lab(guests):
    """`at` is read in the lab's zone, and refused when it is no time."""
    answer = guests.reserve("bob", gpus=1, seconds=3600, at="tomorrow 09:00", model="*")
    assert answer.reservations[0].start.isoformat() == "2027-03-02T01:00:00+00:00"
    assert "from tomorrow 09:00 until tomorrow 10:00" in answer.text
    begun = guests.reserve("bob", gpus=1, seconds=7200, at="15:00", model="*").reservations[0]
    assert begun.duration_s == 3600, "of a time that has begun, the rest"
    for text in ("soonish", "2020-01-01"):
        with pytest.raises(LxgpuError) as caught:
            guests.reserve("bob", gpus=1, seconds=3600, at=text, model="*")
        assert caught.value.code == "bad_time"


def test_a_reservation_inside_says_all_that_the_hosts_command_says(site, guests):
    """An end in place of a length, every week, a class, a note; the zone is told."""
    answer = guests.reserve("bob", gpus=1, seconds=None, until="20:00", at="18:00", model="*", note=" for  icml ")
    assert answer.reservations[0].duration_s == 7200
    assert answer.text.endswith("times in Asia/Shanghai")
    weekly = guests.reserve("bob", gpus=1, seconds=60, at="mon 09:00", model="*", weekly=True, class_name="low")
    assert len(weekly.reservations) > 2
    assert f"and {len(weekly.reservations) - 1} more, one a week" in weekly.text
    rows = {row.id: row for row in site.inventory.read().reservations}
    assert rows[answer.reservations[0].id].note == "for icml"
    assert {rows[one.id].class_name for one in weekly.reservations} == {"low"}


@pytest.mark.parametrize(
    ("words", "code", "fix"),
    [
        ({"at": "soonish", "seconds": 60}, "bad_time", "'tomorrow 09:00'"),
        ({"at": None, "seconds": None}, "usage", "gpu reserve 2 --for 4h"),
        ({"at": None, "seconds": 60, "until": "20:00"}, "usage", "gpu reserve 2 --for 4h"),
        ({"at": None, "seconds": 60, "weekly": True}, "usage", '--at "mon 09:00"'),
        ({"at": None, "seconds": 60, "class_name": "royal"}, "unknown_class", "; contact: gpu-admin@lab.example"),
        ({"at": None, "seconds": 60, "model": "H100*"}, "no_such_model", "gpu"),
    ],
)
def test_what_does_not_fit_says_what_to_type_inside(guests, words, code, fix):
    """Never a command of the host as if it were theirs."""
    with pytest.raises(LxgpuError) as caught:
        guests.reserve("bob", **{"gpus": 1, "model": "*", **words})
    assert caught.value.code == code
    assert fix in caught.value.fix
    assert "lxgpu " not in caught.value.fix.replace("your admin can: lxgpu ", "")


def test_what_can_never_be_held_is_said_before_anybody_waits(site, guests):
    """The limit is the policy's, exit 5; beyond the host's cards it is 7; else nothing is said against it."""
    assert guests.may("bob", gpus=2).state == "done"
    with pytest.raises(LxgpuError, match="bob may hold 2 GPUs, and not 3") as caught:
        guests.may("bob", gpus=3)
    assert (caught.value.status, caught.value.fix) == (5, "ask for 2 or fewer; contact: gpu-admin@lab.example")
    rich = replace(POLICY, defaults=replace(POLICY.defaults, limit=9))
    wide = replace(site, policy=lambda: rich)
    with pytest.raises(LxgpuError, match="this host has 2 GPUs, and not 3") as caught:
        Guests(lambda: wide, Woken()).may("bob", gpus=3)
    assert caught.value.status == 7


def test_a_keep_beyond_what_is_left_says_what_can_be_had(guests):
    """Word for word what to type."""
    with pytest.raises(LxgpuError) as caught:
        guests.keep("alice", seconds=9 * 3600, reason="loading data")
    assert caught.value.fix == 'gpu keep 8h --reason "what for"'
    guests.keep("alice", seconds=8 * 3600, reason="loading data")
    with pytest.raises(LxgpuError) as caught:
        guests.keep("alice", seconds=9 * 3600, reason="loading data")
    assert caught.value.fix == "book the time: gpu reserve 1 --for 4h"


def test_a_refusal_names_the_contact_and_stands_in_the_history_once(site, guests):
    """Who asks again and again does not fill it."""
    for _ in range(5):
        with pytest.raises(LxgpuError) as caught:
            guests.reserve("bob", gpus=3, seconds=3600, at=None, model="*")
        assert "gpu-admin@lab.example" in caught.value.fix
    refused = [event for event in site.inventory.events() if event.kind == "refused"]
    assert [(event.subject, event.actor) for event in refused] == [("bob", "bob (inside bob)")]
    assert (refused[0].detail["asked_gpus"], refused[0].detail["asked_s"]) == (3, 3600)
    assert "may have 2" in " ".join(guests.why("bob").lines)


NO_CHANGE = dict.fromkeys(("gpus", "seconds", "until", "at", "note"))


def test_edit_changes_ones_own_booking_as_one_thing(site, guests, woken):
    """Its end, its number, its note, its start; in the owner's name, and the daemon's turn does the rest."""
    (row,) = guests.reserve("alice", gpus=2, seconds=3600, at="tomorrow 09:00", model="*").reservations
    before = woken.times
    told = guests.edit("alice", row.id[:5], **NO_CHANGE | {"until": "12:00", "note": " a  longer talk "})
    (changed,) = told.reservations
    assert (changed.until - changed.start).total_seconds() == 3 * 3600
    assert (changed.gpus, changed.note, changed.start) == (2, "a longer talk", row.start)
    assert "until tomorrow 12:00" in told.text
    (changed,) = guests.edit("alice", row.id, **NO_CHANGE | {"gpus": 1, "at": "tomorrow 10:00"}).reservations
    assert changed.gpus == 1
    assert (changed.until - changed.start).total_seconds() == 3 * 3600
    (changed,) = guests.edit("alice", row.id, **NO_CHANGE | {"seconds": 600}).reservations
    assert (changed.until - changed.start).total_seconds() == 600
    assert woken.times == before + 3
    assert last(site, "edited").actor == "alice (inside alice)"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"at": "2027-02-01 09:00"}, "bad_time"), ({"until": "when"}, "bad_time"), ({"gpus": 3}, "over_limit"),
        ({"until": "tomorrow 08:00"}, "bad_time"), ({"until": "2027-02-01 09:00"}, "bad_time"),
    ],
)  # fmt: skip
def test_an_edit_that_does_not_fit_changes_nothing(site, guests, changes, code):
    """Refused whole, with a remedy for who sits inside."""
    (row,) = guests.reserve("alice", gpus=1, seconds=3600, at="tomorrow 09:00", model="*").reservations
    before = site.inventory.reservation(row.id)
    with pytest.raises(LxgpuError) as raised:
        guests.edit("alice", row.id, **NO_CHANGE | changes)
    assert raised.value.code == code
    assert "lxgpu" not in raised.value.fix.replace("your admin can: lxgpu", "")
    assert site.inventory.reservation(row.id) == before


def test_only_ones_own_reservation_can_be_edited(guests):
    """Another's is as unknown as one that never was."""
    (row,) = guests.reserve("bob", gpus=1, seconds=3600, at="tomorrow 09:00", model="*").reservations
    for wanted in (row.id, row.id[:4], "r", "", "r9999999"):
        with pytest.raises(LxgpuError) as raised:
            guests.edit("alice", wanted, **NO_CHANGE | {"gpus": 1})
        assert raised.value.code == "not_found"


def test_what_waits_has_no_length_from_a_start(site, guests):
    """It says to cancel it and reserve again."""
    reserve(site, ReserveRequest("bob", "bob", 1, 86400, class_name="normal"))
    (row,) = guests.reserve("alice", gpus=2, seconds=3600, at=None, model="*").reservations
    assert row.state == "waiting"
    with pytest.raises(LxgpuError) as raised:
        guests.edit("alice", row.id, **NO_CHANGE | {"seconds": 60})
    assert (raised.value.code, raised.value.fix) == ("usage", "cancel it, and reserve again")


def test_only_ones_own_reservation_can_be_cancelled(site, guests):
    """Another's is not there, by its whole id, by its beginning, and by an empty one; one's own may be cut short."""
    mine = guests.reserve("bob", gpus=1, seconds=3600, at="+4h", model="*").reservations[0].id
    theirs = reserve(site, ReserveRequest("alice", "alice", 1, 3600)).reservations[0].id
    for wanted in (theirs, theirs[:4], "zzz", ""):
        with pytest.raises(LxgpuError) as caught:
            guests.cancel("bob", wanted)
        assert caught.value.code == "not_found"
    assert site.inventory.reservation(theirs).open
    assert guests.cancel("bob", mine[:-1]).text.startswith(f"{mine} is cancelled")
    assert not site.inventory.reservation(mine).open


def test_why_tells_who_took_it_and_by_which_rule(site, guests):
    """As `lxgpu why` on the host, in lines."""
    guests.reserve("bob", gpus=2, seconds=3600, at=None, model="*")
    go_on(site, 12)
    told = " ".join(guests.why("alice").lines)
    assert "it runs" in told
    assert "bob" in told
    assert "priority" in told


def test_a_suspended_container_is_told_nothing(site, guests):
    """Its socket is about to go; until then it answers that the container is not in use."""
    ending.suspend(site, "alice", reason="thesis is done")
    for ask in (
        lambda: guests.status("alice"),
        lambda: guests.why("alice"),
        lambda: guests.release("alice", gpus=None, busy=True),
        lambda: guests.reserve("alice", gpus=1, seconds=60, at=None, model="*"),
        lambda: guests.cancel("nobody", "r1"),
    ):
        with pytest.raises(LxgpuError) as caught:
            ask()
        assert caught.value.code == "not_ready"


def test_a_fault_is_said_to_the_daemon(site, guests):
    """With the container it met."""
    guests.fault("alice", RuntimeError("no such thing"))
    assert site.say.lines[-1] == "a question of alice met a fault in lxgpu: RuntimeError: no such thing"


@pytest.mark.parametrize(("kind", "seconds"), [("lease", 86400), ("booking", 300)])
def test_what_was_said_of_an_end_goes_when_the_end_is_another(site, guests, kind, seconds):
    """From `gpu` and from the file; of the new end it is told again, when that comes near."""
    if kind == "booking":
        guests.reserve("bob", gpus=1, seconds=seconds, at=None, model="*")
        tick(site)
    name, told = {"lease": "alice", "booking": "bob"}[kind], f"{kind}_ends"
    until = site.inventory.read().held_by(name)[0].until

    def go_to(at):
        site.clock.sleep((at - site.clock.now()).total_seconds())
        go_on(site, 2)

    def said():
        return [one.kind for one in guests.status(name).notices]

    go_to(until - timedelta(seconds=seconds / 20))
    assert told in said()
    assert f" {told} [" in site.board.files[name, "notice"]
    guests.extend(name, seconds=seconds)
    assert told not in said()
    tick(site)
    assert told not in site.board.files[name, "notice"]
    go_to(until + timedelta(seconds=seconds * 0.95))
    assert told in said()


def test_a_word_on_a_booking_that_is_cancelled_goes_with_it(site, guests):
    """What never begins is not announced any more; other news stay."""
    (row,) = guests.reserve("alice", gpus=1, seconds=3600, at="+1h", model="*").reservations
    site.clock.sleep((row.start - site.clock.now()).total_seconds() - 10)
    go_on(site, 2)
    assert "booking_starts" in site.board.files["alice", "notice"]
    guests.cancel("alice", row.id)
    tick(site)
    assert "booking_starts" not in site.board.files["alice", "notice"]


def test_why_names_the_cards_as_gpu_does(site, guests):
    """No whole UUID, and no fact about a card without its name."""
    guests.reserve("bob", gpus=2, seconds=3600, at=None, model="*")
    tick(site)
    (card,) = guests.status("alice").gpus
    lines = guests.why("alice").lines
    assert [line for line in lines if f"RTX 3090 ({card.name}): alice holds it" in line], lines
    assert [line for line in lines if f"RTX 3090 ({card.name}): it goes to bob's" in line], lines
    assert card.uuid not in " ".join(lines)


def test_a_number_in_all_is_not_told_as_so_many_more(guests):
    """`gpu reserve 9` asks for nine, with what is held."""
    with pytest.raises(LxgpuError) as caught:
        guests.reserve("alice", gpus=9, seconds=3600, at=None, model="*")
    assert "alice may have 2 GPUs, asks for 9" in (told := "; ".join([caught.value.brief, *caught.value.why]))
    assert "more" not in told
    guests.reserve("bob", gpus=1, seconds=3600, at="+2h", model="*")
    with pytest.raises(LxgpuError) as caught:
        guests.reserve("bob", gpus=2, seconds=3600, at="+2h", model="*")
    assert "has 1 from 18:00 on, asks for 2 more" in "; ".join([caught.value.brief, *caught.value.why])

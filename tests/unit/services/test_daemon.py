"""The daemon in virtual time, over a site of fakes: what fails stays with its part, what changes is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.services import ending
from lxgpu.services.daemon import PUBLISH_S, Callbacks, Daemon
from lxgpu.services.daemonfigures import BOUNDS_S
from lxgpu.services.identity import ensure_identity
from lxgpu.services.loop import loop
from lxgpu.services.policywatch import PolicyNews
from lxgpu.services.publish import published
from lxgpu.services.statusfile import PauseView
from lxgpu.services.ticked import Ticked


class Policy:
    """`PolicyWatch` whose news are laid out by the test."""

    def __init__(self):
        self.news, self.error, self.anew = [], "", []

    def look(self, *, anew=False):
        """The next piece of news."""
        self.anew.append(anew)
        return self.news.pop(0) if self.news else None


class House:
    """A daemon and all that surrounds it; `ticks` are laid out by the test: a Ticked, or an error."""

    def __init__(self, folder):
        self.site = make_site(folder, gpus=2)
        ensure_identity(self.site)
        self.policy, self.pause, self.ticks = Policy(), None, []
        self.said, self.events, self.lines, self.published, self.calls = [], [], [], [], []
        self.made = self.unmade = 0
        self.others, self.publishing, self.late = {}, None, []
        self.shown, self.found, self.alerted = [], None, []
        self.daemon = Daemon(
            make_site=self.make,
            tick=self.tick,
            policy=self.policy,
            pause=lambda: self.pause,
            publish=self.publish,
            clock=self.site.clock,
            say=self.said.append,
            pid=4711,
            callbacks=Callbacks(
                alive=self.lines.append,
                told=self.events.append,
                others=self.others,
                late=self.late.append,
                alerts=lambda _site, found: self.alerted.append(found),
            ),
        )

    def make(self):
        """The site, opened anew; not at the first `unmade` times."""
        if self.unmade:
            self.unmade -= 1
            raise away()
        self.made += 1
        return self.site

    def tick(self, site, *, paused=False):
        """What the test laid out, else that nothing was to do."""
        self.calls.append((site.clock.monotonic(), paused))
        answer = self.ticks.pop(0) if self.ticks else Ticked(site.clock.now())
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer

    def publish(self, site, view):
        """status.json."""
        if self.publishing is not None:
            raise self.publishing
        self.published.append((site.clock.monotonic(), view))
        self.shown.append(site)
        return self.found

    def run(self, seconds):
        """The loop, for so long."""
        until = self.site.clock.monotonic() + seconds
        loop(
            self.daemon.turn,
            clock=self.site.clock,
            wait=self.site.clock.sleep,
            stopping=lambda: self.site.clock.monotonic() > until,
        )


@pytest.fixture
def house(tmp_path):
    """Nothing has happened yet."""
    return House(tmp_path)


def away():
    """What a tick says while LXD is stopped."""
    return LxgpuError("unavailable", "LXD cannot be reached", why="nobody listens")


def test_lxd_away_for_an_hour_is_two_lines_and_seventy_ticks(house):
    """It is tried after 1 s, 2 s, … a minute at most, said once, and all goes on when LXD is back."""
    house.ticks = [away() for _ in range(70)]
    house.run(3600)
    assert house.said == ["tick: LXD cannot be reached; nobody listens"]
    assert [at for at, _ in house.calls[:7]] == pytest.approx([0, 1, 3, 7, 15, 31, 63])
    assert 60 <= len(house.calls) <= 70
    assert house.daemon.view.troubles == ("tick: LXD cannot be reached; nobody listens",)
    house.ticks.clear()
    house.run(61)
    assert house.said[-1] == "tick: well again"
    assert house.daemon.view.troubles == ()


def test_a_fault_in_the_tick_does_not_end_the_loop(house):
    """A ValueError somewhere is told as a fault, and the next tick is taken."""
    house.ticks = [ValueError("odd")]
    house.run(30)
    assert house.said == ["tick: a fault in lxgpu: ValueError: odd", "tick: well again"]
    assert len(house.calls) > 2


@pytest.mark.parametrize("code", ["superseded", "other_inventory", "inventory_newer"])
def test_after_a_take_over_it_ends_itself(house, code):
    """A daemon that slept while another inventory took over writes nothing more."""
    house.ticks = [Ticked(house.site.clock.now()), LxgpuError(code, "a newer inventory has taken over")]
    with pytest.raises(LxgpuError, match="taken over"):
        house.run(60)
    assert len(house.calls) == 2


def test_a_replaced_inventory_is_opened_anew(house):
    """`inventory restore` under a running daemon: the next tick works with the file that is there now."""
    house.ticks = [Ticked(house.site.clock.now()), LxgpuError("inventory_lost", "the file was replaced")]
    house.run(30)
    assert house.made == 2
    assert house.said[-1] == "tick: well again"


def test_paused_it_ticks_and_takes_nothing_and_says_both_ends_once(house):
    """The tick hears of it, the log and the status too."""
    house.run(15)
    house.pause = PauseView("root", "a driver update", house.site.clock.now())
    house.run(35)
    assert house.daemon.view.paused == house.pause
    house.pause = None
    house.run(15)
    assert [paused for _, paused in house.calls] == [False, False, True, True, True, True, False, False]
    assert house.said == ["paused by root: a driver update", "goes on"]
    assert any("a driver update" in line for line in house.lines)


def test_news_of_the_policy_is_written_into_the_history_and_kept_until_it_is_there(house):
    """Refused while LXD is away: the event is not lost, and is written once."""
    house.policy.news = [PolicyNews("policy_refused", "policy.yaml:3:1: odd", {"mistakes": ["odd"]})]
    house.policy.error = "policy.yaml has a mistake"
    house.unmade = 2
    house.run(30)
    kinds = [event.kind for event in house.site.inventory.events()]
    assert kinds.count("policy_refused") == 1
    assert house.said[0] == "policy refused: policy.yaml:3:1: odd"
    assert house.daemon.view.policy.error == "policy.yaml has a mistake"
    assert not house.daemon.view.policy.ok


def test_sighup_reads_the_policy_whatever_it_looks_like(house):
    """Once, at the next turn."""
    house.daemon.turn()
    house.daemon.reload()
    house.daemon.turn()
    house.daemon.turn()
    assert house.policy.anew == [False, True, False]


def test_every_line_of_history_is_told_once_whoever_wrote_it(house):
    """The journal hears what the daemon did and what commands did, not what was before its start."""
    house.site.clock.sleep(60)
    newcomer(house.site, "alice")
    house.site.clock.sleep(60)
    late = Daemon(
        make_site=house.make,
        tick=house.tick,
        policy=house.policy,
        pause=lambda: None,
        publish=house.publish,
        clock=house.site.clock,
        say=house.said.append,
        pid=1,
        callbacks=Callbacks(told=house.events.append),
    )
    late.turn()
    assert house.events == []
    newcomer(house.site, "bob")
    house.site.clock.jump(-7200)
    newcomer(house.site, "carol")
    late.turn()
    late.turn()
    assert [event.subject for event in house.events if event.kind == "created"] == ["bob", "carol"]


def test_not_a_line_of_history_is_lost_however_many_there_are_between_two_turns(house):
    """An import of a year's history, or a class of a hundred."""
    house.daemon.turn()
    for number in range(7):
        with house.site.write() as tx:
            for part in range(500):
                tx.event("seen", f"{number}-{part}")
    house.daemon.turn()
    seen = [event.subject for event in house.events if event.kind == "seen"]
    assert seen == [f"{number}-{part}" for number in range(7) for part in range(500)]


def test_after_an_older_inventory_was_put_in_place_its_new_lines_are_told(house, tmp_path):
    """Its numbers begin below those that were told."""
    for _ in range(5):
        newcomer(house.site, "alice")
        ending.delete(house.site, "alice", purge=True)
    house.daemon.turn()
    older = make_site(tmp_path / "older").inventory
    for number in range(2):
        with older.write(actor="root", now=house.site.clock.now()) as tx:
            tx.event("restored", f"backup{number}")
    tail, told = house.daemon._history, []  # noqa: SLF001 -- the same one, over another file
    tail.tell(replace(house.site, inventory=older), told.append)
    with older.write(actor="root", now=house.site.clock.now()) as tx:
        tx.event("seen", "alice")
    tail.tell(replace(house.site, inventory=older), told.append)
    assert [event.subject for event in told] == ["alice"]


def test_a_part_that_goes_on_with_a_trouble_is_not_left_alone(house):
    """One container's socket cannot be made: said once, and the others are served at each turn."""
    served = []

    def part(site):
        served.append(site.clock.monotonic())
        return ("carol: its folder is full",) if len(served) < 10 else ()

    house.others["guest sockets"] = part
    house.run(120)
    assert len(served) == len(house.calls)
    assert house.said == [
        "trouble: guest sockets: carol: its folder is full",
        "over: guest sockets: carol: its folder is full",
    ]


def test_status_is_published_when_something_changed_and_every_half_minute(house):
    """A quiet hour writes the file 120 times, not 360; a change is there at once."""
    house.run(3600)
    quiet = len(house.published)
    assert 3600 / PUBLISH_S <= quiet + 1 <= 3600 / PUBLISH_S + 3
    newcomer(house.site, "alice")
    house.daemon.turn()
    house.ticks = [Ticked(house.site.clock.now(), did=1)]
    house.daemon.turn()
    house.daemon.turn()
    assert len(house.published) == quiet + 2


def test_what_is_published_is_looked_at_for_alerts_also_while_lxd_is_away(house):
    """Each time, with what stands in it."""
    house.found, house.ticks = published(house.site, house.daemon.view), [away() for _ in range(70)]
    house.run(600)
    assert house.alerted == [house.found] * len(house.published)
    assert len(house.alerted) > 10


def test_a_status_that_cannot_be_written_stops_nothing(house):
    """A full disk: said once, tried again, and the ticks go on."""
    house.publishing = LxgpuError("inventory_storage", "status.json cannot be written", why="No space left on device")
    house.run(300)
    assert len(house.calls) > 29
    assert house.said == ["status.json: status.json cannot be written; No space left on device"]
    house.publishing = None
    house.run(70)
    assert house.said[-1] == "status.json: well again"
    assert house.published


def test_another_part_that_fails_stops_no_tick(house):
    """The containers' sockets may be out of order; the cards are looked after all the same."""

    def broken(_site):
        raise OSError("no more descriptors")

    house.others["guest sockets"] = broken
    house.run(120)
    assert len(house.calls) >= 12
    assert house.said == ["guest sockets: a fault in lxgpu: OSError: no more descriptors"]
    assert house.daemon.view.troubles == ("guest sockets: a fault in lxgpu: OSError: no more descriptors",)


def test_every_turn_is_a_sign_of_life_with_a_line_for_people(house):
    """Systemd's watchdog and `systemctl status`."""
    house.ticks = [away(), Ticked(house.site.clock.now())]
    house.run(25)
    assert len(house.lines) == len(house.calls)
    assert house.lines[0] == "tick: LXD cannot be reached; nobody listens"
    assert house.lines[1].startswith("all is well; last tick ")


def test_at_its_end_it_publishes_that_nobody_is_at_work(house):
    """Readers do not take an old file for a living daemon."""
    house.run(1)
    house.daemon.end()
    view = house.published[-1][1]
    assert (view.running, view.pid, view.next_at) == (False, None, None)
    assert view.ticked_at is not None


def test_a_look_that_takes_long_is_told_while_it_lasts(house):
    """LXD hangs: whoever asks hears since when there was none, and that is published anew every half minute."""
    house.run(15)
    last, told = house.daemon.view.ticked_at, []

    def hangs():
        for _ in range(14):
            house.site.clock.sleep(5)
            house.daemon.watch()
            told.append(len(house.late))
        return Ticked(house.site.clock.now())

    house.ticks = [hangs]
    house.daemon.turn()
    assert told == [0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2]
    assert len(house.late[0].troubles) == 1
    assert "tick: a look has been going on since" in house.late[0].troubles[0]
    assert f"the last one ended at {last:%Y-%m-%dT%H:%M:%SZ}" in house.late[0].troubles[0]
    assert house.daemon.view.troubles == ()
    before = len(house.published)
    house.daemon.turn()
    assert [view.troubles for _, view in house.published[before:]] == [()]
    house.daemon.watch()
    assert len(house.late) == 2


def test_lxd_that_did_not_answer_is_not_waited_for_once_more_to_tell_so(house):
    """status.json has the trouble at once, with what is known without LXD."""
    house.ticks = [away()]
    house.daemon.turn()
    site, view = house.shown[-1], house.published[-1][1]
    assert view.troubles == ("tick: LXD cannot be reached; nobody listens",)
    for ask in (site.engine.gpus, lambda: site.engine.instances(with_state=False), lambda: site.engine.pool("p")):
        with pytest.raises(LxgpuError, match="cannot be reached"):
            ask()
    found = published(site, view)
    assert [problem.text for problem in found.status.problems] != []
    assert found.daemon == view
    house.site.clock.sleep(2)
    house.daemon.turn()
    assert house.shown[-1].engine is house.site.engine


def test_what_it_counts_of_itself_is_published(house):
    """How long its looks took, failed ones too; which sections failed how often; what came about."""

    def slow():
        house.site.clock.sleep(3)
        return Ticked(house.site.clock.now(), failed=("health", "notices"))

    house.ticks = [slow, slow, away()]
    with house.site.write() as tx:
        tx.event("refused", "bob")
        tx.event("refused", "alice")
    house.run(25)
    figures = house.published[-1][1].figures
    assert figures.ticks == len(house.calls)
    assert (figures.ticks_s, figures.within[BOUNDS_S.index(2.5)]) == (6.0, figures.ticks - 2)
    assert figures.failures == {"health": 2, "notices": 2, "tick": 1}
    assert figures.events == {"refused": 2}

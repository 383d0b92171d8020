"""The commands around reservations as people type them, on a whole site of fakes in the place of the real one."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from dealings import policy, two_at_work, type_at, work
from fakes.site import newcomer
from fakes.system import FakeClock
from json_shapes import faults

from lxgpu import resident, wiring
from lxgpu.cli import main
from lxgpu.services import pausing
from lxgpu.services.statusfile import DaemonView, PauseView
from lxgpu.services.tick import tick

POLICY = policy(limit=4, admins=("root", "carol"), no_show_s=3600, give_up_after_s=900)


class Town:
    """A site, and lxgpu typed there."""

    def __init__(self, site, capsys) -> None:
        self.site, self._capsys = site, capsys

    def __call__(self, *words, status=0):
        """Run a command; gives what it wrote to stdout and stderr."""
        ended = main.run(words)
        shown = self._capsys.readouterr()
        assert ended == status, f"lxgpu {' '.join(words)}: {ended}\n{shown.err}"
        return shown.out, shown.err

    def items(self, *words, noun, status=0):
        """The items of a command with -o json, each as promised."""
        out, _ = self(*words, "-o", "json", status=status)
        document = json.loads(out)
        assert document["schema"] == f"lxgpu.{noun}/v1"
        assert [text for item in document["items"] for text in faults(noun, item)] == []
        return document["items"]

    def works(self, name):
        """Somebody computes on all cards."""
        for gpu in self.site.engine.cards:
            work(self.site, name, gpu)
            self.site.probe.utilization[gpu.uuid] = 90
        self.go_on(1)

    def go_on(self, seconds):
        """Let time pass, with a tick each second."""
        for _ in range(seconds):
            self.site.clock.sleep(1)
            tick(self.site)


@pytest.fixture
def lxgpu(tmp_path, monkeypatch, capsys):
    """Alice works on both cards at low class; bob and carol have none. A daemon runs."""
    site = two_at_work(tmp_path, rules=POLICY, clock=FakeClock(datetime.now(UTC)))
    newcomer(site, "carol")
    type_at(site, monkeypatch)
    return Town(site, capsys)


def test_the_plan_is_what_then_happens(lxgpu):
    """--dry-run writes nothing and names victim and time; then bob has the cards, and alice a claim to them."""
    version = lxgpu.site.inventory.read().version
    (plan,) = lxgpu.items("reserve", "bob", "--gpus", "2", "--for", "4h", "--dry-run", noun="plans")
    assert (plan["decision"], plan["victims"]) == ("granted_after_preemption", ["alice"])
    assert {step["do"] for step in plan["steps"]} == {"warn", "release", "attach", "start", "finish", "return"}
    assert lxgpu.site.inventory.read().version == version
    shown, _ = lxgpu("reserve", "bob", "--gpus", "2", "--for", "4h", "--dry-run")
    assert shown.startswith("granted, others yield: at ")
    assert "; alice must yield\n" in shown
    assert "T" not in re.sub(r"[A-Z]{3,}|TERM|GPU-\S+", "", shown.replace("AT", ""))  # times are the lab's, no RFC 3339
    (made,) = lxgpu.items("reserve", "bob", "--gpus", "2", "--for", "4h", noun="reservations")
    assert (made["state"], made["instance"], made["gpus"]) == ("preparing", "bob", 2)
    assert [(one["instance"], one["owed"]) for one in made["displaced"]] == [("alice", None)] * 2
    lxgpu.go_on(12)
    (now, claim) = lxgpu.items("reservations", noun="reservations")
    assert (now["state"], len(now["slots"])) == ("active", 2)
    assert [(one["instance"], one["reason"], one["owed"]) for one in now["displaced"]] == [
        ("alice", "priority", True)
    ] * 2
    assert (claim["kind"], claim["instance"], claim["position"]) == ("return", "alice", 1)


def test_why_after_it_names_all_that_alice_asks(lxgpu):
    """Bob's reservation, the rule, the numbers, when the cards return: for people in one line, for programs by code."""
    (made,) = lxgpu.items("reserve", "bob", "--gpus", "2", "--for", "4h", noun="reservations")
    lxgpu.go_on(12)
    told = {item["code"]: item for item in lxgpu.items("why", "alice", noun="reasons")}
    assert f"bob's reservation {made['id']}" in told["claim"]["text"]
    assert told["claim"]["rule"] == "priority"
    assert "class low (10) yields to class normal (50)" in told["claim"]["text"]
    assert "when bob's time ends at" in told["claim"]["text"]
    (state, *gave) = lxgpu.items("why", made["id"][:5], noun="reasons")
    assert (state["code"], gave[0]["code"]) == ("active", "displaced")
    assert lxgpu.items("why", "bob", noun="reasons")[-1]["code"] == "active"
    assert re.search(r"^claims +2 RTX 3090, since ", lxgpu("show", "alice")[0], re.MULTILINE)
    assert f"{made['id']}: 2 GPUs, active, " in lxgpu("show", "bob")[0]
    _, words = lxgpu("why", "r0000000", status=3)
    assert "no container, no card and no reservation r0000000" in words


def test_who_cannot_have_cards_now_waits_and_is_told(lxgpu):
    """Exit 0: the place, why, and what to do; the queue and `why` tell what would have to change."""
    lxgpu("reserve", "bob", "--gpus", "2", "--for", "4h")
    lxgpu.go_on(12)
    lxgpu.works("bob")
    out, words = lxgpu("reserve", "carol", "--gpus", "1", "--for", "1h", "--note", "a paper")
    assert "waiting" in out
    assert re.search(r"1 GPU for carol waits as number \d in the line, likely from ", words)
    assert "lxgpu reservations --queue shows the line" in words
    queue = lxgpu.items("reservations", "--queue", noun="reservations")
    assert [item["instance"] for item in queue] == ["alice", "carol"]
    assert [item["position"] for item in queue] == [1, 2]
    (plan,) = lxgpu.items("reserve", "carol", "--gpus", "1", "--for", "1h", "--dry-run", noun="plans")
    assert plan["decision"] == "waiting"
    codes = [item["code"] for item in lxgpu.items("why", queue[1]["id"], noun="reasons")]
    assert codes[0] == "waiting"
    assert {"before", "need_not_yield"} <= set(codes)
    shown, _ = lxgpu("reservations")
    assert shown.splitlines()[0] == "1 running, 2 waiting"
    assert "a paper" in shown
    (only,) = lxgpu.items("reservations", "carol", noun="reservations")
    assert only["note"] == "a paper"


def test_a_booking_ahead_is_shown_changed_and_given_up(lxgpu):
    """As one thing; what does not fit is refused whole; after it nothing is left."""
    (made,) = lxgpu.items(
        *("reserve", "bob", "--gpus", "2", "--at", "tomorrow 12:00", "--for", "2h"), noun="reservations"
    )
    assert (made["state"], made["displaced"]) == ("scheduled", [])
    shown, words = lxgpu("reservation", "show", made["id"][:6])
    assert shown.startswith(f"{made['id']}: scheduled booking of bob\n")
    _, words = lxgpu("reservation", "edit", made["id"], "--gpus", "1", "--for", "3h", "--note", "shorter")
    assert "1 GPU is booked for bob from tomorrow" in words
    (found,) = lxgpu.items("reservations", "bob", noun="reservations")
    assert (found["gpus"], found["note"]) == (1, "shorter")
    assert lxgpu("reservation", "edit", made["id"], "--gpus", "9", "--dry-run", status=5)
    assert "usage" in lxgpu("reservation", "edit", made["id"], status=2)[1]
    ics, _ = lxgpu("reservations", "--ics")
    assert f"UID:{made['id']}@host1.lxgpu" in ics
    timeline, _ = lxgpu("reservations", "--calendar")
    assert "bob" in timeline
    assert "alice" in timeline
    (gone,) = lxgpu.items("reservation", "cancel", made["id"], noun="reservations")
    assert gone["state"] == "cancelled"
    assert lxgpu.items("reservations", noun="reservations") == []
    assert [item["id"] for item in lxgpu.items("reservations", "--all", noun="reservations")] == [made["id"]]
    assert "already" in lxgpu("reservation", "cancel", made["id"], status=6)[1]


def test_a_series_is_made_and_given_up_as_one(lxgpu):
    """Four weeks of a month; each is a booking of its own."""
    made = lxgpu.items(
        *("reserve", "bob", "--gpus", "1", "--at", "+1h", "--for", "2h", "--weekly"), noun="reservations"
    )
    assert len(made) >= 4
    gone = lxgpu.items("reservation", "cancel", made[0]["id"], "--series", noun="reservations")
    assert len(gone) == len(made)


def test_longer_and_kept(lxgpu):
    """Both say what came of it, and rehearse."""
    lxgpu("extend", "alice", "--for", "2h", "--dry-run")
    _, words = lxgpu("extend", "alice", "--for", "2h")
    assert "alice: until" in words
    (row,) = lxgpu.items("keep", "alice", "--for", "1h", "--reason", "a long think", noun="keeps")
    assert (row["instance"], row["reason"]) == ("alice", "a long think")
    assert "kept" in [item["code"] for item in lxgpu.items("why", "alice", noun="reasons")]
    assert re.search(r"^kept +until .*: a long think$", lxgpu("show", "alice")[0], re.MULTILINE)
    assert lxgpu("keep", "alice", "--for", "9h", "--reason", "more", "--dry-run", status=5)
    assert "over_keep" in lxgpu("keep", "alice", "--for", "9h", "--reason", "more", status=5)[1]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--for", "4h"), 2, "Missing option '--gpus'"),
        (("--gpus", "+1", "--for", "4h"), 2, "how many cards in all"),
        (("--gpus", "2"), 2, "say for how long"),
        (("--gpus", "2", "--for", "4h", "--weekly"), 2, "--weekly needs to know when"),
        (("--gpus", "2", "--for", "4h", "--no-warning"), 2, "--no-warning needs --reason"),
        (("--gpus", "2", "--for", "4h", "--reason", "x"), 2, "--reason goes with --no-warning"),
        (("--gpus", "2", "--for", "4h", "--host", "moon"), 3, "there is no host moon"),
        (("--gpus", "2", "--for", "4h", "--model", "H100"), 3, "no card's model matches"),
        (("--gpus", "9", "--for", "4h"), 5, "contact: gpu-admin@lab.example"),
        (("--gpus", "2", "--for", "4h", "--now", "--reason", "the boss"), 2, "add --yes"),
    ],
)
def test_what_makes_no_sense_is_refused_and_leaves_nothing(lxgpu, words, status, said):
    """Each with its own status and the way out."""
    before = lxgpu.site.inventory.read().reservations
    _, shown = lxgpu("reserve", "bob", *words, status=status)
    assert said in shown
    assert lxgpu.site.inventory.read().reservations == before


def test_without_a_warning_is_an_admins(lxgpu, monkeypatch):
    """Root and who the policy names, with --yes; who came by sudo and is no admin is told so."""
    site = lxgpu.site
    words = ("reserve", "bob", "--gpus", "1", "--for", "1h", "--no-warning", "--reason", "the demo is now", "--yes")
    monkeypatch.setattr(wiring, "site", lambda say, **_: replace(site, say=say, actor="eve (sudo)"))
    assert "eve may not take cards without a warning" in lxgpu(*words, status=4)[1]
    monkeypatch.setattr(wiring, "site", lambda say, **_: replace(site, say=say, actor="carol (sudo)"))
    (made,) = lxgpu.items(*words, noun="reservations")
    assert site.inventory.reservation(made["id"]).no_warning == "the demo is now"
    (event,) = [event for event in site.inventory.events(subject="bob") if event.kind == "reserved"]
    assert (event.actor, event.detail["no_warning"]) == ("carol (sudo)", "the demo is now")


def test_without_a_daemon_it_is_said_how_to_run_one(lxgpu, monkeypatch):
    """A booking that nobody looks after is said to be one."""
    monkeypatch.setattr(resident, "status", lambda: DaemonView(running=False))
    _, words = lxgpu("reserve", "bob", "--gpus", "1", "--at", "+2h", "--for", "1h")
    assert "systemctl start lxgpu, or lxgpu daemon run" in words


def test_wait_ends_when_the_cards_are_there(lxgpu):
    """The command itself carries on what it began, daemon or not."""
    (made,) = lxgpu.items("reserve", "bob", "--gpus", "1", "--for", "1h", "--wait", noun="reservations")
    assert made["state"] == "active"


@pytest.mark.parametrize(
    "words",
    [
        ("gpus",),
        ("status",),
        ("ls",),
        ("reservations", "--queue"),
        ("why", "alice"),
        ("reserve", "bob", "--gpus", "1", "--for", "1h"),
        ("reserve", "bob", "--gpus", "1", "--for", "1h", "--dry-run"),
    ],
    ids=" ".join,
)
def test_a_pause_is_told_once_wherever_one_looks(lxgpu, words):
    """Who, since when, why, and what ends it; and nothing of it when there is none."""
    run_dir, since = lxgpu.site.settings.run_dir, lxgpu.site.clock.now()
    assert "paused" not in lxgpu(*words)[1]
    pausing.pause(run_dir, PauseView(who="root", why="new driver", when=since))
    _, told = lxgpu(*words)
    line = f"warning: paused by root since {since:%H:%M} (new driver): nothing is taken until lxgpu daemon resume"
    assert told.splitlines().count(line) == 1


def test_a_pause_without_a_reason_is_refused(lxgpu):
    """Everybody who looks reads it, so it says something."""
    _, told = lxgpu("daemon", "pause", "--reason", "  ", status=2)
    assert told.startswith("error[usage]")
    assert pausing.paused(lxgpu.site.settings.run_dir) is None


def test_what_starts_the_daemon_depends_on_where(lxgpu, monkeypatch):
    """A lab has no unit of systemd."""
    monkeypatch.setattr(resident, "status", lambda: DaemonView(running=False))
    monkeypatch.setenv("LXGPU_LAB", "x")
    assert "lxgpu daemon run" in lxgpu("daemon", "status", status=8)[0]
    assert lxgpu("reserve", "bob", "--gpus", "1", "--for", "1h")[1].splitlines()[-1].endswith(": lxgpu daemon run")
    monkeypatch.delenv("LXGPU_LAB")
    assert "systemctl start lxgpu" in lxgpu("daemon", "status", status=8)[0]


@pytest.mark.parametrize("words", [("reservations",), ("history", "--subject"), ("ps",)], ids=" ".join)
def test_an_unknown_name_is_said_to_be_one(lxgpu, words):
    """With what was probably meant; one that is known and has nothing there is no mistake, nor is one of the past."""
    _, told = lxgpu(*words, "alcie", status=3)
    assert told.startswith("error[not_found] there is no container alcie")
    assert "did you mean alice?" in told
    lxgpu(*words, "carol")
    with lxgpu.site.write() as tx:
        tx.event("deleted", "eve")
    lxgpu(*words, "eve")


def test_why_of_a_name_that_waits_says_for_what(lxgpu):
    """The same lines as `why ID` has: place, reason, and what would have to change."""
    lxgpu("reserve", "bob", "--gpus", "2", "--for", "4h")
    lxgpu.go_on(12)
    lxgpu.works("bob")
    (made,) = lxgpu.items("reserve", "carol", "--gpus", "2", "--for", "1h", noun="reservations")
    assert made["state"] == "waiting"
    by_id = [(one["code"], one["text"]) for one in lxgpu.items("why", made["id"], noun="reasons")]
    by_name = [(one["code"], one["text"]) for one in lxgpu.items("why", "carol", noun="reasons")]
    assert by_name[-len(by_id) :] == by_id
    assert len(by_id) > 1


def test_the_answers_to_reserve_and_extend_say_the_no_show_rule(lxgpu):
    """Whoever books hears at once that nobody may stay away; with --dry-run and in JSON nothing of it is on stdout."""
    rule = "log in or use them within 1h, or they go back"
    assert rule in lxgpu("reserve", "bob", "--gpus", "2", "--for", "4h")[1]
    lxgpu.go_on(12)
    assert rule in lxgpu("extend", "bob", "--for", "1h")[1]
    assert rule not in lxgpu("extend", "bob", "--for", "1h", "-o", "json")[1]


def test_history_tells_seconds_and_leaves_notices_out(lxgpu):
    """Today's times have their seconds; what people were told is there with --all, -v, -o wide, and for programs."""
    lxgpu("reserve", "bob", "--gpus", "2", "--for", "4h")
    lxgpu.go_on(12)
    rows = [line.split() for line in lxgpu("history")[0].splitlines()[1:]]
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", row[0]) for row in rows)
    assert "told" not in {row[1] for row in rows}
    for words in (("history", "--all"), ("-v", "history"), ("history", "-o", "wide"), ("history", "-o", "json")):
        assert "booking_ready" in lxgpu(*words)[0]
    few = lxgpu("history", "--subject", "bob", "--limit", "2")[0].splitlines()[1:]
    assert [line.split()[1] for line in few] == ["started", "attached"], "what is left out takes nobody's place"


def test_no_reason_is_told_twice(lxgpu):
    """Two cards are told apart, and numbers that the sentence names stand there alone."""
    lxgpu("reserve", "bob", "--gpus", "2", "--for", "4h")
    lxgpu.go_on(12)
    lines = lxgpu("why", "bob")[0].splitlines()
    assert len(set(lines)) == len(lines) == 5
    told = lxgpu("why", "alice")[0]
    assert "class low (10) yields to class normal (50)" in told
    assert "priority 10" not in told
    assert "numbers" not in lxgpu("history", "--all")[0]
    (claim,) = [item for item in lxgpu.items("history", noun="events") if item["kind"] == "displaced"]
    assert claim["detail"]["for"] == "bob"


def test_one_tick_says_what_it_did(lxgpu):
    """A line for each event, and the next time as people write it; for programs as the daemon's ticks always are."""
    site = lxgpu.site
    site.settings.policy.parent.mkdir(parents=True, exist_ok=True)
    site.settings.policy.write_text("version: 1\n")
    lxgpu("daemon", "run", "--once")
    shown = lxgpu("daemon", "run", "--once")[0]
    assert shown.splitlines()[0] == "nothing was due"
    lxgpu("release", "alice", "--all", "--yes")
    lxgpu("reserve", "bob", "--gpus", "1", "--for", "1h", "--at", "+1m")
    with site.write() as tx:
        (row,) = tx.records.reservations
        tx.put(replace(row, start=site.clock.now()))
    shown = lxgpu("daemon", "run", "--once")[0]
    assert re.search(r"^\d\d:\d\d:\d\d preparing bob by daemon", shown, re.MULTILINE), shown
    assert re.search(r"^NEXT: +(?:tomorrow )?\d\d:\d\d$", shown, re.MULTILINE), shown
    (ticked,) = json.loads(lxgpu("daemon", "run", "--once", "-o", "json")[0])["items"]
    assert set(ticked) == {"at", "next_at", "did", "troubles", "failed"}


def test_one_tick_with_troubles_ends_with_findings(lxgpu):
    """A timer hears of it, and each trouble once."""
    lxgpu.site.settings.policy.write_text("version: 1\n")
    lxgpu.site.board.full.add("alice")
    lxgpu.site.board.files.clear()
    shown = lxgpu("daemon", "run", "--once", status=10)[0]
    assert shown.count("the login banner of alice is as it was") == 1
    lxgpu.site.board.full.clear()
    lxgpu("daemon", "run", "--once")


def test_a_class_that_only_lacks_cards_is_told_how_to_go_on(lxgpu, tmp_path):
    """Nothing is wrong with its rows; where something is, it is the rows that are to be mended."""
    rows = tmp_path / "class.csv"
    rows.write_text("name,gpus\ndave,1\neve,1\n")
    _, told = lxgpu("create", "--from", str(rows), status=10)
    assert "fix: too few cards are free: leave the gpus column out and repeat with --if-not-exists" in told
    rows.write_text("name,gpus\ndave,1\nalice,\n")
    _, told = lxgpu("create", "--from", str(rows), status=10)
    assert "fix: mend the rows and repeat with --if-not-exists" in told


def test_disk_in_use_is_asked_for_where_it_is_shown(lxgpu):
    """In CSV, whose columns are those of -o wide; the plain table has no such column and does not ask."""
    _, first, *_ = lxgpu("ls", "-o", "csv")[0].splitlines()
    header = lxgpu("ls", "-o", "csv")[0].splitlines()[0].split(",")
    assert first.split(",")[header.index("disk_used_bytes")] == str(2**20)
    assert lxgpu.items("ls", noun="instances")[0]["disk_used_bytes"] is None

"""What is refused says what, why and what to do, as people meet it; a rehearsal says the same as the command itself."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from dealings import policy, two_at_work, type_at
from fakes.site import newcomer
from fakes.system import FakeClock

from lxgpu.cli import main
from lxgpu.model.quota import Policy

RULES: Policy = policy(limit=4, admins=("root",), no_show_s=3600)


@pytest.fixture
def lxgpu(tmp_path, monkeypatch, capsys):
    """Alice works on both cards, bob has none; gives a way to type: status, stdout, stderr."""
    site = two_at_work(tmp_path, rules=RULES, clock=FakeClock(datetime.now(UTC)))
    newcomer(site, "carol")
    type_at(site, monkeypatch)

    def typed(*words):
        status = main.run(words)
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    typed.site = site
    return typed


def parts(told: str, code: str) -> None:
    """One error, with its code, why and what to do."""
    lines = [line for line in told.splitlines() if line]
    starts = [line.split(" ")[0] for line in lines]
    assert starts.count(f"error[{code}]") == 1, told
    assert "why:" in starts, told
    assert "fix:" in starts, told


REFUSED = [
    (("reserve", "bob", "--gpus", "1", "--for", "0s"), "bad_time"),
    (("reserve", "bob", "--gpus", "0", "--for", "1h"), "usage"),
    (("reserve", "bob", "--gpus", "1"), "usage"),
    (("reserve", "bob", "--gpus", "1", "--for", "1h", "--until", "18:00"), "usage"),
    (("reserve", "bob", "--gpus", "1", "--for", "1h", "--no-warning"), "usage"),
    (("reserve", "bob", "--gpus", "1", "--for", "1h", "--weekly"), "usage"),
    (("reserve", "bob", "--gpus", "1", "--for", "1h", "--reason", "x"), "usage"),
    (("reserve", "bob", "--gpus", "1", "--for", "1h", "--host", "moon"), "not_found"),
    (("reserve", "nobody", "--gpus", "1", "--for", "1h"), "not_found"),
    (("reserve", "bob", "--gpus", "1", "--for", "1h", "--model", "H900"), "no_such_model"),
    (("reserve", "bob", "--gpus", "1", "--for", "1h", "--class", "gold"), "unknown_class"),
    (("reserve", "bob", "--gpus", "1", "--for", "1h", "--at", "2001-01-01 09:00"), "bad_time"),
    (("reserve", "bob", "--gpus", "9", "--for", "1h", "--at", "+2h"), "booking_too_large"),
    (("reserve", "carol", "--gpus", "2", "--for", "1h", "--at", "+2h", "--class", "low"), "no_capacity"),
    (("reservation", "cancel", "nothing"), "not_found"),
    (("reservation", "edit", "nothing", "--gpus", "1"), "not_found"),
    (("attach", "bob", "--gpus", "1"), "no_capacity"),
    (("attach", "bob"), "usage"),
    (("release", "bob"), "usage"),
    (("release", "bob", "--gpu", "GPU-nothing"), "no_such_gpu"),
    (("extend", "alice", "--until", "2001-01-01 09:00"), "bad_time"),
    (("extend", "alice"), "usage"),
    (("extend", "bob", "--for", "1h"), "not_held"),
    (("keep", "alice", "--for", "200h", "--reason", "x"), "over_keep"),
    (("why", "nothing"), "not_found"),
    (("explain", "nothing"), "not_found"),
    (("show", "nothing"), "not_found"),
    (("nothing",), "usage"),
    (("reserve", "bob", "--gpu", "1"), "usage"),
]
PLANNED = {"no_such_model", "unknown_class", "booking_too_large", "no_capacity", "not_held", "over_keep"}


@pytest.mark.parametrize(
    ("words", "code"), REFUSED, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_a_refusal_has_its_three_parts(lxgpu, words, code):
    """On stderr, and the same in JSON on stdout."""
    status, _, told = lxgpu(*words)
    assert status > 0
    parts(told, code)
    _, out, told = lxgpu(*words, "-o", "json")
    parts(told, code)
    error = json.loads(out)["error"]
    assert error["code"] == code
    assert error["why"]
    assert error["fix"]


@pytest.mark.parametrize(
    ("words", "code"),
    [one for one in REFUSED if one[1] in PLANNED],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_rehearsal_ends_as_the_command_would(lxgpu, words, code):
    """The plan on stdout, the command's own error on stderr, its status; JSON has both in one document."""
    version = lxgpu.site.inventory.read().version
    status, out, told = lxgpu(*words, "--dry-run")
    parts(told, code)
    assert out
    assert lxgpu.site.inventory.read().version == version
    ended, out, told = lxgpu(*words, "--dry-run", "-o", "json")
    parts(told, code)
    document = json.loads(out)
    assert document["schema"] == "lxgpu.plans/v1"
    assert [item["decision"] for item in document["items"]] == ["refused" if words[0] != "attach" else "waiting"]
    rehearsed = document["error"]
    really, out, _ = lxgpu(*words, "-o", "json")
    assert status == ended == really
    error = json.loads(out)["error"]
    assert (rehearsed["code"], rehearsed["why"], rehearsed["fix"]) == (error["code"], error["why"], error["fix"])
    assert rehearsed["message"] == error["message"]


def test_what_is_over_says_how_it_ended(lxgpu):
    """Cancelled twice."""
    _, out, _ = lxgpu("reserve", "bob", "--gpus", "1", "--for", "1h", "--at", "+3h", "-o", "json")
    name = json.loads(out)["items"][0]["id"]
    assert lxgpu("reservation", "cancel", name)[0] == 0
    status, _, told = lxgpu("reservation", "cancel", name)
    assert status == 6
    parts(told, "conflict")
    assert f"{name} is cancelled already" in told


def test_who_is_refused_a_time_hears_who_has_it_and_when_it_would_fit(lxgpu):
    """In a rehearsal too, weekly or not; the command that is offered is granted."""
    site = lxgpu.site
    with site.write() as tx:
        for row in tx.records.held_by("alice"):
            tx.put(replace(row, class_name="normal", until=site.clock.now().replace(microsecond=0)))
    wish = ("reserve", "bob", "--gpus", "2", "--for", "1h", "--at", "+26h")
    assert lxgpu("reserve", "carol", "--gpus", "1", "--for", "2h", "--at", "+26h")[0] == 0
    for more in ((), ("--dry-run",), ("--weekly",), ("--weekly", "--dry-run")):
        status, _, told = lxgpu(*wish, *more)
        assert status == 7
        parts(told, "no_room")
        assert "carol" in told
        assert "would fit from" in told
        assert "fix: lxgpu reserve bob --gpus 2 --for 1h --at" in told
        assert ("--weekly" in told.split("fix: ")[1]) is ("--weekly" in more)


def test_a_reservation_that_waits_can_be_changed_in_a_rehearsal(lxgpu):
    """To wait is no failure."""
    _, out, _ = lxgpu("reserve", "bob", "--gpus", "1", "--for", "1h", "--class", "low", "-o", "json")
    name = json.loads(out)["items"][0]["id"]
    assert lxgpu("reservation", "edit", name, "--note", "x", "--dry-run")[0] == 0

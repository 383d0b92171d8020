"""The JSON of what is looked at has exactly the keys that are promised, whatever there is to show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta

import pytest
from fakes.site import make_site, newcomer
from inventory_rows import assignment, at, operation
from json_shapes import SHAPES, faults
from reservation_rows import booking, claim, displaced, request

from lxgpu.cli.columns import gpu_columns
from lxgpu.cli.failure import error_object
from lxgpu.cli.history import EventView
from lxgpu.cli.instance_columns import INSTANCE_COLUMNS
from lxgpu.cli.render import Output
from lxgpu.cli.screen import Screen
from lxgpu.errors import CATALOGUE, LxgpuError, Problem
from lxgpu.model.gpu import Slot
from lxgpu.model.plan import Plan, PlannedStep, Reason, Verdict
from lxgpu.model.reservation import Keep, ReservationState
from lxgpu.model.snapshot import Records
from lxgpu.plain import plain
from lxgpu.policy.policyplan import Effect
from lxgpu.ports import Change
from lxgpu.services import ending, explain, looking
from lxgpu.services.cards import card_views, past_views
from lxgpu.services.listing import instance_items
from lxgpu.services.overview import pool_view, status_view
from lxgpu.services.report import instance_views
from lxgpu.services.reservationviews import InLine, Ledger, reservation_views

TIMES = (
    *("since", "until", "lease_until", "created_at", "expires", "sampled_at", "at", "next_at", "start", "end"),
    *("estimate", "when"),
)


@pytest.fixture
def site(tmp_path):
    """A host with everything on it: held, free, foreign and sick cards, jobs, trash, a change under way."""
    made = make_site(tmp_path, gpus=5)
    newcomer(made, "alice", gpus=2, lease_s=3600, expires=made.clock.now() + timedelta(days=1))
    newcomer(made, "bob")
    newcomer(made, "carol")
    ending.delete(made, "carol", purge=False)
    held = {row.slot.gpu for row in made.inventory.read().held_by("alice")}
    lent = next(gpu for gpu in made.engine.cards if gpu.uuid in held)
    made.probe.run(made.engine.instance("alice").init_pid, lent.nodes)
    free = [gpu for gpu in made.engine.cards if gpu.uuid not in held]
    made.probe.faults[free[-1].uuid] = "lost"
    made.engine.update("bob", Change(devices={"x": {"type": "gpu", "pci": free[-2].pci}}), etag=None)
    with made.write() as tx:
        tx.put(operation("o9", kind="release", instance="alice", step="fence"))
        tx.event("refused", "eve", rule="over_limit", detail={"message": "no", "why": ["a", "b"]})
    return made


def written(capsys, noun, items, columns=INSTANCE_COLUMNS):
    """The document that a command writes."""
    Output(Screen(), form="json").items(noun, items, columns)
    return json.loads(capsys.readouterr().out)


def look(site):
    """One look, and the cards."""
    seen = looking.look(site.engine, site.probe, site.inventory.read(), host=site.host, at=site.clock.now())
    return seen, card_views(seen.records, seen.seen, seen.readings, mode=lambda _: "exclusive")


def check(document, noun, *, number):
    """The envelope, the number of items, and the keys of each."""
    assert list(document) == ["schema", "items"]
    assert document["schema"] == f"lxgpu.{noun}/v1"
    assert len(document["items"]) == number
    assert [text for item in document["items"] for text in faults(noun, item)] == []
    assert all(stamp.endswith("Z") for stamp in stamps(document["items"]))


def stamps(value):
    """All times in a document."""
    if isinstance(value, list):
        return [stamp for item in value for stamp in stamps(item)]
    if not isinstance(value, dict):
        return []
    own = [item for key, item in value.items() if key in TIMES and item is not None]
    return own + [stamp for key, item in value.items() if key != "detail" for stamp in stamps(item)]


def test_instances(site, capsys):
    """`ls` and `show NAME`: by items and by views alike, with trash and foreign ones."""
    found, seen = site.inventory.read(), site.engine.instances()
    items = instance_items(found, seen, "gpu1", trashed=True, foreign=True)
    views = instance_views(found, seen, site.settings, trashed=True, foreign=True)
    as_items = written(capsys, "instances", items)
    as_views = written(capsys, "instances", views)
    check(as_items, "instances", number=3)
    check(as_views, "instances", number=3)
    assert [list(item) for item in as_items["items"]] == [list(item) for item in as_views["items"]]
    assert as_items["items"][0]["limits"] == as_views["items"][0]["limits"]


def test_instances_without_lxd(site, capsys):
    """The same keys while LXD does not answer."""
    check(written(capsys, "instances", instance_items(site.inventory.read(), None, "gpu1")), "instances", number=2)


def test_gpus(site, capsys):
    """`gpus` and `show GPU`, with processes, foreign holders and a lost card; at another time; without LXD."""
    seen, cards = look(site)
    columns = gpu_columns(cards.views, cards.notes, str, form="json")
    document = written(capsys, "gpus", cards.views, columns)
    check(document, "gpus", number=5)
    assert any(item["processes"] for item in document["items"])
    assert any(item["processes"] is None for item in document["items"])
    assert {slot["state"] for item in document["items"] for slot in item["slots"]} == {
        "active",
        "free",
        "foreign",
        "sick",
    }
    then = past_views(site.inventory.assignments_at(seen.at), seen.records, (), seen.at, mode=lambda _: None)
    check(written(capsys, "gpus", then.views, columns), "gpus", number=5)
    away = card_views(seen.records, None, seen.readings, mode=lambda _: None)
    check(written(capsys, "gpus", away.views, columns), "gpus", number=5)


def test_events(site, capsys):
    """`history`."""
    events = [
        EventView(event.at, event.actor, event.kind, event.subject, event.rule or None, event.detail)
        for event in site.inventory.events()
    ]
    check(written(capsys, "events", events), "events", number=len(events))
    assert len(events) > 5


def test_reasons(site, capsys):
    """`why`, of containers and cards."""
    seen, cards = look(site)
    views = instance_views(seen.records, seen.seen.sightings, site.settings)
    told = [
        reason
        for view in views
        for reason in explain.about_instance(
            seen.records, seen.records.instance(view.name), view, site.inventory.events(subject=view.name), show=str
        )
    ]
    for view in cards.views:
        told += explain.about_gpu(seen.records, view, cards.notes[view.uuid], site.inventory.events(), show=str)
    check(written(capsys, "reasons", told), "reasons", number=len(told))
    assert {"running", "active", "under_way", "foreign", "sick", "free"} <= {reason.code for reason in told}


def test_reservations(capsys):
    """`reservations`: with cards and without, with a place in line, with those who gave way."""
    rows = (
        booking(state=ReservationState.ACTIVE, host="gpu1", note="paper", class_name="normal"),
        request(),
        claim(),
        booking("r2", state=ReservationState.FINISHED, closed_at=at(400)),
    )
    held = assignment("a1", "GPU-1", instance="bob", reservation="r1")
    records = Records(1, None, assignments=(held,), reservations=rows[:3])
    found = Ledger(records, rows, (displaced(),), {"q1": InLine(1, at(300), "2 GPUs are held")})
    document = written(capsys, "reservations", reservation_views(found))
    check(document, "reservations", number=4)
    first, *_ = document["items"]
    assert first["displaced"] == [{"instance": "alice", "uuid": "GPU-1", "reason": "priority", "owed": True}]
    assert [item["position"] for item in document["items"]] == [None, None, 1, None]


def test_plans(capsys):
    """`--dry-run` of what takes from others, and of what is refused."""
    steps = (PlannedStep("warn", "alice", "GPU-1", at(0), "rule idle, for bob"), PlannedStep("start", "bob"))
    plan = Plan(Verdict.AFTER_PREEMPTION, steps=steps, slots=(Slot("GPU-1"),), victims=("alice",), when=at(5))
    for one in (plan, Plan(Verdict.REFUSED, (Reason("over_limit", "no"),))):
        Output(Screen(), form="json").plan(one, show=str)
        check(json.loads(capsys.readouterr().out), "plans", number=1)


def test_effects_and_keeps(capsys):
    """`policy plan` and `keep`."""
    effects = [Effect("takes", "bob", "takes 1 GPU from bob", 1, at(5)), Effect("class_gone", "normal", "gone")]
    check(written(capsys, "effects", effects), "effects", number=2)
    check(written(capsys, "keeps", [Keep("k1", "alice", "alice", at(0), at(60), "a run")]), "keeps", number=1)


def test_status(site, capsys):
    """`status`."""
    seen, cards = look(site)
    views = instance_views(seen.records, seen.seen.sightings, site.settings)
    view = status_view(seen, cards, views, pool_view(site.engine, "default"), host=site.host, warn_percent=80)
    document = written(capsys, "status", [view])
    check(document, "status", number=1)
    assert document["items"][0]["operations"]
    assert len(document["items"][0]["problems"]) == 2


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_errors_have_the_same_keys_every_time(code):
    """Whatever the error says, scripts find the same keys."""
    error = LxgpuError(code, "what", why=["one", "two"], problems=[Problem("text", "f:1:2", "x\n^")], details={"a": 1})
    for one in (error, LxgpuError(code, "what")):
        found = plain(error_object(one))
        assert faults("error", found) == []
        assert set(found) == set(SHAPES["error"])


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [
        (["show", "nobody", "-o", "json"], "not_found", 3),
        (["why", "nobody", "--json"], "not_found", 3),
        (["ls", "--nonsense", "-o", "json"], "usage", 2),
        (["gpus", "--at", "tomorow", "-o", "json"], "bad_time", 2),
        (["history", "--since", "4", "-o", "json"], "bad_time", 2),
    ],
)
def test_a_command_that_fails_says_so_in_json(tmp_path, words, code, status):
    """The error on stdout as an object, the words on stderr, the status by the code, even without LXD."""
    ran = away(tmp_path, *words)
    assert ran.returncode == status
    document = json.loads(ran.stdout)
    assert list(document) == ["error"]
    assert faults("error", document["error"]) == []
    assert document["error"]["code"] == code
    assert f"error[{code}]" in ran.stderr


@pytest.mark.parametrize(
    ("words", "noun"),
    [
        (["ls"], "instances"),
        (["ls", "-a"], "instances"),
        (["gpus"], "gpus"),
        (["history"], "events"),
        (["reservations"], "reservations"),
        (["reservations", "--queue"], "reservations"),
        (["reservations", "--calendar", "--all"], "reservations"),
    ],
)
def test_a_machine_without_anything(tmp_path, words, noun):
    """No LXD, no inventory, no policy: an empty list, 8 from what asks LXD, and nothing is made."""
    ran = away(tmp_path, *words, "-o", "json")
    assert ran.returncode == (8 if words[0] in {"ls", "gpus"} else 0)
    check(json.loads(ran.stdout), noun, number=0)
    assert not (tmp_path / "state").exists()


def test_status_of_a_machine_without_anything(tmp_path):
    """LXD away is a problem that is told, with all that is known besides."""
    ran = away(tmp_path, "status", "-o", "json")
    assert ran.returncode == 8
    document = json.loads(ran.stdout)
    check(document, "status", number=1)
    assert "LXD" in [problem["subject"] for problem in document["items"][0]["problems"]]


def away(folder, *words):
    """Run a command where there is neither LXD nor an inventory."""
    variables = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("LXGPU_", "LXD_", "INCUS_"))},
        "LXD_DIR": str(folder / "lxd"),
        "LXGPU_STATE_DIR": str(folder / "state"),
        "LXGPU_RUN_DIR": str(folder / "run"),
        "LXGPU_POLICY": str(folder / "policy.yaml"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    argv = [sys.executable, "-m", "lxgpu", *words]
    return subprocess.run(argv, env=variables, capture_output=True, text=True, check=False, timeout=60)

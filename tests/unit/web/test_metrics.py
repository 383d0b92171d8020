"""/metrics: what is known and nothing else, with few labels, in a form that Prometheus takes."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from datetime import timedelta

import pytest
from fakes.site import make_site, newcomer
from hypothesis import given
from hypothesis import strategies as st
from lively import WRITTEN, lively
from prometheus_client.parser import text_string_to_metric_families

from lxgpu.model.assignment import LIVE
from lxgpu.services.publish import published
from lxgpu.services.statusfile import STALE_S, DaemonView, Published
from lxgpu.web.metrics import HEALTHS, SLOT_STATES, exposition

LABELS = {"version", "le", "section", "kind", "pool", "health", "gpu", "host", "model", "pci", "verdict", "state"}
LABELS |= {"slot", "container", "owner", "class"}


def samples(found: Published | None, now) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Labels and values by the name of the sample, as Prometheus' own parser reads them."""
    told: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(exposition(found, now).decode()):
        for sample in family.samples:
            told.setdefault(sample.name, []).append((sample.labels, sample.value))
    return told


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A lab with something of everything."""
    return lively(tmp_path_factory.mktemp("lively"))


def test_promtool_finds_nothing_to_mend(full):
    """Names, units, types and helps as Prometheus wants them."""
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=exposition(full, full.written_at),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def test_the_figures_are_those_of_the_lab(full):
    """Cards, slots, holders, idleness, the line, the daemon."""
    told = samples(full, full.written_at + timedelta(seconds=5))
    assert told["lxgpu_data_age_seconds"] == [({}, 5.0)]
    assert told["lxgpu_gpus"] == [({}, len(full.gpus))]
    held = {(labels["container"], labels["gpu"]) for labels, _ in told["lxgpu_slot_held"]}
    assert held == {(slot.holder, card.uuid) for card in full.gpus for slot in card.slots if slot.holder}
    idle = {labels["container"]: value for labels, value in told["lxgpu_container_idle_seconds"]}
    assert idle == {"alice": 3605.0}
    waiting = {(labels["kind"], labels["state"]): value for labels, value in told["lxgpu_reservations"]}
    assert waiting["request", "waiting"] == told["lxgpu_queue_length"][0][1] == 1
    assert told["lxgpu_policy_broken"] == [({}, 1.0)]
    assert told["lxgpu_failures_total"] == [({"section": "notices"}, 2.0)]
    assert told["lxgpu_tick_duration_seconds_count"][0][1] == 3


def test_what_is_not_known_is_not_there(full):
    """No sample, and no 0: readings, memory, free cards, the pool, idleness, processes."""
    dark = tuple(
        replace(
            card,
            utilization_percent=None,
            memory_used_bytes=None,
            memory_bytes=None,
            processes=None,
            verdict=None,
            sampled_at=None,
            slots=tuple(replace(slot, state=None, holder=None, lease_until=None) for slot in card.slots),
        )
        for card in full.gpus
    )
    status = replace(
        full.status,
        gpus=replace(full.status.gpus, free=None, next_at=None),
        pool=replace(full.status.pool, size_bytes=None, used_bytes=None),
    )
    told = samples(replace(full, gpus=dark, status=status, instances=()), full.written_at)
    absent = {
        "lxgpu_gpus_free",
        "lxgpu_next_end_timestamp_seconds",
        "lxgpu_pool_size_bytes",
        "lxgpu_pool_used_bytes",
        "lxgpu_slots",
        "lxgpu_slot_state",
        "lxgpu_slot_held",
        "lxgpu_slot_lease_end_timestamp_seconds",
        "lxgpu_container_idle_seconds",
        "lxgpu_gpu_utilization_ratio",
        "lxgpu_gpu_memory_used_bytes",
        "lxgpu_gpu_memory_bytes",
        "lxgpu_gpu_processes",
        "lxgpu_gpu_sampled_timestamp_seconds",
    }
    assert absent & set(told) == set()
    assert absent <= set(samples(full, full.written_at)), "each of them is there when it is known"
    assert {labels["verdict"] for labels, _ in told["lxgpu_gpu_verdict"]} == {"unknown"}


def test_old_data_say_nothing_of_now(full):
    """Only their age, and what the daemon said of itself last; that it runs is not known any more."""
    told = samples(full, full.written_at + timedelta(seconds=STALE_S))
    assert told["lxgpu_data_age_seconds"] == [({}, STALE_S)]
    assert not [name for name in told if name.startswith(("lxgpu_gpu", "lxgpu_slot", "lxgpu_container", "lxgpu_queue"))]
    assert "lxgpu_daemon_running" not in told
    assert "lxgpu_daemon_last_tick_timestamp_seconds" in told
    ended = replace(full, daemon=replace(full.daemon, running=False))
    assert samples(ended, full.written_at + timedelta(days=1))["lxgpu_daemon_running"] == [({}, 0.0)]


def test_nothing_published_is_no_data(full):
    """Not zero cards: no cards; so that an alert on absent data comes."""
    assert set(samples(None, full.written_at)) == {"lxgpu_build_info"}


def test_labels_are_few_and_never_a_process_or_what_somebody_wrote(full):
    """Of each card, slot and container one; notes, reasons, errors and pids of the lab are nowhere."""
    text = exposition(full, full.written_at).decode()
    told = samples(full, full.written_at)
    assert {name for found in told.values() for labels, _ in found for name in labels} <= LABELS
    pids = {str(one.pid) for card in full.gpus for one in card.processes or ()}
    words = set(re.findall(r'="([^"]*)"', text))
    assert pids
    assert pids & words == set()
    assert {one.id for one in full.reservations} & words == set()
    assert WRITTEN not in text
    most = len(full.gpus) + len(full.instances) + len(HEALTHS) + len(SLOT_STATES)
    assert max(len(found) for found in told.values()) <= most


@given(st.text(max_size=40), st.text(max_size=40))
def test_odd_names_break_no_line(full, container, model):
    """Whatever a name has in it, each sample stands once and is read back."""
    card = replace(full.gpus[0], model=model, slots=(replace(full.gpus[0].slots[0], holder=container or "x"),))
    told = samples(replace(full, gpus=(card,)), full.written_at)
    assert [labels["container"] for labels, _ in told["lxgpu_slot_held"]] == [container or "x"]
    assert [labels["model"] for labels, _ in told["lxgpu_gpu_info"]] == [model]


def test_no_sample_stands_twice(full):
    """A card attached to two others without lxgpu has two slots of one name: Prometheus would refuse the whole."""
    strange = tuple(replace(full.gpus[0].slots[0], holder=name, state="foreign") for name in ("eve", "mallory"))
    twice = replace(full, gpus=(replace(full.gpus[0], slots=strange), *full.gpus[1:]))
    for name, found in samples(twice, full.written_at).items():
        keys = [tuple(sorted(labels.items())) for labels, _ in found]
        assert len(keys) == len(set(keys)), name


def test_the_words_of_states_are_those_of_the_views(tmp_path):
    """Every state of an assignment, and why nobody holds a slot; a new one must be told here too."""
    assert {state.value for state in LIVE} <= set(SLOT_STATES)
    site = make_site(tmp_path, gpus=2)
    newcomer(site, "alice", gpus=1)
    found = published(site, DaemonView(running=True))
    assert {slot.state for card in found.gpus for slot in card.slots} <= set(SLOT_STATES)
    assert {card.health for card in found.gpus} <= set(HEALTHS)

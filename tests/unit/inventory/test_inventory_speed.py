"""What reading and writing cost, in time of the processor, so that a busy machine or a slow disk fails no test."""

from __future__ import annotations

import statistics
import time

import inventory_rows as make
import pytest

from lxgpu.inventory.store import open_inventory
from lxgpu.model.assignment import AssignmentState


@pytest.fixture
def inventory(tmp_path):
    """Sixty people with an instance and a card each, and a long history."""
    with open_inventory(tmp_path / "inventory.db") as opened:
        with opened.write(actor="root", now=make.T0) as tx:
            for number in range(60):
                name, gpu = f"p{number}", f"GPU-{number}"
                tx.put(make.person(name, uid=number, ssh_port=number), make.key(name), make.instance(name))
                tx.put(make.assignment(f"a{number}", gpu=gpu, instance=name), make.slot_record(gpu), make.card(gpu))
            past = {"state": AssignmentState.CLOSED, "closed_at": make.at(1)}
            tx.put(*(make.assignment(f"old{number}", **past) for number in range(10000)))
        yield opened


def cost_ms(do, times):
    """The usual processor time of a call, in milliseconds."""
    found = []
    for number in range(times):
        begin = time.process_time()
        do(number)
        found.append((time.process_time() - begin) * 1000)
    return statistics.median(found)


def test_a_write_is_far_below_five_milliseconds(inventory):
    """A decision, its rows, its event: read, checked and committed."""

    def write(number):
        with inventory.write(actor="root", now=make.T0, expected=number + 1) as tx:
            tx.put(
                make.assignment("a1", gpu="GPU-1", instance="p1", outcome=str(number)), make.operation(position=number)
            )
            tx.event("step", "p1")

    assert cost_ms(write, 100) < 2.5


def test_a_reading_is_cheap(inventory):
    """All living rows, without the history; again without a change, nearly nothing."""
    with open_inventory(inventory.path) as other:

        def change_and_read(number):
            with other.write(actor="root", now=make.T0) as tx:
                tx.event("count", str(number))
            assert len(inventory.read().assignments) == 60

        assert cost_ms(change_and_read, 30) < 10
    assert cost_ms(lambda _: inventory.read(), 100) < 0.5

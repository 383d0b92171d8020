"""Ways to hold a card, open and hidden ones, each tried with a real process."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest

from lxgpu.drivers.holders import Findings, scan

NOBODY = 2**22 - 1


def look(inside, cgroups, node):
    """The holders of a node among the instance's processes."""
    return scan(lambda: cgroups.members(inside.init), [node], Findings()).holders([node])


@pytest.mark.parametrize(
    ("way", "how"),
    [("open", "open zero"), ("mapped", "mapped zero"), ("thread", "open zero"), ("dead-leader", "open zero")],
)
def test_a_holder_is_found_however_it_holds(way, how, inside, cgroups, card):
    """By descriptor, by a mapping whose descriptor is closed, in a thread of its own, behind an ended first thread."""
    process = inside.start(way, card)
    found = look(inside, cgroups, card)
    assert [(one.pid, one.start_time, one.how) for one in found.processes] == [(process.pid, process.start_time, how)]
    assert not found.unknown


@pytest.mark.parametrize(
    ("way", "word"), [("parked", "in flight"), ("backlog", "in flight"), ("registered", "io_uring")]
)
def test_what_no_list_shows_is_a_doubt(way, word, inside, cgroups, card):
    """A descriptor in flight and a file registered with io_uring may be the card: unknown, and why."""
    process = inside.start(way, card)
    found = look(inside, cgroups, card)
    assert word in found.unknown
    assert str(process.pid) in found.unknown
    assert not found.free


def test_a_socket_and_a_process_without_the_card_are_no_doubt(inside, cgroups, card):
    """Ordinary life in a container leaves no doubt: it is proven free."""
    inside.start("nothing")
    inside.start("open", card)
    assert look(inside, cgroups, inside.nodes[1]).free


def test_the_number_counts_and_not_the_name(inside, cgroups, card, other):
    """A node that was renamed or removed after it was opened is found; another node of its name is not it."""
    process = inside.start("open", card)
    Path(inside.path(card)).unlink()
    os.mknod(inside.path(card), 0o020666, os.makedev(other.major, other.minor))
    inside.start("open", card)
    assert [one.pid for one in look(inside, cgroups, card).processes] == [process.pid]


def test_processes_in_cgroups_made_inside_are_found(inside, cgroups, card):
    """Root inside can make cgroups below; who is in there is seen all the same."""
    process = inside.start("open", card, below="system.slice")
    assert [one.pid for one in look(inside, cgroups, card).processes] == [process.pid]


def test_a_process_that_vanishes_is_passed_over(card):
    """Between the list and the look a process may end; that is no error and no doubt."""
    assert scan(lambda: [NOBODY], [card], Findings()).holders([card]).free


def test_an_endless_stream_of_processes_is_a_doubt(card):
    """What starts faster than it can be looked at is unknown, and the scan ends."""
    fresh = count(NOBODY, -1)
    assert "faster" in scan(lambda: [next(fresh)], [card], Findings()).holders([card]).unknown


def test_a_child_started_meanwhile_is_looked_at(inside, card):
    """The list is asked for again until nobody new is on it."""
    process = inside.start("open", card)
    lists = iter([[NOBODY], [NOBODY, process.pid], [NOBODY, process.pid]])
    assert [one.pid for one in scan(lambda: next(lists), [card], Findings()).holders([card]).processes] == [process.pid]

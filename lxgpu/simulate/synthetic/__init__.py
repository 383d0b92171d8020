"""Demand that is made up: the same for the same words, on any machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from lxgpu.errors import LxgpuError
from lxgpu.simulate.jobs import Job, Lab, Workload, in_time
from lxgpu.simulate.readers.attribution import PHILLY
from lxgpu.simulate.synthetic.models import Ask, deadline, idle, lab, philly_like

DAYS = 28
MOST_LOAD = 10.0
MOST_CARD_DAYS = 100_000_000
"""Card-days of load; more would not fit into memory."""


@dataclass(frozen=True, slots=True)
class Model:
    """A made-up lab: what it is in a line, what it asks for if nothing is said, and where its numbers are from."""

    about: str
    load: float
    make: Callable[[Ask], list[Job]]
    source: str = ""


MODELS: dict[str, Model] = {
    "lab": Model("batch jobs and people at their desks, by the hours of a week", 0.9, lab),
    "deadline": Model("one group's rush before its deadline, among others' batch jobs", 0.8, deadline),
    "philly-like": Model("sizes, durations and hours fitted to the Philly trace", 0.8, philly_like, PHILLY),
    "idle": Model("people hold cards and use them 30 % of the time, batch jobs wait", 1.6, idle),
    "held": Model("as idle, but people hold all cards, and batch jobs ask for as much again", 2.0, idle),
}


def generate(name: str, room: Lab, *, days: float = DAYS, load: float | None = None, seed: int = 0) -> Workload:
    """Makes demand for a lab: `days` (1 at least) from a Monday on that ask for `load` times its cards' time.

    Raises:
        LxgpuError: `not_found`: there is no such model. `usage`: days or load make no sense.
    """
    model = MODELS.get(name)
    if model is None:
        near = get_close_matches(name, MODELS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(MODELS)}"
        raise LxgpuError("not_found", f"there is no made-up lab {name!r}", fix=hint)
    asked = model.load if load is None else load
    if not (days >= 1 and 0 < asked <= MOST_LOAD and days * asked * room.cards <= MOST_CARD_DAYS):
        raise LxgpuError(
            "usage",
            f"{days:g} days with a load of {asked:g} cannot be made up",
            why=f"a load is more than 0 and at most {MOST_LOAD:g}; from one day to {MOST_CARD_DAYS:,} card-days fit",
        )
    jobs = in_time(model.make(Ask(room, days, asked, seed)))
    said = f"made up: {name}, {days:g} days, load {asked:g}, {room.servers}x{room.gpus_per_server} cards, seed {seed}"
    return Workload(name, jobs, "; ".join(filter(None, (said, model.source and f"fitted to: {model.source}"))))

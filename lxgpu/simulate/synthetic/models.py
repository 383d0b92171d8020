"""The made-up labs. Each number here is set by hand, unless it says where it is from; docs/simulate.md lists them."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from lxgpu.simulate.dice import Dice
from lxgpu.simulate.jobs import NO_WORK, Burst, Job, Lab
from lxgpu.simulate.synthetic.batch import Shape, drawn, lab_shape, philly_shape, waiting_shape
from lxgpu.simulate.synthetic.desks import DAY_LONG_S, Habit, bursts, working_days
from lxgpu.simulate.synthetic.weeks import DAY, HOUR, LAB, PHILLY, arrivals
from lxgpu.simulate.usual import BATCH

GROUPS, GROUP_WEIGHTS = ("red", "green", "blue"), (50, 30, 20)
_HELD = 0.4
_SESSION_S, _SESSION_SIGMA = 10 * HOUR, 0.8
_SESSION_HABIT = Habit(0.6)
_DESK_SIZES, _DESK_WEIGHTS = (1, 2, 4), (70, 22, 8)
_IDLE_BUSY = 0.30
_IDLE_SPREAD = 0.22
_IDLE_NEAR, _TRIES = 0.02, 100
_RUSH = 0.5
_RUSH_S = 3 * DAY
_RUSH_END = 0.8


@dataclass(frozen=True, slots=True)
class Ask:
    """What is to be made: for which lab, over how many days from a Monday on, and for how much of its cards' time."""

    lab: Lab
    days: float
    load: float
    seed: int

    @property
    def gpu_s(self) -> float:
        """GPU-seconds that are asked for; who holds a card asks for it the whole time, at work or not."""
        return self.load * self.lab.cards * self.days * DAY

    @property
    def people(self) -> int:
        """One for every two cards, three at least."""
        return max(3, self.lab.cards // 2)


def lab(ask: Ask) -> list[Job]:
    """Batch jobs for 60 % of what is asked for, and people who take cards for some hours for 40 %."""
    dice, most = Dice("lab", ask.seed), ask.lab.gpus_per_server
    work = drawn(lambda: lab_shape(dice, most), (1 - _HELD) * ask.gpu_s)
    held = drawn(lambda: _session(dice, most), _HELD * ask.gpu_s)
    jobs = _batch(dice, ask, work, arrivals(dice, len(work), ask.days, LAB.at))
    times = arrivals(dice, len(held), ask.days, LAB.at)
    for count, (at, (gpus, duration_s)) in enumerate(zip(times, held, strict=True)):
        first = Burst(at, min(duration_s, max(60.0, dice.wait(HOUR))))
        later = [one for one in bursts(dice, _SESSION_HABIT, at, at + duration_s) if one.start_s >= at + first.work_s]
        owner, group = _person(dice, ask)
        jobs.append(Job(f"hold-{count}", owner, gpus, at, duration_s, group, bursts=(first, *later)))
    return jobs


def deadline(ask: Ask) -> list[Job]:
    """Half of the demand comes with the week; the other half is one group's, more and more up to its deadline.

    The deadline is after four fifths of the time; the rush grows by e in three days, and by the hour of the day too.
    A job of the rush is submitted early enough to be done by then if it starts at once.
    """
    dice, most = Dice("deadline", ask.seed), ask.lab.gpus_per_server
    due = _RUSH_END * ask.days * DAY
    calm = drawn(lambda: lab_shape(dice, most), (1 - _RUSH) * ask.gpu_s)
    rush = drawn(lambda: _no_longer(lab_shape(dice, most), due / 2), _RUSH * ask.gpu_s)
    jobs = _batch(dice, ask, calm, arrivals(dice, len(calm), ask.days, LAB.at))
    days = due / DAY
    times = arrivals(dice, len(rush), days, lambda hour: LAB.at(hour) * exp((hour * HOUR - due) / _RUSH_S))
    for count, (at, (gpus, duration_s)) in enumerate(zip(times, rush, strict=True)):
        come = max(0.0, min(at, due - 1.1 * duration_s))
        owner = f"{GROUPS[0]}-{dice.below(ask.people)}"
        jobs.append(Job(f"rush-{count}", owner, gpus, come, duration_s, GROUPS[0], deadline_s=due))
    return jobs


def philly_like(ask: Ask) -> list[Job]:
    """Sizes, durations and hours of the Philly trace, fitted; see `philly_shape` and `weeks.PHILLY`."""
    dice = Dice("philly-like", ask.seed)
    longest = ask.days * DAY
    work = drawn(lambda: _no_longer(philly_shape(dice, ask.lab.cards), longest), ask.gpu_s)
    return _batch(dice, ask, work, arrivals(dice, len(work), ask.days, PHILLY.at))


def idle(ask: Ask) -> list[Job]:
    """Half of the demand are people who hold cards from the first morning to the end, the other half waits.

    They come on Monday from 7:00 to 8:00 and work 30 % of the time that they hold, each in bursts during their days
    from Monday to Friday. Who works much and who little is spread evenly, from 22 points of a day below the mean to 22
    above; a small lab's people are drawn again until they work 28 to 32 % together. What waits are batch jobs of a
    lower class from 9:00 on, with the hours of the week; they ask for as much again.
    """
    dice, most = Dice("idle", ask.seed), ask.lab.gpus_per_server
    jobs = _holders(dice, ask)
    for _ in range(_TRIES):
        if abs(_at_work(jobs) - _IDLE_BUSY) <= _IDLE_NEAR:
            break
        jobs = _holders(dice, ask)
    rest = ask.gpu_s - sum(job.gpus * job.duration_s for job in jobs)
    work = drawn(lambda: waiting_shape(dice, most), rest)
    times = arrivals(dice, len(work), ask.days, lambda hour: LAB.at(hour) if hour >= 9 else 0.0)  # noqa: PLR2004 -- 9:00
    return jobs + _batch(dice, ask, work, times, class_name=BATCH)


def _holders(dice: Dice, ask: Ask) -> list[Job]:
    end, sizes = ask.days * DAY, _desk_sizes(dice, ask)
    begins = sorted(7 * HOUR + dice.share() * HOUR for _ in sizes)  # the largest first, so that all find room
    jobs = []
    for place, (gpus, begin, habit) in enumerate(zip(sizes, begins, _habits(dice, sizes, begins, end), strict=True)):
        used = bursts(dice, habit, begin, end) or NO_WORK
        group = dice.pick(GROUPS, GROUP_WEIGHTS)
        jobs.append(Job(f"hold-{place}", f"{group}-{place}", gpus, begin, end - begin, group, bursts=used))
    return jobs


def _at_work(jobs: list[Job]) -> float:
    """The share of the time held that the cards are at work; as wanted if nobody holds any."""
    held = sum(job.gpus * job.duration_s for job in jobs)
    return sum(job.demand_gpu_s for job in jobs) / held if held else _IDLE_BUSY


def _desk_sizes(dice: Dice, ask: Ask) -> list[int]:
    """Cards of the people of `idle`: half of what is asked for, as near as whole cards come; never more than all."""
    left = min(round(ask.load / 2 * ask.lab.cards), ask.lab.cards)
    sizes = []
    while left > 0:
        gpus = min(dice.pick(_DESK_SIZES, _DESK_WEIGHTS), left, ask.lab.gpus_per_server)
        sizes.append(gpus)
        left -= gpus
    return sorted(sizes, reverse=True)


def _habits(dice: Dice, sizes: list[int], begins: list[float], end_s: float) -> list[Habit]:
    """Who works how much in their day, so that the cards held are at work 30 % of the time together."""
    if not sizes:
        return []
    held = sum(gpus * (end_s - begin) for gpus, begin in zip(sizes, begins, strict=True))
    days = sum(gpus * working_days(begin, end_s) + gpus for gpus, begin in zip(sizes, begins, strict=True))
    mean = _IDLE_BUSY * held / (days * DAY_LONG_S)
    order = sorted(range(len(sizes)), key=lambda _place: dice.share())
    off = [_IDLE_SPREAD * ((2 * place + 1) / len(sizes) - 1) for place in order]
    shift = sum(gpus * more for gpus, more in zip(sizes, off, strict=True)) / sum(sizes)
    return [Habit(min(0.97, max(0.05, mean + more - shift))) for more in off]


def _batch(dice: Dice, ask: Ask, work: list[Shape], times: list[float], *, class_name: str = "") -> list[Job]:
    jobs = []
    for count, (at, (gpus, duration_s)) in enumerate(zip(times, work, strict=True)):
        owner, group = _person(dice, ask)
        said = duration_s * dice.between(1.1, 3.0)
        jobs.append(Job(f"job-{count}", owner, gpus, at, duration_s, group, class_name, asked_s=said))
    return jobs


def _person(dice: Dice, ask: Ask) -> tuple[str, str]:
    """Somebody, and their group; a few ask for most."""
    group = dice.pick(GROUPS, GROUP_WEIGHTS)
    return f"{group}-{int(ask.people * dice.share() ** 2)}", group


def _session(dice: Dice, most: int) -> Shape:
    gpus = min(dice.pick(_DESK_SIZES, _DESK_WEIGHTS), most)
    return gpus, min(max(HOUR, dice.lognormal(_SESSION_S, _SESSION_SIGMA)), 3 * DAY)


def _no_longer(shape: Shape, longest_s: float) -> Shape:
    return shape[0], min(shape[1], longest_s)

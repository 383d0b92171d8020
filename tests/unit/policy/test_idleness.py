"""Whether a held card works: cases in tests/cases/idleness, and what warnings and keeps come to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from lxgpu.model.reservation import Keep
from lxgpu.model.rules import IdleRules, IdleWhen
from lxgpu.model.usage import IdleVerdict, Sample, Use
from lxgpu.policy.idleness import FOREVER, judge, pace, takeable_at, warnings_due

T0 = datetime(2027, 3, 1, 8, 0, tzinfo=UTC)
CASES = yaml.safe_load((Path(__file__).parents[2] / "cases/idleness/cases.yaml").read_text())
RULES = IdleRules(window_s=60, protect_ssh_s=30, protect_memory_s=300, warn_s=(40, 10))


def at(seconds: float) -> datetime:
    """So many seconds after the attach."""
    return T0 + timedelta(seconds=seconds)


def known(value: object) -> object:
    """A dash is None."""
    return None if value == "-" else value


def samples(rows: list[list[object]]) -> list[Sample]:
    """A sample every five seconds."""
    found = []
    for start, end, utilization, mib, processes, login in rows:
        memory = None if mib == "-" else mib * 2**20
        more = (known(processes), "alice", known(login))
        found += [Sample(at(second), "GPU-1", known(utilization), memory, *more) for second in range(start, end, 5)]
    return found


def keep(start: float, end: float, *, person: str = "alice", instance: str = "alice") -> Keep:
    """Somebody's word."""
    return Keep(f"k{start}", instance, person, at(start), at(end), "a deadline")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["promise"])
def test_idleness(case: dict[str, object]) -> None:
    """Each case's own promise."""
    rules = IdleRules(
        **{**{name: getattr(RULES, name) for name in RULES.__slots__}, "when": IdleWhen(case.get("when", "needed"))}
    )
    found = judge(
        samples(case["samples"]),
        since_attach=T0,
        rules=rules,
        keeps=[keep(*one) for one in case.get("keeps", [])],
        now=at(case["now"]),
        period_s=5,
        not_before=at(case["not_before"]) if "not_before" in case else None,
    )
    use, since, until = case["verdict"]
    wanted = FOREVER if until == "ever" else None if until == "-" else at(until)
    assert (found.use, found.since) == (Use(use), None if since == "-" else at(since)), found.why
    if use == "idle":
        assert (found.protected_until, found.parked) == (wanted, case.get("parked", False)), found.why
        assert found.takeable(at(case["now"])) == (wanted is None)


def test_how_long_it_has_been_idle_may_be_older_than_the_samples() -> None:
    """A process that keeps one window of samples remembers when the idleness began; work makes it forget."""
    mine = samples([[60, 121, 0, 0, 0, False]])
    asked = {"since_attach": T0, "rules": RULES, "now": at(120), "period_s": 5}
    assert judge(mine, **asked, quiet_since=at(20)).since == at(20)
    assert judge(mine, **asked, quiet_since=at(-50)).since == T0
    broken = samples([[60, 65, 90, 0, 0, False], [65, 121, 0, 0, 0, False]])
    assert judge(broken, **asked, quiet_since=at(20)).since == at(60)


def idle(since: float, until: float | None = None) -> IdleVerdict:
    """An idle card."""
    return IdleVerdict(Use.IDLE, at(since), protected_until=None if until is None else at(until))


def test_warnings_come_before_it_may_be_taken() -> None:
    """40 s and 10 s before, counted to the end of the window or of what protects it; late ones together."""
    ask = {"rules": RULES}
    assert takeable_at(idle(0), RULES) == at(60)
    assert warnings_due(idle(0), **ask, now=at(19)) == ()
    assert warnings_due(idle(0), **ask, now=at(20)) == (40,)
    assert warnings_due(idle(0), **ask, now=at(21), told={40}) == ()
    assert warnings_due(idle(0), **ask, now=at(55)) == (40, 10)
    assert warnings_due(idle(0), **ask, now=at(60)) == ()
    assert warnings_due(idle(0, until=300), **ask, now=at(200)) == ()
    assert warnings_due(idle(0, until=300), **ask, now=at(265)) == (40,)


def test_use_cancels_warnings() -> None:
    """A card that was at work a moment ago is as far from being taken as a window is long."""
    verdict = IdleVerdict(Use.BUSY, at(30))
    assert warnings_due(verdict, rules=RULES, now=at(45)) == ()
    assert warnings_due(verdict, rules=RULES, now=at(50)) == (40,)
    assert warnings_due(IdleVerdict(Use.UNKNOWN), rules=RULES, now=at(50)) == ()


def test_a_window_that_is_too_short_for_a_warning_has_none() -> None:
    """With a window of 60 s nobody is warned 10 min before, least of all somebody at work."""
    rules = IdleRules(window_s=60, warn_s=(600,))
    assert warnings_due(IdleVerdict(Use.BUSY, at(0)), rules=rules, now=at(0)) == ()
    assert warnings_due(idle(0), rules=rules, now=at(59)) == ()


def test_nothing_is_taken_where_the_policy_takes_nothing() -> None:
    """No end, so no warning."""
    rules = IdleRules(window_s=60, when=IdleWhen.NEVER)
    assert takeable_at(idle(0), rules) is None
    assert warnings_due(idle(0), rules=rules, now=at(50)) == ()


def test_the_pace_of_looks_is_what_it_was_within_bounds() -> None:
    """A loop that looks more slowly than it should is believed up to a twentieth of the window, and no further."""
    every = [Sample(at(second), "GPU-1", 0, 0) for second in range(0, 3000, 60)]
    assert pace(every, window_s=7200) == 60
    assert pace(every, window_s=600) == 30
    assert pace(every[:1], window_s=7200) == 10
    assert pace([Sample(at(second), "GPU-1", 0, 0) for second in range(100)], window_s=7200) == 10

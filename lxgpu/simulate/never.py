"""Why jobs never began: counted by reason, and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from lxgpu.simulate.engine import Rule
from lxgpu.simulate.floor import Floor

LARGER = "larger_than_a_server"
"""No host has so many cards, and a container is on one."""
WAITED = "waited"
"""Nothing forbids it: its turn did not come."""
_WORDS = {
    LARGER: "larger than a server (a container is on one host)",
    WAITED: "waited to the end",
    "person_ended": "after their owner's time",
    "unknown_class": "in a class that the policy does not have",
    "class_not_allowed": "in a class that their owner may not use",
    "over_limit": "more cards than their owner may hold",
    "over_class_limit": "more cards than one person may hold in the class",
    "over_group_limit": "more cards than their group may hold",
}
"""Those that are no word of a rule are codes of `policy.admission.admit`."""


@runtime_checkable
class Telling(Protocol):
    """A rule that knows more of it than that a job waited."""

    def why_never(self, job: int) -> str:
        """Why a job never began, as a code; asked when everything has come to its end."""


def reasons(floor: Floor, rule: Rule) -> dict[str, int]:
    """How many jobs never began for each reason, the most first."""
    why = rule.why_never if isinstance(rule, Telling) else lambda _job: WAITED
    never = (job for job, start in enumerate(floor.first_start) if start is None)
    return dict(Counter(map(why, never)).most_common())


def in_words(counts: Mapping[str, int]) -> str:
    """The reasons for people, each with its number; empty for none."""
    return ", ".join(f"{count:,} {_WORDS.get(code, code)}" for code, count in counts.items())

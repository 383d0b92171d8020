"""What people are told: every kind of notice with the facts that it needs; the words stand in templates/notices.

`facts` of `notices.notice` must have exactly the facts of its kind, in the form that is said here. A fact in `may_lack`
may be None, which means "not known" or "none"; all others must be there. Every template also has `instance`, `person`,
`host` and `contact`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Fact(StrEnum):
    """The form of a fact, as it is given; in a template it is text for people.

    `gpus`: the UUIDs of cards (at least one). `instant`: an aware datetime, shown in the lab's zone. `seconds`: a
    length of time. `count`: a whole number. `bytes`: an amount of memory. `text`: words, one line, may be empty.
    `flag`: yes or no.
    """

    GPUS = "gpus"
    INSTANT = "instant"
    SECONDS = "seconds"
    COUNT = "count"
    BYTES = "bytes"
    TEXT = "text"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class NoticeKind:
    """One kind: when it is sent, its facts, which of them may be None, and whether the lab's admins hear it too."""

    when: str
    facts: Mapping[str, Fact]
    may_lack: frozenset[str] = frozenset()
    admins: bool = False


GPUS, INSTANT, SECONDS, COUNT, BYTES, TEXT, FLAG = Fact
_LOSS = {"gpus": GPUS, "by": TEXT, "rule": TEXT}
"""`by` is who wants the cards (a person, or `the admin`; empty: nobody in particular), `rule` why they may have them,
as in "bob is within his guarantee" or "your lease ended at 12:00"."""
_BOOKING = {"booking": TEXT, "number": COUNT, "model": TEXT, "start": INSTANT, "until": INSTANT}
"""`booking` is its id, `number` of cards, `model` the pattern asked for."""

NOTICES: Mapping[str, NoticeKind] = {
    "warned": NoticeKind(
        "cards will be taken at `due_at`; `how` is `keep` where work on them or `gpu keep` calls it off, else empty;"
        " `back_at` is when they are thought to return",
        {**_LOSS, "due_at": INSTANT, "how": TEXT, "back_at": INSTANT},
        may_lack=frozenset({"back_at"}),
    ),
    "unwarned": NoticeKind("a warning is called off; `why` in words", {"gpus": GPUS, "why": TEXT}),
    "taken": NoticeKind(
        "cards are being taken, from now on; `claim` says that a claim to get them back stands, until `dies`",
        {**_LOSS, "claim": FLAG, "back_at": INSTANT, "dies": INSTANT},
        may_lack=frozenset({"back_at", "dies"}),
    ),
    "returned": NoticeKind(
        "cards that had been taken are back, until `until` (None: open)",
        {"gpus": GPUS, "until": INSTANT},
        may_lack=frozenset({"until"}),
    ),
    "booking_ahead": NoticeKind(
        "12 h and 1 h before: a booking of `by` is likely to need these cards from `start` until `until`",
        {"gpus": GPUS, "by": TEXT, "start": INSTANT, "until": INSTANT},
    ),
    "booking_starts": NoticeKind("the own booking starts soon", _BOOKING),
    "booking_ready": NoticeKind(
        "the booked (or queued for) cards are attached", {"booking": TEXT, "gpus": GPUS, "until": INSTANT}
    ),
    "booking_ends": NoticeKind(
        "the own booking ends soon; `next_by` is who waits for the cards (empty: nobody, so they may be kept)",
        {"booking": TEXT, "gpus": GPUS, "until": INSTANT, "next_by": TEXT},
    ),
    "booking_failed": NoticeKind(
        "the cards did not come free in time, or the booking cannot be kept; `next` says what happens now",
        {**_BOOKING, "why": TEXT, "next": TEXT},
        admins=True,
    ),
    "booking_trimmed": NoticeKind(
        "fewer cards may be had since the policy was changed: `left` stay, from `at` on (None: it is done)",
        {**_BOOKING, "left": COUNT, "at": INSTANT, "why": TEXT},
        may_lack=frozenset({"at"}),
    ),
    "booking_missed": NoticeKind(
        "nobody used the booked cards for `no_show` after the start, so the rest goes to others",
        {**_BOOKING, "no_show": SECONDS},
    ),
    "lease_ends": NoticeKind(
        "a lease ends; the cards stay until somebody waits; `extend` says whether `gpu extend` may be used",
        {"gpus": GPUS, "until": INSTANT, "extend": FLAG},
    ),
    "idle_warning": NoticeKind(
        "30 and 10 min before idle cards are taken for `by`, who waits; `since` is when the work ended",
        {"gpus": GPUS, "since": INSTANT, "due_at": INSTANT, "by": TEXT},
        may_lack=frozenset({"since"}),
    ),
    "claim_offered": NoticeKind(
        "cards for a claim are free, but only until `until`, or the container must be started first (`why`)",
        {"number": COUNT, "model": TEXT, "until": INSTANT, "why": TEXT},
        may_lack=frozenset({"until"}),
    ),
    "claim_died": NoticeKind("a claim ended without the cards", {"number": COUNT, "model": TEXT, "why": TEXT}),
    "quarantined": NoticeKind(
        "cards could not be proven free and go to nobody; `fix` is what the person can do",
        {"gpus": GPUS, "why": TEXT, "fix": TEXT},
        admins=True,
    ),
    "health": NoticeKind(
        "a card has a fault; `xid` from the kernel log; `yours` says that the user's own program caused it (31, 13),"
        " `kept` that the card stays in service",
        {"gpus": GPUS, "xid": COUNT, "what": TEXT, "yours": FLAG, "kept": FLAG},
        may_lack=frozenset({"xid"}),
        admins=True,
    ),
    "memory_over": NoticeKind(
        "programs hold more of a shared card's memory than the share; at `due_at` the newest are ended (None: never)",
        {"gpus": GPUS, "used": BYTES, "share": BYTES, "due_at": INSTANT},
        may_lack=frozenset({"due_at"}),
    ),
    "memory_neighbour": NoticeKind(
        "the container `by` holds more of a shared card's memory than its share; `due_at` as in `memory_over`",
        {"gpus": GPUS, "by": TEXT, "due_at": INSTANT},
        may_lack=frozenset({"due_at"}),
    ),
    "memory_ended": NoticeKind(
        "programs that were too much for a share of a card's memory got TERM, and KILL after `wait`; `names` of them",
        {"gpus": GPUS, "used": BYTES, "share": BYTES, "names": TEXT, "wait": SECONDS},
    ),
    "restarted": NoticeKind(
        "the host went down and is up again since `at`: what ran has ended; `gpus` are held still",
        {"at": INSTANT, "gpus": GPUS},
    ),
    "expires": NoticeKind(
        "the container is suspended at `until`; `end` is what the policy or its own date says, which may be sooner;"
        " `then` says what happens then",
        {"until": INSTANT, "end": INSTANT, "then": TEXT},
    ),
    "goes_on": NoticeKind(
        "the end that was told of is put off, to `until` (None: there is none any more)",
        {"until": INSTANT},
        may_lack=frozenset({"until"}),
    ),
    "alert": NoticeKind(
        "something that admins must look at (`alert`, a kind of `policy/alerts`) is new, lasts or is over (`word`)",
        {"word": TEXT, "alert": TEXT, "subject": TEXT, "gpus": GPUS, "since": INSTANT, "why": TEXT},
        may_lack=frozenset({"gpus"}),
        admins=True,
    ),
}
"""Every kind by its name, which is also the name of its template."""


def problems(kind: str, facts: Mapping[str, object]) -> list[str]:
    """What is wrong with the facts of a notice, in words; empty when they are those that its kind lists."""
    known = NOTICES.get(kind)
    if known is None:
        return [f"there is no kind of notice {kind!r}"]
    lacking = {name for name in known.facts if facts.get(name) is None} - known.may_lack
    unknown = set(facts) - set(known.facts)
    return [*(f"{kind}: {name} is missing" for name in sorted(lacking)), *(f"{kind}: no fact {one}" for one in unknown)]

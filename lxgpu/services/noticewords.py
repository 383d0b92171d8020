"""From facts to words: a notice's facts as text for people, in the lab's zone, and the message made of them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lxgpu.figures import short_duration, short_size
from lxgpu.instants import show_zoned
from lxgpu.model.cardnames import lent_as, short_model, short_uuids
from lxgpu.model.gpu import card_of
from lxgpu.model.reservation import Notice
from lxgpu.model.snapshot import Records
from lxgpu.services.noticekinds import NOTICES, Fact, problems

if TYPE_CHECKING:
    from lxgpu.services.site import Site

_WIDTH = 78
_LONGEST_FACT = 160
_LISTED = 8


@dataclass(frozen=True, slots=True)
class Cards:
    """Some cards as text: `RTX 3090 (GPU-8f1d2c3a)`, or `2 x RTX 3090 (GPU-8f1d2c3a, GPU-91ab0c4e)`."""

    text: str
    count: int

    def __str__(self) -> str:
        return self.text

    def verb(self, one: str, many: str) -> str:
        """The form of a word that fits their number."""
        return one if self.count == 1 else many

    @property
    def they(self) -> str:
        """`it` or `they`."""
        return self.verb("it", "they")

    @property
    def them(self) -> str:
        """`it` or `them`."""
        return self.verb("it", "them")


def cards(uuids: Iterable[str], records: Records) -> Cards:
    """Cards by their model and by the names that `lxgpu gpus` shows."""
    uuids = list(dict.fromkeys(uuids))
    named = short_uuids([*(card.uuid for card in records.cards), *uuids])
    short = [named[uuid] for uuid in uuids]
    models = {
        short_model(lent_as(card.model, uuid)) if (card := records.card(card_of(uuid))) else "GPU" for uuid in uuids
    }
    if len(uuids) == 1:
        return Cards(f"{models.pop()} ({short[0]})", 1)
    what = "GPUs" if len(models) > 1 or models == {"GPU"} else f"x {models.pop()}"
    listed = ", ".join(short[:_LISTED]) + (", …" if len(short) > _LISTED else "")
    return Cards(f"{len(uuids)} {what} ({listed})", len(uuids))


def message(site: Site, row: Notice, records: Records) -> tuple[str, str]:
    """What a notice says: (subject, text). A template that is broken costs its words, never the notice."""
    try:
        whole = site.texts.render(f"notices/{row.kind}.txt.j2", **_values(site, row, records))
    except Exception as error:  # noqa: BLE001 -- a mistake in the lab's own words silences nobody
        site.say(f"the notice {row.kind} is told in plain form: {error}")
        whole = "\n".join([f"{row.kind}: {row.instance}", *(f"{key}: {value}" for key, value in row.facts.items())])
    lines = [_fill(line) for line in whole.splitlines()]
    text = "\n".join(line for line in lines if line)
    return " ".join(whole.partition("\n")[0].split()).rstrip("."), text


def _fill(line: str) -> str:
    """A line as several that are short enough; no name of a card is broken."""
    return textwrap.fill(line, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _values(site: Site, row: Notice, records: Records) -> dict[str, object]:
    policy = site.policy()
    if wrong := problems(row.kind, row.facts):
        raise ValueError("; ".join(wrong))
    forms = NOTICES[row.kind].facts

    def word(name: str, value: object) -> object:
        if value is None:
            return None
        match forms[name]:
            case Fact.GPUS:
                return cards(map(str, value) if isinstance(value, list | tuple) else [str(value)], records)
            case Fact.INSTANT:
                at = datetime.fromisoformat(str(value))
                return show_zoned(at, now=row.created_at, zone=policy.zone)
            case Fact.SECONDS | Fact.BYTES as form:
                short = short_duration if form is Fact.SECONDS else short_size
                return short(float(str(value)))
            case Fact.TEXT:
                text = one_line(str(value))
                return text if name != "model" else "any model" if value == "*" else short_model(text)
            case _:
                return value

    told: Mapping[str, object] = {name: word(name, row.facts.get(name)) for name in forms}
    return {
        **told,
        "instance": row.instance,
        "person": row.person,
        "host": site.host,
        "contact": one_line(policy.contact),
    }


def one_line(text: str) -> str:
    """People's own words, such as a reason, on one line, bounded, with nothing that could steer a terminal."""
    line = " ".join(text.split())
    shown = "".join(char if char.isprintable() else "?" for char in line)
    return (shown if len(shown) <= _LONGEST_FACT else f"{shown[: _LONGEST_FACT - 1]}…").rstrip(".")

"""Telling people: every kind has its words, and what is in the outbox is tried once, on every way, whatever hangs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest
from fakes.site import lab_policy, make_site, newcomer
from fakes.system import START

from lxgpu.config.shipped import shipped
from lxgpu.drivers.terminals import plain_text
from lxgpu.drivers.texts import JinjaTexts
from lxgpu.errors import LxgpuError
from lxgpu.model.quota import Terms
from lxgpu.model.reservation import Notice
from lxgpu.services import notices
from lxgpu.services.guestviews import GuestGpu
from lxgpu.services.noticefile import FILE, KEPT, read_notices, still_true
from lxgpu.services.noticekinds import NOTICES, Fact
from lxgpu.services.noticemerge import messages
from lxgpu.services.notices import LOCK, notice, send_due
from lxgpu.services.noticewords import message
from lxgpu.services.site import Site

LATER = START + timedelta(hours=2)
SAMPLES = {
    Fact.GPUS: ["GPU-00000001-1111-2222-3333-444444444444", "GPU-00000002-1111-2222-3333-444444444444"],
    Fact.INSTANT: LATER,
    Fact.SECONDS: 3600,
    Fact.COUNT: 2,
    Fact.BYTES: 7 * 2**30,
    Fact.TEXT: "bob is within his guarantee",
    Fact.FLAG: True,
}


def sample(kind: str, *, lack: bool = False, **facts: object) -> Notice:
    """A notice of a kind for alice; with `lack` without all that may be None."""
    known = NOTICES[kind]
    values = {name: None if lack and name in known.may_lack else SAMPLES[form] for name, form in known.facts.items()}
    return notice(kind, instance="alice", person="alice", about="a1", facts={**values, **facts}, now=START)


def put(site: Site, *rows: Notice) -> None:
    """Somebody has decided something."""
    with site.write() as tx:
        tx.put(*rows)


def outcome(site: Site, row: Notice) -> dict[str, object]:
    """What became of a notice; it was tried."""
    (found,) = [one for one in site.inventory.notices_about(row.about) if one.id == row.id]
    assert found.sent_at == site.clock.now()
    return dict(found.outcome)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Alice has a card, an address, and a terminal open."""
    policy = replace(lab_policy(), timezone="Asia/Shanghai", users={"alice": Terms(mail="alice@lab.example")})
    site = make_site(tmp_path, policy=policy)
    newcomer(site, "alice", gpus=1)
    site.probe.terminals[site.engine.init("alice")] = [True, True, False]
    return site


# ---- words


def test_every_kind_has_a_template_and_every_template_a_kind():
    """Nobody is told nothing because a file is missing."""
    assert {path.name.removesuffix(".txt.j2") for path in (shipped("templates") / "notices").iterdir()} == set(NOTICES)


@pytest.mark.parametrize("lack", [False, True])
@pytest.mark.parametrize("kind", sorted(NOTICES))
def test_every_kind_reads_well(site, kind, lack):
    """Strict undefined, short lines, nothing left of the machinery, the contact at the end, and a terminal takes it."""
    row = sample(kind, lack=lack)
    before = len(site.say.lines)
    subject, text = message(site, row, site.inventory.read())
    assert site.say.lines[before:] == []
    assert text.splitlines()[-1] == "Help: gpu-admin@lab.example"
    assert all(len(line) <= 78 for line in text.splitlines()), text
    assert not any(word in text for word in ("None", "{", "}", "[", "True", "..", "2027-03-01T")), text
    assert 5 < len(subject) < 160
    assert "\n" not in subject
    assert plain_text(f"lxgpu: {text}") == f"lxgpu: {text}"


def test_a_warning_says_who_why_when_and_how_to_keep_it(site):
    """The whole of it, as alice reads it."""
    gpus = SAMPLES[Fact.GPUS][:1]
    row = sample("warned", gpus=gpus, by="bob", how="keep", back_at=LATER + timedelta(days=1))
    assert message(site, row, site.inventory.read())[1].splitlines() == [
        "RTX 3090 (GPU-00000001) will be taken at 18:00 CST for bob.",
        'To keep it: work on it, or gpu keep 2h --reason "why"',
        "Done already? gpu release gives back at once.",
        "Why: bob is within his guarantee.",
        "Thought to be back: tomorrow 18:00 CST.",
        "Only programs on the GPU end; all others live on.",
        "Help: gpu-admin@lab.example",
    ]


def test_what_is_told_of_an_end_is_true(site):
    """More time is offered where it can be had; what is taken says what brings it back, and only that."""
    records = site.inventory.read()
    for by, offered in (("", True), ("bob", False)):
        text = message(site, sample("booking_ends", next_by=by), records)[1]
        assert ("gpu extend" in text) is offered
        assert "are warned" in text.lower()
    claimed = message(site, sample("taken", claim=True), records)[1]
    assert "gpu reserve" not in claimed
    assert "Your claim to that lasts until 18:00 CST." in claimed
    assert "To have as many again: gpu reserve 2 --for 4h" in message(site, sample("taken", claim=False), records)[1]


@pytest.mark.parametrize("kind", sorted(NOTICES))
def test_no_notice_names_a_command_of_the_host(site, kind):
    """People inside cannot type one."""
    assert "lxgpu " not in message(site, sample(kind), site.inventory.read())[1]


def test_cards_that_begin_alike_are_told_apart(site):
    """By the names that `lxgpu gpus` prints, also in the banner and inside."""
    twins = [f"GPU-359f95dd-000{number}-4000-8000-000000000000" for number in (1, 2)]
    row = sample("warned", gpus=twins, by="bob")
    assert message(site, row, site.inventory.read())[1].startswith(
        "2 GPUs (GPU-359f95dd-0001, GPU-359f95dd-0002) will be taken"
    )


def test_words_of_people_stay_one_harmless_line(site):
    """A reason with line ends, escapes and no end neither steers a terminal nor makes a second header of a mail."""
    row = sample("unwarned", why="x\r\nBcc: all@lab.example\x1b[2J" + "y" * 5000)
    subject, text = message(site, row, site.inventory.read())
    assert len(text.splitlines()) < 8
    assert "\x1b" not in subject + text
    assert "\r" not in subject + text
    assert len(text) < 500


def test_a_broken_template_costs_the_words_and_not_the_notice(site):
    """The admin's own template has a mistake: people hear of it in plain form, and the admin of the mistake."""

    def render(template: str, **_: object) -> None:
        raise LxgpuError("bad_file", f"template {template}: what is this")

    broken = replace(site, texts=Instead(None, render=render))
    put(site, sample("taken"))
    assert send_due(broken) == 1
    assert "rule: bob is within his guarantee" in site.board.files["alice", FILE]
    assert "what is this" in site.say.lines[-1]


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("nonsense", {}),
        ("expires", {"until": LATER}),
        ("expires", {"until": None, "then": ""}),
        ("expires", {"until": LATER, "then": "", "more": 1}),
    ],
)
def test_wrong_facts_are_refused_where_they_are_written(kind, facts):
    """Not later, when somebody should be told."""
    with pytest.raises(ValueError, match="notice"):
        notice(kind, instance="alice", person="alice", facts=facts, now=START)


# ---- one message


def test_one_taking_of_several_cards_is_one_message(site):
    """A row for each card, as its assignment needs it; people hear once, with all cards and all reasons."""
    cards = SAMPLES[Fact.GPUS]
    mine = [
        replace(sample("warned", gpus=[card], by="bob", rule=f"reason {number}"), id=f"w{number}", about=f"a{number}")
        for number, card in enumerate(cards)
    ]
    other = replace(sample("warned", gpus=["GPU-00000003"], by="bob", due_at=LATER + timedelta(hours=1)), id="w9")
    put(site, *mine, other)
    assert send_due(site) == 3
    sent = {subject.partition(" will")[0]: text for subject, text, _ in site.notify.sent}
    both, one = "[lxgpu] 2 x RTX 3090 (GPU-00000001, GPU-00000002)", "[lxgpu] GPU (GPU-00000003)"
    assert sorted(sent) == [both, one]
    assert "Why: reason 0; reason 1." in sent[both]
    assert len(site.probe.told) == 2
    for row in mine:
        assert outcome(site, row) == {"terminals": "2 told, 1 missed", "notice": "written"}
    assert site.board.files["alice", FILE].count("=== ") == 2


def test_idle_cards_of_one_taking_are_idle_since_the_latest(site):
    """What is said of all of them is true of each."""
    rows = [
        replace(sample("idle_warning", gpus=[card], since=START + timedelta(minutes=number)), id=f"i{number}")
        for number, card in enumerate(SAMPLES[Fact.GPUS])
    ]
    put(site, *rows)
    send_due(site)
    ((subject, _, _),) = site.notify.sent
    assert "are idle since 16:01 CST" in subject


@pytest.mark.parametrize("other", ["kind", "instance", "due_at", "by", "how"])
def test_what_differs_in_more_than_the_cards_stays_apart(other):
    """Nobody hears of another's cards, or a wrong time."""
    first = sample("warned", by="bob")
    match other:
        case "kind":
            second = sample("taken", by="bob")
        case "instance":
            second = replace(sample("warned", by="bob"), instance="ben")
        case "due_at":
            second = sample("warned", by="bob", due_at=LATER + timedelta(seconds=1))
        case "by":
            second = sample("warned", by="ben")
        case _:
            second = sample("warned", by="bob", how="keep")
    assert [one.rows for one in messages([first, second])] == [(first,), (second,)]


# ---- what still holds


def held(number: int, state: str = "active", use: str | None = None) -> GuestGpu:
    """A card as its container sees it."""
    name = f"GPU-{number:08}"
    return GuestGpu(name, name, None, "RTX 3090", state, START, None, use=use, name=name)


def test_what_was_said_holds_as_long_as_it_is_so(site):
    """A warning while the card is to be taken, the newest one about it; news for an hour; three at most."""
    put(site, replace(sample("warned", due_at=LATER), id="w1"))
    send_due(site)
    put(site, replace(sample("warned", due_at=LATER + timedelta(hours=1)), id="w2", created_at=START + timedelta(1)))
    send_due(site)
    said = read_notices(site, site.inventory.read(), "alice")
    day = START + timedelta(days=1)
    assert [one.kind for one in said] == ["warned", "warned"]
    assert still_true(said, [held(1)], now=day) == ()
    assert still_true(said, [held(1, "warned"), held(2, "warned")], now=day) == said[:1]
    for number in range(4):
        put(site, replace(sample("taken"), id=f"t{number}", created_at=day + timedelta(minutes=number)))
        send_due(site)
    said = read_notices(site, site.inventory.read(), "alice")
    shown = still_true(said, [held(1, "warned")], now=day + timedelta(minutes=5))
    assert [(one.kind, one.at.minute) for one in shown] == [("warned", 0), ("taken", 3), ("taken", 2)]
    assert [one.at.minute for one in still_true(said, [], now=day + timedelta(minutes=62))] == [3, 2]


def test_a_word_about_idle_cards_holds_while_they_are_idle(site):
    """Whoever works on them need not read it."""
    put(site, sample("idle_warning"))
    send_due(site)
    said = read_notices(site, site.inventory.read(), "alice")
    assert still_true(said, [held(1, use="idle")], now=START) == said
    assert still_true(said, [held(1, use="busy"), held(7, use="idle")], now=START) == ()


@pytest.mark.parametrize(
    "text", ["", "=== nonsense", "=== 2027-03-01 16:00 [old]\ntaken\n\n", "=== 2027-13-01 16:00+08:00 taken [x]\ny\n"]
)
def test_a_file_of_another_age_tells_nothing_and_breaks_nothing(site, text):
    """And is kept for people to read."""
    site.board.files["alice", FILE] = text
    assert read_notices(site, site.inventory.read(), "alice") == ()
    put(site, sample("taken"))
    send_due(site)
    assert site.board.files["alice", FILE].endswith(text)
    assert len(read_notices(site, site.inventory.read(), "alice")) == 1


# ---- ways


def test_all_ways_are_tried_and_recorded(site):
    """Terminals, file, mail and channels; the row and the history say what became of each."""
    site.notify.ways = {"mail": "sent", "webhook chat": "it was not taken"}
    row = sample("warned", by="bob")
    put(site, row)
    assert send_due(site) == 1
    told = {"terminals": "2 told, 1 missed", "notice": "written"}
    assert outcome(site, row) == {**told, **site.notify.ways}
    ((init, text),) = site.probe.told
    assert init == site.engine.init("alice")
    assert text.startswith("lxgpu: 2 x RTX 3090")
    ((subject, body, mail),) = site.notify.sent
    assert mail == "alice@lab.example"
    assert subject == "[lxgpu] 2 x RTX 3090 (GPU-00000001, GPU-00000002) will be taken at 18:00 CST for bob"
    assert body in text
    newest = site.inventory.events(subject="alice", limit=2)
    assert [(event.kind, event.rule) for event in newest] == [("not_told", "warned"), ("told", "warned")]
    assert newest[0].detail == {"webhook chat": "it was not taken"}
    assert dict(newest[1].detail) == {"person": "alice", "about": "a1", **told}


def test_once_is_enough(site):
    """The next tick sends nothing again."""
    put(site, sample("warned"))
    assert [send_due(site), send_due(site)] == [1, 0]
    assert (len(site.probe.told), len(site.notify.sent)) == (1, 1)


def test_who_comes_while_another_sends_leaves_it_to_that(site):
    """Two processes tick at once: people hear it once."""
    put(site, sample("warned"))
    site.locks.others.add(LOCK)
    assert send_due(site) == 0
    assert site.probe.told == []


def test_a_crash_before_the_mark_tells_again_and_mails_once(site):
    """It dies after the terminals were told: the warning does not count as given, and is given by the next tick."""
    row = sample("warned")
    put(site, row)

    class DiesError(Exception):
        pass

    def write(**_: object) -> None:
        raise DiesError

    with pytest.raises(DiesError):
        send_due(replace(site, inventory=Instead(site.inventory, write=write)))
    assert [one.id for one in site.inventory.read().notices] == [row.id]
    assert site.notify.sent == []
    assert send_due(site) == 1
    assert len(site.notify.sent) == 1
    assert site.board.files["alice", FILE].count(f"[{row.id}]") == 1


def test_a_crash_while_mailing_never_mails_twice(site):
    """It dies with the mail on its way: the row says that this was begun, and nobody begins again."""
    row = sample("warned")
    put(site, row)

    class Dies(BaseException):
        pass

    def send(*_: object, **__: object) -> None:
        raise Dies

    with pytest.raises(Dies):
        send_due(replace(site, notify=Instead(None, send=send)))
    assert outcome(site, row)["channels"] == "begun"
    assert send_due(site) == 0
    assert site.notify.sent == []


TROUBLES = {
    "stopped": ("it does not run", "written"),
    "frozen": ("2 told, 1 missed", "written"),
    "gone": ("there is no such container", None),
    "hung": ("it did not answer within 5 s", "written"),
    "LXD away": ("LXD cannot be reached", "written"),
    "host disk full": ("2 told, 1 missed", "the folder of alice cannot be used; No space left on device"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble_is_recorded_and_costs_only_its_own(site, trouble):
    """Alice's container or its host is in a bad way; ben hears all of his, and both count as tried."""
    newcomer(site, "ben")
    site.probe.terminals[site.engine.init("ben")] = [True]
    mine = replace(sample("warned"), instance="zoe" if trouble == "gone" else "alice")
    yours = replace(sample("returned"), id="b1", instance="ben", about="b")
    where = site
    match trouble:
        case "stopped":
            site.engine.stop("alice", timeout_s=0, force=True)
        case "frozen":
            site.engine.freeze("alice")
        case "hung":
            where = replace(site, probe=Instead(site.probe, tell=not_for(site.engine.init("alice"), site.probe.tell)))
        case "LXD away":
            where = replace(site, engine=Instead(site.engine, instance=not_for("alice", site.engine.instance)))
        case "host disk full":
            site.board.full.add("alice")
    put(site, mine, yours)
    assert send_due(where) == 2
    terminals, file = TROUBLES[trouble]
    assert outcome(site, mine) == {"terminals": terminals, **({"notice": file} if file else {})}
    assert outcome(site, yours) == {"terminals": "1 told, 0 missed", "notice": "written"}


class Instead:
    """Something of the site, but for some of its methods."""

    def __init__(self, whole: object, **parts: object) -> None:
        self._whole = whole
        self._parts = parts

    def __getattr__(self, name: str) -> object:
        return self._parts[name] if name in self._parts else getattr(self._whole, name)


def not_for(who: object, ask: Callable[..., object]) -> Callable[..., object]:
    """A method that fails for one container."""

    def asked(one: object, *rest: object) -> object:
        if one == who:
            raise LxgpuError("unavailable", "LXD cannot be reached" if one == "alice" else TROUBLES["hung"][0])
        return ask(one, *rest)

    return asked


def test_what_never_answers_is_not_waited_for(site, monkeypatch):
    """A look into one container and a channel never come back: the others hear, and all of it is recorded."""
    monkeypatch.setattr(notices, "QUICK_S", 0.2)
    monkeypatch.setattr(notices, "SLOW_S", 0.2)
    newcomer(site, "ben")
    end, mine = Event(), sample("warned")
    yours = replace(sample("returned"), id="b1", instance="ben", about="b")

    def tell(init: int, text: str) -> tuple[int, int]:
        if init == site.engine.init("alice"):
            end.wait(60)
        return site.probe.tell(init, text)

    def send(_subject: str, text: str, *, mail: str | None) -> dict[str, str]:
        if "taken" in text:
            end.wait(60)
        return {"mail": f"sent to {mail}"}

    put(site, mine, yours)
    try:
        assert send_due(replace(site, probe=Instead(site.probe, tell=tell), notify=Instead(None, send=send))) == 2
    finally:
        end.set()
    late = "no answer within 0.2 s"
    assert outcome(site, mine) == {"terminals": late, "channels": late}
    assert outcome(site, yours) == {
        "terminals": "0 told, 0 missed",
        "notice": "written",
        "mail": "sent to alice@lab.example",
    }


def test_the_lab_hears_of_faults_too(site):
    """A quarantine goes to the contact as well, where that is an address; a person without one costs nothing."""
    put(site, sample("quarantined"), replace(sample("quarantined"), id="n2", person="nobody"))
    send_due(site)
    assert {mail for _, _, mail in site.notify.sent} == {
        "alice@lab.example,gpu-admin@lab.example",
        "gpu-admin@lab.example",
    }


def test_the_file_inside_keeps_the_newest_on_top(site):
    """And not more than some."""
    for number in range(KEPT + 3):
        put(site, replace(sample("unwarned", why=f"reason {number}"), id=f"n{number:02}"))
        send_due(site)
    text = site.board.files["alice", FILE]
    assert text.startswith("=== 2027-03-01 16:00+08:00 unwarned [n22]\n")
    assert [line for line in text.splitlines() if line.startswith("Why")] == [
        f"Why: reason {number}." for number in range(KEPT + 2, 2, -1)
    ]


def test_a_row_without_its_facts_is_told_in_plain_form(site):
    """An older lxgpu wrote it, or a fault: what is known reaches people, and what is wrong the admin."""
    put(site, Notice("n1", "warned", "alice", "alice", START, facts={"by": "bob"}))
    assert send_due(site) == 1
    assert "warned: alice\nby: bob\n" in site.board.files["alice", FILE]
    assert "gpus is missing" in site.say.lines[-1]


@pytest.mark.parametrize(
    "words",
    [
        "{{ gpus.count // 0 }}",
        "{{ gpus + 1 }}",
        "{{ gpus.nothing() }}",
        "{% if %}",
        "{{ nobody }}",
        "{{ by.a.b }}",
        b"\xff",
    ],
)
def test_whatever_a_labs_own_template_does_costs_its_words_alone(site, tmp_path, words):
    """A division by zero, wrong types, half a sentence, no text at all: the notice is told all the same."""
    folder = tmp_path / "own" / "notices"
    folder.mkdir(parents=True)
    (folder / "taken.txt.j2").write_bytes(words if isinstance(words, bytes) else words.encode())
    texts = JinjaTexts((tmp_path / "own", shipped("templates")))
    with pytest.raises(LxgpuError) as caught:
        texts.render("notices/taken.txt.j2", gpus="a card", by="bob")
    assert caught.value.code == "bad_file"
    put(site, sample("taken"))
    assert send_due(replace(site, texts=texts)) == 1
    assert "rule: bob is within his guarantee" in site.board.files["alice", FILE]


def test_a_fault_on_one_way_is_an_outcome_and_stops_nobody_else(site):
    """Terminals that fail for an odd reason, a channel that is broken inside: recorded, never sent again."""
    newcomer(site, "ben")
    mine, yours = sample("warned"), replace(sample("returned"), id="b1", instance="ben", about="b")

    def tell(init: int, text: str) -> tuple[int, int]:
        if init == site.engine.init("alice"):
            raise OSError(28, "No space left on device")
        return site.probe.tell(init, text)

    def send(_subject: str, text: str, *, mail: str | None) -> dict[str, str]:
        if "taken" in text:
            raise ZeroDivisionError("odd")
        return {"mail": f"sent to {mail}"}

    put(site, mine, yours)
    assert send_due(replace(site, probe=Instead(site.probe, tell=tell), notify=Instead(None, send=send))) == 2
    assert outcome(site, mine) == {
        "terminals": "a fault in lxgpu: OSError: [Errno 28] No space left on device",
        "channels": "a fault in lxgpu: ZeroDivisionError: odd",
    }
    assert outcome(site, yours)["mail"] == "sent to alice@lab.example"
    assert not site.inventory.read().notices

"""What a container may ask over its socket, and that it speaks for itself alone."""

from __future__ import annotations

import re

import pytest
from guest_client import ask, dial

POSTS = {
    "release": {"gpus": 1},
    "extend": {"seconds": 60},
    "keep": {"seconds": 60, "reason": "a long load"},
    "reserve": {"gpus": 1, "seconds": 60},
    "edit": {"id": "r1", "gpus": 1},
    "cancel": {"id": "r1"},
}


def test_status_is_that_of_the_sockets_container(guests):
    """Each socket tells of its own container, in the form that all JSON of lxgpu has."""
    guests.uses.give("alice", "GPU-1")
    for name, cards in (("alice", 1), ("bob", 0)):
        status, told = ask(guests.path(name), "GET", "/v1/status")
        assert (status, told["instance"], len(told["gpus"])) == (200, name, cards)
        assert told["at"] == "2027-03-01T08:00:00Z"
        assert told["next_at"] is None


def test_every_change_is_made_in_the_name_of_the_socket(guests):
    """Whatever is asked over bob's socket is asked by bob."""
    for route, body in POSTS.items():
        ask(guests.path("bob"), "POST", f"/v1/{route}", body)
    assert {asked[1] for asked in guests.uses.asked} == {"bob"}
    assert [asked[0] for asked in guests.uses.asked] == list(POSTS)


def test_the_values_arrive_as_they_were_sent(guests):
    """Numbers, texts and nothing at all."""
    path = guests.path("alice")
    ask(path, "POST", "/v1/release", {"gpus": None})
    ask(path, "POST", "/v1/keep", {"seconds": 7200, "reason": "  Auswertung läuft  "})
    ask(path, "POST", "/v1/reserve", {"gpus": 2, "seconds": 60, "at": "tomorrow 09:00", "model": "*3090*"})
    assert guests.uses.asked == [
        ("release", "alice", None, False),
        ("keep", "alice", 7200, "Auswertung läuft"),
        ("reserve", "alice", 2, 60, "tomorrow 09:00", "*3090*"),
    ]


def test_a_reservations_words_arrive_all(guests):
    """Those that the host's command has: an end, a class, a note, every week."""
    more = {"until": "18:00", "weekly": True, "at": "mon 09:00", "class": "low", "note": " for icml "}
    assert ask(guests.path("alice"), "POST", "/v1/reserve", {"gpus": 1, **more})[0] == 200
    said = (("class_name", "low"), ("note", "for icml"), ("until", "18:00"), ("weekly", True))
    assert guests.uses.asked == [("reserve", "alice", 1, None, "mon 09:00", "*", *said)]


@pytest.mark.parametrize(
    "more",
    [
        {}, {"seconds": 60, "until": "18:00"}, {"seconds": 60, "weekly": 1}, {"seconds": 60, "class_name": "low"},
        {"seconds": 60, "note": "\x1b[2J"}, {"seconds": 60, "note": "x" * 201}, {"seconds": 60, "class": None},
    ],
)  # fmt: skip
def test_a_reservation_has_one_end_and_nothing_else(guests, more):
    """Strict: no other field, no other type, no second end."""
    status, told = ask(guests.path("alice"), "POST", "/v1/reserve", {"gpus": 1, **more})
    assert (status, told["error"]["code"]) == (400, "usage")
    assert guests.uses.asked == []


def test_what_can_never_be_held_is_refused_without_a_change(guests):
    """A question: the limit's refusal, with its exit status."""
    assert ask(guests.path("alice"), "POST", "/v1/may", {"gpus": 2})[0] == 200
    status, told = ask(guests.path("alice"), "POST", "/v1/may", {"gpus": 3})
    assert (status, told["error"]["exit"]) == (422, 5)
    assert guests.uses.asked == []


def test_anothers_reservation_is_not_there(guests):
    """Bob's booking is as unknown to alice as one that never was, and stays."""
    guests.uses.bookings["r7"] = "bob"
    for wanted in ("r7", "r8"):
        status, told = ask(guests.path("alice"), "POST", "/v1/cancel", {"id": wanted})
        assert (status, told["error"]["code"], told["error"]["exit"]) == (404, "not_found", 3)
    assert guests.uses.bookings == {"r7": "bob"}


def test_a_refusal_says_what_why_and_how_to_mend_it(guests):
    """The error is that of the command line."""
    status, told = ask(guests.path("alice"), "POST", "/v1/reserve", {"gpus": 3, "seconds": 60})
    assert status == 422
    assert told == {
        "error": {
            "code": "over_limit",
            "what": "alice may hold 2 GPUs",
            "why": ["it is policy"],
            "fix": "ask for less",
            "exit": 5,
        }
    }


@pytest.mark.parametrize("route", POSTS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"[" * 50_000,
        b'{"gpus": ' + b"9" * 5_000 + b"}",
        {"instance": "bob"},
        {"name": "bob", "gpus": 1, "seconds": 60, "reason": "x", "id": "r1"},
        {"gpus": "1", "seconds": "60", "reason": 1, "id": 1},
        {"gpus": True, "seconds": True, "reason": True, "id": True},
        {"gpus": 0, "seconds": 0, "reason": " ", "id": ""},
        {"gpus": -1, "seconds": -1, "reason": "\x1b[31m", "id": "\x00"},
        {"gpus": 1.5, "seconds": 1e300, "reason": "x" * 201, "id": "x" * 65},
    ],
    ids=lambda body: repr(body)[:40],
)
def test_a_misshapen_request_changes_nothing(guests, route, body):
    """No field of another name, type or size comes through; the answer is a usage error, also for no JSON at all."""
    status, told = ask(guests.path("alice"), "POST", f"/v1/{route}", body)
    assert (status, told["error"]["code"], told["error"]["exit"]) == (400, "usage", 2)
    assert guests.uses.asked == []
    assert guests.uses.faults == []
    words = " ".join([told["error"]["what"], *told["error"]["why"], told["error"]["fix"]])
    assert not re.search("should|Input|String|valid|Value error|Extra|Field required", words), "these are not our words"


@pytest.mark.parametrize(
    ("route", "body", "what", "fix"),
    [
        ("keep", {"seconds": 60, "reason": " "}, "the reason is empty", "give the reason, in a few words"),
        ("keep", {"seconds": 60, "reason": "x" * 201}, "the reason has more than 200 characters", "make it shorter"),
        ("keep", {"seconds": 0, "reason": "x"}, "the length in seconds is less than 1", "give 1 or more"),
        ("keep", {"seconds": 60}, "the reason is missing", "give the reason"),
        ("reserve", {"gpus": 1, "seconds": 60, "note": "a\nb"}, "the note has characters that it cannot have", "write"),
        ("reserve", {"gpus": 2000, "seconds": 60}, "the number of GPUs is more than 1024", "give 1024 or less"),
        ("reserve", {"gpus": 1}, "give seconds or until, one of them", "look at what was typed"),
        ("extend", {"seconds": 60, "x" * 99: 1}, f"there is no field '{'x' * 59}…'", "leave it out"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_does_not_fit_is_said_in_words_with_what_helps(guests, route, body, what, fix):
    """Whoever reads it need not know what a body is made of."""
    _, told = ask(guests.path("alice"), "POST", f"/v1/{route}", body)
    assert told["error"]["what"] == what
    assert told["error"]["fix"].startswith(fix)


def test_an_unknown_way_and_a_wrong_method_are_not_found(guests):
    """Also the ways that the library would bring along."""
    for method, route in [("GET", "/"), ("GET", "/docs"), ("GET", "/openapi.json"), ("POST", "/v1/status")]:
        status, told = ask(guests.path("alice"), method, route)
        assert (status, told["error"]["code"]) == (404, "not_found")
    assert guests.uses.asked == []


def test_a_fault_of_ours_is_heard_of_and_shows_nothing(guests):
    """The caller learns that there was one, the daemon which; the socket serves on."""
    guests.uses.broken = True
    status, told = ask(guests.path("alice"), "GET", "/v1/status")
    assert (status, told["error"]["code"], told["error"]["exit"]) == (500, "internal", 1)
    assert "secret" not in str(told)
    assert [(name, str(error)) for name, error in guests.uses.faults] == [("alice", "/secret/path")]
    assert ask(guests.path("alice"), "GET", "/v1/why")[0] == 200


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("host", ["", "Host: \r\n", "Host: x\r\n"])
@pytest.mark.parametrize("route", ["/nowhere", "/v1/status/", "//", "/v1/status", "*"])
def test_nothing_of_the_host_is_told_whatever_a_request_leaves_out(guests, route, host, version):
    """Where the socket lies is the host's own; what is echoed is what was asked for."""
    with dial(guests.path("alice")) as link:
        link.sendall(f"GET {route} HTTP/{version}\r\n{host}\r\n".encode())
        told = b""
        while part := link.recv(65536):
            told += part
    for secret in ("/proc", "self/fd", str(guests.path("alice").parent), "sock"):
        assert secret.encode() not in told, told
    status = int(told.split()[1])
    assert status in ({200, 400} if route == "/v1/status" else {400, 404})

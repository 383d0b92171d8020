"""Mail, webhooks and programs, sent to real servers on the loopback, some of them in a bad mood."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import pytest
from doors import closed_port, open_door

from lxgpu.drivers.notify import ChannelNotifier

# Apprise looks at all its services at the first use, and libraries that some of these use are old.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TEXT = "RTX 3090 will be taken at 18:00.\nWhy: bob ≤ 2 GPUs.\nHelp: gpu-admin@lab.example"
SUBJECT = "[lxgpu] RTX 3090 will be taken at 18:00"
MAIL = "alice@lab.example"
LIMIT_S = 5.0


def send(*channels: tuple[str, str, str], mail: str | None = MAIL) -> dict[str, str]:
    """Send the message to some channels."""
    begun = time.monotonic()
    told = dict(ChannelNotifier(channels, limit_s=LIMIT_S).send(SUBJECT, TEXT, mail=mail))
    assert time.monotonic() - begun < LIMIT_S + 2
    return told


def body(mail) -> str:
    """The plain text of a mail."""
    part = next(part for part in mail.walk() if part.get_content_type() == "text/plain")
    return part.get_payload(decode=True).decode().replace("\r\n", "\n").strip()


def program(folder: Path, text: str) -> str:
    """A program of the admin."""
    path = folder / "tell"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_nothing_is_set_up():
    """No channel is no error, and loads nothing."""
    assert send() == {}


def test_mail_arrives_as_it_was_written():
    """Subject, sender, each receiver and the text, through a plain mail server."""
    with open_door("smtp", "takes") as door:
        told = send(("mail", f"127.0.0.1:{door.port}", "lxgpu@lab.example"), mail=f"{MAIL},gpu-admin@lab.example")
    assert told == {"mail": "sent"}
    assert sorted(door.receivers) == [MAIL, "gpu-admin@lab.example"]
    for mail in door.mails:
        assert mail["Subject"] == SUBJECT
        assert "lxgpu@lab.example" in mail["From"]
        assert body(mail) == TEXT


def test_mail_by_an_address_of_apprise():
    """Users and passwords stand in a URL; the receiver is added."""
    with open_door("smtp", "takes") as door:
        told = send(("mail", f"mailto://127.0.0.1:{door.port}?from=lxgpu@lab.example&smtp=127.0.0.1&format=text", ""))
    assert told == {"mail": "sent"}
    assert door.receivers == [MAIL]


def test_nobody_to_mail_to():
    """A person without an address is no fault, and is said."""
    assert send(("mail", "127.0.0.1:25", ""), mail=None) == {"mail": "no address is known"}


def test_a_webhook_gets_json_with_all_of_its_address():
    """The path and what stands behind the question mark are kept; title, message and the whole as `text`."""
    with open_door("http", "takes") as door:
        told = send(("webhook", f"http://127.0.0.1:{door.port}/hooks/gpu%20room?token=a%2Bb", ""))
    assert told == {"webhook 127.0.0.1": "sent"}
    ((target, post),) = door.posts
    assert target == "/hooks/gpu%20room?token=a%2Bb"
    assert (post["title"], post["message"], post["text"]) == (SUBJECT, TEXT, f"{SUBJECT}\n{TEXT}")


@pytest.mark.parametrize("mood", ["refuses", "hangs", "drips", "is closed"])
@pytest.mark.parametrize("kind", ["smtp", "http"])
def test_a_server_in_a_bad_mood_is_named_in_time(kind, mood):
    """It says no, never answers, answers without an end, or is not there; the other way is told all the same."""
    with open_door(kind, mood) as door, open_door("http", "takes") as good:
        port = closed_port() if mood == "is closed" else door.port
        bad = (
            ("mail", f"127.0.0.1:{port}", "") if kind == "smtp" else ("webhook", f"http://localhost:{port}/SECRET", "")
        )
        told = send(bad, ("webhook", f"http://127.0.0.1:{good.port}/", ""))
    assert told.pop("webhook 127.0.0.1") == "sent"
    ((_, why),) = told.items()
    assert why not in {"", "sent"}
    assert "SECRET" not in why
    assert "\n" not in why
    hints = {"refuses": ("550", "403", "Forbidden"), "is closed": ("refused", "Connection error")}
    assert any(hint in why for hint in hints.get(mood, ("answer", "timed out", "Connection error"))), why


def test_a_program_gets_the_text_as_its_input(tmp_path):
    """With the subject and the address in its environment, and words of its own behind its name."""
    path = program(tmp_path, f'cat >{tmp_path}/out; echo "$1 $LXGPU_SUBJECT $LXGPU_MAIL" >>{tmp_path}/out')
    assert send(("command", f"{path} 'to all'", "")) == {"command tell": "sent"}
    assert (tmp_path / "out").read_text() == f"{TEXT}to all {SUBJECT} {MAIL}\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo first >&2; echo no such room >&2; exit 3", "it ended with status 3: no such room"),
        ("sleep 60 & sleep 60", "it did not end within 4.5 s"),
    ],
)
def test_a_program_that_fails_or_hangs(tmp_path, text, why):
    """Its last words tell why; who does not end is killed, with what it started."""
    path = program(tmp_path, f"echo $$ >{tmp_path}/pid\n{text}")
    assert send(("command", path, "")) == {"command tell": why}
    group = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        until_gone(group)


def until_gone(group: int) -> None:
    """Raises when no process of the group is left."""
    for _ in range(200):
        os.killpg(group, 0)
        time.sleep(0.01)


def test_a_program_that_is_not_there():
    """A wrong path stops nothing."""
    (why,) = send(("command", "/no/such/program", "")).values()
    assert why.startswith("FileNotFoundError")


def test_equal_channels_are_told_apart():
    """Two of one name have a number."""
    port = closed_port()
    assert list(send(*[("mail", f"127.0.0.1:{port}", "")] * 2)) == ["mail", "mail #2"]


def test_an_unknown_service_is_said():
    """A URL of a kind that Apprise does not know."""
    assert send(("webhook", "nonsense://x/y", "")) == {"webhook x": "Apprise knows no nonsense:// address of this form"}


def test_nothing_is_written_to_the_screen(capfd):
    """Apprise's log is read for its reasons and goes nowhere else."""
    send(("mail", f"127.0.0.1:{closed_port()}", ""))
    assert capfd.readouterr() == ("", "")
    assert not logging.getLogger("apprise").propagate

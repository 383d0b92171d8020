"""`lxgpu keys` and the links of `lxgpu web` as programs: what is listed, what a rehearsal says and leaves alone."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime

import pytest
from inventory_rows import at, instance, key, person
from json_shapes import faults

from lxgpu.inventory.store import open_inventory

LINE = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGCxwX5Je8bgcNoDkkrBxz/PhQdDwATq6Fc2QCMtSeSh"


@pytest.fixture
def env(tmp_path):
    """Alice has a container and two keys, one of which may do one thing alone; bob has a key and no container."""
    state = tmp_path / "state"
    state.mkdir()
    with (
        open_inventory(state / "inventory.db") as inventory,
        inventory.write(actor="test", now=datetime.now(UTC)) as tx,
    ):
        tx.put(person("alice"), person("bob"), instance("alice", uuid="u1"))
        tx.put(key("alice", "SHA256:aaaaaaaa", line=f"{LINE} laptop"))
        tx.put(key("alice", "SHA256:bbbbbbbb", line=f'command="rsync" {LINE} backup', added_at=at(1)))
        tx.put(key("bob", "SHA256:cccccccc", line=f"{LINE} desk"))
    (tmp_path / "policy.yaml").write_text("version: 1\n", encoding="utf-8")
    return {
        "LXGPU_STATE_DIR": str(state),
        "LXGPU_RUN_DIR": str(tmp_path / "run"),
        "LXGPU_POLICY": str(tmp_path / "policy.yaml"),
        "LXGPU_CONFIG": "",
        "LXD_DIR": str(tmp_path / "lxd"),
    }


@pytest.fixture
def says(lxgpu, env):
    """Run a command; gives what stands on stdout, and what on stderr."""

    def run(*words, status=0):
        ran = lxgpu(*words, env=env)
        assert ran.returncode == status, ran.stderr
        return ran.stdout, ran.stderr

    return run


def written(tmp_path):
    """All that commands may change."""
    with open_inventory(tmp_path / "state" / "inventory.db") as inventory:
        history = [event.kind for event in inventory.events()]
    passes = tmp_path / "state" / "passes.json"
    return history, passes.read_bytes() if passes.exists() else b""


def test_keys_are_listed_of_one_and_of_all(says):
    """The options of a key stand in the wide list and in JSON."""
    assert [line.split()[0] for line in says("keys", "ls", "alice")[0].splitlines()[1:]] == [
        "SHA256:aaaaaaaa",
        "SHA256:bbbbbbbb",
    ]
    assert "rsync" in says("keys", "ls", "alice", "-o", "wide")[0]
    listed = json.loads(says("keys", "ls", "-o", "json")[0])
    assert listed["schema"] == "lxgpu.keys/v1"
    assert [text for one in listed["items"] for text in faults("keys", one)] == []
    assert [(one["person"], one["options"]) for one in listed["items"]] == [
        ("alice", ""),
        ("alice", 'command="rsync"'),
        ("bob", ""),
    ]
    assert [line.split()[0] for line in says("keys", "ls")[0].splitlines()] == ["PERSON", "alice", "alice", "bob"]
    assert "error[not_found]" in says("keys", "ls", "carol", status=3)[1]


def test_an_invitation_is_made_listed_and_taken_back(says, tmp_path):
    """Each with its line in the history; the file of them is root's alone."""
    assert says("keys", "ls", "--invited")[0] == ""
    url = says("keys", "invite", "carol", "--for", "2d")[0].strip()
    assert url.partition("#")[0].endswith("/join")
    listed = json.loads(says("keys", "ls", "--invited", "-o", "json")[0])
    assert listed["schema"] == "lxgpu.invitations/v1"
    assert [text for one in listed["items"] for text in faults("invitations", one)] == []
    assert [(one["person"], one["state"]) for one in listed["items"]] == [("carol", "open")]
    assert says("keys", "ls", "bob", "--invited", "-o", "name")[0] == ""
    assert "carol is invited to bring a key until" in says("keys", "ls", "carol", status=3)[1]
    assert "is void" in says("keys", "invite", "carol", "--withdraw")[1]
    assert "has no invitation" in says("keys", "invite", "carol", "--withdraw")[1]
    assert says("keys", "ls", "--invited", "-o", "name")[0] == ""
    assert written(tmp_path)[0] == ["invite_withdrawn", "invited"]
    assert stat.S_IMODE((tmp_path / "state" / "passes.json").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("keys", "invite", "dave"), "takes one key, within 7d"),
        (("keys", "invite", "carol", "--for", "1d"), "is void then"),
        (("keys", "invite", "carol", "--withdraw"), "open until"),
        (("keys", "rm", "bob", "SHA256:cccccc"), "SHA256:cccccccc"),
        (("web", "--link", "alice"), "opens once, within"),
        (("web", "--link"), "opens once, within"),
        (("web", "--close", "alice"), "1 session and links end"),
    ],
)
def test_a_rehearsal_says_what_would_be_done_and_writes_nothing(says, tmp_path, words, said):
    """Neither a pass, nor a line of history."""
    says("keys", "invite", "carol")
    says("web", "--link", "alice")
    before = written(tmp_path)
    assert said in says(*words, "--dry-run")[0]
    plan = json.loads(says(*words, "--dry-run", "-o", "json")[0])["items"][0]
    assert (plan["decision"], len(plan["steps"])) == ("granted", 1)
    assert written(tmp_path) == before


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (("web", "--dry-run"), 2, "usage"),
        (("web", "--link", "carol", "--dry-run"), 3, "not_found"),
        (("keys", "invite", "Carol", "--dry-run"), 2, "bad_name"),
        (("keys", "rm", "bob", "SHA256:zzzzzzz", "--dry-run"), 3, "not_found"),
    ],
)
def test_a_rehearsal_is_refused_as_the_command_itself(says, words, status, code):
    """With the same status and code."""
    assert f"error[{code}]" in says(*words, status=status)[1]
    if words[0] != "web" or len(words) > 2:
        assert f"error[{code}]" in says(*(word for word in words if word != "--dry-run"), status=status)[1]


def test_a_rehearsal_of_adding_says_which_keys_for_whom(says, tmp_path):
    """A step for each key of the file; what is no key, or no file, is refused, and nothing is written."""
    before, file = written(tmp_path), tmp_path / "new.pub"
    file.write_text(f"{LINE} laptop\n", encoding="utf-8")
    (step,) = json.loads(says("keys", "add", "dave", str(file), "--dry-run", "-o", "json")[0])["items"][0]["steps"]
    assert (step["do"], step["instance"]) == ("add", "dave")
    file.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n", encoding="utf-8")
    assert "error[bad_key]" in says("keys", "add", "dave", str(file), "--dry-run", status=2)[1]
    assert "error[usage]" in says("keys", "add", "dave", str(tmp_path / "none"), "--dry-run", status=2)[1]
    assert written(tmp_path) == before


def test_a_key_is_removed_with_a_word_only_if_it_is_the_last(says, tmp_path):
    """Off a terminal it wants --yes, and changes nothing without."""
    before = written(tmp_path)
    assert "last key of bob" in says("keys", "rm", "bob", "SHA256:cccccc", status=2)[1]
    assert written(tmp_path) == before

"""The policy of a process that stays: a good file takes over, a bad one is refused once, the last good one holds."""

from __future__ import annotations

import os

import pytest

from lxgpu.config import kept as kept_module
from lxgpu.errors import LxgpuError
from lxgpu.services.policywatch import PolicyWatch, changed, flat

GOOD = "version: 1\nusers:\n  alice: {limit: 2}\n"
BETTER = "version: 1\nusers:\n  alice: {limit: 3}\n  bob: {limit: 1}\n"
BAD = "version: 1\nusers:\n  alice: {limit: two}\n"


class Place:
    """A policy file that can be edited; each edit is as old as the test wants it to be."""

    def __init__(self, folder):
        self.path = folder / "policy.yaml"
        self.kept = folder / "state" / "policy.json"
        self._age = 1_000_000

    def edit(self, text, *, whole=False):
        """Write the file in place, or another one over it (`whole`), a while ago."""
        target = self.path.with_name("other") if whole else self.path
        target.write_text(text)
        self._age -= 10
        moment = self.path.parent.stat().st_mtime - self._age
        os.utime(target, (moment, moment))
        if whole:
            target.replace(self.path)

    def watch(self):
        """A process that starts now."""
        return PolicyWatch(self.path, kept=self.kept)


@pytest.fixture
def place(tmp_path):
    """A folder with a good file."""
    made = Place(tmp_path)
    made.edit(GOOD)
    return made


def limit(watch, person="alice"):
    """What the policy in force gives."""
    return watch.current().users[person].limit


@pytest.mark.parametrize("whole", [False, True], ids=["in place", "moved over it"])
def test_a_changed_file_takes_over_and_says_what_changed(place, whole):
    """Editors write in place or move a new file over the old one: both are noticed, with old and new."""
    watch = place.watch()
    assert watch.look() is None
    place.edit(BETTER, whole=whole)
    news = watch.look()
    assert news is not None
    assert news.kind == "policy_changed"
    assert news.detail["changes"] == {"users.alice.limit": [2, 3], "users.bob.limit": [None, 1]}
    assert "users.alice.limit: 2 → 3" in news.text
    assert limit(watch) == 3
    assert watch.look() is None


def test_a_broken_file_is_refused_once_and_the_old_one_stays(place):
    """Every mistake is told with its place, once, however often it is looked at; the last good one holds."""
    watch = place.watch()
    place.edit(BAD)
    news = watch.look()
    assert news is not None
    assert news.kind == "policy_refused"
    assert "policy.yaml:3:18" in news.text
    assert limit(watch) == 2
    assert "users.alice.limit" in watch.error
    assert watch.look(anew=True) is None
    place.edit(BAD)
    assert watch.look() is None, "the same mistakes are no news"
    place.edit(BETTER)
    news = watch.look()
    assert news.kind == "policy_changed"
    assert news.text.startswith("the file is good again; ")
    assert (watch.error, limit(watch)) == ("", 3)


def test_mended_back_to_what_it_was_is_told(place):
    """The history that has the mistake has its end too, once, though nobody's rights changed."""
    watch = place.watch()
    place.edit(BAD)
    watch.look()
    place.edit(GOOD)
    news = watch.look()
    assert (news.kind, news.text, news.detail) == (
        "policy_changed",
        "the file is good again",
        {"note": "the file is good again"},
    )
    assert watch.error == ""
    assert watch.look(anew=True) is None


def test_a_file_that_is_gone_is_a_broken_one(place):
    """Removed by mistake: nobody's rights change."""
    watch = place.watch()
    place.path.unlink()
    assert watch.look().kind == "policy_refused"
    assert limit(watch) == 2


def test_broken_at_the_start_the_last_good_one_holds_and_it_is_told(place):
    """A daemon that starts with a broken file says so at its first look."""
    place.watch()
    place.edit(BAD)
    watch = place.watch()
    assert limit(watch) == 2
    assert watch.look().kind == "policy_refused"
    assert watch.look() is None


def test_without_any_good_one_there_is_no_start(place):
    """There is nothing to go by."""
    place.edit(BAD)
    with pytest.raises(LxgpuError) as caught:
        place.watch()
    assert caught.value.code == "bad_file"


def test_on_a_full_disk_the_one_in_memory_holds(place, monkeypatch):
    """What cannot be kept beside the inventory is still known to the process that read it."""
    monkeypatch.setattr(kept_module, "keep", lambda *_args, **_values: "no room")
    monkeypatch.setattr("lxgpu.config.inforce.keep", lambda *_args, **_values: "no room")
    watch = place.watch()
    place.edit(BAD)
    assert watch.look().kind == "policy_refused"
    assert limit(watch) == 2
    place.edit(BETTER)
    assert watch.look().detail == {"note": "the file is good again", "changes": {}}
    assert limit(watch) == 3


def test_a_file_written_this_moment_is_read_again(place):
    """Two edits within one time stamp: the second is not missed."""
    watch = place.watch()
    place.path.write_text(BETTER)
    assert watch.look().kind == "policy_changed"
    place.path.write_text(BETTER.replace("limit: 3", "limit: 4"))
    assert watch.look().kind == "policy_changed"
    assert limit(watch) == 4


def test_anew_reads_what_looks_unchanged(place):
    """SIGHUP: also a file whose times were kept by whoever copied it."""
    watch = place.watch()
    found = place.path.stat()
    place.path.write_text(GOOD.replace("limit: 2", "limit: 5"))
    os.utime(place.path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert watch.look(anew=True).kind == "policy_changed"
    assert limit(watch) == 5


def test_lists_and_nothing_are_leaves():
    """The difference is by dotted names; what one side does not know is not guessed."""
    assert flat({"a": {"b": [1, 2], "c": None}, "d": 1}) == {"a.b": [1, 2], "a.c": None, "d": 1}
    assert changed({"a": None}, {"b": 1}) == {"a": [None, None], "b": [None, 1]}
    assert changed({}, {"b": 1}) == {}

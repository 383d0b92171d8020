"""Homes are handed in whole, before anything is deleted, or not at all."""

from __future__ import annotations

import pytest
from fakes.relay import FakeRelay
from fakes.site import make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.services import power
from lxgpu.services.handin import check_folder, hand_in
from lxgpu.services.many import each


@pytest.fixture
def site(tmp_path):
    """Alice has a container that runs."""
    made = make_site(tmp_path)
    newcomer(made, "alice")
    return made


@pytest.mark.parametrize("status", [0, 1])
def test_a_home_is_packed_by_tar_inside_and_kept(site, status):
    """Only what is in the home's own file system; that a file changed meanwhile (1) spoils nothing."""
    relay = FakeRelay(packing=status)
    assert hand_in(site, "alice", "/there", relay) == "/there/alice.tar.gz"
    ((call, _),) = relay.carried
    assert call.words == ("tar", "-c", "-z", "-f", "-", "--one-file-system", "-C", "/home", "--", "alice")
    assert relay.handed == ["kept /there/alice.tar.gz"]


@pytest.mark.parametrize(
    ("how", "code"),
    [("fails", "engine"), ("a signal", "interrupted"), ("stopped", "not_ready"), ("another packs it", "conflict")],
)
def test_what_cannot_be_packed_is_not_kept(site, how, code):
    """The error says why, and there is no archive."""
    relay = FakeRelay(packing=2 if how == "fails" else 0)
    if how == "a signal":
        relay.hear(15)
    if how == "another packs it":
        site.locks.others.add("home.alice")
    if how == "stopped":
        power.stop_instance(site, "alice", force=False)
    with pytest.raises(LxgpuError) as refused:
        hand_in(site, "alice", "/there", relay)
    assert refused.value.code == code
    assert relay.handed == []


def test_the_folder_is_looked_at_before_anything_is_done(tmp_path):
    """It is there, and has none of these archives yet."""
    check_folder(str(tmp_path), ("alice", "bob"))
    (tmp_path / "bob.tar.gz").write_text("older")
    for folder in (tmp_path, tmp_path / "nowhere", tmp_path / "bob.tar.gz"):
        with pytest.raises(LxgpuError) as refused:
            check_folder(str(folder), ("alice", "bob"))
        assert refused.value.code == "usage"
        assert refused.value.fix


@pytest.mark.parametrize("count", [0, 1, 5])
def test_one_that_fails_holds_up_no_other(count):
    """All are tried, and the errors come by name."""
    done = []

    def work(name: str) -> None:
        if name == "p0":
            raise LxgpuError("busy", "no")
        done.append(name)

    errors = each(work, [f"p{number}" for number in range(count)], workers=2)
    assert (sorted(done), [*errors]) == ([f"p{number}" for number in range(1, count)], ["p0"] if count else [])

"""A person's keys: the ones in the inventory are those that let in, now and after the next start."""

from __future__ import annotations

import pytest
from fakes.site import make_site, newcomer

from lxgpu.config.keys import parse_keys
from lxgpu.errors import LxgpuError
from lxgpu.model.instance import InstanceState
from lxgpu.model.request import CreateRequest, GpuRequest
from lxgpu.ports import Ran
from lxgpu.services import ending, keys, observe, power
from lxgpu.services.identity import KEY_PROMISES
from lxgpu.services.provision import create
from lxgpu.services.readback import read_back
from lxgpu.services.wanted import KEY_PERSON


@pytest.fixture
def site(tmp_path):
    """A host without containers."""
    return make_site(tmp_path)


def some_key(site, comment="laptop"):
    """A new public key, as it would be read from a file."""
    return parse_keys(site.login.new_key(comment)[1])


def lines_inside(site, name, person=""):
    """The keys that the container's sshd reads."""
    return site.engine.file(name, f"/etc/ssh/authorized_keys.d/{person or name}").content.decode().split("\n")[:-1]


def test_a_key_counts_at_once_in_a_running_container(site):
    """Added: inside, in the inventory and in LXD's record; the keys that were there stay."""
    newcomer(site, "alice")
    (key,) = some_key(site)
    assert keys.add(site, "alice", [key]) == 1
    assert key.text in lines_inside(site, "alice")
    assert len(lines_inside(site, "alice")) == 2
    assert key.text in site.engine.instance("alice").config[KEY_PERSON]


def test_a_removed_key_lets_nobody_in(site):
    """Removed: neither inside nor in the inventory nor in LXD's record; named by the beginning of its fingerprint."""
    newcomer(site, "alice")
    (key,) = some_key(site)
    keys.add(site, "alice", [key])
    keys.remove(site, "alice", key.fingerprint[:20])
    assert key.text not in lines_inside(site, "alice")
    assert key.text not in site.engine.instance("alice").config[KEY_PERSON]
    assert [view.fingerprint for view in keys.views(site.inventory.read(), "alice")] != [key.fingerprint]


def test_the_same_key_twice_is_one(site):
    """A key that is there is not added again, and is no error."""
    newcomer(site, "alice")
    (key,) = some_key(site)
    keys.add(site, "alice", [key])
    assert keys.add(site, "alice", [key]) == 0
    assert len(keys.views(site.inventory.read(), "alice")) == 2


def test_keys_come_before_the_container(site):
    """Keys of somebody without a container are kept, survive a lost inventory, and are those of their first one."""
    (key,) = some_key(site)
    keys.add(site, "bob", [key])
    promises = site.engine.server().promises
    found = read_back(observe.look(site), promises, now=site.clock.now())
    assert [row.line for row in found.keys] == [key.text]
    assert KEY_PROMISES in promises
    port = site.inventory.read().person("bob").ssh_port
    create(site, CreateRequest(gpus=GpuRequest(instance="bob", owner="bob", more=0)))
    assert lines_inside(site, "bob") == [key.text]
    assert site.inventory.read().person("bob").ssh_port == port


def test_a_stopped_container_gets_its_keys_at_the_next_start(site):
    """What changed while it was stopped is inside once it runs, be it stopped or suspended."""
    newcomer(site, "alice")
    power.stop_instance(site, "alice", force=False)
    (first,) = some_key(site)
    keys.add(site, "alice", [first])
    assert first.text not in lines_inside(site, "alice")
    power.start(site, "alice")
    assert first.text in lines_inside(site, "alice")
    ending.suspend(site, "alice", reason="exams")
    (second,) = some_key(site)
    keys.add(site, "alice", [second])
    ending.resume(site, "alice")
    assert second.text in lines_inside(site, "alice")


def test_a_system_that_runs_nothing_is_told_and_stops_nobody(site):
    """With the container's shell broken the key stays meant, the failure is told, and the container can be used."""
    newcomer(site, "alice")
    works = site.engine.programs["sh"]
    site.engine.programs["sh"] = lambda _argv, _stdin: Ran(127, "sh: not found")
    (key,) = some_key(site)
    with pytest.raises(LxgpuError) as caught:
        keys.add(site, "alice", [key])
    assert caught.value.code == "bootstrap_failed"
    assert key.text not in lines_inside(site, "alice")
    assert not [row for row in site.inventory.read().operations if row.live]
    power.restart(site, "alice", force=False)
    site.engine.programs["sh"] = works
    power.restart(site, "alice", force=False)
    assert key.text in lines_inside(site, "alice")


def test_the_key_to_remove_is_named_beyond_doubt(site):
    """Too short, unknown, or of somebody unknown: refused, and nothing is removed."""
    newcomer(site, "alice")
    (key,) = some_key(site)
    keys.add(site, "alice", [key])
    for text, code in (("SHA256:", "usage"), ("AAA", "usage"), ("SHA256:" + "x" * 43, "not_found")):
        with pytest.raises(LxgpuError) as caught:
            keys.remove(site, "alice", text)
        assert caught.value.code == code
    with pytest.raises(LxgpuError, match="no person carol"):
        keys.views(site.inventory.read(), "carol")
    assert len(keys.views(site.inventory.read(), "alice")) == 2


def test_dry_run_writes_nothing(site):
    """The plans name what would be done, and change neither the inventory nor LXD."""
    newcomer(site, "alice")
    before, writes = site.inventory.read(), site.engine.writes
    (key,) = some_key(site)
    added = keys.plan_add(site, "alice", [key])
    removed = keys.plan_remove(site, "alice", before.keys[0].fingerprint)
    assert [step.do for step in (*added.steps, *removed.steps)] == ["add", "remove"]
    assert "nobody can log in" in removed.steps[0].why
    assert site.inventory.read() == before
    assert site.engine.writes == writes
    assert site.inventory.read().instance("alice").state is InstanceState.READY

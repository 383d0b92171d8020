"""Adopt: what was made by hand becomes lxgpu's with what it has, or stays exactly as it was."""

from __future__ import annotations

import copy
import json

import pytest
from fakes.site import LISTEN, make_site, newcomer

from lxgpu.config.keys import parse_keys
from lxgpu.errors import LxgpuError
from lxgpu.model.instance import InstanceState, Limits, Power
from lxgpu.ports import Change, Ran
from lxgpu.services import adopt, ending, inservice, keys, power, untrash
from lxgpu.services.wanted import KEY_HOLDS, KEY_PERSON, KEY_UUID

NIC = {"type": "nic", "network": "lxdbr0", "name": "eth0"}
PASSWD = b"root:x:0:0::/root:/bin/bash\neve:x:1000:1000::/home/eve:/bin/bash\n"


@pytest.fixture
def site(tmp_path):
    """A host with two cards."""
    return make_site(tmp_path)


def by_hand(site, name="eve", *, card=None, running=True, passwd=b"", config=None, **devices):
    """A container as `lxc launch` makes it; `card` is the number of one that it has."""
    given = {"eth0": NIC, **devices}
    if card is not None:
        given["g0"] = {"type": "gpu", "pci": site.engine.cards[card].pci}
    site.engine.add_stranger(name, devices=given)
    if config:
        site.engine.update(name, Change(config=config), etag=None)
    if passwd:
        site.engine.push(name, "/etc/passwd", passwd, mode=0o644)
    if running:
        site.engine.start(name)
    return site.engine.machines["default", name]


def refusal(site, name="eve", owner=""):
    """The error that adopting ends with, after a look that nothing changed."""
    before = copy.deepcopy((site.engine.machines, site.engine.disks)), site.inventory.read()
    with pytest.raises(LxgpuError) as caught:
        adopt.adopt(site, name, owner=owner)
    assert (site.engine.machines, site.engine.disks) == before[0]
    assert site.inventory.read().instances == before[1].instances
    return caught.value


def test_it_keeps_running_with_what_it_has(site):
    """No account inside, an ordinary network card: no restart; limits, card and address are as they were."""
    limits = {"limits.cpu": "2", "limits.memory": "2GB", "limits.processes": "500"}
    machine = by_hand(site, card=0, config=limits, eth0={**NIC, "ipv4.address": "10.9.7.50"})
    init = machine.init_pid
    adopt.adopt(site, "eve", owner="")
    row = site.inventory.read().instance("eve")
    assert row.state is InstanceState.READY
    assert row.limits == Limits(cpu=2, memory_bytes=2_000_000_000, processes=500)
    assert [held.slot.gpu for held in site.inventory.read().held_by("eve")] == [site.engine.cards[0].uuid]
    assert machine.init_pid == init, "it was restarted"
    assert machine.config[KEY_UUID] == machine.config["volatile.uuid"] == row.uuid
    assert [hold["slot"] for hold in json.loads(machine.config[KEY_HOLDS])] == [site.engine.cards[0].uuid]
    assert "g0" not in machine.devices
    assert machine.devices["eth0"]["ipv4.address"] == row.address == "10.9.7.50"
    assert "hwaddr" not in machine.devices["eth0"], "the card would be taken out"
    nodes = [node for card in site.engine.cards for node in card.nodes]
    assert site.probe.openable(init, nodes) == frozenset(site.engine.cards[0].nodes)
    power.restart(site, "eve", force=False)


def test_an_account_with_a_home_is_moved_in_a_restart(site):
    """The person's account gives the uid and the keys; its home is copied by a script between stop and mount."""
    (key,) = parse_keys(site.login.new_key("old laptop")[1])
    machine = by_hand(site, passwd=PASSWD, running=False)
    site.engine.push("eve", "/home/eve/.ssh/authorized_keys", key.text.encode(), mode=0o600)
    site.engine.start("eve")
    init = machine.init_pid
    plan = adopt.plan_adopt(site, "eve", owner="")
    assert [step.do for step in plan.steps if step.do in {"restart", "move_home"}] == ["restart", "move_home"]
    adopt.adopt(site, "eve", owner="")
    records = site.inventory.read()
    assert records.person("eve").uid == 1000
    assert [row.line for row in records.keys] == [key.text]
    assert machine.init_pid != init
    assert machine.devices["home"] == {"type": "disk", "pool": "default", "source": "home-eve", "path": "/home/eve"}
    assert "lxgpu-home" not in machine.devices
    scripts = [argv[2] for name, argv in site.engine.ran if name == "eve" and argv[0] == "sh"]
    assert any("before-lxgpu" in script and "uid=1000" in script for script in scripts)


def test_an_id_that_is_taken_is_exchanged(site):
    """Two containers whose people have 1000 inside: the second gets another one, and the plan says so."""
    by_hand(site, "eve", passwd=PASSWD)
    adopt.adopt(site, "eve", owner="")
    by_hand(site, "dan", passwd=PASSWD.replace(b"eve", b"dan"))
    assert any("another id" in step.why for step in adopt.plan_adopt(site, "dan", owner="").steps)
    adopt.adopt(site, "dan", owner="")
    uids = [row.uid for row in site.inventory.read().persons]
    assert len(uids) == len(set(uids)) == 2


def test_a_stopped_one_is_stopped_afterwards(site):
    """It is started for the proof and stopped again."""
    machine = by_hand(site, running=False)
    adopt.adopt(site, "eve", owner="")
    assert machine.power is Power.STOPPED
    assert not site.inventory.read().instance("eve").running


def test_its_ssh_port_is_kept(site):
    """People go on logging in through the port they know, where it is one of lxgpu's to give."""
    door = {"type": "proxy", "listen": f"tcp:{LISTEN}:22042", "connect": "tcp:127.0.0.1:22"}
    machine = by_hand(site, door=door)
    adopt.adopt(site, "eve", owner="")
    assert site.inventory.read().person("eve").ssh_port == 22042
    assert "door" not in machine.devices


def test_whose_it_is_can_be_said(site):
    """The name of the container and that of the person may differ; keys kept for the person are used."""
    (key,) = parse_keys(site.login.new_key("kept")[1])
    keys.add(site, "carol", [key])
    machine = by_hand(site, "box")
    adopt.adopt(site, "box", owner="carol")
    assert site.inventory.read().instance("box").owner == "carol"
    assert key.text in machine.config[KEY_PERSON]


def test_a_device_that_passes_every_card_is_refused_with_the_remedy(site):
    """A `gpu` device without an address is not guessed at."""
    by_hand(site, every={"type": "gpu"})
    error = refusal(site)
    assert error.code == "conflict"
    assert "lxc config device set eve every pci=" in error.brief


def test_a_card_of_somebody_else_is_refused(site):
    """Held, closed, or attached to a second container by hand: said by name."""
    newcomer(site, "alice", gpus=1)
    by_hand(site, card=0)
    assert "held by alice" in refusal(site).brief
    by_hand(site, "dan", card=1)
    inservice.close(site, site.engine.cards[1].uuid, reason="fan")
    assert "closed by root: fan" in refusal(site, "dan").brief
    inservice.open_again(site, site.engine.cards[1].uuid)
    by_hand(site, "zoe", card=1)
    assert "attached to zoe" in refusal(site, "dan").brief


def test_everything_that_stands_against_it_is_told_at_once(site):
    """Several reasons come in one error."""
    newcomer(site, "alice")
    by_hand(site, "box", every={"type": "gpu"}, config={"limits.memory": "50%"}, running=False)
    error = refusal(site, "box", owner="alice")
    assert len(error.why) == 2
    assert {reason["code"] for reason in error.details["reasons"]} == {"bad_size", "exists", "conflict"}


def test_a_privileged_one_is_refused(site):
    """Its root is the host's, and could open any card."""
    by_hand(site, config={"security.privileged": "true"})
    assert "privileged" in refusal(site).brief


def test_limits_that_a_profile_brings_are_kept(site):
    """What the kernel holds, and the container's configuration does not name or gives as a share, becomes its own."""
    machine = by_hand(site, config={"limits.memory": "50%"})
    site.probe.held["eve"] = Limits(cpu=8, memory_bytes=2**30, processes=300)
    adopt.adopt(site, "eve", owner="")
    assert site.inventory.read().instance("eve").limits == Limits(memory_bytes=2**30, processes=300)
    assert (machine.config["limits.memory"], machine.config["limits.processes"]) == ("1GiB", "300")


def test_a_home_on_a_disk_of_its_own_is_not_hidden(site):
    """A directory mounted where the home volume goes: refused, since mounting over it would hide the data."""
    by_hand(site, data={"type": "disk", "source": "/srv/eve", "path": "/home/eve"})
    assert "device data is mounted at /home/eve" in refusal(site).brief


def test_names_that_are_none_and_what_is_there_already(site):
    """Nothing of that name, lxgpu's own, and no name by the rule: each with its own error."""
    newcomer(site, "alice")
    by_hand(site, "Upper")
    codes = [refusal(site, name).code for name in ("nothing", "alice", "Upper", "lxgpu-template-1")]
    assert codes == ["not_found", "exists", "bad_name", "bad_name"]


def test_a_copy_of_ours_gets_an_identity_and_loses_the_cards_of_the_original(site):
    """A copy carries alice's marks, cards, port and address: adopted, it has its own, and alice keeps hers."""
    newcomer(site, "alice", gpus=1)
    original = copy.deepcopy(site.engine.machines["default", "alice"].devices)
    site.engine.create("eve", source="copy:alice", change=Change(), profiles=[])
    adopt.adopt(site, "eve", owner="")
    machine = site.engine.machines["default", "eve"]
    records = site.inventory.read()
    assert records.held_by("eve") == ()
    assert not [name for name in machine.devices if name.startswith("gpu-")]
    assert machine.config[KEY_UUID] == machine.config["volatile.uuid"]
    assert json.loads(machine.config[KEY_PERSON])["name"] == "eve"
    assert json.loads(machine.config[KEY_HOLDS]) == []
    assert machine.devices["home"]["source"] == "home-eve"
    assert len({row.address for row in records.instances}) == 2
    assert site.engine.machines["default", "alice"].devices == original


def test_what_fails_is_left_as_it_was(site):
    """No sshd inside: the error says so; configuration, devices, power and volumes are as before, nobody is known."""
    machine = by_hand(site, card=0, passwd=PASSWD, config={"user.note": "mine", "raw.lxc": "lxc.cap.drop = sys_time"})
    mine = {key: value for key, value in machine.config.items() if not key.startswith("volatile.")}
    devices = copy.deepcopy(machine.devices)
    works = site.engine.programs["sh"]
    site.engine.programs["sh"] = lambda argv, stdin: (
        Ran(3, "it has no sshd; install openssh-server inside, then adopt it\n")
        if "openssh-server" in argv[-1]
        else works(argv, stdin)
    )
    with pytest.raises(LxgpuError) as caught:
        adopt.adopt(site, "eve", owner="")
    assert caught.value.code == "bootstrap_failed"
    assert "install openssh-server" in caught.value.why[0]
    left = {key: value for key, value in machine.config.items() if not key.startswith("volatile.")}
    assert (left, machine.devices, machine.power) == (mine, devices, Power.RUNNING)
    records = site.inventory.read()
    assert (records.instances, records.persons, records.keys) == ((), (), ())
    assert not [row for row in records.assignments if row.live]
    assert site.engine.disks["default"] == {}
    nodes = site.engine.cards[0].nodes
    assert site.probe.openable(machine.init_pid, nodes) == frozenset(nodes), "its card was closed to it"


def test_dry_run_writes_nothing(site):
    """The plan of a container that must be restarted changes nothing, and makes no key."""
    by_hand(site, card=0, passwd=PASSWD)
    before = copy.deepcopy(site.engine.machines)
    writes = site.engine.writes
    plan = adopt.plan_adopt(site, "eve", owner="")
    assert [step.do for step in plan.steps] == ["restart", "adopt", "keep", "move_home", "verify"]
    assert (site.engine.machines, site.engine.writes) == (before, writes)
    assert not site.settings.state_dir.exists()


def test_out_of_the_trash_under_the_old_name(site):
    """Deleted and brought back: old name, home and port; no cards; keys are asked for anew."""
    newcomer(site, "alice", gpus=1)
    port, uid = (site.inventory.read().person("alice").ssh_port, site.inventory.read().person("alice").uid)
    site.engine.push("alice", "/etc/mine", b"mine", mode=0o644)
    ending.delete(site, "alice", purge=False)
    assert untrash.untrash(site, "trash-alice") == "alice"
    records, machine = site.inventory.read(), site.engine.machines["default", "alice"]
    assert records.instance("trash-alice") is None
    assert records.instance("alice").state is InstanceState.READY
    assert (records.person("alice").ssh_port, records.person("alice").uid) == (port, uid)
    assert records.held_by("alice") == ()
    assert machine.devices["home"]["source"] == "home-alice"
    assert "/etc/mine" in machine.files
    assert machine.power is Power.RUNNING


def test_a_number_in_the_trash_is_not_taken_for_a_name(site):
    """The second of two deleted ones is trash-alice-2, and comes back as alice; alice-2 comes back as alice-2."""
    for _ in range(2):
        newcomer(site, "alice")
        ending.delete(site, "alice", purge=False)
    newcomer(site, "alice-2", owner="bob")
    ending.delete(site, "alice-2", purge=False)
    trashed = sorted(row.name for row in site.inventory.read().instances)
    assert trashed == ["trash-alice", "trash-alice-2", "trash-alice-2-2"]
    assert untrash.untrash(site, "trash-alice-2") == "alice"
    assert untrash.untrash(site, "trash-alice-2-2") == "alice-2"


def test_it_stays_in_the_trash_when_the_name_is_taken(site):
    """A new container of that name or of that person: refused, and the deleted one is left alone."""
    newcomer(site, "alice")
    ending.delete(site, "alice", purge=False)
    newcomer(site, "alice")
    with pytest.raises(LxgpuError) as caught:
        untrash.untrash(site, "trash-alice")
    assert caught.value.code == "exists"
    assert site.inventory.read().instance("trash-alice").state is InstanceState.TRASHED
    with pytest.raises(LxgpuError) as caught:
        untrash.untrash(site, "alice")
    assert caught.value.code in {"exists", "not_ready"}

"""What every engine promises: the fake in memory and a real LXD give the same answers."""

from __future__ import annotations

import pytest

from lxgpu.model.devices import deny_rules, gpu_device, gpu_device_name, ssh_device
from lxgpu.model.instance import Power
from lxgpu.ports import Change


def test_the_server_tells_who_it_is(bench, engine):
    """Name, kind and extensions are there, and an ETag that guards promises."""
    found = engine.server()
    assert found.name
    assert found.kind in {"lxd", "incus"}
    assert "instance_all_projects" in found.extensions
    assert found.etag
    assert all(gpu.host == found.name for gpu in bench.gpus)


def test_promises_are_guarded_and_merged(engine, refused):
    """Keys are added and removed one by one; a stale ETag changes nothing."""
    before = engine.server()
    engine.put_promises({"user.lxgpu.one": "1"}, etag=before.etag)
    refused("conflict", engine.put_promises, {"user.lxgpu.one": "2"}, etag=before.etag)
    engine.put_promises({"user.lxgpu.two": "2"}, etag=None)
    assert engine.server().promises == {"user.lxgpu.one": "1", "user.lxgpu.two": "2"}
    engine.put_promises({"user.lxgpu.one": None, "user.lxgpu.two": None}, etag=engine.server().etag)
    assert engine.server().promises == {}


def test_cards_are_seen_with_their_own_nodes(engine):
    """Cards in PCI order, each with nodes that belong to no other."""
    first, second, *_ = engine.gpus()
    assert first.pci < second.pci
    assert first.uuid != second.uuid
    assert f"nvidia{first.nodes[0].minor}" == first.nodes[0].path
    assert not set(first.nodes) & set(second.nodes)


def test_a_new_instance_is_stopped_and_has_what_was_asked(bench, engine):
    """Configuration, devices and description are there from the first moment on."""
    device = gpu_device(bench.gpus[0])
    name = bench.make(change=Change(config={"user.lxgpu.a": "1"}, devices={"g": device}))
    seen = engine.instance(name)
    assert seen.power is Power.STOPPED
    assert seen.config["user.lxgpu.a"] == "1"
    assert seen.devices == {"g": device}
    assert {"g", "root"} <= seen.expanded_devices.keys()
    assert seen.uuid
    assert seen.profiles == ("default",)
    assert seen.init_pid is None
    assert seen.created_at
    assert seen.etag


def test_an_instance_that_is_not_there_is_none(engine, refused):
    """Reading gives None, changing gives not_found, deleting is done."""
    assert engine.instance("ct-none") is None
    refused("not_found", engine.update, "ct-none", Change(), etag=None)
    refused("not_found", engine.start, "ct-none")
    refused("not_found", engine.stop, "ct-none", timeout_s=5, force=True)
    refused("not_found", engine.rename, "ct-none", "ct-other")
    refused("not_found", engine.snapshot, "ct-none", "s1")
    refused("not_found", engine.snapshots, "ct-none")
    refused("not_found", engine.pull, "ct-none", "/etc/hostname")
    refused("not_found", engine.run, "ct-none", ["true"], environment={}, timeout_s=5)
    engine.delete("ct-none")
    engine.barrier("ct-none")
    assert engine.log_errors("ct-none") == ()
    assert engine.left_nodes("ct-none") == ()


def test_what_cannot_be_made_is_refused(bench, engine, refused):
    """A taken name, a missing source, a bad name, a bad profile and a bad device each leave nothing."""
    name = bench.make()
    image = f"image:{bench.image}"
    refused("exists", engine.create, name, source=image, change=Change(), profiles=["default"])
    for source, code in (("image:" + "0" * 64, "not_found"), ("copy:ct-none", "not_found")):
        refused(code, engine.create, "ct-x", source=source, change=Change(), profiles=["default"])
    refused("engine", engine.create, "ct_x", source=image, change=Change(), profiles=["default"])
    refused("engine", engine.create, "ct-x", source=image, change=Change(), profiles=["no-such-profile"])
    odd = Change(devices={"d": {"type": "nonsense"}})
    refused("engine", engine.create, "ct-x", source=image, change=odd, profiles=["default"])
    refused("engine", engine.create, "ct-x", source=image, change=Change(config={"odd": "1"}), profiles=["default"])
    assert engine.instance("ct-x") is None


def test_a_copy_brings_what_it_is_not_told_to_leave(bench, engine):
    """A copy has the keys and devices of its source but for those set to None, another identity, no snapshots."""
    cards = {"a": gpu_device(bench.gpus[0]), "b": gpu_device(bench.gpus[1])}
    first = bench.make(change=Change(config={"user.a": "1", "user.b": "1"}, devices=cards))
    engine.snapshot(first, "s1")
    change = Change(config={"user.a": None, "user.c": "1"}, devices={"a": None})
    second = bench.make(source=f"copy:{first}", change=change)
    seen = engine.instance(second)
    assert {key for key in seen.config if key.startswith("user.") and "barrier" not in key} == {"user.b", "user.c"}
    assert seen.devices == {"b": cards["b"]}
    assert seen.uuid != engine.instance(first).uuid
    assert engine.snapshots(second) == ()


def test_a_list_shows_the_same_as_a_look_at_each(bench, engine):
    """Both lists have every instance; only the one with state has pids, and no list has an ETag."""
    running, stopped = bench.make(running=True), bench.make()
    plain = {seen.name: seen for seen in engine.instances(with_state=False)}
    whole = {seen.name: seen for seen in engine.instances()}
    assert {running, stopped} <= plain.keys() == whole.keys()
    assert (plain[running].power, plain[stopped].power) == (Power.RUNNING, Power.STOPPED)
    assert plain[running].config == engine.instance(running).config == whole[running].config
    assert plain[running].init_pid is None
    assert whole[running].init_pid == engine.instance(running).init_pid
    assert whole[running].etag is None
    assert plain[running].project == "default"


def test_a_change_is_made_whole_or_not_at_all(bench, engine, refused):
    """Keys and devices are set and removed in one write; what is not named stays."""
    name = bench.make(change=Change(config={"user.a": "1", "user.b": "1"}, devices={"g": gpu_device(bench.gpus[0])}))
    other = gpu_device(bench.gpus[1])
    change = Change(config={"user.a": None, "user.c": "3"}, devices={"g": None, "h": other}, description="text")
    engine.update(name, change, etag=engine.instance(name).etag)
    seen = engine.instance(name)
    assert "user.a" not in seen.config
    assert (seen.config["user.b"], seen.config["user.c"]) == ("1", "3")
    assert seen.devices == {"h": other}
    bad = Change(config={"user.d": "1"}, devices={"i": {"type": "nonsense"}})
    refused("engine", engine.update, name, bad, etag=None)
    refused("engine", engine.update, name, Change(config={"nonsense": "1"}), etag=None)
    assert engine.instance(name) == seen


def test_a_stale_etag_changes_nothing(bench, engine, refused):
    """The write of whoever read before the last change is refused."""
    name = bench.make()
    stale = engine.instance(name).etag
    engine.update(name, Change(config={"user.a": "1"}), etag=stale)
    refused("conflict", engine.update, name, Change(config={"user.a": "2"}), etag=stale)
    assert engine.instance(name).config["user.a"] == "1"
    engine.update(name, Change(config={"user.a": "3"}), etag=None)
    assert engine.instance(name).config["user.a"] == "3"


def test_the_etag_is_that_of_configuration_and_devices(bench, engine):
    """A description does not change it (so it guards no promise of ours), an unchanged write neither."""
    name = bench.make()
    before = engine.instance(name).etag
    engine.update(name, Change(description="other"), etag=before)
    assert engine.instance(name).etag == before
    engine.update(name, Change(), etag=before)
    assert engine.instance(name).etag == before
    engine.update(name, Change(devices={"g": gpu_device(bench.gpus[0])}), etag=before)
    assert engine.instance(name).etag != before


def test_a_barrier_makes_earlier_etags_stale(bench, engine, refused):
    """After a barrier no write under an earlier ETag can land: that is all it is for."""
    name = bench.make()
    before = engine.instance(name)
    engine.barrier(name)
    refused("conflict", engine.update, name, Change(config={"user.late": "1"}), etag=before.etag)
    after = engine.instance(name)
    assert "user.late" not in after.config
    assert {key for key in after.config if key not in before.config} <= {"user.lxgpu.barrier"}


def test_starting_and_stopping_twice_is_done(bench, engine):
    """Each switch is repeatable, and only a running instance has an init."""
    name = bench.make()
    engine.start(name)
    engine.start(name)
    seen = engine.instance(name)
    assert seen.power is Power.RUNNING
    assert seen.init_pid
    engine.stop(name, timeout_s=20, force=True)
    engine.stop(name, timeout_s=20, force=True)
    engine.stop(name, timeout_s=20, force=False)
    assert engine.instance(name).power is Power.STOPPED
    assert engine.instance(name).init_pid is None


def test_a_clean_stop_and_a_thaw_by_start(bench, engine):
    """A clean stop works, and an instance that somebody froze is thawed by start."""
    name = bench.make(running=True)
    # One that is still coming up is deaf to a stop, the more so when it was frozen in the midst of that.
    engine.run(name, ["systemctl", "is-system-running", "--wait"], environment={}, timeout_s=60)
    bench.freeze(name)
    assert engine.instance(name).power is Power.FROZEN
    engine.start(name)
    assert engine.instance(name).power is Power.RUNNING
    engine.stop(name, timeout_s=120, force=False)
    assert engine.instance(name).power is Power.STOPPED


def test_a_running_instance_is_neither_deleted_nor_renamed(bench, engine, refused):
    """LXD refuses both, and lxgpu stops first."""
    name = bench.make(running=True)
    refused("engine", engine.delete, name)
    refused("engine", engine.rename, name, bench.name())
    assert engine.instance(name).power is Power.RUNNING


def test_renaming_keeps_the_identity(bench, engine, refused):
    """A new name, the same uuid, another ETag (LXD marks the rename); a taken name is refused."""
    name, other = bench.make(), bench.make()
    before = engine.instance(name)
    refused("exists", engine.rename, name, other)
    new = bench.name()
    engine.rename(name, new)
    assert engine.instance(name) is None
    assert engine.instance(new).uuid == before.uuid
    assert engine.instance(new).etag != before.etag


def test_a_card_comes_and_goes_while_running(bench, engine):
    """Attach and detach in one write each, with keys and the rule of the next start together."""
    name = bench.make(running=True)
    card = bench.gpus[0]
    device = {gpu_device_name(card): gpu_device(card)}
    rule = deny_rules(bench.gpus[1].nodes)
    change = Change(config={"user.lxgpu.holds": "[1]", "raw.lxc": rule}, devices=device)
    engine.update(name, change, etag=engine.instance(name).etag)
    seen = engine.instance(name)
    assert seen.devices == device
    assert seen.config["raw.lxc"].strip() == rule.strip()
    assert engine.left_nodes(name) == ()
    change = Change(config={"user.lxgpu.holds": None}, devices=dict.fromkeys(device))
    engine.update(name, change, etag=seen.etag)
    assert engine.instance(name).devices == {}


def test_a_rule_for_all_kinds_of_cgroups_lets_it_start(bench, engine):
    """Lines for the other kind of cgroups do not break the start."""
    rule = deny_rules([node for gpu in bench.gpus for node in gpu.nodes])
    name = bench.make(running=True, change=Change(config={"raw.lxc": rule}))
    assert engine.instance(name).power is Power.RUNNING
    assert engine.run(name, ["cat", "/dev/null"], environment={}, timeout_s=20).status == 0


def test_a_card_that_is_gone_is_refused_when_running_and_at_start(bench, engine, refused):
    """A stopped instance takes the device unseen and then does not start; nothing stays of a refused attach."""
    gone = {"g": gpu_device(bench.gpus[0]) | {"pci": "0000:7f:00.0"}}
    running, stopped = bench.make(running=True), bench.make()
    error = refused("engine", engine.update, running, Change(devices=gone), etag=None)
    assert "0000:7f:00.0" in " ".join(error.why)
    assert engine.instance(running).devices == {}
    engine.update(stopped, Change(devices=gone), etag=None)
    error = refused("engine", engine.start, stopped)
    assert "0000:7f:00.0" in " ".join(error.why)
    assert engine.instance(stopped).power is Power.STOPPED


def test_the_engine_knows_no_exclusivity(bench, engine):
    """One card in two instances is no error to LXD: lxgpu itself has to see it."""
    device = {"g": gpu_device(bench.gpus[0])}
    one, two = bench.make(running=True), bench.make(running=True)
    engine.update(one, Change(devices=device), etag=None)
    engine.update(two, Change(devices=device), etag=None)
    assert engine.instance(one).devices == engine.instance(two).devices == device


def test_programs_and_their_ends(bench, engine, refused):
    """Status, output and input; a program that is not there has status 127."""
    name = bench.make(running=True)
    assert engine.run(name, ["true"], environment={}, timeout_s=20).status == 0
    assert engine.run(name, ["false"], environment={}, timeout_s=20).status == 1
    assert engine.run(name, ["echo", "a", "b"], environment={}, timeout_s=20).output == "a b\n"
    assert engine.run(name, ["cat"], environment={}, timeout_s=20, stdin=b"in\nput").output == "in\nput"
    assert engine.run(name, ["no-such-program"], environment={}, timeout_s=20).status == 127
    bench.freeze(name)
    refused("engine", engine.run, name, ["true"], environment={}, timeout_s=5)
    engine.stop(name, timeout_s=20, force=True)
    refused("engine", engine.run, name, ["true"], environment={}, timeout_s=5)


@pytest.mark.parametrize("running", [False, True])
def test_files_go_in_and_come_out(bench, engine, refused, running):
    """What is written is read again, written over, and absent where nothing was written."""
    name = bench.make(running=running)
    content = bytes(range(256))
    engine.push(name, "/root/a file", content, mode=0o600)
    assert engine.pull(name, "/root/a file") == content
    engine.push(name, "/root/a file", b"new", mode=0o644, uid=7, gid=8)
    assert engine.pull(name, "/root/a file") == b"new"
    assert engine.pull(name, "/root/none") is None
    refused("not_found", engine.push, name, "/no-such-directory/x", b"", mode=0o600)


def test_snapshots_bring_everything_back_but_the_identity(bench, engine, refused):
    """Restoring undoes configuration, devices and files, and lxgpu has to write its own again."""
    device = gpu_device(bench.gpus[0])
    name = bench.make(change=Change(config={"user.a": "old"}, devices={"g": device}))
    engine.push(name, "/root/f", b"old", mode=0o600)
    engine.snapshot(name, "s1")
    engine.snapshot(name, "s2")
    refused("exists", engine.snapshot, name, "s1")
    assert [label for label, _ in engine.snapshots(name)] == ["s1", "s2"]
    engine.update(name, Change(config={"user.a": "new"}, devices={"g": None}), etag=None)
    engine.push(name, "/root/f", b"new", mode=0o600)
    uuid = engine.instance(name).uuid
    engine.restore(name, "s1")
    seen = engine.instance(name)
    assert (seen.config["user.a"], seen.devices, seen.uuid) == ("old", {"g": device}, uuid)
    assert engine.pull(name, "/root/f") == b"old"
    refused("not_found", engine.restore, name, "s9")
    engine.delete_snapshot(name, "s1")
    engine.delete_snapshot(name, "s1")
    assert [label for label, _ in engine.snapshots(name)] == ["s2"]


def test_a_new_root_under_the_old_identity(bench, engine, refused):
    """Only the file system is new: name, uuid, keys and devices stay."""
    change = Change(config={"user.a": "1"}, devices={"g": gpu_device(bench.gpus[0])})
    name = bench.make(change=change, running=True)
    engine.push(name, "/root/f", b"old", mode=0o600)
    engine.stop(name, timeout_s=20, force=True)
    before = engine.instance(name)
    engine.rebuild_root(name, source=f"image:{bench.image}")
    after = engine.instance(name)
    assert engine.pull(name, "/root/f") is None
    assert (after.uuid, after.devices, after.profiles) == (before.uuid, before.devices, before.profiles)
    assert after.config["user.a"] == "1"
    assert not [seen.name for seen in engine.instances(with_state=False) if seen.name.startswith("lxgpu-")]
    engine.start(name)
    refused("conflict", engine.rebuild_root, name, source=f"image:{bench.image}")
    engine.stop(name, timeout_s=20, force=True)
    engine.snapshot(name, "s1")
    refused("conflict", engine.rebuild_root, name, source=f"image:{bench.image}")


def test_volumes_are_made_resized_and_removed(bench, engine, refused):
    """Every call is repeatable; a volume in use stays."""
    engine.ensure_volume(bench.pool, "ct-home", size_bytes=64 * 2**20)
    engine.ensure_volume(bench.pool, "ct-home", size_bytes=128 * 2**20)
    engine.ensure_volume(bench.pool, "ct-home", size_bytes=128 * 2**20)
    assert engine.has_volume(bench.pool, "ct-home")
    device = {"type": "disk", "pool": bench.pool, "source": "ct-home", "path": "/home"}
    name = bench.make(change=Change(devices={"home": device}))
    refused("engine", engine.delete_volume, bench.pool, "ct-home")
    engine.update(name, Change(devices={"home": None}), etag=None)
    engine.delete_volume(bench.pool, "ct-home")
    engine.delete_volume(bench.pool, "ct-home")
    assert not engine.has_volume(bench.pool, "ct-home")
    refused("not_found", engine.ensure_volume, "no-such-pool", "ct-home", size_bytes=None)


def test_pools_and_networks(bench, engine, refused):
    """The pool enforces sizes (btrfs), the bridge has an address and a range."""
    pool = engine.pool(bench.pool)
    assert pool.enforces_quota
    assert pool.size_bytes > pool.used_bytes > 0
    network = engine.network(bench.network)
    assert network.gateway.partition("/")[2]
    assert network.dhcp_ranges
    refused("not_found", engine.pool, "no-such-pool")
    refused("not_found", engine.network, "no-such-net")


def test_images_are_imported_once(engine, tarball):
    """Importing again changes nothing; the alias leads to the image; deleting is repeatable."""
    image = engine.import_image(str(tarball), alias="ct-image")
    assert engine.import_image(str(tarball), alias="ct-image") == image
    assert image.aliases == ("ct-image",)
    assert image.size_bytes == tarball.stat().st_size
    assert image.fingerprint in {found.fingerprint for found in engine.images()}
    engine.delete_image(image.fingerprint)
    engine.delete_image(image.fingerprint)
    assert image.fingerprint not in {found.fingerprint for found in engine.images()}


def test_an_image_can_come_without_a_name_and_get_one(engine, tarball):
    """A name leads to one image: given to another it moves."""
    image = engine.import_image(str(tarball), alias=None)
    try:
        assert image.aliases == ()
        engine.name_image(image.fingerprint, "ct-named")
        engine.name_image(image.fingerprint, "ct-named")
        assert [found.fingerprint for found in engine.images() if "ct-named" in found.aliases] == [image.fingerprint]
    finally:
        engine.delete_image(image.fingerprint)


def test_profiles_show_their_devices(engine):
    """The default project's profiles by their names, each with its own devices."""
    assert engine.profile_devices()["default"]["root"]["type"] == "disk"


def test_ports_of_stopped_instances_are_taken_too(bench, engine):
    """A port belongs to whoever has it in a device, running or not."""
    change = Change(devices={"ssh": ssh_device("192.0.2.1", 22001, "192.0.2.2") | {"nat": "false"}})
    name = bench.make(change=change)
    assert engine.proxy_ports()[22001] == name


def test_the_etag_moves_with_a_start(bench, engine, refused):
    """LXD's own volatile keys are under the ETag too: a refusal may mean no more than a start in between."""
    name = bench.make()
    before = engine.instance(name).etag
    engine.start(name)
    refused("conflict", engine.update, name, Change(config={"user.a": "1"}), etag=before)

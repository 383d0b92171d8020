"""The way into a container: the right address, and a host key that is known before the first connection."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.engine_core import File
from fakes.site import LISTEN, make_site, newcomer

from lxgpu.errors import LxgpuError
from lxgpu.ports import Change, Ran
from lxgpu.services import access, ending, power

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILTqr7gI88mWZzF21BWD5k5HPHfme7Be0WCT+5m8LqIb"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAVZ8CMT5cTcGqGbmhsr0qMFrNksUBdCgLu0KhEkwQe4"
PATH = "/etc/ssh/ssh_host_ed25519_key.pub"


@pytest.fixture
def site(tmp_path):
    """A host with alice's container, which has a host key."""
    made = make_site(tmp_path, gpus=1)
    newcomer(made, "alice")
    leave(made, KEY)
    return made


def leave(site, text, *, path=PATH, name="alice"):
    """What stands in a file inside."""
    site.engine.machines["default", name].files[path] = File(text.encode(), 0o644, 0, 0)


def door(site, name="alice"):
    """The way in."""
    return access.door(site.engine, site.probe, site.inventory.read(), site.settings, name)


def test_the_way_in(site):
    """Port and account are the person's, the address the published one, the key the container's own."""
    way = door(site)
    person = site.inventory.read().person("alice")
    assert (way.host, way.here, way.port, way.user) == (LISTEN, LISTEN, person.ssh_port, "alice")
    assert access.known_hosts(way) == f"alice.host1,[{LISTEN}]:{way.port} {KEY}\n"


def test_an_address_for_people_and_one_for_here(site):
    """The lab's name for the host is what people get; on the host itself the published address is right."""
    named = replace(site.settings, network=replace(site.settings.network, address="gpu1.lab.example"))
    way = access.door(site.engine, site.probe, site.inventory.read(), named, "alice")
    assert (way.host, way.here) == ("gpu1.lab.example", LISTEN)
    hosts = access.known_hosts(way).split()[0]
    assert hosts == f"alice.host1,[gpu1.lab.example]:{way.port},[{LISTEN}]:{way.port}"


def test_the_stanza(site):
    """What goes into ~/.ssh/config."""
    way = door(site)
    assert access.stanza(site.texts, way) == (
        f"Host alice\n    HostName {LISTEN}\n    Port {way.port}\n    User alice\n"
        "    HostKeyAlias alice.host1\n    ServerAliveInterval 30\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        f"{KEY}\n{OTHER}\n",
        f"@cert-authority *.lab.example {OTHER}",
        f'command="rm -rf /" {KEY}',
        "* ssh-ed25519 AAAA",
        "nonsense",
        "",
    ],
    ids=["two", "authority", "options", "cut", "nonsense", "empty"],
)
def test_what_root_inside_wrote_is_parsed(site, text):
    """Whatever is put in the place of the host key, no line of it reaches anybody's known_hosts."""
    leave(site, text)
    with pytest.raises(LxgpuError) as raised:
        door(site)
    assert raised.value.code == "not_ready"


def test_a_comment_of_the_key_is_left_out(site):
    """The comment is free text of the container's root."""
    leave(site, f"{KEY} root@evil [gpu1]:22 {OTHER.split()[1]}")
    assert access.known_hosts(door(site)).split()[1:] == KEY.split()


def test_another_kind_of_key_is_found(site):
    """An adopted container may have no ed25519 key."""
    del site.engine.machines["default", "alice"].files[PATH]
    with pytest.raises(LxgpuError, match="no SSH host key yet"):
        door(site)
    leave(site, KEY, path="/etc/ssh/ssh_host_rsa_key.pub")
    assert len(door(site).host_keys) == 1


def stopped(site):
    """By lxgpu."""
    power.stop_instance(site, "alice", force=False)


def frozen(site):
    """By hand."""
    site.engine.freeze("alice")


def suspended(site):
    """By an admin."""
    ending.suspend(site, "alice", reason="left the lab")


def gone(site):
    """Behind lxgpu's back."""
    site.engine.stop("alice", timeout_s=0, force=True)
    site.engine.delete("alice")


def deleted(site):
    """By lxgpu, into the trash."""
    ending.delete(site, "alice", purge=False)


@pytest.mark.parametrize(
    ("happens", "code", "fix"),
    [
        (stopped, "not_ready", "lxgpu start alice"),
        (frozen, "not_ready", "lxgpu restart alice"),
        (suspended, "not_ready", "lxgpu resume alice"),
        (gone, "missing", "lxgpu why alice"),
        (deleted, "not_found", "lxgpu ls lists those there are"),
    ],
)
def test_there_is_no_way_in(site, happens, code, fix):
    """It is said why, and what opens it again."""
    happens(site)
    with pytest.raises(LxgpuError) as raised:
        door(site)
    assert (raised.value.code, raised.value.fix) == (code, fix)
    with pytest.raises(LxgpuError) as raised:
        access.run(site.engine, site.inventory.read(), "alice", ("id",), stdin=b"", timeout_s=5)
    assert raised.value.code == code


def test_a_foreign_container_is_not_entered(site):
    """One that took alice's name is not alice's."""
    gone(site)
    site.engine.create("alice", source=f"image:{site.engine.images()[0].fingerprint}", change=Change(), profiles=[])
    site.engine.start("alice")
    with pytest.raises(LxgpuError) as raised:
        access.run(site.engine, site.inventory.read(), "alice", ("id",), stdin=b"", timeout_s=5)
    assert raised.value.code == "missing"


def test_a_program_runs_and_its_end_comes_back(site):
    """Words, input and status go through unchanged."""
    site.engine.programs["tr"] = lambda argv, stdin: Ran(3, "|".join(argv) + stdin.decode())
    words = ("tr", "a b", "*")
    ran = access.run(site.engine, site.inventory.read(), "alice", words, stdin=b"in", timeout_s=5)
    assert ran == Ran(3, "tr|a b|*in")

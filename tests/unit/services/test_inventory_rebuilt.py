"""A lost inventory made again: one thing that cannot be read takes nothing else with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes.site import make_site, newcomer

from lxgpu.archive import write_private
from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import Slot
from lxgpu.model.operation import Identity
from lxgpu.model.snapshot import Observation
from lxgpu.services import ending, inservice, keys, observe
from lxgpu.services.identity import KEY_PROMISES
from lxgpu.services.readback import Found, read_back
from lxgpu.services.rebuild import check_own
from lxgpu.services.site import Site


def again(site: Site, promises: dict[str, str] | None = None) -> Found:
    """What a rebuild finds, with other promises if they are given."""
    seen: Observation = observe.look(site)
    return read_back(seen, promises or site.engine.server().promises, now=site.clock.now())


def test_a_person_without_a_key_is_no_trouble(tmp_path: Path) -> None:
    """Whose last key was taken away comes back without keys, and so does everybody else."""
    site = make_site(tmp_path)
    newcomer(site, "alice")
    newcomer(site, "bob")
    (key,) = [key for key in site.inventory.read().keys if key.person == "alice"]
    keys.remove(site, "alice", key.fingerprint)
    found = again(site)
    assert (found.troubles, sorted(row.name for row in found.instances)) == ([], ["alice", "bob"])
    assert {key.person for key in found.keys} == {"bob"}


def test_keys_that_cannot_be_read_cost_one_container(tmp_path: Path) -> None:
    """A broken mark is told with the container's name; the others are there."""
    site = make_site(tmp_path)
    newcomer(site, "alice")
    newcomer(site, "bob")
    config = site.engine.machines["default", "alice"].config
    person = json.loads(config["user.lxgpu.person"])
    config["user.lxgpu.person"] = json.dumps({**person, "keys": ["no key"]})
    found = again(site)
    assert [row.name for row in found.instances] == ["bob"]
    assert ["alice" in trouble for trouble in found.troubles] == [True]


@pytest.mark.parametrize("broken", [{"keys": {"eve": ["no key"]}}, {"people": {"eve": 5}}, {"people": {"eve": None}}])
def test_a_broken_promise_takes_no_other_with_it(tmp_path: Path, broken: dict[str, object]) -> None:
    """A card that was closed stays closed though another promise cannot be read."""
    site = make_site(tmp_path)
    newcomer(site, "alice")
    ending.delete(site, "alice", purge=False)
    uuid = site.engine.cards[0].uuid
    inservice.close(site, uuid, reason="fan broken")
    promises = json.loads(site.engine.server().promises[KEY_PROMISES])
    found = again(site, {KEY_PROMISES: json.dumps({**broken, **promises})})
    assert found.cards[uuid].closed == "fan broken"
    assert ["eve" in trouble for trouble in found.troubles] == [True]


def test_promises_that_are_no_json_are_a_trouble(tmp_path: Path) -> None:
    """The containers come back all the same."""
    site = make_site(tmp_path)
    newcomer(site, "alice", gpus=1)
    found = again(site, {KEY_PROMISES: "{"})
    assert len(found.troubles) == 1
    assert [row.slot for row in found.assignments] == [Slot(site.engine.cards[0].uuid)]


def test_rows_of_another_server_are_refused(tmp_path: Path) -> None:
    """An inventory that was exported elsewhere is refused before a row is replaced; the own one may come back."""
    site = make_site(tmp_path)
    newcomer(site, "alice")
    identity = site.inventory.read().identity
    check_own(site.engine.server(), identity)
    check_own(site.engine.server(), None)
    with pytest.raises(LxgpuError) as caught:
        check_own(site.engine.server(), Identity(inventory="another", epoch=7))
    assert caught.value.code == "other_inventory"


def test_an_export_is_its_owners_alone(tmp_path: Path) -> None:
    """Also where a file of that name was there for all to read."""
    target = tmp_path / "inventory.yaml"
    target.write_text("old")
    target.chmod(0o644)
    write_private(target, "new")
    assert (target.stat().st_mode & 0o777, target.read_text()) == (0o600, "new")

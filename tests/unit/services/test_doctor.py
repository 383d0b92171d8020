"""`lxgpu doctor`: what it says of hosts gone wrong, as data, and what it mends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes.faults import Fault
from fakes.setup import SOUND, FakeSetup, ground_of
from fakes.site import make_settings, make_site, newcomer

from lxgpu.config.inforce import InForce
from lxgpu.config.settings import WebSettings
from lxgpu.errors import LxgpuError
from lxgpu.model.gpu import Gpu, Reading, Readings
from lxgpu.model.instance import Power, Sighting
from lxgpu.model.quota import Policy
from lxgpu.policy.drift import Finding
from lxgpu.ports import Image, Network, Pool, Server
from lxgpu.ports.facts import Door, FileMode, IdRange
from lxgpu.services import doctor
from lxgpu.services.checkup import Answer, Check, Seen, Verdict

CASES = Path(__file__).resolve().parents[2] / "cases" / "doctor"


def _cases() -> list[Any]:
    found = [case for path in sorted(CASES.glob("*.yaml")) for case in yaml.safe_load(path.read_text(encoding="utf-8"))]
    return [pytest.param(case, id=case["case"]) for case in found]


def _error(code: str) -> Answer[Any]:
    return Answer(error=LxgpuError(code, f"an error of the kind {code}"))


def _answer(told: Mapping[str, Any] | None, value: Any) -> Answer[Any]:
    told = told or {}
    if "error" in told:
        return _error(told["error"])
    return Answer(told["value"]) if "value" in told else Answer(replace(value, **told) if told else value)


def _host(case: Mapping[str, Any]) -> Any:
    told = dict(case.get("host", {}))
    for name in ("subuid", "subgid"):
        if name in told:
            told[name] = tuple(IdRange(first, count) for first, count in told[name])
    if "door" in told:
        told["door"] = Door(told["door"])
    if "sysctls" in told:
        told["sysctls"] = {**SOUND.sysctls, **told["sysctls"]}
    if "files" in case:
        told["files"] = tuple(FileMode(**{**one, "mode": int(str(one["mode"]), 8)}) for one in case["files"])
    return replace(SOUND, **{key: tuple(value) if isinstance(value, list) else value for key, value in told.items()})


def _sighting(*, name: str, project: str = "default", **maps: Any) -> Sighting:
    found = maps.get("devices", {})
    config = maps.get("config", {})
    return Sighting(name, project, Power.RUNNING, config=config, devices=found, expanded_devices=found)


def _readings(case: Mapping[str, Any], gpus: tuple[Gpu, ...]) -> Readings:
    from fakes.system import FakeClock  # noqa: PLC0415 -- one use

    at = FakeClock().now()
    told = case.get("readings", {"items": [{"uuid": gpu.uuid} for gpu in gpus]})
    items = tuple(Reading(sampled_at=at, **one) for one in told.get("items", ()))
    return Readings(items=items, driver="550.54.15", error=told.get("error"))


def _seen(case: Mapping[str, Any]) -> Seen:
    told = dict(case.get("settings", {}))
    told |= {"web": WebSettings(**told["web"])} if "web" in told else {}
    settings = replace(make_settings(Path("/etc/lxgpu")), **told)
    gpus = tuple(
        Gpu(uuid=f"GPU-{n}", pci=f"0000:1{n}:00.0", model="T4", host="host1") for n in range(1, case.get("gpus", 1) + 1)
    )
    server = _answer(case.get("server"), Server("host1", "lxd", "5.0.2", frozenset(), {}, None))
    broken = LxgpuError("bad_file", "policy.yaml has 1 mistake") if "broken" in case.get("policy", {}) else None
    images = [Image("a" * 64, ("base",), 1, None)] if "images" not in case else case["images"]
    if server.error is not None:
        silent = Answer(error=server.error)
        parts: dict[str, Answer[Any]] = dict.fromkeys(
            ("pool", "network", "images", "sightings", "profiles", "gpus", "findings"), silent
        )
    else:
        parts = {
            "pool": _answer(case.get("pool"), Pool("default", "btrfs", 1000, 10, enforces_quota=True)),
            "network": _answer(case.get("network"), Network("lxdbr0", "10.1.1.1/24", ())),
            "images": Answer(tuple(images)),
            "sightings": Answer(tuple(_sighting(**one) for one in case.get("sightings", ()))),
            "profiles": Answer(case.get("profiles", {})),
            "gpus": Answer(gpus),
            "findings": Answer(tuple(Finding(**one) for one in case.get("findings", ()))),
        }
    return Seen(
        host=_host(case),
        settings=Answer(settings),
        server=server,
        readings=_readings(case, gpus),
        database=_answer(case["database"], None) if "database" in case else Answer(value=True),
        passes=_answer(case["passes"], ())
        if "error" in case.get("passes", {})
        else Answer(tuple(case.get("passes", ()))),
        policy=_error("bad_file") if "error" in case.get("policy", {}) else Answer(InForce(Policy(), broken=broken)),
        **parts,
    )


def _by_id(checks: tuple[Check, ...]) -> dict[str, Check]:
    """One check an id, the worst of them."""
    order = list(Verdict)
    return {one.id: one for one in sorted(checks, key=lambda one: order.index(one.verdict))}


@pytest.mark.parametrize("case", _cases())
def test_what_is_said_of_a_host(case):
    """Exactly the findings of the case, with its words, and a remedy for each that is bad."""
    seen = _seen(case)
    found = _by_id(tuple(check for look in doctor.CHECKS for check in look(seen)))
    wanted = {name: words[0] for name, words in case["find"].items() if words[0] != "ok"}
    assert {name: one.verdict.value for name, one in found.items() if one.verdict is not Verdict.OK} == wanted
    for name, (_, *words) in case["find"].items():
        for word in words:
            assert str(word) in f"{found[name].text} {found[name].remedy}"
    assert not [one for one in found.values() if one.verdict is not Verdict.OK and not one.remedy]


def test_a_sound_site_is_well(tmp_path):
    """A host with a container of ours on it has no finding, and looking writes nothing."""
    site = make_site(tmp_path)
    newcomer(site, "alice", gpus=1)
    before = (site.engine.writes, site.inventory.read().version)
    found = doctor.checks(ground_of(site, FakeSetup()))
    assert [one for one in found if one.verdict is not Verdict.OK] == []
    assert len(found) >= 20
    assert (site.engine.writes, site.inventory.read().version) == before


def test_lxd_that_is_down_leaves_the_rest_of_the_check_up(tmp_path):
    """One failure, the parts of LXD unknown, and everything else looked at; LXD is not asked again and again."""
    site = make_site(tmp_path)
    site.engine.inject(Fault.DOWN, call="put_promises", after=100)
    with pytest.raises(LxgpuError):
        site.engine.put_promises({}, etag=None)
    before = site.engine.requests
    found = _by_id(doctor.checks(ground_of(site, FakeSetup(replace(SOUND, door=Door.REFUSED)))))
    assert found["lxd"].verdict is Verdict.FAIL
    assert found["drift"].verdict is Verdict.UNKNOWN
    assert found["device-rule"].verdict is Verdict.OK
    assert site.engine.requests - before <= 1


def test_broken_settings_are_a_finding(tmp_path):
    """Without settings the host is looked at all the same, and the mistake is said with its place."""
    ground = ground_of(make_site(tmp_path), FakeSetup())

    def broken():
        raise LxgpuError("bad_file", "config.yaml has a mistake", why="config.yaml:3:1: no such setting")

    found = _by_id(doctor.checks(replace(ground, settings=broken)))
    assert found["config"].verdict is Verdict.FAIL
    assert "config.yaml:3:1" in found["config"].text
    assert found["drift"].verdict is Verdict.UNKNOWN
    assert found["subuid"].verdict is Verdict.OK


def test_what_is_safe_is_mended(tmp_path):
    """Parameters, modes, nodes and a card attached by hand: looked at again, all is well and says so."""
    site = make_site(tmp_path)
    newcomer(site, "alice", gpus=1)
    mine, other = (gpu.pci for gpu in sorted(site.engine.cards, key=lambda gpu: gpu.uuid))
    site.engine.machines["default", "alice"].devices["by-hand"] = {"type": "gpu", "pci": other}
    setup = FakeSetup(
        replace(
            SOUND,
            sysctls={**SOUND.sysctls, "kernel.keys.maxkeys": 200},
            nodes={"nvidiactl": True, "nvidia-uvm": False},
            files=(FileMode(path="/etc/lxgpu/policy.yaml", mode=0o100666, uid=0, secret=False),),
        )
    )
    ground = ground_of(site, setup)
    before = doctor.checks(ground)
    bad = {one.id for one in before if one.verdict in doctor.BAD}
    assert bad == {"kernel.keys.maxkeys", "nodes", "files", "drift-extra_card"}
    assert doctor.fix(ground, before) == ()
    after = doctor.compare(before, doctor.checks(ground))
    assert not [one for one in after if one.verdict in doctor.BAD]
    assert {one.id for one in after if one.fixed} == bad
    devices = site.engine.machines["default", "alice"].devices
    assert [device["pci"] for device in devices.values() if device["type"] == "gpu"] == [mine]


def test_in_a_lab_the_host_is_left_alone(tmp_path):
    """Kernel parameters and nodes are the machine's, which others use too; what is lxgpu's own is mended."""
    setup = FakeSetup(
        replace(
            SOUND,
            sysctls={**SOUND.sysctls, "kernel.keys.maxkeys": 200},
            nodes={"nvidiactl": True, "nvidia-uvm": False},
            files=(FileMode(path="/etc/lxgpu/policy.yaml", mode=0o100666, uid=0, secret=False),),
        )
    )
    ground, before = ground_of(make_site(tmp_path), setup), setup.here
    found = doctor.checks(ground)
    kinds = [{one.repair.kind for one in doctor.repairs(found, host=host)} for host in (True, False)]
    assert kinds == [{"sysctl", "nodes", "mode"}, {"mode"}]
    assert doctor.fix(ground, found, host=False) == ()
    assert (setup.here.sysctls, setup.here.nodes) == (before.sysctls, before.nodes)
    assert setup.here.files != before.files


def test_what_cannot_be_mended_is_said_and_the_rest_is(tmp_path):
    """One refusal hides no other repair."""
    setup = FakeSetup(replace(SOUND, sysctls={**SOUND.sysctls, "kernel.keys.maxkeys": 200, "vm.max_map_count": 1}))
    setup.locked = True
    ground = ground_of(make_site(tmp_path), setup)
    failed = doctor.fix(ground, doctor.checks(ground))
    assert [line.partition(":")[0] for line in failed] == ["kernel.keys.maxkeys", "vm.max_map_count"]


def test_private_keys_are_looked_for_and_not_their_public_halves(tmp_path):
    """The places asked about are those of the settings."""
    site = make_site(tmp_path)
    folder = site.settings.state_dir / "keys"
    folder.mkdir(parents=True)
    (folder / "alice").touch()
    (folder / "alice.pub").touch()
    secret = doctor.places(site.settings).secret
    assert folder / "alice" in secret
    assert folder / "alice.pub" not in secret


def test_passes_that_were_lost_are_a_finding(tmp_path):
    """A broken file in place or kept aside warns, and names the file; one of a newer lxgpu fails."""
    site = make_site(tmp_path)
    state = site.settings.state_dir
    state.mkdir(exist_ok=True)
    for name, content, verdict, word in (
        ("passes.json.bad-2", "x", Verdict.WARN, "passes.json.bad-2"),
        ("passes.json", "x", Verdict.WARN, "keys invite"),
        ("passes.json", '{"schema": "lxgpu.passes/v9"}', Verdict.FAIL, "a newer lxgpu"),
    ):
        (state / name).write_text(content)
        found = [one for one in doctor.checks(ground_of(site, FakeSetup())) if one.id == "passes"]
        assert verdict in {one.verdict for one in found}
        assert word in str(found)


def test_the_document_lists_every_check(tmp_path):
    """docs/install.md has a row for each check that a sound host gets, and for no other."""
    text = (Path(__file__).resolve().parents[3] / "docs" / "install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?) \|", text.partition("## What doctor checks")[2].partition("\n## ")[0], re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    found = {one.id for one in doctor.checks(ground_of(make_site(tmp_path), FakeSetup()))}
    assert listed == found | {"idmap-uid", "idmap-gid"}


@pytest.mark.parametrize("door", [Door.REFUSED, Door.MISSING])
def test_in_a_lab_the_remedy_is_the_labs(tmp_path, door):
    """Its LXD is no unit of systemd."""
    site = make_site(tmp_path)
    site.engine.inject(Fault.DOWN, call="put_promises", after=100)
    with pytest.raises(LxgpuError):
        site.engine.put_promises({}, etag=None)
    found = _by_id(doctor.checks(ground_of(site, FakeSetup(replace(SOUND, door=door, lab="x")))))
    assert found["lxd"].remedy == "lxgpu lab up --name x"

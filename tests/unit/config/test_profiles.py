"""Profiles: the shipped ones, the site's over them, and mistakes with their lines."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lxgpu.config.profiles import list_profiles, load_profile
from lxgpu.config.shipped import shipped
from lxgpu.errors import LxgpuError
from lxgpu.model.profile import Service
from lxgpu.model.quota import Policy
from lxgpu.model.rules import SharedData


def _site(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", sorted(list_profiles(None)))
def test_each_shipped_profile_suits_real_work(name):
    """BEHAVIOUR 7: memlock unlimited, nofile 1048576, PCI order, /dev/shm by the memory limit; no card by itself."""
    profile = load_profile(name, None)
    assert profile.ulimits == {"memlock": "unlimited", "nofile": "1048576"}
    assert profile.config["limits.kernel.memlock"] == "unlimited"
    assert profile.environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert 0 < profile.shm_fraction < 1
    assert profile.description
    assert profile.devices == {}
    assert profile.nesting == (name == "docker") == (profile.config.get("security.nesting") == "true")
    assert profile.nvidia == ("off" if name == "cpu-only" else "auto")


def test_the_shipped_profiles_are_these():
    """Docs and commands name them."""
    assert list(list_profiles(None)) == ["base", "ci", "cpu-only", "cuda", "docker", "jupyter", "triton"]
    assert shipped("profiles").name == "profiles"
    assert shipped("templates").is_dir()


def test_a_sites_profile_adds_to_what_it_extends(tmp_path):
    """Mappings are merged by name, lists joined, single values replaced."""
    own = _site(
        tmp_path,
        lab="description: the lab's\nextends: base\nnvidia: off\npackages: [tmux, git]\n"
        "environment: {LAB: vision}\nulimits: {core: '0'}\nfolders: {sets: {path: /sets, mode: rw}}\n"
        "limits: {cpu: 2, memory: 4GiB, per_gpu: {cpu: 1}}\nsetup: [echo one]\n",
        course="description: the course's\nextends: lab\npackages: [git, jq]\nlimits: {cpu: 3}\nsetup: [echo two]\n",
    )
    found = load_profile("course", own)
    assert found.description == "the course's"
    assert found.packages == ("tmux", "git", "jq")
    assert found.environment == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "LAB": "vision"}
    assert found.ulimits == {"memlock": "unlimited", "nofile": "1048576", "core": "0"}
    assert found.setup == ("echo one", "echo two")
    assert found.nvidia == "off"
    assert found.folders == (SharedData("sets", path="/sets", at="/sets", read_only=False),)
    assert (found.terms.cpu, found.terms.memory_bytes, found.terms.per_gpu_cpu) == (3, 4 * 2**30, 1)
    assert found.source == own / "course.yaml"


def test_services_are_read_and_merged_by_name(tmp_path):
    """What a profile adds to a service of the one that it extends is added, the rest stays."""
    own = _site(
        tmp_path,
        lab="description: x\npip: [a~=1.0]\nservices:\n"
        "  board: {title: Board, command: /bin/board, ports: [6006], health: 'http://127.0.0.1:6006/'}\n",
        more="description: x\nextends: lab\npip: ['b[c]>=2,<3']\n"
        "services: {board: {title: Boards, command: /bin/two}}\n",
    )
    found = load_profile("more", own)
    assert found.pip == ("a~=1.0", "b[c]>=2,<3")
    assert found.services == (Service("board", "Boards", "/bin/two", (6006,), "http://127.0.0.1:6006/"),)
    assert (found.brings, load_profile("base", None).brings) == (True, False)


def test_a_profiles_limits_stand_above_the_defaults_and_below_groups(tmp_path):
    """What a profile says about limits is a level of the quota."""
    own = _site(tmp_path, big="description: x\nlimits: {cpu: 64}\n")
    profile = load_profile("big", own)
    assert Policy().entitlement("alice", frozenset(), datetime(2027, 1, 1, tzinfo=UTC), profile=profile.terms).cpu == 64


def test_a_site_can_add_to_a_shipped_profile_or_replace_it(tmp_path):
    """`extends: base` in the site's own base.yaml is the shipped one; the others that extend base follow."""
    own = _site(tmp_path, base="description: ours\nextends: base\npackages: [tmux]\n")
    assert load_profile("base", own).packages == ("tmux",)
    assert load_profile("cuda", own).packages == ("tmux",)
    assert load_profile("cuda", own).ulimits["memlock"] == "unlimited"
    own = _site(tmp_path, base="description: ours alone\n")
    assert load_profile("cuda", own).ulimits == {}
    assert list_profiles(own)["base"] == own / "base.yaml"
    assert list_profiles(own)["cuda"] == shipped("profiles") / "cuda.yaml"


def test_files_are_written_as_they_are(tmp_path):
    """The command for a file writes exactly its text and mode, whatever quotes are in it."""
    target = tmp_path / "a b" / "it's.txt"
    text = 'a\'b "c" $HOME `x` \\n é\n'
    own = _site(
        tmp_path,
        f="description: x\nfiles:\n  - path: " + f'"{target}"' + "\n    mode: '0600'\n    content: |\n      " + text,
    )
    (command,) = load_profile("f", own).setup
    subprocess.run(["sh", "-c", command], check=True)
    assert target.read_text(encoding="utf-8") == text
    assert target.stat().st_mode & 0o777 == 0o600


def test_every_mistake_is_told_with_its_line(tmp_path):
    """A broken profile is refused whole; what would open a way to cards or the host is refused with the reason."""
    own = _site(
        tmp_path,
        bad="descripton: x\n"
        "config: {raw.lxc: x, security.privileged: 'true', user.lxgpu.uuid: x, nonsense: x}\n"
        "devices:\n"
        "  all: {type: gpu}\n"
        "  root: {type: unix-char, path: /dev/fuse}\n"
        "  n: {type: unix-char, path: /dev/nvidia0}\n"
        "  d: {type: unix-char, source: /dev/dri/card0, path: /dev/x}\n"
        "nvidia: on\n"
        "ulimits: {nofile: 10, foo: '1'}\n"
        "environment: {A-B: x, C: 'it''s'}\n"
        "files: [{path: x, mode: 0644}]\n"
        "packages: [ok, 'rm -rf']\n"
        "shm: 0.5\n"
        "pip: ['a b', \"a'b\"]\n"
        "services: {x: {title: X, command: x, ports: [0], health: 'http://lab.example/'}}\n",
    )
    with pytest.raises(LxgpuError) as raised:
        load_profile("bad", own)
    where = f"{own}/bad.yaml:"
    told = [f"{problem.where.removeprefix(where)}: {problem.text}" for problem in raised.value.problems]
    wanted = [
        "1:1: description: is missing",
        "1:1: descripton: unknown name; did you mean description?",
        "2:10: config.raw.lxc: raw.lxc is not for a profile; it would take away what keeps cards apart",
        "2:22: config.security.privileged: security.privileged is not for a profile; root inside would be root",
        "2:51: config.user.lxgpu.uuid: user.lxgpu.uuid is not for a profile",
        "2:71: config.nonsense: 'nonsense' is no setting of the engine",
        "4:15: devices.all.type: unix-char, unix-block, unix-hotplug, usb or infiniband is wanted, not the text gpu",
        "5:3: devices.root: the device root is made by lxgpu",
        "6:30: devices.n.path: /dev/nvidia0 is a card's node; cards are lent, never passed by a profile",
        "7:32: devices.d.source: /dev/dri/card0 is a card's node",
        "8:9: nvidia: auto or off is wanted, not the text on",
        "9:19: ulimits.nofile: text is wanted, not the number 10",
        "9:23: ulimits.foo: as, core, cpu",
        "10:15: environment.A-B: 'A-B' is no name of a variable",
        "10:26: environment.C: a value is one line without the character '",
        "11:9: files[0].content: is missing",
        "11:16: files[0].path: 'x' is no path",
        "11:25: files[0].mode: 0644 starts with a zero",
        "12:16: packages[1]: 'rm -rf' is no package",
        "13:6: shm: text is wanted, not the number 0.5",
        "14:7: pip[0]: 'a b' is no Python package",
        '14:14: pip[1]: "a\'b" is no Python package',
        "15:35: services.x.command: 'x' is no command of a unit; it begins with the program's whole path",
        "15:46: services.x.ports[0]: 0 is not allowed: at least 1",
        "15:58: services.x.health: 'http://lab.example/' is no address to ask",
    ]
    assert len(told) == len(wanted), "\n".join(told)
    for text, start in zip(told, wanted, strict=True):
        assert text.startswith(start)


@pytest.mark.parametrize(
    ("texts", "name", "where", "text"),
    [
        ({"a": "b", "b": "a"}, "a", "b.yaml:2:10: extends", "a extends b in turn"),
        ({"a": "nix"}, "a", "a.yaml:2:10: extends", "there is no profile nix"),
        ({"a": "a"}, "a", "a.yaml:2:10: extends", "there is no profile a below"),
    ],
)
def test_a_chain_that_leads_nowhere_is_told_at_its_extends(texts, name, where, text, tmp_path):
    """Circles and missing profiles end in a message, not in a loop."""
    own = _site(tmp_path, **{key: f"description: x\nextends: {parent}\n" for key, parent in texts.items()})
    with pytest.raises(LxgpuError) as raised:
        load_profile(name, own)
    (problem,) = raised.value.problems
    assert problem.where == f"{own}/{where}"
    assert problem.text == text


@pytest.mark.parametrize(("name", "code"), [("nix", "not_found"), ("../base", "bad_name"), ("", "bad_name")])
def test_a_profile_that_is_not_there(name, code, tmp_path):
    """The profiles that are there are named; a name cannot lead out of the folder."""
    with pytest.raises(LxgpuError) as raised:
        load_profile(name, tmp_path)
    assert raised.value.code == code


def _aged(*paths: Path) -> None:
    """Make files look old enough for their stamps to be trusted."""
    for path in paths:
        os.utime(path, (1_000_000_000, 1_000_000_000))


def test_what_is_kept_stands_for_unchanged_files_and_for_no_others(tmp_path):
    """Read from what was kept (its text proves it), until a file of the chain changes or a new one comes before it."""
    folder, base, kept = tmp_path / "own", tmp_path / "base", tmp_path / "kept.json"
    folder.mkdir()
    base.mkdir()
    _site(base, base="description: shipped\npackages: [one]\n", top="description: top\nextends: base\n")
    _aged(base / "base.yaml", base / "top.yaml")

    def packages() -> tuple[str, ...]:
        return load_profile("top", folder, base=base, kept=kept).packages

    assert packages() == ("one",)
    assert load_profile("top", folder, base=base, kept=kept) == load_profile("top", folder, base=base)
    kept.write_text(kept.read_text(encoding="utf-8").replace('"one"', '"kept"'), encoding="utf-8")
    assert packages() == ("kept",)
    _site(base, base="description: shipped\npackages: [two]\n")
    assert packages() == ("two",)
    _aged(base / "base.yaml")
    assert packages() == ("two",)
    _site(folder, base="description: ours\nextends: base\npackages: [three]\n")
    assert packages() == ("two", "three")
    (folder / "base.yaml").write_text("description: ours\npackages: 3\n", encoding="utf-8")
    with pytest.raises(LxgpuError):
        packages()


def test_a_profile_that_cannot_be_kept_is_read_all_the_same(tmp_path):
    """Keeping saves time and decides nothing."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert load_profile("base", None, kept=tmp_path / "file" / "x.json").description

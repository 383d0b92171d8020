"""The lab's files: record, lock, settings, pretend hardware."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from lxgpu.errors import LxgpuError
from lxgpu.lab import image_cache, image_recipe, record, settings
from lxgpu.lab.devices import write_hardware
from lxgpu.lab.jobs import find_card
from lxgpu.lab.record import Lab


def in_root(lab: Lab, code: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the lab's parent folder as the place of labs."""
    env = {**os.environ, "LXGPU_LAB_ROOT": str(lab.directory.parent), "LXGPU_CACHE_DIR": str(lab.directory / "cache")}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)


def test_record_comes_back_as_it_was(paper_lab: Lab) -> None:
    """What was chosen for a lab is read back exactly, the holder included."""
    for lab in (paper_lab, replace(paper_lab, holder=(12, 34), consoles=(20, 21, 22))):
        record.save(lab)
        code = "from lxgpu.lab import record; print(repr(record.load('paper')))"
        assert in_root(paper_lab, code).stdout.strip() == repr(lab)


def test_unknown_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab that does not exist is said not to, with the command that makes it."""
    monkeypatch.setenv("LXGPU_LAB_ROOT", str(tmp_path))
    assert record.load("nowhere") is None
    with pytest.raises(LxgpuError) as caught:
        record.require("nowhere")
    assert (caught.value.code, caught.value.fix) == ("not_found", "lxgpu lab up --name nowhere")


def test_lock_leaves_nothing_of_a_lab_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locking a lab that does not exist leaves neither lock nor folder; one that exists keeps its lock."""
    monkeypatch.setenv("LXGPU_LAB_ROOT", str(tmp_path / "labs"))
    with record.locked("x"):
        pass
    assert not (tmp_path / "labs").exists()
    (tmp_path / "labs" / "y").mkdir(parents=True)
    with record.locked("y"):
        pass
    assert (tmp_path / "labs" / ".y.lock").exists()


def test_lock_excludes(paper_lab: Lab) -> None:
    """Two commands on one lab take turns, also when the first takes the lab away."""
    code = (
        "import os, time\nfrom pathlib import Path\nfrom lxgpu.lab import record\n"
        "log = Path(os.environ['LXGPU_LAB_ROOT']) / 'log'\n"
        "for _ in range(20):\n"
        "  with record.locked('turn'):\n"
        "    with log.open('a') as f: f.write('in ')\n"
        "    time.sleep(0.002)\n"
        "    with log.open('a') as f: f.write('out ')\n"
    )
    env = {**os.environ, "LXGPU_LAB_ROOT": str(paper_lab.directory.parent)}
    both = [subprocess.Popen([sys.executable, "-c", code], env=env) for _ in range(2)]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    assert (paper_lab.directory.parent / "log").read_text().split() == ["in", "out"] * 40


def test_env_is_for_eval(paper_lab: Lab) -> None:
    """The variables survive a shell, also with odd folders, and point at the stand-in library first."""
    odd = replace(paper_lab, directory=Path('/tmp/it\'s a "lab" $HOME'))  # noqa: S108 -- never made
    lines = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in odd.env().items())
    done = subprocess.run(
        ["sh", "-c", f"{lines}exec {sys.executable} -c 'import os, json; print(json.dumps(dict(os.environ)))'"],
        capture_output=True,
        text=True,
        check=True,
    )
    seen = json.loads(done.stdout)
    assert {name: seen[name] for name in odd.env()} == odd.env()
    assert seen["LD_LIBRARY_PATH"].split(":")[0] == str(odd.paths.nvml)


def test_library_path_of_the_caller_stays(paper_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entering a lab twice adds its folder once, and what the caller had stays behind it."""
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{paper_lab.paths.nvml}:/opt/lib")
    assert paper_lab.env()["LD_LIBRARY_PATH"] == f"{paper_lab.paths.nvml}:/opt/lib"


def test_settings_and_policy(paper_lab: Lab, tmp_path: Path) -> None:
    """The lab's files are YAML that says where LXD is, and a policy in seconds; an own policy file is taken instead."""
    settings.write_settings(paper_lab, policy=None)
    config = yaml.safe_load(paper_lab.paths.config.read_text())
    assert config["hosts"] == [{"name": "paper", "engine": "lxd", "socket": str(paper_lab.socket)}]
    assert config["network"]["bridge"] == "lg-paper"
    assert config["network"]["listen"] == "10.99.1.1"
    policy = yaml.safe_load(paper_lab.paths.policy.read_text())
    assert policy["defaults"]["limit"] == len(paper_lab.gpus)
    assert {name: entry["who"] for name, entry in policy["classes"].items()} == {
        "urgent": ["*"],
        "normal": ["*"],
        "scavenge": ["*"],
    }
    own = tmp_path / "own.yaml"
    own.write_text("version: 1\n")
    settings.write_settings(paper_lab, policy=own)
    assert paper_lab.paths.policy.read_text() == "version: 1\n"
    settings.write_settings(paper_lab, policy=None)
    assert paper_lab.paths.policy.read_text() == "version: 1\n"


def test_lxgpu_reads_the_labs_files(paper_lab: Lab) -> None:
    """The policy's and the settings' own readers find no mistake in what the lab writes."""
    settings.write_settings(paper_lab, policy=None)
    env = {**os.environ, **paper_lab.env()}
    for words in (["policy", "check"], ["config", "show"]):
        done = subprocess.run(
            [sys.executable, "-m", "lxgpu", *words], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_hardware_for_lxd(paper_lab: Lab) -> None:
    """The pretend bus has the real devices and our cards: driver, DRM nodes, a row in the vendor's table."""
    host = paper_lab.paths.host
    for _ in range(2):  # writing it anew is no error
        write_hardware(host, paper_lab.gpus)
    for card in paper_lab.gpus:
        folder = host / "pci" / card.pci
        assert (folder / "vendor").read_text() == "0x10de\n"
        assert (folder / "driver").resolve() == host / "driver/nvidia"
        assert (folder / "drm" / card.drm_render / "dev").read_text() == f"4:{card.console}\n"
        assert (folder / "drm" / card.drm_card / "dev").read_text() == f"7:{card.console}\n"
    table = subprocess.run(
        [host / "bin/nvidia-container-cli", "info", "--csv"], capture_output=True, text=True, check=True
    )
    rows = table.stdout.splitlines()[3:]
    assert [row.split(",")[4] for row in rows] == [card.uuid for card in paper_lab.gpus]
    real = {entry.name for entry in Path("/sys/bus/pci/devices").iterdir()}
    display = {name for name in real if Path("/sys/bus/pci/devices", name, "class").read_text().startswith("0x03")}
    assert {e.name for e in (host / "pci").iterdir()} == (real - display) | {card.pci for card in paper_lab.gpus}


def test_finding_a_card(paper_lab: Lab) -> None:
    """A card is found by index, either form of its PCI address, its UUID and a beginning of that."""
    card = paper_lab.gpus[1]
    for text in ("1", card.pci, f"0000{card.pci}", card.pci.upper(), card.uuid, card.uuid[:17], card.uuid.upper()):
        assert find_card(paper_lab, text) == card


def test_cache_survives_an_interrupted_build(paper_lab: Lab) -> None:
    """What an interrupted build left is never taken for an image, and goes with the next cleaning."""
    code = (
        "import sys\nfrom lxgpu.lab import image_cache as c\nfrom lxgpu.lab.paths import cache_dir\n"
        "half = cache_dir() / '.build-x' / 'rootfs'\nhalf.mkdir(parents=True)\n"
        "(half.parent / 'image.tar').write_text('half')\n"
        "print(c.cached_image().exists())\nc.cached_image().write_text('image')\nprint(c.ensure_image(print).read_text())\n"
        "c.purge_cache()\nprint([p.name for p in cache_dir().iterdir()])\n"
    )
    assert in_root(paper_lab, code).stdout.splitlines() == ["False", "image", "['.lock']"]


def test_recipe_key_follows_the_recipe() -> None:
    """Another recipe is another image: the key changes with any part of it, and with nothing else."""
    files = {"etc/a": "1", "etc/b": "2"}
    key = image_recipe.key_of(("one", "two"), files)
    assert key == image_recipe.key_of(("one", "two"), dict(reversed(files.items())))
    others = {
        image_recipe.key_of(*parts) for parts in ((("one",), files), (("two", "one"), files), (("one", "two"), {}))
    }
    assert len(others | {key}) == 4
    assert image_cache.cached_image().name == f"base-{image_recipe.recipe_key()}.tar"

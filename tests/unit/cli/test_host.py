"""`lxgpu host` and `--host`: this host, one through a child process, and one that is away."""

from __future__ import annotations

import json
import shlex
import sys

import pytest
from json_shapes import faults
from nvml_library import Library
from probe_worlds import CARD, OTHER


@pytest.fixture
def hosts(tmp_path, lxgpu):
    """Runs lxgpu with three hosts and two cards; nothing listens on port 1."""
    (tmp_path / "nvml").mkdir()
    library = Library(tmp_path / "nvml", (CARD, OTHER))
    library.write(faults={OTHER.uuid: "lost"})
    config = tmp_path / "config.yaml"
    program = shlex.join([sys.executable, "-m", "lxgpu", "probe"])
    far = [{"name": "gpu2", "probe": program}, {"name": "gpu3", "ssh": "root@127.0.0.1:1"}]
    config.write_text(f"hosts: {json.dumps([{'name': 'gpu1'}, *far])}\n")
    env = {"LXGPU_CONFIG": str(config), "LXGPU_STATE_DIR": str(tmp_path), "LD_LIBRARY_PATH": str(tmp_path / "nvml")}
    return lambda *words: lxgpu(*words, env=env)


def test_all_hosts_are_listed(hosts):
    """Those that answer with their cards; of the one that is away nothing is made up."""
    done = hosts("host", "ls", "-o", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "lxgpu.hosts/v1"
    assert [text for item in document["items"] for text in faults("hosts", item)] == []
    told = [(item["name"], item["state"], item["gpus"], item["faulty"]) for item in document["items"]]
    assert told == [("gpu1", "up", 2, 1), ("gpu2", "up", 2, 1), ("gpu3", "unreachable", None, None)]
    first, second, third = document["items"]
    assert first["cards"] == second["cards"]
    assert third["cards"] is None


def test_one_host_is_shown(hosts):
    """Its cards, one a line, with what is wrong with one of them."""
    done = hosts("host", "show", "gpu2")
    assert (done.returncode, done.stderr) == (0, "")
    assert "gpu2: up" in done.stdout
    assert f"{CARD.uuid} at {CARD.pci}: utilisation 0%" in done.stdout
    assert "lost" in done.stdout


def test_a_host_that_is_away_ends_with_8(hosts):
    """After all has been shown that is known: the state, the cause, and that its cards are not known."""
    done = hosts("host", "show", "gpu3")
    assert done.returncode == 8
    assert "gpu3: unreachable" in done.stdout
    assert "not known" in done.stdout


def test_a_host_that_is_not_named_is_not_found(hosts):
    """With those that are."""
    done = hosts("host", "show", "gpu9")
    assert done.returncode == 3
    assert "gpu1, gpu2, gpu3" in done.stderr


def test_nothing_is_made_on_another_host_than_was_asked_for(hosts):
    """Better refused than made here: the settings name it, and it is only looked at."""
    done = hosts("create", "alice", "--host", "gpu2")
    assert done.returncode == 3
    assert "gpu2 is only looked at" in done.stderr
    assert "fix: --host gpu1" in done.stderr


@pytest.mark.parametrize(("name", "why"), [("any", "one host at a time"), ("gpu2", "gpu2 is only looked at")])
def test_only_a_host_of_which_cards_are_lent_is_drained(hosts, name, why):
    """Not whichever there is, and none that is only looked at."""
    for verb in ("drain", "open"):
        done = hosts("host", verb, name)
        assert done.returncode == 3
        assert why in done.stderr


def test_no_page_lists_what_people_do_not_call(lxgpu):
    """`lxgpu probe` is there, and has a page of its own."""
    assert "probe" not in lxgpu("--help").stdout
    assert "lines of JSON" in lxgpu("probe", "--help").stdout

"""The playbooks without a server: syntax, the arguments of the roles, the example inventory, what templates make."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from playbooks import FOLDER, PLAYBOOKS, ansible, play, write_inventory

from lxgpu.config.classfile import COLUMNS, parse_class
from lxgpu.config.policy import load_policy
from lxgpu.config.settings import load_settings
from lxgpu.config.source import Source
from lxgpu.services.checks_host import SYSCTLS

ROLES = sorted(path.name for path in (FOLDER / "roles").iterdir())
EXAMPLE = FOLDER / "inventory" / "example"
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}


def _load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None


@cache
def _options(role: str) -> dict[str, dict[str, Any]]:
    """The arguments of all entry points of a role."""
    points = _load(FOLDER / "roles" / role / "meta" / "argument_specs.yml")["argument_specs"].values()
    return {name: option for point in points for name, option in point["options"].items()}


def _texts(role: str) -> str:
    files = [path for path in (FOLDER / "roles" / role).rglob("*") if path.is_file() and "meta" not in path.parts]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def _used(role: str) -> set[str]:
    """The role's own names that its tasks and templates ask for, without those that it makes itself."""
    text = _texts(role)
    made = set(re.findall(rf"register: ({role}_\w+)", text))
    made |= set(re.findall(rf"^ {{4,}}({role}_\w+):(?: |$)", text, re.MULTILINE))  # set_fact and vars of a task
    made |= set(_load(FOLDER / "roles" / role / "vars" / "main.yml") or {})
    return set(re.findall(rf"(?<![\w/.-])({role}_\w+)", text)) - made


def test_every_playbook_can_be_read(tmp_path):
    """Ansible finds no fault in any of them, nor in a role."""
    status, output = ansible("ansible-playbook", "-i", "localhost,", "--syntax-check", *PLAYBOOKS, home=tmp_path)
    assert status == 0, output
    assert sorted(path.name for path in FOLDER.glob("*.yml")) == sorted(PLAYBOOKS)


def test_a_fault_in_a_playbook_would_be_noticed(tmp_path):
    """The check above can fail."""
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("- hosts: all\n  roles: [nobody]\n")
    assert ansible("ansible-playbook", "-i", "localhost,", "--syntax-check", str(wrong), home=tmp_path)[0] != 0


@pytest.mark.parametrize("role", ROLES)
def test_the_arguments_of_a_role_are_all_it_asks_for(role):
    """What a role uses it declares, and what it declares it uses and has a default for."""
    defaults = _load(FOLDER / "roles" / role / "defaults" / "main.yml")
    assert _used(role) == set(_options(role))
    assert set(defaults) == set(_options(role))


@pytest.mark.parametrize("role", ROLES)
def test_the_defaults_that_are_told_are_the_defaults(role):
    """A default in the argument specs is that of defaults/; one that is worked out is not told."""
    defaults = _load(FOLDER / "roles" / role / "defaults" / "main.yml")
    told = {name: option["default"] for name, option in _options(role).items() if "default" in option}
    assert told == {name: defaults[name] for name in told}
    plain = {name for name, value in defaults.items() if "{{" not in str(value) and not isinstance(value, dict)}
    assert plain <= set(told)


def test_the_example_explains_every_variable():
    """Each argument stands in the example inventory, set or behind a #, and nothing else does."""
    text = (EXAMPLE / "group_vars" / "gpu_servers.yml").read_text(encoding="utf-8")
    named = re.findall(r"^(?:# )?(\w+):(?: |$)", text, re.MULTILINE)
    assert sorted(named) == sorted(name for role in ROLES for name in _options(role))
    status = re.findall(r"^# (\w+): (true|false|\d+)(?: |$)", text, re.MULTILINE)
    defaults = {
        name: value for role in ROLES for name, value in _load(FOLDER / "roles" / role / "defaults/main.yml").items()
    }
    assert [name for name, value in status if str(defaults[name]).lower() != value] == []


def test_the_example_is_an_inventory(tmp_path):
    """Ansible reads its hosts, and its variables reach them."""
    status, output = ansible("ansible-inventory", "-i", str(EXAMPLE), "--list", home=tmp_path)
    assert status == 0, output
    found = json.loads(output)
    hosts = found["gpu_servers"]["hosts"]
    assert hosts
    assert all("lxgpu_policy" in found["_meta"]["hostvars"][host] for host in hosts)


def _rendered(tmp_path: Path, role: str, template: str, values: dict[str, Any]) -> str:
    """What a role's template makes of these variables over the role's defaults."""
    defaults = _load(FOLDER / "roles" / role / "defaults" / "main.yml")
    inventory = write_inventory(tmp_path / "hosts.yml", "here", {**LOCAL, **defaults, **values})
    source = FOLDER / "roles" / role / "templates" / template
    tasks = [{"ansible.builtin.template": {"src": str(source), "dest": str(tmp_path / "made"), "mode": "0600"}}]
    book = tmp_path / "render.yml"
    book.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]), encoding="utf-8")
    played = play(str(book), inventory)
    assert not played.failed, played.output
    return (tmp_path / "made").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """The variables of the example."""
    found = _load(EXAMPLE / "group_vars" / "gpu_servers.yml")
    return {**found, "lxgpu_admin_group": "gpu-admins"}


def test_settings_and_policy_of_the_example_are_right(tmp_path, example):
    """Our own readers take what the templates make of them."""
    config = tmp_path / "config.yaml"
    config.write_text(_rendered(tmp_path, "lxgpu", "config.yaml.j2", example))
    settings = load_settings({}, {"LXGPU_CONFIG": str(config)})
    assert settings.network.bridge == "lxdbr0"
    assert settings.network.ports == range(22000, 23000)
    policy = tmp_path / "policy.yaml"
    policy.write_text(_rendered(tmp_path, "lxgpu", "policy.yaml.j2", example))
    found = load_policy(policy)
    assert set(found.classes) >= {"urgent", "normal"}
    assert "gpu-admin@lab.example" in policy.read_text()


def test_a_list_of_people_is_a_class_file(tmp_path):
    """Whatever stands in users_list, `create --from` reads it as it was meant: quotes, commas, several keys."""
    keys = [
        f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'A' * 42}{end} {text}" for end, text in (("A", 'a, "b"'), ("Q", "c"))
    ]
    people = [{"name": "alice", "keys": keys, "gpus": 2, "memory": "4GiB", "class": "normal"}, {"name": "bob"}]
    text = _rendered(tmp_path, "users", "class.csv.j2", {"users_missing": people})
    rows = parse_class(Source("class.csv", text), now=datetime(2027, 1, 1, tzinfo=UTC), zone=UTC)
    assert [(row.name, row.gpus, len(row.keys)) for row in rows] == [("alice", 2, 2), ("bob", 0, 0)]
    assert rows[0].keys[0].comment == 'a, "b"'
    assert (rows[0].class_name, rows[0].terms.memory_bytes) == ("normal", 4 << 30)


def test_what_a_person_can_have_is_what_a_class_file_can_say():
    """users_list knows each column of a class file; the one for keys is a list there."""
    options = _options("users")["users_list"]["options"]
    assert {"key" if name == "keys" else name for name in options} == set(COLUMNS)


def test_kernel_parameters_are_those_that_doctor_asks_for(tmp_path):
    """The role's least values are doctor's, and one that is larger already is not lowered."""
    asked = {name: least for name, (least, _) in SYSCTLS.items()}
    assert _load(FOLDER / "roles" / "lxd" / "defaults" / "main.yml")["lxd_sysctls"] == asked
    seen = [{"item": {"key": "vm.max_map_count", "value": 262144}, "stdout": text} for text in ("65530", "1048576")]
    text = _rendered(tmp_path, "lxd", "sysctl.conf.j2", {"lxd_sysctl_now": {"results": seen}})
    assert re.findall(r"= (\d+)$", text, re.MULTILINE) == ["262144", "1048576"]


def test_prometheus_is_told_of_each_server(tmp_path):
    """A target for each server with its name, none for a port that is 0, and jobs that read these files."""
    values = {"item": "node", "ansible_host": "192.0.2.7", "monitoring_address": "192.0.2.7"}
    assert json.loads(_rendered(tmp_path, "monitoring", "targets.json.j2", values)) == [
        {"labels": {"host": "here"}, "targets": ["192.0.2.7:9100"]}
    ]
    assert json.loads(_rendered(tmp_path, "monitoring", "targets.json.j2", {**values, "item": "lxgpu"})) == []
    jobs = yaml.safe_load(_rendered(tmp_path, "monitoring", "scrape.yml.j2", {}))["scrape_configs"]
    files = [name for job in jobs for part in job["file_sd_configs"] for name in part["files"]]
    assert files == [f"/etc/prometheus/targets/lxgpu-{name}.json" for name in ("node", "dcgm", "lxgpu")]

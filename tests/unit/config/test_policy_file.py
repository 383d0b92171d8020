"""From policy.yaml to the policy: the whole example, defaults, the last good one."""

from __future__ import annotations

import json
import os
import stat
import time
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lxgpu.config.build import build_policy
from lxgpu.config.inforce import policy_in_force
from lxgpu.config.policy import load_policy, policy_problems, read_policy
from lxgpu.config.schema import PolicyFile, policy_schema
from lxgpu.config.source import Source
from lxgpu.config.yamlload import parse_yaml
from lxgpu.errors import LxgpuError
from lxgpu.model.quota import Policy
from lxgpu.model.rules import Allowance, Mode, PriorityClass

EXAMPLE = Path(__file__).resolve().parents[3] / "packaging" / "policy.example.yaml"


def test_the_example_is_right_and_means_what_it_says():
    """The page that admins start from loads, and each part of it arrives."""
    policy = load_policy(EXAMPLE, cards=4)
    assert policy.timezone == "Asia/Shanghai"
    assert policy.classes["normal"] == PriorityClass(
        "normal", priority=50, preemption_threshold=80, max_preemptions=Allowance(2, 86400)
    )
    assert policy.classes["urgent"].who == ("@gpu-admins",)
    assert not policy.classes["urgent"].preemptible
    assert policy.groups["vision"].total.limit == 6
    assert policy.users["alice"].until == datetime(2027, 6, 29, 16, tzinfo=UTC)
    assert policy.users["carol"].gpu_hours == Allowance(200, 30 * 86400)
    assert policy.rules.card("GPU-3f2a6c1e-0000").mode is Mode.MIG
    assert policy.data["imagenet"].at == "/data/imagenet"
    assert policy.overrides[0].start == datetime(2027, 4, 30, 16, tzinfo=UTC)
    assert policy.overrides[0].groups["vision"].limit == 12


def test_the_examples_quotas_and_rules_are_the_defaults():
    """What the example writes out for reading is what holds where a file is silent."""
    example, silent = load_policy(EXAMPLE), Policy()
    assert example.defaults == silent.defaults
    assert example.rules.idle == silent.rules.idle
    assert example.rules.preemption == silent.rules.preemption
    assert example.rules.bookings == silent.rules.bookings
    assert example.rules.sharing == silent.rules.sharing
    assert example.rules.hosts == silent.rules.hosts
    assert example.rules.forecast == silent.rules.forecast


def test_the_schemas_defaults_are_the_models(tmp_path):
    """What an editor shows as a default is what the program takes."""
    text = PolicyFile(version=1).model_dump(by_alias=True, exclude_none=True, mode="json")
    for name in ("idle", "preemption", "reservations", "sharing", "hosts", "forecast"):
        text[name] = PolicyFile.model_fields[name].annotation().model_dump(by_alias=True, exclude_none=True)
    text["classes"] = {"normal": {"priority": 50, **_class_defaults()}}
    path = tmp_path / "p.yaml"
    path.write_text(json.dumps(text), encoding="utf-8")
    assert load_policy(path) == Policy()


def _class_defaults() -> dict[str, object]:
    from lxgpu.config.schema import ClassEntry  # noqa: PLC0415 -- only here

    return ClassEntry(priority=50).model_dump(exclude_none=True, exclude={"priority"})


def test_one_line_is_a_policy(tmp_path):
    """`version: 1` alone gives the defaults."""
    path = tmp_path / "policy.yaml"
    path.write_text("version: 1\n", encoding="utf-8")
    assert load_policy(path) == Policy()


def test_a_missing_policy_says_how_to_begin(tmp_path):
    """The remedy is in the message."""
    with pytest.raises(LxgpuError, match="there is no policy file") as raised:
        load_policy(tmp_path / "policy.yaml")
    assert "version: 1" in raised.value.fix


def test_unix_groups_count_for_the_sum_of_guarantees(tmp_path):
    """A member by Unix group is covered by the group's guarantee, when the host's groups are known."""
    path = tmp_path / "p.yaml"
    path.write_text(
        "version: 1\n"
        'groups: {vision: {members: ["@vision"], total: {guaranteed: 3}}}\n'
        "users: {alice: {guaranteed: 2, limit: 2}}\n",
        encoding="utf-8",
    )
    load_policy(path, cards=3, unix_groups=lambda person: ["vision"] if person == "alice" else [])
    with pytest.raises(LxgpuError):
        load_policy(path, cards=3)


def test_the_json_schema_takes_the_example_and_refuses_mistakes():
    """Editors check with the schema what the program checks, shape and bounds."""
    schema = policy_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    example = yaml.load(EXAMPLE.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)  # noqa: S506 -- texts only
    assert example["version"] == "1"
    jsonschema.validate(read_policy(EXAMPLE), schema)
    for wrong in ({}, {"version": 2}, {"version": 1, "colour": "red"}, {"version": 1, "users": {"a": {"limit": "x"}}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
    assert "null" not in json.dumps(schema)


# ---- the last good one


def _write(path: Path, text: str) -> None:
    """Write a file that looks old enough for its stamp to be trusted."""
    path.write_text(text, encoding="utf-8")
    old = time.time() - 60
    os.utime(path, (old, old))


def test_a_broken_file_leaves_the_last_good_one_in_force(tmp_path):
    """The mistake is told, and the policy is the one before it."""
    path, kept = tmp_path / "policy.yaml", tmp_path / "state" / "policy.json"
    _write(path, "version: 1\nusers: {alice: {limit: 3}}\n")
    good = policy_in_force(path, kept=kept)
    assert good.broken is None
    _write(path, "version: 1\nusers: {alice: {limit: x}}\n")
    found = policy_in_force(path, kept=kept)
    assert found.policy == good.policy
    assert found.broken is not None
    assert "users.alice.limit" in found.broken.problems[0].where
    path.unlink()
    assert policy_in_force(path, kept=kept).policy == good.policy
    _write(path, "version: 1\nusers: {alice: {limit: 4}}\n")
    assert policy_in_force(path, kept=kept).policy.users["alice"].limit == 4


def test_without_a_good_one_the_mistake_is_the_answer(tmp_path):
    """Nothing is made up."""
    _write(tmp_path / "policy.yaml", "version: 2\n")
    with pytest.raises(LxgpuError, match="has a mistake"):
        policy_in_force(tmp_path / "policy.yaml", kept=tmp_path / "policy.json")


def test_a_file_that_did_not_change_is_not_read_again(tmp_path):
    """What is kept stands for the file while its stamp is the same; here the kept text proves which was read."""
    path, kept = tmp_path / "policy.yaml", tmp_path / "policy.json"
    _write(path, "version: 1\nusers: {alice: {limit: 3}}\n")
    policy_in_force(path, kept=kept)
    marked = json.loads(kept.read_text(encoding="utf-8"))
    marked["plain"]["users"]["alice"]["limit"] = 7
    kept.write_text(json.dumps(marked), encoding="utf-8")
    assert policy_in_force(path, kept=kept).policy.users["alice"].limit == 7
    _write(path, "version: 1\nusers: {alice: {limit: 5}}\n")
    assert policy_in_force(path, kept=kept).policy.users["alice"].limit == 5


def test_a_file_just_written_is_read_again(tmp_path):
    """Two edits within one time stamp cannot hide the second."""
    path, kept = tmp_path / "policy.yaml", tmp_path / "policy.json"
    for limit in (3, 4):
        path.write_text(f"version: 1\nusers: {{alice: {{limit: {limit}}}}}\n", encoding="utf-8")
        assert policy_in_force(path, kept=kept).policy.users["alice"].limit == limit


@pytest.mark.parametrize("spoil", ["", "{", "[]", '{"lxgpu": "0.0.0"}', '{"lxgpu": 1, "plain": 2}'])
def test_a_spoilt_kept_file_is_as_good_as_none(spoil, tmp_path):
    """The file itself is read then."""
    path, kept = tmp_path / "policy.yaml", tmp_path / "policy.json"
    _write(path, "version: 1\n")
    kept.write_text(spoil, encoding="utf-8")
    assert policy_in_force(path, kept=kept).policy == Policy()


def test_what_others_could_write_is_not_believed(tmp_path):
    """The kept file is private; one that a group may write stands for nothing."""
    path, kept = tmp_path / "policy.yaml", tmp_path / "policy.json"
    _write(path, "version: 1\n")
    policy_in_force(path, kept=kept)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    kept.chmod(0o660)
    _write(path, "version: x\n")
    with pytest.raises(LxgpuError):
        policy_in_force(path, kept=kept)


def test_a_policy_that_cannot_be_kept_still_holds(tmp_path):
    """A full or read-only disk is told, and stops nothing."""
    path = tmp_path / "policy.yaml"
    _write(path, "version: 1\n")
    (tmp_path / "file").write_text("", encoding="utf-8")
    found = policy_in_force(path, kept=tmp_path / "file" / "policy.json")
    assert found.policy == Policy()
    assert "Not a directory" in found.unkept or "exists" in found.unkept


# ---- arbitrary values

KEYS = st.sampled_from([*sorted(PolicyFile.model_fields), "alice", "vision", "limit", "class", "total", "each", "from"])
LEAVES = (
    st.none() | st.booleans() | st.integers(-5, 200) | st.sampled_from(["4h", "1%", "64GiB", "normal", "x", "@v", "*"])
)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=25
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(KEYS, TREES, max_size=6))
@example({"version": 1, "admins": None, "overrides": [{"groups": True}]})
def test_any_mapping_is_a_policy_or_a_list_of_mistakes(value):
    """Whatever the file says, it ends in a policy or in mistakes with their places, never in anything else."""
    source = Source(name="p.yaml", text=json.dumps({"version": 1, **value}))
    document = parse_yaml(source)
    problems = policy_problems(document, cards=4)
    assert all(problem.where.startswith("p.yaml:1:") for problem in problems)
    if not problems:
        assert isinstance(document.value, dict)
        policy = build_policy(document.value)
        now = datetime(2027, 1, 1, tzinfo=UTC)
        assert policy.entitlement("alice", policy.groups_of("alice", ("v",)), now).limit >= 0


def test_the_document_names_every_value():
    """docs/policy.md has a word on each name that the file may have."""
    document = (EXAMPLE.parents[1] / "docs" / "policy.md").read_text(encoding="utf-8")
    schema = policy_schema()
    models = [schema, *schema["$defs"].values()]
    names = {name for model in models for name in model.get("properties", {})}
    assert len(names) > 50
    assert [name for name in sorted(names) if f"`{name}`" not in document and f"{name}:" not in document] == []

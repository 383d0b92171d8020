"""`lxgpu policy` and `lxgpu config`, run as people run them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

EXAMPLE = Path(__file__).resolve().parents[3] / "packaging" / "policy.example.yaml"

BAD = """\
version: 1
users:
  alice: {limit: 2}
  bob: {limit: nine}
  alice: {limit: 3}
"""


@pytest.fixture
def site(tmp_path) -> dict[str, str]:
    """Variables of a site of its own, without an inventory."""
    config = tmp_path / "config.yaml"
    config.write_text(f"state_dir: {tmp_path}/state\npool: tank\n", encoding="utf-8")
    return {"LXGPU_CONFIG": str(config), "LXGPU_POLICY": str(tmp_path / "policy.yaml"), "LXGPU_WORKERS": "2"}


def test_a_right_policy_is_summed_up(lxgpu, site):
    """Status 0, a summary on stdout, the verdict on stderr."""
    ran = lxgpu("policy", "check", str(EXAMPLE), "--gpus", "8", "-o", "json", env=site)
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["items"] == [
        {
            "file": str(EXAMPLE),
            "classes": ["urgent", "normal", "scavenge"],
            "groups": ["vision"],
            "users": 2,
            "overrides": 1,
            "cards": 8,
        }
    ]
    assert ran.stderr == f"{EXAMPLE} is right\n"


def test_a_bad_policy_shows_every_mistake_its_line_and_a_caret(lxgpu, site, tmp_path):
    """Status 2, nothing on stdout, and on stderr the form that INTERFACE promises."""
    (tmp_path / "policy.yaml").write_text(BAD, encoding="utf-8")
    ran = lxgpu("policy", "check", env=site)
    path = tmp_path / "policy.yaml"
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.splitlines() == [
        f"error[bad_file] {path} has 2 mistakes",
        f"{path}:4:16: users.bob.limit: a whole number is wanted, not the text 'nine'",
        "      bob: {limit: nine}",
        "                   ^",
        f"{path}:5:3: users.alice: given twice, first in line 3",
        "      alice: {limit: 3}",
        "      ^",
        "fix: mend the lines that are named, then repeat; nothing was changed",
    ]


def test_the_mistakes_are_there_for_programs_too(lxgpu, site, tmp_path):
    """With -o json the same list is on stdout."""
    (tmp_path / "policy.yaml").write_text(BAD, encoding="utf-8")
    ran = lxgpu("policy", "check", "-o", "json", env=site)
    assert ran.returncode == 2
    error = json.loads(ran.stdout)["error"]
    assert error["code"] == "bad_file"
    assert [problem["where"].rsplit(" ", 1)[1] for problem in error["problems"]] == ["users.bob.limit", "users.alice"]


def test_guarantees_are_held_against_the_cards(lxgpu, site):
    """More promised than there is: status 2; with enough cards: status 0."""
    assert lxgpu("policy", "check", str(EXAMPLE), "--gpus", "1", env=site).returncode == 2
    assert lxgpu("policy", "check", str(EXAMPLE), "--gpus", "2", env=site).returncode == 0
    unknown = lxgpu("policy", "check", str(EXAMPLE), env=site)
    assert unknown.returncode == 0
    assert "no card is known" in unknown.stderr


def test_a_missing_policy_is_a_usage_error_with_a_way_out(lxgpu, site):
    """Status 2, and what to write."""
    ran = lxgpu("policy", "check", env=site)
    assert ran.returncode == 2
    assert "fix: write one; a line `version: 1` is enough" in ran.stderr


def test_a_plan_for_nobody_has_no_findings(lxgpu, site, tmp_path):
    """Without an inventory nobody can lose anything: status 0, and no inventory is made by asking."""
    (tmp_path / "policy.yaml").write_text("version: 1\n", encoding="utf-8")
    away = {**site, "LXD_DIR": str(tmp_path / "lxd")}
    for words in (("policy", "plan"), ("policy", "plan", str(EXAMPLE))):
        ran = lxgpu(*words, "-o", "json", env=away)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout) == {"schema": "lxgpu.effects/v1", "items": []}
    assert not (tmp_path / "state" / "inventory.db").exists()
    (tmp_path / "bad.yaml").write_text(BAD, encoding="utf-8")
    assert lxgpu("policy", "plan", str(tmp_path / "bad.yaml"), env=away).returncode == 2


def test_show_merges_all_levels(lxgpu, site):
    """Everybody who is named, and what holds for all others; numbers in the units that the names say."""
    ran = lxgpu("policy", "show", str(EXAMPLE), "-o", "json", env=site)
    document = json.loads(ran.stdout)
    assert document["schema"] == "lxgpu.entitlements/v1"
    rows = {row["person"]: row for row in document["items"]}
    assert list(rows) == ["alice", "bob", "carol", "(everybody else)"]
    assert (rows["bob"]["limit"], rows["carol"]["limit"], rows["(everybody else)"]["limit"]) == (2, 4, 1)
    assert rows["alice"]["until"] == "2027-06-29T16:00:00Z"
    assert rows["alice"]["memory_bytes"] == 32 * 2**30


def test_show_one_person(lxgpu, site):
    """Also one whom the file does not name."""
    ran = lxgpu("policy", "show", str(EXAMPLE), "--person", "eve", "-o", "csv", "--no-header", env=site)
    assert ran.stdout.startswith("eve,normal,0,1,")


def test_a_word_that_is_no_file_is_a_person(lxgpu, site, tmp_path):
    """Terms, classes and group totals of the one; a file of that name is the file all the same."""
    (tmp_path / "policy.yaml").write_text(
        """\
version: 1
timezone: UTC
classes:
  urgent: {priority: 100}
  normal: {priority: 50, max_gpus: 3}
  low: {priority: 10}
defaults: {class: normal}
groups:
  vision: {members: [alice], total: {guaranteed: 1, limit: 4}}
users:
  alice: {limit: 2, guaranteed: 1, gpu_hours: 200/30d}
"""
    )
    ran = lxgpu("policy", "show", "alice", env=site)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == "alice: 1 GPU guaranteed, 2 at most"
    assert "vision: all together 1 guaranteed, 4 at most" in ran.stdout
    assert "normal (priority 50, 3 GPUs at most)" in ran.stdout
    assert "low (priority 10)" in ran.stdout
    assert "urgent" not in ran.stdout
    assert "200 in 30d" in ran.stdout
    (row,) = json.loads(lxgpu("policy", "show", "alice", "-o", "json", env=site).stdout)["items"]
    assert (row["person"], row["limit"]) == ("alice", 2)
    file = tmp_path / "alice"
    file.write_text("version: 1\nusers: {bob: {limit: 1}}\n")
    assert "bob" in lxgpu("policy", "show", str(file), env=site).stdout
    assert lxgpu("policy", "show", str(tmp_path / "none.yaml"), env=site).returncode == 2


def test_the_schema_is_json_schema(lxgpu, site):
    """Editors take it as it is."""
    jsonschema.Draft202012Validator.check_schema(json.loads(lxgpu("policy", "schema", env=site).stdout))


def test_config_shows_where_each_value_came_from(lxgpu, site):
    """Default, file with its line, variable, flag."""
    ran = lxgpu("config", "show", "-o", "json", "--set", "image=jammy", "--run-dir", "/run/x", env=site)
    rows = {row["key"]: (row["value"], row["origin"]) for row in json.loads(ran.stdout)["items"]}
    assert rows["pool"] == ("tank", f"{site['LXGPU_CONFIG']}:2")
    assert rows["workers"] == ("2", "LXGPU_WORKERS")
    assert rows["image"] == ("jammy", "--set image")
    assert rows["run_dir"] == ("/run/x", "--run-dir")
    assert rows["profile"] == ("base", "default")


def test_origin_is_a_column_on_request(lxgpu, site):
    """`--origin` adds it to the table."""
    assert "ORIGIN" not in lxgpu("config", "show", env=site).stdout
    assert "ORIGIN" in lxgpu("config", "show", "--origin", env=site).stdout


@pytest.mark.parametrize(
    ("words", "brief"),
    [
        (("--set", "image"), "--set image: the value is missing"),
        (("--set", "colour=red"), "there is no setting colour"),
        (("--set", "workers=0"), "--set workers: '0' is no number of workers"),
    ],
)
def test_a_wrong_setting_on_the_command_line_is_a_usage_error(lxgpu, site, words, brief):
    """Status 2 and the word that was wrong."""
    ran = lxgpu("config", "show", *words, env=site)
    assert ran.returncode == 2
    assert brief in ran.stderr

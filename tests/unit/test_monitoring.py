"""What stands in packaging/ for Prometheus and Grafana: checked by promtool, and of metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from lively import lively
from prometheus_client.parser import text_string_to_metric_families

from lxgpu.services.daemonfigures import BOUNDS_S
from lxgpu.web.metrics import EVENTS, HEALTHS, SLOT_STATES, exposition

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "packaging/alerts.yaml"
DASHBOARD = ROOT / "packaging/grafana/lxgpu.json"
CASES = ROOT / "tests/cases/alerts/alerts.yaml"
WORDS = {
    "health": set(HEALTHS),
    "state": set(SLOT_STATES),
    "kind": set(EVENTS),
    "verdict": {"busy", "idle", "foreign", "unknown"},
}
"""What may stand in a matcher of a label."""
SELECTOR = re.compile(r"(lxgpu_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)=~?"([^"]*)"')
GROUPING = re.compile(r"\b(?:by|on|group_left)\s*\(([^)]*)\)")


def promtool(*args: object) -> str:
    """What promtool says; it must be content."""
    program = shutil.which("promtool", path="/usr/local/bin:/usr/bin:/bin")
    assert program is not None, "packaging/install-needs.sh brings it"
    done = subprocess.run([program, *map(str, args)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@cache
def rules() -> tuple[dict, ...]:
    """The alerts."""
    found = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))
    return tuple(rule for group in found["groups"] for rule in group["rules"])


@cache
def panels() -> tuple[dict, ...]:
    """The panels of the dashboard."""
    return tuple(json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"])


def expressions() -> Iterator[tuple[str, str]]:
    """Every query, with where it stands."""
    yield from ((rule["alert"], rule["expr"]) for rule in rules())
    yield from ((panel["title"], target["expr"]) for panel in panels() for target in panel["targets"])


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The labels of every sample of a lab with something of everything, by name."""
    found = lively(tmp_path_factory.mktemp("lively"))
    text = exposition(found, found.written_at).decode()
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


def test_the_rules_are_good():
    """Syntax, durations, templates."""
    assert f"{len(rules())} rules found" in promtool("check", "rules", ALERTS)


def test_each_alert_comes_when_it_should_and_not_before():
    """By promtool's own tests, series in and alerts out."""
    assert "SUCCESS" in promtool("test", "rules", CASES)


def test_each_alert_is_tested_both_ways():
    """Once that it comes, once that it does not."""
    cases = [case for test in yaml.safe_load(CASES.read_text())["tests"] for case in test["alert_rule_test"]]
    names = {rule["alert"] for rule in rules()}
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == names
    assert {case["alertname"] for case in cases if not case["exp_alerts"]} == names


@pytest.mark.parametrize(("where", "query"), sorted(expressions()))
def test_it_asks_for_what_there_is(told, where, query):
    """A name that lxgpu does not tell, a label that it has not, a word that nobody says: a plot that stays empty."""
    found = SELECTOR.findall(query)
    assert found, where
    assert {name for name, _ in found} <= set(told), where
    for name, matchers in found:
        for label, pattern in MATCHER.findall(matchers):
            assert label in told[name], f"{where}: {name} has no {label}"
            assert set(pattern.split("|")) <= WORDS[label], f"{where}: {name} {label} {pattern}"
    labels = {label for name, _ in found for label in told[name]}
    for grouped in GROUPING.findall(query):
        assert {one.strip() for one in grouped.split(",") if one.strip()} <= labels, where


def test_the_queries_of_the_dashboard_are_good(tmp_path):
    """Each as a rule, for promtool to read; Grafana puts an interval in its own place."""
    queries = [target["expr"].replace("$__rate_interval", "5m") for panel in panels() for target in panel["targets"]]
    rows = [{"record": f"dashboard:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rows}]}))
    assert f"{len(queries)} rules found" in promtool("check", "rules", file)


def test_the_dashboard_is_one_that_grafana_takes():
    """Numbers of panels once, in a grid of 24, none over another; the data source is asked for, not built in."""
    assert len({panel["id"] for panel in panels()}) == len(panels())
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24, panel["title"]
        cells = {
            (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["datasource"]["uid"] == "${datasource}"
        for legend in (target["legendFormat"] for target in panel["targets"]):
            assert legend == "__auto" or legend


@pytest.mark.parametrize(("where", "query"), sorted(expressions()))
def test_labels_in_legends_are_there(told, where, query):
    """`{{gpu}}` of a metric without one is an empty legend, or an alert that names nobody."""
    texts = [str(rule["annotations"]) for rule in rules() if rule["alert"] == where]
    texts += [t["legendFormat"] for p in panels() if p["title"] == where for t in p["targets"] if t["expr"] == query]
    asked = {label for text in texts for label in re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", text)}
    labels = {label for name, _ in SELECTOR.findall(query) for label in told[name]}
    assert asked <= labels, where


def test_the_alerts_are_those_promised():
    """Idle hoard, failed fence, quarantine, loop late, pool full, policy broken, the page's data old."""
    wanted = {"IdleHoard", "FenceFailed", "Quarantine", "LoopLate", "PoolFull", "PolicyBroken", "DataOld"}
    assert {f"Lxgpu{name}" for name in wanted} <= {rule["alert"] for rule in rules()}
    assert {rule["labels"]["severity"] for rule in rules()} <= {"critical", "warning", "info"}


def test_the_longest_bound_is_longer_than_what_the_alert_calls_slow():
    """A quantile cannot be told beyond the last bound."""
    assert max(BOUNDS_S) > 10


def test_each_metric_stands_in_the_documents(told):
    """And none that there is not."""
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    table = text[text.index("| metrics `lxgpu_") :].partition("\n\n")[0]
    written = {name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    there = {re.sub(r"_(bucket|sum|count)$", "", name.removeprefix("lxgpu_")) for name in told} - {"build_info"}
    assert written == there

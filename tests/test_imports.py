"""The shape that docs/architecture.md promises: who imports whom, what is loaded late, how long modules are."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "lxgpu"
LONGEST_MODULE = 350
LAYERS_TABLE = ROOT / "docs" / "architecture.md"

BASE = {"__init__", "errors", "figures", "units", "dayclock", "instants", "plain", "regular"}
LAYERS: dict[str, set[str]] = {
    "__init__": set(),
    "__main__": {"cli"},
    "errors": set(),
    "figures": set(),
    "plain": set(),
    "regular": set(),
    "units": {"errors", "figures"},
    "dayclock": {"errors", "figures"},
    "instants": {"errors", "figures", "units", "dayclock"},
    "model": BASE,
    "ports": BASE | {"model"},
    "policy": BASE | {"model"},
    "config": BASE | {"model"},
    "inventory": BASE | {"model", "ports", "config"},  # its YAML is read by the policy file's strict reader
    "drivers": BASE | {"model", "ports"},
    "services": BASE | {"model", "ports", "policy", "config"},
    "simulate": BASE | {"model", "ports", "policy", "services"},
    "lab": BASE | {"model", "ports", "config"},
    "wiring": BASE | {"model", "ports", "policy", "config", "inventory", "drivers", "services", "quick"},
    "quick": BASE | {"config", "drivers", "inventory", "services"},
    "api": BASE | {"model", "ports", "config", "services"},
    "web": BASE | {"model", "ports", "config", "services", "api"},
    "archive": BASE | {"model", "inventory", "services", "wiring"},
    "sentry": BASE | {"model", "ports", "config", "services", "wiring"},
    "hosts": BASE | {"model", "config", "drivers", "ports", "services", "wiring"},
    "resident": BASE | {"model", "ports", "drivers", "services", "wiring", "api", "sentry", "hosts"},
    "cli": BASE
    | {"model", "ports", "policy", "config", "services", "wiring", "archive", "resident", "quick", "lab", "simulate"}
    | {"web", "hosts"},
}
"""Part of lxgpu → the other parts it may import (`__init__` holds the version)."""

HOMES = {
    "apprise": "lxgpu.drivers.",
    "pylxd": "lxgpu.drivers.",
    "requests": "lxgpu.drivers.",
    "pynvml": "lxgpu.drivers.",
    "paramiko": "lxgpu.drivers.",
    "cryptography": "lxgpu.drivers.",
    "sqlite3": "lxgpu.inventory.",
    "jinja2": "lxgpu.",
    "icalendar": "lxgpu.services.",
    "matplotlib": "lxgpu.simulate.",
    "prometheus_client": "lxgpu.web.",
    "pydantic": ("lxgpu.config.", "lxgpu.api."),
    "fastapi": ("lxgpu.api.", "lxgpu.web."),
    "uvicorn": ("lxgpu.api.", "lxgpu.web."),
    "pydantic_core": "lxgpu.config.",
    "yaml": "lxgpu.",
    "rich": "lxgpu.cli.",
    "click": "lxgpu.cli.",
}
"""Library → where alone it may be imported. A library that is not here is not a dependency."""

SINGLE = {
    *("apprise", "pylxd", "pynvml", "paramiko", "cryptography", "jinja2", "icalendar"),
    *("matplotlib", "prometheus_client"),
}
"""These have one module, so that there is one place to look at when they change."""

LATE = {
    *("apprise", "pylxd", "requests", "pynvml", "paramiko", "cryptography", "jinja2", "rich", "icalendar"),
    *("matplotlib", "prometheus_client"),
}
"""These are imported inside functions only."""

HEAVY = LATE | {"fastapi", "uvicorn", "pydantic", "yaml", "sqlite3"}
"""Loading a command's module loads none of these (milliseconds add up at every start)."""


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module, where, and whether it is loaded with its importer."""

    importer: str
    name: str
    line: int
    at_load: bool
    for_types: bool

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.name}"


def _name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _modules() -> dict[str, Path]:
    return {_name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def _imports_below(node: ast.AST, importer: str, *, at_load: bool, for_types: bool) -> list[Import]:
    found = []
    for child in ast.iter_child_nodes(node):
        names: list[str] = []
        if isinstance(child, ast.Import):
            names = [alias.name for alias in child.names]
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"{importer}:{child.lineno} has a relative import"
            whole = [f"{child.module}.{alias.name}" for alias in child.names]
            names = [name if name in _modules() else str(child.module) for name in whole]
        found += [Import(importer, name, child.lineno, at_load, for_types) for name in dict.fromkeys(names)]
        inner_types = for_types or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test))
        inner_load = at_load and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not inner_types
        found += _imports_below(child, importer, at_load=inner_load, for_types=inner_types)
    return found


@cache
def _imports() -> tuple[Import, ...]:
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in _modules().items()}
    return tuple(
        one for name, tree in trees.items() for one in _imports_below(tree, name, at_load=True, for_types=False)
    )


def _part(module: str) -> str:
    pieces = module.split(".")
    return pieces[1] if len(pieces) > 1 else "__init__"


def _top(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


def test_every_part_imports_only_what_its_layer_allows():
    """Deciding knows no I/O, services know no drivers, nothing knows the command line."""
    inside = [one for one in _imports() if _top(one.name) == "lxgpu"]
    wrong = [
        str(one)
        for one in inside
        if _part(one.name) != _part(one.importer) and _part(one.name) not in LAYERS[_part(one.importer)]
    ]
    assert not wrong, "\n".join(wrong)


def test_the_document_says_who_may_import_whom():
    """The table of layers is the one that is held here, part by part."""
    rows = re.findall(r"^\| `([a-z]+)(?:/|\.py)` \|[^|]*\|([^|]*)\|$", LAYERS_TABLE.read_text(), re.MULTILINE)
    told = {part: {name.strip() for name in names.split(",")} - {""} for part, names in rows}
    free = BASE | {"__main__"}
    assert told == {part: names - BASE for part, names in LAYERS.items() if part not in free}


def test_libraries_are_imported_at_home_only():
    """Every library from outside has its place; an unknown one is a new dependency and needs a decision."""
    outside = [one for one in _imports() if _top(one.name) not in sys.stdlib_module_names | {"lxgpu"}]
    outside += [one for one in _imports() if _top(one.name) == "sqlite3"]
    wrong = [str(one) for one in outside if not f"{one.importer}.".startswith(HOMES.get(_top(one.name), "nowhere"))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("library", sorted(SINGLE))
def test_a_library_with_its_own_ways_is_known_to_one_module(library):
    """A library such as pylxd is wrapped once (imports for types aside)."""
    importers = {one.importer for one in _imports() if _top(one.name) == library and not one.for_types}
    assert len(importers) <= 1, importers


def test_slow_libraries_are_loaded_inside_functions():
    """Nothing slow is loaded before it is needed."""
    wrong = [str(one) for one in _imports() if one.at_load and _top(one.name) in LATE]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("module", sorted(name for name in _modules() if name.startswith("lxgpu.cli")))
def test_a_command_module_loads_nothing_slow(module):
    """Following the imports that run at load, no command reaches a slow library; `COMMAND --help` stays quick."""
    at_load: dict[str, list[Import]] = {}
    for one in _imports():
        if one.at_load:
            at_load.setdefault(one.importer, []).append(one)
    ways: dict[str, str] = {module: module}
    waiting = [module]
    while waiting:
        here = waiting.pop()
        for one in at_load.get(here, []):
            steps = [one.name] if _top(one.name) != "lxgpu" else _with_packages(one.name)
            for name in steps:
                if name not in ways:
                    ways[name] = f"{ways[here]} → {name}"
                    waiting.append(name)
    slow = [way for name, way in ways.items() if _top(name) in HEAVY]
    assert not slow, "\n".join(slow)


def _with_packages(module: str) -> list[str]:
    """A module and the packages above it, which Python loads first."""
    pieces = module.split(".")
    return [".".join(pieces[: count + 1]) for count in range(len(pieces))]


@pytest.mark.parametrize("module", sorted(_modules()))
def test_modules_are_short(module):
    """A module is read in one sitting."""
    lines = len(_modules()[module].read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST_MODULE


def test_output_has_one_place():
    """`print` stands in screen only, and nothing goes around it by click.echo."""
    wrong = []
    for name, path in _modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in {"click.echo", "click.secho", "pprint", "pprint.pprint"}:
                wrong.append(f"{name}:{node.lineno} calls {called}")
            elif called == "print" and name != "lxgpu.cli.screen":
                wrong.append(f"{name}:{node.lineno} calls print")
    assert not wrong, "\n".join(wrong)


def test_nobody_swallows_errors():
    """A bare except, or `except Exception: pass`, hides what went wrong."""
    wrong = []
    for name, path in _modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler):
                kind = ast.unparse(node.type) if node.type else ""
                empty = all(isinstance(line, ast.Pass | ast.Continue) for line in node.body)
                if not kind or (empty and kind in {"Exception", "BaseException"}):
                    wrong.append(f"{name}:{node.lineno} except {kind}")
    assert not wrong, "\n".join(wrong)

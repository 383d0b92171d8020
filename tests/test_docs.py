"""The documents stay true: their commands exist, their links lead somewhere, their tables are the code's."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

import click
import pytest

from lxgpu.cli import commands
from lxgpu.config.classfile import COLUMNS

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
ENDS = {"|", "&&", ";", ">", ">>"}
GLOBAL_OPTIONS = {"-v", "--verbose", "-q", "--quiet", "--color", "--debug", "--version", "-h", "--help"}


def _lines() -> list[tuple[str, str]]:
    """Every typed line of every console block, with its document."""
    found = []
    for document in DOCUMENTS:
        for block in BLOCK.findall(document.read_text(encoding="utf-8")):
            typed = re.findall(r"^[#$] (.+)$", block.replace("\\\n", " "), re.MULTILINE)
            found += [(document.name, line) for line in typed]
    return found


def _calls(program: str) -> list[tuple[str, tuple[str, ...]]]:
    """The calls of a program in the console blocks: document, words after the program's name."""
    found = []
    for document, line in _lines():
        words = shlex.split(line.replace("$(", " ; ").replace(")", " ").replace('"', " "), comments=True)
        starts = [0, *(number + 1 for number, word in enumerate(words) if word in ENDS)]
        for start in starts:
            end = next((number for number in range(start, len(words)) if words[number] in ENDS), len(words))
            if words[start:end] and words[start].rsplit("/", 1)[-1] == program:
                found.append((document, tuple(words[start + 1 : end])))
    return found


@cache
def _command(name: str) -> click.Command | None:
    place = commands.place_of(name)
    return getattr(import_module(place[0]), place[1]) if place else None


def _fault(words: tuple[str, ...]) -> str:
    """What is wrong with a call of lxgpu, or an empty text."""
    ours = list(words[: words.index("--")]) if "--" in words else list(words)
    while ours and ours[0] in GLOBAL_OPTIONS:
        ours.pop(0)
    if not ours:
        return ""
    command = _command(ours.pop(0))
    if command is None:
        return f"there is no command {words[0]}"
    while isinstance(command, click.Group) and ours and not ours[0].startswith("-"):
        name = ours.pop(0)
        command = command.commands.get(name)
        if command is None:
            return f"there is no sub-command {name}"
    known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)} | GLOBAL_OPTIONS
    wrong = [word for word in ours if word.startswith("-") and word != "-" and word.split("=")[0] not in known]
    return f"there is no option {', '.join(wrong)}" if wrong else ""


@pytest.mark.parametrize(
    ("document", "words"), _calls("lxgpu"), ids=lambda value: " ".join(value) if isinstance(value, tuple) else value
)
def test_every_lxgpu_command_in_the_documents_exists(document, words):
    """Who copies a line from the documents gets no usage error."""
    assert not _fault(words), f"{document}: lxgpu {' '.join(words)}"


def _typed_inside() -> list[tuple[str, tuple[str, ...]]]:
    """The lines of the console blocks that call `gpu`: document, words after the program's name, quotes and all."""
    split = [(document, shlex.split(line, comments=True)) for document, line in _lines() if line.startswith("gpu")]
    return [(document, tuple(words[1:])) for document, words in split if words[0] == "gpu"]


@pytest.mark.parametrize(
    ("document", "words"), _typed_inside(), ids=lambda value: " ".join(value) if isinstance(value, tuple) else value
)
def test_every_gpu_command_in_the_documents_is_understood(document, words, tmp_path):
    """It gets as far as the daemon, which is not there (8), or tells what it takes (0)."""
    argv = [str(ROOT / "templates" / "guest" / "gpu"), *words]
    env = {**os.environ, "LXGPU_GUEST": str(tmp_path)}
    ran = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert ran.returncode in {0, 8}, f"{document}: gpu {' '.join(words)}: {ran.stderr}"


def test_a_command_that_does_not_exist_would_be_noticed():
    """The check above can fail."""
    assert _fault(("frobnicate",))
    assert _fault(("explain", "--frobnicate"))
    assert not _fault(("explain", "confirm", "-o", "json"))


def test_every_make_target_in_the_documents_exists():
    """`make demo` and the like are in the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    asked = {(document, words[0]) for document, words in _calls("make") if words}
    assert asked
    assert not [f"{document}: make {target}" for document, target in sorted(asked) if target not in targets]


def _anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_lead_somewhere(document):
    """Every link to a file of ours finds the file, and its heading."""
    broken = []
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            broken.append(target)
    assert not broken


def test_the_table_of_error_codes_is_the_catalogue():
    """docs/operations.md lists each code with its exit status; `make docs` writes it."""
    module = _write_docs()
    text = module.OPERATIONS.read_text(encoding="utf-8")
    assert module.with_table(text) == text, "run `make docs`"


def _write_docs():
    """packaging/write-docs.py as a module."""
    spec = importlib.util.spec_from_file_location("write_docs", ROOT / "packaging" / "write-docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_interfaces_in_the_documents_are_those_that_are_served():
    """docs/guest-api.json and docs/page-api.json are what the sockets answer with; `make docs` writes them."""
    from lxgpu.api.documents import documents  # noqa: PLC0415 -- one test needs it

    found = documents()
    assert sorted(found) == ["guest-api", "page-api"]
    for name, document in found.items():
        text = (ROOT / "docs" / f"{name}.json").read_text(encoding="utf-8")
        assert text == _write_docs().as_json(document), "run `make docs`"


def test_the_table_of_benchmarks_is_results_json():
    """Each row of benchmarks/results.json stands in docs/benchmarks.md and in results.md as it was measured."""
    from benchmarks import table  # noqa: PLC0415 -- one test needs it

    rows = table.known()
    text = table.DOCUMENT.read_text(encoding="utf-8")
    assert rows
    assert table.table(rows) in text, "run `make docs`"
    assert table.with_table(text, rows) == text
    assert table.RESULTS.with_suffix(".md").read_text(encoding="utf-8") == table.table(rows)
    changed = [replace(rows[0], goal=99), *rows[1:]]
    assert table.table(changed) not in text


def test_every_benchmark_of_the_table_can_be_repeated():
    """The last cell of each row is a part that `python -m benchmarks` knows."""
    from benchmarks import __main__, simulating, table  # noqa: PLC0415 -- one test needs them

    known = {*__main__.PARTS, *(f"simulating.{section}" for section in simulating.SECTIONS)}
    assert not [row.name for row in table.known() if row.part not in known]
    readme = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert not [part for part in sorted(known) if f"`{part}`" not in readme]


def test_what_is_missed_is_explained():
    """Each missed row of the table is named, by how its name begins, where the document says why; nothing else is."""
    from benchmarks import table  # noqa: PLC0415 -- one test needs it

    section = table.DOCUMENT.read_text(encoding="utf-8").split("\n## What is missed", 1)[1]
    named = tuple(re.findall(r"\*\*([^*]+)\*\*", section))
    missed = [row.name for row in table.known() if row.met is False]
    assert not [name for name in missed if not name.startswith(named)]
    assert not [one for one in named if not any(name.startswith(one) for name in missed)]


def test_the_plots_in_the_documents_are_there_and_small():
    """Whoever reads docs/benchmarks.md without a fast network sees its plots too."""
    drawn = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8"))
    assert drawn
    assert all((ROOT / "docs" / name).stat().st_size < 60_000 for name in drawn)


def test_the_exit_statuses_in_the_documents_are_the_codes():
    """Each status of errors.Exit has a row, and no other row is there but 141 (closed pipe)."""
    from lxgpu.cli.main import CLOSED_PIPE  # noqa: PLC0415 -- one test needs it
    from lxgpu.errors import Exit  # noqa: PLC0415

    table = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8").partition("## Errors")[0]
    assert {int(number) for number in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == {*Exit, CLOSED_PIPE}


def _tracked() -> list[Path]:
    """The files of the repository: those of git where there is git, else all that tools did not make."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True
        ).stdout
        return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and not set(path.parts) & {".venv", "__pycache__"}]


def test_nothing_of_this_machine_stands_in_the_files():
    """No file names the folder that this copy happens to lie in."""
    here = re.compile(rf"(?<![\w./-]){re.escape(str(ROOT))}(?![\w-])")
    texts = {path: path.read_text(encoding="utf-8", errors="ignore") for path in _tracked()}
    assert not [str(path.relative_to(ROOT)) for path, text in texts.items() if here.search(text)]


def test_the_columns_of_a_class_file_are_all_explained():
    """Whoever writes a class.csv finds each column in the documents, and in the help of the command."""
    text = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    section = text.split("## A class from a file", 1)[1].split("\n## ", 1)[0]
    first_cells = " ".join(line.split("|")[1] for line in section.splitlines() if line.startswith("|"))
    assert sorted(re.findall(r"`([a-z]+)`", first_cells)) == sorted(COLUMNS)
    command = _command("create")
    assert command is not None
    assert not [name for name in COLUMNS if not re.search(rf"\b{name}\b", command.help or "")]


def test_the_families_of_modules_name_what_is_there():
    """Each module of the tables of policy/ and services/ in docs/architecture.md exists."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for part in ("policy", "services"):
        table = text.split(f"| in `{part}/` | modules |\n", 1)[1].split("\n\n", 1)[0]
        named = [name for line in table.splitlines()[1:] for name in re.findall(r"`([a-z]+)`", line)]
        assert len(named) > 20
        assert [name for name in named if not (ROOT / "lxgpu" / part / f"{name}.py").is_file()] == []

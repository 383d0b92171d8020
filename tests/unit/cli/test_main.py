"""The frame of the command line: help, errors, exit statuses, start-up."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib import import_module

import click
import pytest

from lxgpu import __version__
from lxgpu.cli import commands, failure, main
from lxgpu.drivers.wake import Wake
from lxgpu.errors import CATALOGUE, Exit, LxgpuError, Problem
from lxgpu.inventory.store import open_inventory
from lxgpu.model.instance import Instance, InstanceState, Person

HEAVY = ("pylxd", "requests", "pydantic", "paramiko", "yaml", "jinja2", "rich", "sqlite3", "click")


@pytest.mark.parametrize("words", [(), ("-h",), ("--help",), ("-q", "--help")])
def test_help_goes_to_stdout_and_is_the_same_by_every_way(lxgpu, words):
    """`lxgpu`, -h and --help print one page, whether click is loaded or not."""
    done = lxgpu(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == commands.help_page()


@pytest.mark.parametrize("words", [("--version",), ("-q", "--version")])
def test_version_is_printed_by_every_way(lxgpu, words):
    """The version is the package's."""
    assert lxgpu(*words).stdout == f"lxgpu {__version__}\n"


def test_every_command_is_listed_once_and_fits_eighty_columns():
    """The help page reads well on the smallest terminal."""
    names = commands.names()
    assert len(names) == len(set(names))
    assert not [line for line in commands.help_page().splitlines() if len(line) > 80]


@pytest.mark.parametrize("name", commands.names())
def test_every_command_of_the_table_loads_and_has_its_own_page(name):
    """No line of the table leads nowhere."""
    place = commands.place_of(name)
    assert place is not None
    command = getattr(import_module(place[0]), place[1])
    assert isinstance(command, click.Command)
    assert command.help


def test_help_loads_nothing_heavy():
    """`lxgpu --help` imports neither a library nor a command."""
    program = (
        "import sys; from lxgpu.cli.main import run; run(['--help']);"
        "print(*sorted(name for name in sys.modules if '.' not in name or name.startswith('lxgpu.')), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert not loaded & set(HEAVY)
    assert {name for name in loaded if name.startswith("lxgpu.")} == {
        "lxgpu.cli",
        "lxgpu.cli.main",
        "lxgpu.cli.commands",
    }


def test_a_command_without_need_of_them_loads_no_driver_and_no_database():
    """Errors, explanations and completion never pay for what they do not use."""
    program = (
        "import sys; from lxgpu.cli.main import run; run(['explain', 'confirm']);print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(done.stderr.split()) & (set(HEAVY) - {"click"})


def test_help_starts_as_fast_as_promised():
    """`lxgpu --help` takes at most five times as long as Python that does nothing (best of 7 each)."""

    def best(*words: str) -> float:
        times = []
        for _ in range(7):
            begin = time.perf_counter()
            subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - begin)
        return statistics.median(sorted(times)[:3])

    assert best("-m", "lxgpu", "--help") <= 5 * best("-c", "pass")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("creat", "create"), ("rm", "delete"), ("list", "ls"), ("gpuz", "gpus"), ("completoin", "completion")],
)
def test_a_wrong_command_is_answered_with_the_right_one(lxgpu, typed, meant):
    """Typing errors and habits from elsewhere get a suggestion, exit 2."""
    done = lxgpu(typed)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error[usage] there is no command '{typed}'\n")
    assert f"`lxgpu {meant}`" in done.stderr


@pytest.mark.parametrize(
    "words", [("explain", "--nonsense"), ("completion",), ("completion", "tcsh"), ("-q",), ("--colour", "explain")]
)
def test_usage_errors_have_our_form_and_name_the_next_step(lxgpu, words):
    """What click finds wrong looks like every other error and exits 2."""
    done = lxgpu(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error[usage] ")
    assert "\nfix: lxgpu" in done.stderr


@pytest.mark.parametrize("words", [("-o", "json"), ("--json",), ("-ojson",), ("--output", "json"), ("--output=json",)])
def test_errors_are_json_on_stdout_when_json_was_asked_for(lxgpu, words):
    """Scripts get the same error as an object; people still get the text."""
    done = lxgpu("explain", "nothing_such", *words)
    assert done.returncode == 3
    assert done.stderr.startswith("error[not_found] ")
    document = json.loads(done.stdout)
    assert set(document) == {"error"}
    assert set(document["error"]) == {"code", "message", "why", "fix", "problems", "details"}
    assert document["error"]["code"] == "not_found"


def test_usage_errors_are_json_too(lxgpu):
    """Also where the command line could not be parsed."""
    done = lxgpu("explain", "--json", "--nonsense")
    assert json.loads(done.stdout)["error"]["code"] == "usage"


def test_words_for_another_program_do_not_ask_for_json():
    """After `--` the words are not ours."""
    assert not failure.wants_json(["exec", "alice", "--", "kubectl", "get", "-o", "json"])
    assert not failure.wants_json(["ls", "-o", "yaml"])


def test_the_text_of_an_error_has_every_part_in_order():
    """What, each problem with its line and caret, why, fix."""
    error = LxgpuError(
        "bad_file",
        "policy.yaml has a mistake",
        problems=[Problem("no whole number: 'two'", "policy.yaml:14:11: users.bob.limit", "  bob: {limit: two}\n  ^")],
        why=("one", "two\nlines"),
        fix="mend it",
    )
    assert failure.error_text(error).splitlines() == [
        "error[bad_file] policy.yaml has a mistake",
        "policy.yaml:14:11: users.bob.limit: no whole number: 'two'",
        "      bob: {limit: two}",
        "      ^",
        "why: one",
        "why: two",
        "     lines",
        "fix: mend it",
    ]


@pytest.mark.parametrize("code", CATALOGUE)
def test_explain_knows_every_code_and_its_exit_status(lxgpu, code):
    """`lxgpu explain CODE` works for each code, also as it is printed in errors."""
    [item] = json.loads(lxgpu("explain", f"error[{code}]", "--json").stdout)["items"]
    assert item == {"code": code, "exit_status": int(CATALOGUE[code].status), "text": CATALOGUE[code].text}


def test_every_exit_status_can_be_reached_by_a_code():
    """The table of exit statuses has no number without a meaning."""
    assert {entry.status for entry in CATALOGUE.values()} == set(Exit) - {Exit.OK}


def _boundary(program: str, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the real boundary around a command of the test's own."""
    source = (
        "import click, sys; from lxgpu.cli import group, main\n"
        f"@click.command()\ndef probe():\n    {program}\n"
        "group.add_everywhere(probe)\n"
        f"sys.exit(main.guarded({list(words)!r}, lambda words, screen: group.invoke(words, screen, root=probe)))"
    )
    return subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=False, env={**os.environ, **(env or {})}
    )


def test_a_fault_is_told_without_a_traceback():
    """An unexpected exception is error[internal], exit 1, and says how to see more."""
    done = _boundary("raise ValueError('odd')")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == "error[internal] ValueError: odd"
    assert "--debug" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("words", "env"), [(("--debug",), {}), ((), {"LXGPU_DEBUG": "1"})])
def test_debug_shows_the_traceback(words, env):
    """--debug after the command, or LXGPU_DEBUG, brings the traceback."""
    done = _boundary("raise ValueError('odd')", *words, env=env)
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr


def test_a_broken_pipe_of_ours_is_not_taken_for_a_closed_stdout():
    """Only stdout's reader going away is quiet; a BrokenPipeError from elsewhere is a fault."""
    done = _boundary("raise BrokenPipeError('socket')")
    assert done.returncode == 1
    assert "BrokenPipeError" in done.stderr


def test_output_to_nobody_ends_quietly():
    """`lxgpu explain | true` says nothing about pipes."""
    read, write = os.pipe()
    os.close(read)
    for words in (["explain"], ["--help"]):
        done = subprocess.run(
            [sys.executable, "-m", "lxgpu", *words], stdout=write, stderr=subprocess.PIPE, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (main.CLOSED_PIPE, "")
    os.close(write)


@pytest.mark.parametrize("words", ["--version", "explain usage", "explain usage --json", "--help"])
def test_a_disk_without_room_is_told_in_words(words):
    """A result that finds no room on its disk is an error in words, and Python adds nothing when it ends."""
    full = os.open("/dev/full", os.O_WRONLY)
    argv = [sys.executable, "-m", "lxgpu", *words.split()]
    done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    os.close(full)
    assert done.returncode == Exit.USAGE
    assert done.stderr.splitlines() == [
        "error[usage] the result cannot be written",
        "why: No space left on device",
        "fix: send it elsewhere",
    ]


@pytest.mark.parametrize("words", ["--version", "explain usage", "explain nothing_such"])
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_exit_status(words, closed):
    """Whoever closes a stream wants nothing of it: the status is the same, and the other streams are."""
    call = [sys.executable, "-m", "lxgpu", *words.split()]
    done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=60)
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *call]
    mute = subprocess.run(shell, capture_output=True, text=True, check=False, timeout=60)
    assert mute.returncode == done.returncode
    assert mute.stdout == ("" if ">&-" in closed.split() else done.stdout)
    assert mute.stderr == ("" if "2>&-" in closed else done.stderr)


def test_an_interrupt_while_it_is_loaded_is_no_traceback(tmp_path):
    """Ctrl-C while the command is loaded ends it with 130 and without a traceback."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'lxgpu.cli.' + sys.argv[-1]: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupts())\n",
        encoding="utf-8",
    )
    for part in ("main", "commands", "screen"):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        call = [sys.executable, "-m", "lxgpu", "explain", part]
        done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=60, env=env)
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_what_a_container_wrote_commands_no_terminal():
    """Escape sequences in an error's reasons are shown, not sent; lines and letters of every language stay."""
    raised = r"from lxgpu.errors import LxgpuError; raise LxgpuError('engine', 'ü 日', why='\x1b]0;x\x07\x9b31m\rz\b.')"
    done = _boundary(raised)
    assert "ü 日" in done.stderr
    assert r"\x1b]0;x\x07\x9b31m" in done.stderr
    assert not set("\x1b\x07\x9b\r\b") & set(done.stderr)


def test_a_thread_in_the_background_does_not_take_part_in_the_end():
    """With a daemon thread at work Python's own end is left out: it could abort the process in place of the status."""
    program = (
        "import atexit, sys, threading; atexit.register(print, 'Python ended');"
        "threading.Thread(target=threading.Event().wait, daemon=True).start();"
        "from lxgpu.cli.main import main; sys.argv = ['lxgpu', 'explain', 'nothing_such', '-o', 'json']; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == Exit.NOT_FOUND
    assert json.loads(done.stdout)["error"]["code"] == "not_found"
    assert "fix:" in done.stderr


@pytest.mark.parametrize(
    ("words", "helps"),
    [
        ("attach x --gpus nope", "lxgpu attach --help"),
        ("-q create a --memory lots", "lxgpu create --help"),
        ("history --since never", "write it like 4h"),
        ("reserve bob --no-warning --gpus 1 --for 2h", "lxgpu reserve --help"),
        ("create BAD_NAME", ""),
        ("ls --frob", "lxgpu ls --help"),
        ("gpu", "lxgpu gpu --help"),
    ],
)
def test_wrong_usage_always_names_a_next_step(words, helps):
    """Where the error has none of its own, it is the help page of the very command."""
    argv = [sys.executable, "-m", "lxgpu", *words.split()]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == Exit.USAGE, done.stderr
    assert f"\nfix: {helps}" in done.stderr


def test_ctrl_c_is_answered_with_a_sentence_and_130():
    """An interrupt says what becomes of the work begun."""
    done = _boundary(f"import os; os.kill(os.getpid(), {int(signal.SIGINT)}); import time; time.sleep(5)")
    assert done.returncode == 130
    assert "error[interrupted]" in done.stderr
    assert "journal" in done.stderr


def test_a_command_can_choose_its_exit_status():
    """`ctx.exit(10)` is how a check reports findings."""
    assert _boundary("click.get_current_context().exit(10)").returncode == 10


@pytest.mark.parametrize(
    ("env", "words", "colored"),
    [
        ({}, (), True),
        ({"NO_COLOR": "1"}, (), False),
        ({"TERM": "dumb"}, (), False),
        ({}, ("--color", "never"), False),
        ({"NO_COLOR": "1"}, ("--color", "always"), True),
    ],
)
def test_colour_is_for_terminals_and_can_be_refused(on_terminal, env, words, colored):
    """NO_COLOR, TERM=dumb and --color decide; the words are the same."""
    status, written = on_terminal(["-m", "lxgpu", *words, "explain", "nothing_such"], env=env)
    assert status == 3
    assert ("\033[" in written) is colored
    assert "error[not_found]" in written


def test_without_a_terminal_there_is_no_colour(lxgpu):
    """Logs stay readable."""
    assert "\033[" not in lxgpu("explain", "nothing_such").stderr


def test_a_stdout_that_knows_no_unicode_is_no_fault(lxgpu):
    """In an ASCII locale the text comes with escapes, and JSON stays valid."""
    env = {"PYTHONIOENCODING": "ascii"}
    done = lxgpu("explain", "bad_key", "--json", env=env)
    assert done.returncode == 0
    assert "…" in json.loads(done.stdout)["items"][0]["text"]
    assert lxgpu("explain", "bad_key", env=env).returncode == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_each_shell(lxgpu, shell):
    """The script calls lxgpu itself."""
    done = lxgpu("completion", shell)
    assert done.returncode == 0
    assert "_LXGPU_COMPLETE" in done.stdout


def test_bash_completes_commands_without_loading_them(lxgpu):
    """TAB after `lxgpu exp` offers `explain`."""
    done = lxgpu(env={"_LXGPU_COMPLETE": "bash_complete", "COMP_WORDS": "lxgpu exp", "COMP_CWORD": "1"})
    assert done.stdout.split() == ["plain,explain"]


@pytest.fixture
def inventory_of_two(tmp_path):
    """The state folder of a lab with containers alice and bob."""
    at = datetime(2027, 5, 1, tzinfo=UTC)
    with open_inventory(tmp_path / "inventory.db") as inventory, inventory.write(actor="test", now=at) as tx:
        for number, name in enumerate(("alice", "bob")):
            tx.put(Person(name=name, uid=2000 + number, ssh_port=22000 + number, created_at=at))
            tx.put(Instance(name=name, owner=name, host="h", state=InstanceState.READY, created_at=at))
    return tmp_path


@pytest.mark.parametrize(("typed", "offered"), [("", ["plain,alice", "plain,bob"]), ("b", ["plain,bob"]), ("x", [])])
def test_bash_completes_the_names_of_containers(lxgpu, inventory_of_two, typed, offered):
    """TAB after `lxgpu start` offers what the inventory has."""
    env = {"_LXGPU_COMPLETE": "bash_complete", "COMP_WORDS": f"lxgpu start {typed}", "COMP_CWORD": "2"}
    done = lxgpu(env=env | {"LXGPU_STATE_DIR": str(inventory_of_two)})
    assert (done.stdout.split(), done.stderr) == (offered, "")


WRITES = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from lxgpu.cli.main import guarded
from lxgpu.errors import LxgpuError
from lxgpu.inventory.store import open_inventory

def invoke(words, _screen):
    with open_inventory(Path(words[0])) as inventory:
        inventory.read()
        if "write" in words:
            with inventory.write(actor="test", now=datetime.now(UTC)) as tx:
                tx.event("seen", "alice")
    if "fail" in words:
        raise LxgpuError("no_capacity", "not now")
    return 0

sys.exit(guarded(sys.argv[1:], invoke))
"""


@pytest.mark.parametrize(
    ("words", "status", "woken"),
    [(("write",), 0, True), (("write", "fail"), 7, True), ((), 0, False), (("fail",), 7, False)],
)
def test_a_command_that_wrote_wakes_the_daemon(tmp_path, words, status, woken):
    """However it ended; one that only looked leaves it alone."""
    argv = [sys.executable, "-c", WRITES, str(tmp_path / "inventory.db"), *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "LXGPU_RUN_DIR": str(tmp_path)}
    wake = Wake(tmp_path)
    assert subprocess.run(argv, env=environment, check=False, capture_output=True).returncode == status
    assert wake.wait(0) is woken
    wake.close()


def test_without_a_daemon_a_command_that_wrote_ends_as_it_would(tmp_path):
    """Nobody to wake, and settings that cannot be read, are no failure of it."""
    argv = [sys.executable, "-c", WRITES, str(tmp_path / "inventory.db"), "write"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "LXGPU_RUN_DIR": str(tmp_path)}
    for more in ({}, {"LXGPU_CONFIG": str(tmp_path / "none")}):
        done = subprocess.run(argv, env=environment | more, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_completion_is_silent_where_there_is_no_inventory(lxgpu, tmp_path):
    """No error appears in the middle of somebody's prompt, and nothing is made."""
    env = {"_LXGPU_COMPLETE": "bash_complete", "COMP_WORDS": "lxgpu start ", "COMP_CWORD": "2"}
    done = lxgpu(env=env | {"LXGPU_STATE_DIR": str(tmp_path / "none")})
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir())

"""`gpu` as people type it inside: the program itself, over a real socket."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from guest_client import dial
from house import until

from lxgpu.config.shipped import shipped
from lxgpu.units import parse_duration

PROGRAM = shipped("templates") / "guest" / "gpu"


class Inside:
    """Commands given in alice's container."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "LXGPU_GUEST": str(folder), "LC_ALL": "C"}
        self.running: list[subprocess.Popen[str]] = []

    def gpu(self, *words: str) -> subprocess.CompletedProcess[str]:
        """To its end."""
        argv = [str(PROGRAM), *words]
        return subprocess.run(
            argv, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Begin, and do not wait."""
        pipe = subprocess.PIPE
        argv = [str(PROGRAM), *words]
        made = subprocess.Popen(argv, env=self.env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
        self.running.append(made)
        return made

    def job(self) -> tuple[str, ...]:
        """A command that writes its process id down and then sleeps; `pids` reads them."""
        return ("sh", "-c", f"echo $$ >>{self.folder}/pids; exec sleep 300")

    def pids(self) -> list[int]:
        """The processes that the command has been so far."""
        file = self.folder / "pids"
        return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def inside(guests) -> Iterator[Inside]:
    """Alice's container."""
    made = Inside(guests.folder / "alice")
    yield made
    for process in made.running:
        process.kill()  # first this one, which starts its command again when that is killed
        process.wait(timeout=30)
        for pid in made.pids():
            if Path(f"/proc/{pid}/stat").exists():
                os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=30)


@pytest.mark.parametrize(("where", "status"), [("/dev/full", 1), ("closed", 141)])
def test_output_that_nobody_takes_is_no_traceback(inside, where, status):
    """A full disk is said, a reader that has gone is not; both are seen in the exit status."""
    if where == "closed":
        reader, target = os.pipe()
        os.close(reader)
    else:
        target = os.open(where, os.O_WRONLY)
    try:
        ran = subprocess.run(
            [str(PROGRAM), "help"], env=inside.env, stdout=target, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(target)
    told = "error[io] what gpu says cannot be written: No space left on device\n" if where == "/dev/full" else ""
    assert (ran.returncode, ran.stderr) == (status, told)


def test_it_needs_nothing_but_an_old_python():
    """Python 3.8 reads it, and it imports the standard library only."""
    tree = ast.parse(PROGRAM.read_text(), feature_version=(3, 8))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert names == {"argparse", "json", "os", "re", "signal", "socket", "subprocess", "sys", "time"}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


def test_without_python_it_says_so(guests, tmp_path):
    """The shell reads it up to there, and shows a present warning."""
    (guests.folder / "alice" / "banner").write_text("1 of 2 GPUs free\nWARNING: bob gets it at 14:00\n")
    env = {"PATH": str(tmp_path / "nothing"), "LXGPU_GUEST": str(guests.folder / "alice")}
    text = PROGRAM.read_text().replace("/usr/bin/python3 python3", "nopython3").replace("grep ", "/bin/grep ")
    ran = subprocess.run(["/bin/sh", "-c", text], env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "needs python3" in ran.stderr
    assert ran.stdout == "WARNING: bob gets it at 14:00\n"


def test_status_in_lines_and_as_json(guests, inside):
    """The lines of the daemon, with nothing that a terminal obeys and no old notice; or all fields."""
    guests.uses.give("alice", "GPU-1")
    (inside.folder / "notice").write_text("careful\x1b[2J\n")
    ran = inside.gpu()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == ["1 of 2 GPUs free", "alice holds 1 GPUs", "a ?[31mred?[0m line"]
    for words in (["-o", "json"], ["status", "-o", "json"]):
        told = json.loads(inside.gpu(*words).stdout)
        assert told["schema"] == "lxgpu.guest/v1"
        assert [gpu["slot"] for gpu in told["items"][0]["gpus"]] == ["GPU-1"]


def test_each_command_asks_for_what_was_typed(guests, inside):
    """Durations become seconds, everything else goes as it is."""
    for words in (
        ["extend", "1d12h"],
        ["keep", "90m", "--reason", "loading data"],
        ["reserve", "2", "--for", "4h", "--at", "tomorrow 09:00", "--model", "*3090*"],
        ["reserve", "1", "--for", "1.5h"],
        ["reserve", "0.25", "--for", "2h"],
        ["reserve", ".5", "--for", "2h", "--model", "3090"],
        ["reserve", "1", "--at", "mon 09:00", "--until", "18:00", "--weekly", "--class", "low", "--note", "for icml"],
        ["cancel", "r1"],
    ):
        ran = inside.gpu(*words)
        assert (ran.returncode, ran.stderr) == (0, ""), words
        assert ran.stdout
    assert guests.uses.asked == [
        ("extend", "alice", 129600),
        ("keep", "alice", 5400, "loading data"),
        ("reserve", "alice", 2, 14400, "tomorrow 09:00", "*3090*"),
        ("reserve", "alice", 1, 5400, None, "*"),
        ("reserve", "alice", 1, 7200, None, "* 0.25"),
        ("reserve", "alice", 1, 7200, None, "3090 0.5"),
        (
            *("reserve", "alice", 1, None, "mon 09:00", "*"),
            *(("class_name", "low"), ("note", "for icml"), ("until", "18:00"), ("weekly", True)),
        ),
        ("cancel", "alice", "r1"),
    ]
    assert inside.gpu("why").stdout == "it runs\n"


@pytest.mark.parametrize(
    "words",
    [
        ["frobnicate"], ["extend"], ["extend", "4"], ["extend", "0h"], ["extend", "4 h 1"], ["extend", "1.5h 3m"],
        ["extend", "0.5s"], ["extend", "٤h"],
        ["keep", "2h"], ["reserve", "2"], ["reserve"], ["keep"],
        ["reserve", "2", "--for", "4h", "--until", "18:00"],
        ["reserve", "2", "--for", "4h", "--weekly"],
        ["reserve", "0", "--for", "4h"], ["reserve", "0.0", "--for", "4h"], ["reserve", "1.5", "--for", "4h"],
        ["release", "0.25"], ["edit", "r1", "--gpus", "0.25"], ["release", "-1"], ["run"], ["run", "--"],
        ["run", "--gpus", "0", "--", "true"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_words_that_do_not_fit_ask_for_nothing(guests, inside, words):
    """Exit status 2, an error as all others with an example to type, and the daemon hears nothing."""
    ran = inside.gpu(*words)
    assert ran.returncode == 2
    assert ran.stderr.startswith("error[usage] ")
    assert ran.stderr.splitlines()[-1].startswith("fix: gpu ")
    assert guests.uses.asked == []


def test_durations_are_those_of_the_host(guests, inside):
    """One grammar: what the host's command takes, and for how long."""
    for text in ("90m", "90 min", "4 hours", "1h30", "1.5H", "1d 12h", "2w", "45s"):
        assert inside.gpu("extend", text).returncode == 0, text
    assert [asked[2] for asked in guests.uses.asked] == [5400, 5400, 14400, 5400, 5400, 129600, 1209600, 45]
    assert [parse_duration(text) for text in ("1h30", "1.5H", "90 min")] == [5400] * 3


def test_each_command_tells_all_that_it_takes(inside):
    """With words for each option, and an example."""
    told = inside.gpu("reserve", "--help").stdout
    for option in ("--for", "--until", "--at", "--weekly", "--model", "--class", "--note"):
        (line,) = [line for line in told.splitlines() if line.startswith(f"  {option}")]
        assert len(line.split()) > 3, line
    assert told.splitlines()[-1].startswith("example: gpu reserve 2 --for 4h")
    for name in ("status", "why", "release", "extend", "keep", "cancel", "run"):
        assert f"example: gpu {'-o json' if name == 'status' else name}" in inside.gpu(name, "--help").stdout


def test_help_fits_a_terminal(inside):
    """Of 80 columns, each page of it."""
    for words in (["help"], ["--help"], *([name, "--help"] for name in _parser_words())):
        assert [line for line in inside.gpu(*words).stdout.splitlines() if len(line) > 80] == [], words


def test_release_waits_until_the_cards_are_gone(guests, inside):
    """All, or the number asked for."""
    guests.uses.give("alice", "GPU-1", "GPU-2", "GPU-3")
    assert inside.gpu("release", "1").stdout.splitlines()[-1] == "given back"
    assert inside.gpu("release").returncode == 0
    assert [asked[2:] for asked in guests.uses.asked if asked[0] == "release"] == [(1, False), (None, False)]
    assert guests.uses.held["alice"] == []


def test_cards_in_use_are_given_back_by_yes_only(guests, inside):
    """Off a terminal nobody is asked."""
    guests.uses.give("alice", "GPU-1")
    guests.uses.busy.add("alice")
    ran = inside.gpu("release")
    assert guests.uses.held["alice"]
    assert (ran.returncode, ran.stdout) == (5, "")
    assert ran.stderr.splitlines() == [
        "error[busy] in use now: GPU-1",
        "why: the card is in use",
        "fix: gpu release --yes ends what uses them",
    ]
    assert inside.gpu("release", "--yes").returncode == 0


def test_an_error_has_the_exit_status_of_its_kind(inside):
    """Those of lxgpu on the host: refused 5, not found 3; on a pipe the error is on stderr."""
    ran = inside.gpu("reserve", "3", "--for", "4h")
    assert (ran.returncode, ran.stdout) == (5, "")
    assert ran.stderr.splitlines() == [
        "error[over_limit] alice may hold 2 GPUs",
        "why: it is policy",
        "fix: ask for less",
    ]
    assert inside.gpu("cancel", "r9").returncode == 3


def test_without_the_daemon_it_says_what_still_holds(guests, inside):
    """Exit status 8, what was known last with its age; the same when the socket is there and nobody listens."""
    (inside.folder / "notice").write_text("an old story\n")
    (inside.folder / "banner").write_text("1 of 2 GPUs free\nYou hold 1 GPU.\nWARNING: bob gets it at 14:00\x1b[2J\n")
    at = time.time() - 3 * 3600 - 60
    os.utime(inside.folder / "banner", (at, at))
    guests.sockets.follow(["bob"])
    for deserted in (False, True):
        if deserted:
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(inside.folder / "api.sock"))
        ran = inside.gpu()
        assert ran.returncode == 8
        assert ran.stdout.splitlines() == ["1 of 2 GPUs free", "You hold 1 GPU.", "WARNING: bob gets it at 14:00?[2J"]
        assert ran.stderr.startswith("error[unavailable] lxgpu's daemon does not answer\nwhy: what stands above is of ")
        assert ran.stderr.splitlines()[1].endswith(", 3 h ago")
        assert "your cards stay" in ran.stderr
        ran = inside.gpu("reserve", "1", "--for", "1h")
        assert (ran.returncode, ran.stdout) == (8, "")
        assert ran.stderr.splitlines()[-1] == "WARNING: bob gets it at 14:00?[2J"
        assert "old story" not in ran.stderr
        assert "error" in json.loads(inside.gpu("-o", "json").stdout)


def test_a_full_socket_is_waited_for(inside):
    """Callers that hang in front do not make it fail: they are cut off, and it tries again."""
    links = []
    try:
        while True:
            links.append(dial(inside.folder / "api.sock"))
    except BlockingIOError:
        pass
    try:
        assert inside.gpu().returncode == 0
    finally:
        for link in links:
            link.close()


def test_run_waits_for_its_cards_and_ends_as_the_command_ends(guests, inside):
    """It says what for; the exit status is the command's, also that of a signal."""
    guests.uses.book("alice", 2)
    waiting = inside.start("run", "--gpus", "2", "--", "sh", "-c", "exit 7")
    assert until(lambda: guests.uses.asked.count(("status", "alice")) > 2)
    guests.uses.give("alice", "GPU-1")
    assert waiting.poll() is None
    guests.uses.give("alice", "GPU-1", "GPU-2")
    _, err = waiting.communicate(timeout=20)
    assert waiting.returncode == 7
    assert err == "gpu: waits for 2 GPUs, 0 here; r1: 2 GPUs, scheduled\n", "once, however long within a minute"
    assert inside.gpu("run", "--", "sh", "-c", "kill -9 $$").returncode == 137
    assert inside.gpu("run", "true").returncode == 0
    assert inside.gpu("run", "--", "/no/such/program").returncode == 127


def test_run_does_not_wait_for_what_nobody_asked_for(guests, inside):
    """It says at once what is here and what asks for the rest; a booking of fewer is not enough."""
    guests.uses.give("alice", "GPU-1")
    guests.uses.book("alice", 1)
    ran = inside.gpu("run", "--gpus", "2", "--", "true")
    assert (ran.returncode, ran.stdout) == (6, "")
    assert ran.stderr.splitlines() == [
        "error[not_held] you hold 1 of 2, and nobody asked for more",
        "fix: gpu reserve 2 --for 4h asks for them; gpu run --gpus 2 --for 4h -- CMD does both",
    ]
    assert not [asked for asked in guests.uses.asked if asked[0] == "reserve"]


def test_a_part_is_no_whole_card(guests, inside):
    """Who holds one does not hold a card, and the other way about."""
    guests.uses.give("alice", "GPU-2/2/4")
    ran = inside.gpu("run", "--gpus", "1", "--", "true")
    assert ran.stderr.startswith("error[not_held] you hold 0 of 1, and nobody asked for more")
    guests.uses.give("alice", "GPU-1")
    ran = inside.gpu("run", "--gpus", "0.25", "--", "true")
    assert ran.stderr.startswith("error[not_held] you hold no such part of a GPU, and nobody asked for more")


def test_run_with_a_part_waits_for_a_part(guests, inside):
    """A whole card is none, nor is a smaller part; one that is large enough is."""
    guests.uses.give("alice", "GPU-1", "GPU-2/1/8")
    running = inside.start("run", "--gpus", "0.25", "--for", "4h", "--", "sh", "-c", "exit 3")
    assert until(lambda: guests.uses.asked.count(("status", "alice")) > 2)
    assert [asked[2:6] for asked in guests.uses.asked if asked[0] == "reserve"] == [(1, 14400, None, "* 0.25")]
    guests.uses.give("alice", "GPU-1", "GPU-2/2/4")
    _, err = running.communicate(timeout=20)
    assert running.returncode == 3
    assert "waits for a part of a GPU (0.25 or more), 0 here" in err


def test_a_slice_is_asked_for_by_its_profile(guests, inside):
    """Another profile is none, nor is a share of a card or a whole one; a share may be a slice that is large enough."""
    guests.uses.give("alice", "GPU-1", "GPU-2/1-1g.5gb")
    for asked in ("1g.10gb", "0.25"):
        ran = inside.gpu("run", "--gpus", asked, "--", "true")
        assert ran.stderr.startswith("error[not_held] you hold no such part of a GPU, and nobody asked for more")
    assert inside.gpu("run", "--gpus", "2", "--", "true").stderr.startswith("error[not_held] you hold 1 of 2")
    guests.uses.give("alice", "GPU-2/1-2g.10gb")
    for asked in ("2g.10gb", "0.25"):
        assert inside.gpu("run", "--gpus", asked, "--", "sh", "-c", "exit 3").returncode == 3
    ran = inside.gpu("reserve", "3g.20gb", "--for", "2h")
    assert [asked[2:6] for asked in guests.uses.asked if asked[0] == "reserve"] == [(1, 7200, None, "* 3g.20gb")]
    assert ran.returncode == 0, ran.stderr


def test_run_refuses_more_than_can_ever_be_held(guests, inside):
    """As the daemon says it, with or without a time."""
    for words in ([], ["--for", "4h"]):
        ran = inside.gpu("run", "--gpus", "3", *words, "--", "true")
        assert (ran.returncode, ran.stderr.splitlines()[0]) == (5, "error[over_limit] alice may hold 2 GPUs")
    assert guests.uses.bookings == {}


def test_run_with_a_time_asks_for_its_cards_once(guests, inside):
    """Unless they are here, or were asked for before."""
    running = inside.start("run", "--gpus", "2", "--for", "4h", "--", "sh", "-c", "exit 3")
    assert until(lambda: guests.uses.asked.count(("status", "alice")) > 2)
    second = inside.start("run", "--gpus", "2", "--for", "4h", "--", "sh", "-c", "exit 4")
    assert until(lambda: guests.uses.asked.count(("status", "alice")) > 6)
    guests.uses.give("alice", "GPU-1", "GPU-2")
    assert (running.wait(20), second.wait(20)) == (3, 4)
    assert [asked[2:4] for asked in guests.uses.asked if asked[0] == "reserve"] == [(2, 14400)]


def test_run_with_a_time_does_not_wait_for_a_booking_of_another_day(guests, inside):
    """What is booked for later is no answer to who asks for cards now."""
    guests.uses.book("alice", 2)
    running = inside.start("run", "--gpus", "1", "--for", "10m", "--", "sh", "-c", "exit 5")
    assert until(lambda: any(asked[0] == "reserve" for asked in guests.uses.asked))
    guests.uses.give("alice", "GPU-1")
    assert running.wait(20) == 5


def test_run_ends_when_a_taken_card_comes_back_no_more(guests, inside):
    """No claim, no booking: it says so and ends as its command ended."""
    guests.uses.give("alice", "GPU-1")
    running = inside.start("run", "--", *inside.job())
    assert until(lambda: len(inside.pids()) == 1)
    guests.uses.give("alice")
    os.kill(inside.pids()[0], signal.SIGTERM)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 143
    assert "nothing brings 1 GPU any more: gpu reserve 1 --for 4h asks for them" in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_run_starts_again_when_a_taken_card_returns(guests, inside, number):
    """Ended as its card went: it waits for the card and starts the command anew; then its own end is the end."""
    guests.uses.give("alice", "GPU-1")
    guests.uses.book("alice", 1)
    running = inside.start("run", "--", *inside.job())
    assert until(lambda: len(inside.pids()) == 1)
    guests.uses.give("alice")
    os.kill(inside.pids()[0], number)
    assert not until(lambda: len(inside.pids()) > 1, limit_s=2)
    assert running.poll() is None
    guests.uses.give("alice", "GPU-1", since=10)
    assert until(lambda: len(inside.pids()) == 2)
    os.kill(inside.pids()[1], signal.SIGTERM)
    _, err = running.communicate(timeout=20)
    assert running.returncode == 143
    assert err.count("its GPU was taken") == 1


def test_run_notices_a_card_that_was_away_for_a_moment(guests, inside):
    """Taken and returned before it looked: the same card at another time is another holding."""
    guests.uses.give("alice", "GPU-1")
    inside.start("run", "--", *inside.job())
    assert until(lambda: len(inside.pids()) == 1)
    guests.uses.give("alice", "GPU-1", since=10)
    os.kill(inside.pids()[0], signal.SIGTERM)
    assert until(lambda: len(inside.pids()) == 2)


def test_a_command_that_ends_well_is_not_started_again(guests, inside):
    """Whatever became of its card meanwhile."""
    guests.uses.give("alice", "GPU-1")
    script = f"trap 'kill $!; exit 0' TERM; sleep 300 & echo $$ >>{inside.folder}/pids; wait"
    running = inside.start("run", "--", "sh", "-c", script)
    assert until(lambda: len(inside.pids()) == 1)
    guests.uses.give("alice")
    os.kill(inside.pids()[0], signal.SIGTERM)
    assert running.wait(20) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_go_through_to_the_command(guests, inside, number):
    """And then it is not started again, whatever became of its card meanwhile."""
    guests.uses.give("alice", "GPU-1")
    running = inside.start("run", "--", *inside.job())
    assert until(lambda: len(inside.pids()) == 1)
    guests.uses.give("alice")
    running.send_signal(number)
    assert running.wait(20) == 128 + number
    assert not Path(f"/proc/{inside.pids()[0]}").exists()


def test_a_signal_while_it_waits_ends_it(guests, inside):
    """There is no command yet to hand it to."""
    guests.uses.book("alice", 1)
    running = inside.start("run", "--", *inside.job())
    assert until(lambda: guests.uses.asked.count(("status", "alice")) > 1)
    running.send_signal(signal.SIGTERM)
    assert running.wait(20) == 143
    assert inside.pids() == []


def test_run_does_not_begin_without_the_daemon(guests, inside):
    """Nobody can say what is held: words and status 8, at once."""
    guests.uses.give("alice", "GPU-1")
    guests.sockets.follow(["bob"])
    ran = inside.gpu("run", "--", *inside.job())
    assert ran.returncode == 8
    assert "error[unavailable]" in ran.stderr
    assert inside.pids() == []


def test_run_outlives_the_daemon(guests, inside):
    """A restart of the daemon while it waits, or while the command runs, is waited for."""
    guests.uses.book("alice", 1)
    running = inside.start("run", "--", *inside.job())
    assert until(lambda: guests.uses.asked.count(("status", "alice")) > 1)
    guests.sockets.follow(["bob"])
    assert not until(lambda: running.poll() is not None, limit_s=1.5)
    guests.uses.give("alice", "GPU-1")
    guests.sockets.follow(["alice", "bob"])
    assert until(lambda: len(inside.pids()) == 1)
    guests.sockets.follow(["bob"])
    os.kill(inside.pids()[0], signal.SIGTERM)
    assert not until(lambda: running.poll() is not None, limit_s=1.5)
    guests.sockets.follow(["alice", "bob"])
    assert running.wait(20) == 143


def test_edit_asks_for_what_is_to_be_otherwise(guests, inside):
    """And for nothing else; without any change, or with two ends, it asks for nothing."""
    key = guests.uses.book("alice", 2)
    assert inside.gpu("edit", key, "--gpus", "1", "--until", "18:00").stdout == f"changed: {key}\n"
    assert inside.gpu("edit", key, "--for", "4h", "--at", "mon 09:00", "--note", "").returncode == 0
    asked = list(guests.uses.asked)
    assert asked == [
        ("edit", "alice", key, ("gpus", 1), ("until", "18:00")),
        ("edit", "alice", key, ("at", "mon 09:00"), ("note", ""), ("seconds", 14400)),
    ]
    for words in ([], ["--for", "4h", "--until", "18:00"]):
        ran = inside.gpu("edit", key, *words)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert "fix: gpu edit" in ran.stderr
    assert guests.uses.asked == asked
    assert inside.gpu("edit", guests.uses.book("bob", 1), "--gpus", "2").returncode == 3


def test_web_prints_the_link_alone(inside):
    """What is to be opened on stdout, what is to be known about it on stderr."""
    ran = inside.gpu("web")
    assert (ran.returncode, ran.stdout) == (0, "https://gpu.example/in#alice\n")
    assert "works once" in ran.stderr
    assert inside.gpu("web", "--close").stdout == "1 session and links of the page are over\n"


def test_short_asks_nobody(guests, inside):
    """What the daemon wrote down, cleaned, also while nobody answers; nothing at all where there is nothing."""
    assert (inside.gpu("--short").returncode, inside.gpu("--short").stdout) == (8, "")
    (inside.folder / "short").write_text("2 GPUs\x1b[2J until 18:00\nmore\n")
    guests.sockets.follow(["bob"])
    ran = inside.gpu("--short")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "2 GPUs?[2J until 18:00\n", "")
    assert guests.uses.asked == []


def test_a_login_hears_when_nobody_keeps_the_banner_true(guests, inside):
    """Nothing while the daemon is there; one line while it is not, with status 0."""
    assert (inside.gpu("--greet").returncode, inside.gpu("--greet").stdout) == (0, "")
    guests.sockets.follow(["bob"])
    ran = inside.gpu("--greet")
    assert (ran.returncode, ran.stderr, len(ran.stdout.splitlines())) == (0, "", 1)
    assert "may be old" in ran.stdout
    assert guests.uses.asked == []


def _parser_words():
    """The commands of the program, and the options of each, as it understands them."""
    ran = subprocess.run([str(PROGRAM), "--help"], capture_output=True, text=True, check=True)
    names = sorted(set(re.findall(r"^gpu ([a-z]+)\b", ran.stdout, re.MULTILINE)))
    assert len(names) > 8
    found = {}
    for name in names:
        told = subprocess.run([str(PROGRAM), name, "--help"], capture_output=True, text=True, check=True).stdout
        found[name] = sorted(set(re.findall(r"(?<![\w-])--[a-z]+", told.partition("example:")[0])))
    return found


def test_the_completion_offers_what_there_is(inside):
    """Each command, each of its options, and nothing else; ids where an id is wanted."""
    script = PROGRAM.with_name("gpu.bash")
    known = _parser_words()

    def offered(*words: str) -> set[str]:
        text = (
            f"source {script}; COMP_WORDS=(gpu {' '.join(repr(word) for word in words)}); "
            f"COMP_CWORD={len(words)}; _gpu; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        )
        env = {**inside.env, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
        ran = subprocess.run(["bash", "-c", text], env=env, capture_output=True, text=True, check=True, timeout=60)
        assert ran.stderr == ""
        return set(ran.stdout.split())

    assert set(known) <= offered("")
    assert offered("re") == {"release", "reserve"}
    for name, options in known.items():
        assert offered(name, "--") - {"--"} == set(options), name
    booked = inside.gpu("reserve", "1", "--for", "1h").stdout.split(":")[0]
    assert offered("cancel", "") == {booked}
    assert offered("run", "--", "") == set()


def test_the_manual_names_each_command_and_option():
    """Whoever reads `man gpu` misses nothing that the program takes."""
    text = PROGRAM.with_name("gpu.1").read_text().replace("\\-", "-")
    plain = re.sub(r"\\f[A-Z]", "", text)
    for name, options in _parser_words().items():
        assert re.search(rf"gpu {name}\b", plain), name
        line = next((line for line in plain.splitlines() if line.startswith(f"gpu {name} ")), "")
        assert not [option for option in options if option != "--help" and option not in line], name
    assert "--short" in plain


@pytest.mark.parametrize("words", [(), ("why",), ("web",), ("-o", "json"), ("reserve", "1", "--for", "1h")])
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("200 []", "unavailable"),
        ('200 {"gpus": [{}]}', "unavailable"),
        ("200 " + "[" * 100_000, "unavailable"),
        ('404 {"error": 1}', "unavailable"),
        ('500 {"error": 1}', "internal"),
        ("500 []", "internal"),
        ("500 Internal Server Error", "internal"),
        ('500 {"error": {"code": "internal", "what": "a fault in lxgpu"}}', "internal"),
    ],
    ids=["a list", "no fields", "deep", "no error", "a fault, no error", "no object", "no JSON", "a fault"],
)
def test_what_answers_in_another_way_is_an_error_and_no_traceback(tmp_path, answer, code, words):
    """Root inside may put anything in the place of the socket; a fault of the daemon's is told as lxgpu's."""
    status, _, body = answer.partition(" ")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "api.sock"))
        listening.listen()
        listening.settimeout(0.05)
        ended = threading.Event()

        def serve() -> None:
            while not ended.is_set():
                with suppress(OSError):
                    caller, _ = listening.accept()
                    with caller:
                        caller.settimeout(10)
                        caller.recv(65536)
                        caller.sendall(f"HTTP/1.1 {status} X\r\n\r\n{body}".encode())

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            ran = Inside(tmp_path).gpu(*words)
        finally:
            ended.set()
            thread.join()
    assert "Traceback" not in ran.stderr
    assert ran.stderr.startswith(f"error[{code}] ")
    assert ran.returncode == {"unavailable": 8, "internal": 1}[code]
    assert ("fault in lxgpu" in ran.stderr) == (code == "internal")

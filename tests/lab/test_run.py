"""`lxgpu run` on a real LXD: bytes, status and signals pass through, and nothing is left, whatever happens."""

from __future__ import annotations

import hashlib
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import PROGRAM, House, house_for, until

from lxgpu.lab import Lab

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """Ann has a machine of her own, without a card; bob has none."""
    for house in house_for(lab):
        house.ok("create", "ann")
        yield house


def begun(house: House, *words: str, **streams: object) -> subprocess.Popen[bytes]:
    """A run of ann's, begun."""
    usual = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    argv = [*PROGRAM, "run", "--owner", "ann", *words]
    return subprocess.Popen(argv, env=house.env, bufsize=0, **{**usual, **streams})


def ran(house: House, *words: str, given: bytes = b"", **streams: object) -> tuple[int, bytes, bytes]:
    """A run of ann's, to its end: status, output, errors."""
    with begun(house, *words, stdin=subprocess.PIPE, **streams) as process:
        out, err = process.communicate(given, timeout=120)
    return process.returncode, out, err


def nothing_left(house: House, *, killed: bool = False) -> None:
    """Ann's own container is all there is, no card is lent, and those that were are proven free.

    Of a runner that was killed the file of its container's lock stays, as of any container.
    """
    assert set(house.instances()) == {"ann"}
    house.settled()
    records = house.records()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert not records.assignments
    assert all(row.proven(boot) for row in records.slots)
    paths = house.lab.paths
    assert not list((paths.state / "guests").glob("run-*"))
    assert not list((paths.run / "locks").glob("_40_run-*" if killed else "*run-*"))


def name_of(house: House) -> str:
    """The one run there is."""
    (name,) = [name for name in house.instances() if name.startswith("run-")]
    return name


@pytest.mark.parametrize(
    ("words", "status"),
    [(["sh", "-c", "exit 7"], 7), (["no-such-program"], 127), (["sh", "-c", "kill -9 $$"], 137)],
    ids=["its own", "none", "killed"],
)
def test_the_status_is_the_programs(house: House, words: list[str], status: int) -> None:
    """And nothing else is said or left."""
    assert ran(house, "--gpus", "1", "--", *words)[0] == status
    nothing_left(house)


def test_bytes_pass_through_and_the_card_is_there(house: House) -> None:
    """Of any value, both ways, errors apart; exactly the granted cards are inside, and the program is root."""
    given = os.urandom(1_000_000)
    status, out, err = ran(house, "--", "tee", "/dev/stderr", given=given)
    assert status == 0
    assert [hashlib.sha256(text).hexdigest() for text in (out, err)] == [hashlib.sha256(given).hexdigest()] * 2
    script = "ls /dev/dri | grep -c render; id -u; pwd; hostname -I | wc -w"
    status, out, err = ran(house, "--gpus", "2", "--memory", "512MiB", "--", "sh", "-c", script)
    assert (status, out.split(), err) == (0, [b"2", b"0", b"/root", b"1"], b"")
    nothing_left(house)


def test_a_checkout_goes_in_and_a_report_comes_back(house: House, tmp_path: Path) -> None:
    """The program starts in it; what it changes stays inside, but for what is fetched."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.txt").write_text("one")
    script = "cat src/a.txt; echo two >src/a.txt; mkdir out; echo three >out/report.txt; exit 4"
    words = ("--copy", str(tmp_path), "--fetch", "out", "--fetch", "none", "--env", "A=b c", "--")
    status, out, err = ran(house, *words, "sh", "-c", f"{script.replace('exit', 'echo $A; exit')}")
    assert (status, out) == (4, b"oneb c\n")
    assert (tmp_path / "src" / "a.txt").read_text() == "one"
    assert (tmp_path / "out" / "report.txt").read_text() == "three\n"
    assert b"none was not handed back" in err
    nothing_left(house)


def test_ctrl_c_is_the_programs(house: House) -> None:
    """It ends by itself with a status of its own; a second one, or a third, leaves nothing either."""
    script = "trap 'echo told; exit 5' INT; echo ready; while :; do sleep 0.1; done"
    with begun(house, "--gpus", "1", "--", "sh", "-c", script) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"told\n"
        assert process.wait(timeout=60) == 5
    nothing_left(house)
    with begun(house, "--gpus", "1", "--", "sh", "-c", "trap '' INT; echo ready; sleep 100") as process:
        assert process.stdout.readline() == b"ready\n"
        for _ in range(3):
            process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    nothing_left(house)


@pytest.mark.parametrize("moment", ["container", "starting", "checking"])
def test_ctrl_c_while_it_is_made(house: House, moment: str) -> None:
    """What was begun is undone before the command ends, though Ctrl-C comes twice."""
    argv = [*PROGRAM, "-v", "run", "--owner", "ann", "--gpus", "1", "--", "true"]
    with subprocess.Popen(argv, env=house.env, stderr=subprocess.PIPE, text=True) as process:
        assert any(moment in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert process.returncode == 130, told
    nothing_left(house)


def test_its_time_is_bounded(house: House) -> None:
    """TERM at its end, and status 124."""
    status, out, _ = ran(house, "--for", "2s", "--", "sh", "-c", "trap 'echo told; exit 0' TERM; sleep 1000 & wait")
    assert (status, out) == (124, b"told\n")
    nothing_left(house)


def test_on_a_terminal_it_is_a_terminal(house: House) -> None:
    """As wide as this one, and its status comes back; Ctrl-C is a key."""
    leader, follower = pty.openpty()
    script = "test -t 0 && test -t 1 && echo is one; read line; exit 6"
    with begun(house, "--", "sh", "-c", script, stdin=follower, stdout=follower, stderr=follower) as process:
        os.close(follower)
        said = b""
        while b"is one" not in said:
            said += os.read(leader, 1000)
        os.write(leader, b"\r")
        assert process.wait(timeout=60) == 6
    os.close(leader)
    nothing_left(house)


def test_without_a_card_it_says_so_at_once(house: House) -> None:
    """Status 7, and nothing left."""
    with begun(house, "--gpus", "4", "--", "sh", "-c", "echo ready; read line", stdin=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        refused = house.refused(7, "run", "--owner", "bob", "--gpus", "1", "--", "true")
        assert (refused.out, refused.error) == ("", "no_capacity")
        house.refused(5, "run", "--owner", "ann", "--gpus", "1", "--", "true")
        process.stdin.close()
        assert process.wait(timeout=60) == 1
    nothing_left(house)


def test_a_card_of_a_run_goes_to_who_comes_first(house: House) -> None:
    """As any holder's: by `release`, and its program is told by TERM; the run goes on without."""
    script = (
        "exec 9<>/dev/dri/$(ls /dev/dri | grep render); trap 'exec 9>&-; echo told; told=yes' TERM; echo ready;"
        ' until [ -n "$told" ]; do sleep 0.1 9>&-; done; exit 3'
    )
    with begun(house, "--gpus", "1", "--", "bash", "-c", script) as process:
        assert process.stdout.readline() == b"ready\n"
        house.ok("release", name_of(house), "--all", "--yes")
        out, _ = process.communicate(timeout=60)
        assert b"told" in out
        assert process.returncode == 3
    assert until(lambda: not house.records().assignments)
    nothing_left(house)


def test_kill_9_and_a_tick(house: House) -> None:
    """While its program runs, and while it is made: one tick takes it away, whatever the program thinks of that."""
    with begun(house, "--gpus", "1", "--", "sh", "-c", "trap '' TERM HUP INT; echo ready; sleep 1000") as process:
        assert process.stdout.readline() == b"ready\n"
        name = name_of(house)
        house.ok("daemon", "run", "--once")
        assert name_of(house) == name, "its runner lives"
        process.kill()
        process.wait(timeout=60)
    assert name_of(house) == name
    shown = {row["name"]: row["kind"] for row in house.ok("ls", "-o", "json").items}
    assert shown == {"ann": "own", name: "run"}
    house.ok("daemon", "run", "--once")
    nothing_left(house, killed=True)
    assert {"abandoned", "deleted"} <= {row["kind"] for row in house.ok("history", "-o", "json").items}
    argv = [*PROGRAM, "-v", "run", "--owner", "ann", "--gpus", "1", "--", "true"]
    with subprocess.Popen(argv, env=house.env, stderr=subprocess.PIPE, text=True) as process:
        assert any("starting" in line for line in process.stderr)
        process.kill()
    house.ok("daemon", "run", "--once")
    nothing_left(house, killed=True)

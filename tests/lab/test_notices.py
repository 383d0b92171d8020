"""People really see what they are told: at terminals, in the file, at the next login; and their own scripts run."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from house import House, house_for, until
from insiders import FILL

from lxgpu.lab import Lab

pytestmark = pytest.mark.lab

SEND = """
import json, sys
from datetime import timedelta
from lxgpu import wiring
from lxgpu.services.notices import notice, send_due
site = wiring.site(lambda text: print(text, file=sys.stderr))
now = site.clock.now()
gpus = [row.slot.gpu for row in site.inventory.read().held_by("ann")]
facts = {"gpus": gpus, "by": "ben", "rule": sys.argv[1], "due_at": now + timedelta(hours=1), "how": "", "back_at": None}
rows = [notice("warned", instance=name, person=name, about=sys.argv[1], facts=facts, now=now) for name in sys.argv[2:]]
with site.write() as tx:
    tx.put(*rows)
begun = site.clock.monotonic()
count = send_due(site)
took = site.clock.monotonic() - begun
told = {row.instance: dict(row.outcome) for row in site.inventory.notices_about(sys.argv[1])}
print(json.dumps({"count": count, "took": took, "told": told}))
"""
HOOK = """
import json, sys
from lxgpu import wiring
from lxgpu.services.hooks import ended, run_hook
site = wiring.site(lambda text: None)
init = site.engine.instance("ann").init_pid
how = {"init": init, "gpus": ["GPU-a", "GPU-b"], "reason": "bob's guarantee", "limit_s": float(sys.argv[2])}
outcome = run_hook(site, "ann", "ann", "before-release", mark=sys.argv[1], **how)
begun = site.clock.monotonic()
while outcome == "started" and not ended(site, init, sys.argv[1]) and site.clock.monotonic() < begun + 20:
    site.clock.sleep(0.05)
print(json.dumps([outcome, site.clock.monotonic() - begun]))
"""


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """Ann holds a card, ben is her neighbour."""
    for house in house_for(lab):
        house.ok("create", "ann", "--gpus", "1", "--disk", "2GiB")
        house.ok("create", "ben")
        yield house


def python(house: House, text: str, *words: str) -> object:
    """A program of lxgpu's own parts, on the lab; what it prints as JSON."""
    argv = [sys.executable, "-c", text, *words]
    done = subprocess.run(argv, env=house.env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def send(house: House, rule: str, *names: str) -> dict[str, dict[str, str]]:
    """A warning to some people, sent; what became of it, by container. It takes little time, whatever is wrong."""
    answer = python(house, SEND, rule, *names)
    assert answer["count"] == len(names)
    assert answer["took"] < 3
    return answer["told"]


@contextmanager
def sits(house: House, *command: str) -> Iterator[Path]:
    """Ann is logged in with a terminal; the file that has what she sees."""
    door = next(row["ssh"] for row in house.run("ls", "-o", "json").items if row["name"] == "ann")
    key = house.lab.paths.state / "keys" / "ann"
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "BatchMode=yes"]
    where = ["-tt", "-i", str(key), "-p", str(door["port"]), f"ann@{door['host']}", *command]
    argv = ["ssh", *(word for option in options for word in ("-o", option)), *where]
    screen = house.lab.paths.state / "screen"
    with screen.open("wb") as out, subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=out, env=os.environ) as ssh:
        try:
            yield screen
        finally:
            ssh.terminate()


def terminals(house: House) -> int:
    """How many terminals there are in ann's container; the first one is its console, where nobody sits."""
    return sum(name.isdigit() for name in house.sh("ann", "ls /dev/pts").split()) - 1


def fill(house: House) -> None:
    """Fill ann's root and home to the last block."""
    house.sh("ann", f"cat >/dev/shm/fill.py <<'X'\n{FILL}X")
    full = house.sh("ann", "python3 /dev/shm/fill.py / /home/ann").split()
    assert [int(word) for word in full] == [errno.EDQUOT] * 2


def tmux(house: House, *words: str) -> str:
    """A command to ann's own tmux."""
    return house.lxc("exec", "ann", "-T", "--", "runuser", "-u", "ann", "--", "tmux", *words)


def test_a_login_and_a_tmux_pane_see_the_warning(house: House) -> None:
    """Whoever sits there reads it at once; the file has it too, for all others, and nobody inside can change that."""
    tmux(house, "new-session", "-d", "-s", "work", "cat")
    try:
        with sits(house, "cat") as screen:
            assert until(lambda: terminals(house) == 2)
            told = send(house, "first rule", "ann", "ben")
            assert until(lambda: b"Why: first rule." in screen.read_bytes()), screen.read_bytes()
        assert "Why: first rule." in tmux(house, "capture-pane", "-p", "-t", "work")
    finally:
        tmux(house, "kill-server")
    assert told["ann"] == {"terminals": "2 told, 0 missed", "notice": "written"}
    assert told["ben"] == {"terminals": "0 told, 0 missed", "notice": "written"}
    for name in ("ann", "ben"):
        assert "Why: first rule." in house.sh(name, "cat /var/lib/lxgpu/notice")
    assert house.sh(
        "ann", "rm -f /var/lib/lxgpu/notice; touch /var/lib/lxgpu/new; ls /var/lib/lxgpu", check=False
    ).count("notice")
    assert "new" not in house.sh("ann", "ls /var/lib/lxgpu").split()


def test_the_login_banner(house: House) -> None:
    """The first thing that is read at a login, once, from the file that lies on the host."""
    with sits(house) as screen:
        assert until(lambda: b"You hold 1 GPU" in screen.read_bytes()), screen.read_bytes()
    text = screen.read_text()
    assert text.count("of 4 GPUs free") == 1
    assert house.sh("ann", "readlink /etc/motd") == "/var/lib/lxgpu/banner"


def test_a_full_disk_inside_does_not_matter(house: House) -> None:
    """Root and home are full to the last block: file and terminals are as always."""
    fill(house)
    try:
        with sits(house, "cat") as screen:
            assert until(lambda: terminals(house) == 1)
            told = send(house, "second rule", "ann")
            assert until(lambda: b"Why: second rule." in screen.read_bytes())
    finally:
        house.sh("ann", "rm -f /fill* /home/ann/fill*")
    assert told["ann"]["notice"] == "written"
    assert "second rule" in house.sh("ann", "head -6 /var/lib/lxgpu/notice")


def test_a_frozen_or_stopped_container_costs_nothing(house: House) -> None:
    """It hears when it thaws; the neighbour hears at once."""
    house.lxc("pause", "ann")
    try:
        told = send(house, "third rule", "ann", "ben")
    finally:
        house.lxc("start", "ann")
    assert {row["notice"] for row in told.values()} == {"written"}
    house.ok("stop", "ben", "--yes")
    assert send(house, "fourth rule", "ben")["ben"] == {"terminals": "it does not run", "notice": "written"}
    house.ok("start", "ben")
    assert "fourth rule" in house.sh("ben", "head -6 /var/lib/lxgpu/notice")


def script(house: House, hook: str, text: str) -> None:
    """Ann leaves a script of her own."""
    house.sh("ann", f"cat >/etc/lxgpu/hooks/{hook} <<'X'\n#!/bin/sh\n{text}\nX\nchmod +x /etc/lxgpu/hooks/{hook}")


def test_the_own_script_runs_as_its_person(house: House) -> None:
    """With the cards and the reason, in the home; when it ends that is seen."""
    script(house, "before-release", 'echo "$(id -un) $(pwd) $LXGPU_GPUS $LXGPU_REASON" >saved; echo said; sleep 0.3')
    outcome, took = python(house, HOOK, "m1", "10")
    assert outcome == "started"
    assert 0.2 < took < 5
    assert house.sh("ann", "cat /home/ann/saved") == "ann /home/ann GPU-a,GPU-b bob's guarantee"
    assert house.sh("ann", "cat /run/lxgpu/hooks/m1") == "0"
    assert until(lambda: "said" in house.sh("ann", "cat /home/ann/.local/state/lxgpu/hooks.log", check=False))


def test_a_script_that_hangs_ends_by_its_limit(house: House) -> None:
    """Also one that ignores TERM, with a child of its own; starting it has held nobody up."""
    script(house, "before-release", "trap '' TERM\nsleep 603 &\nwhile :; do sleep 604; done")
    begun = time.monotonic()
    outcome, took = python(house, HOOK, "m2", "1")
    assert outcome == "started"
    assert took < 6
    assert time.monotonic() - begun < 12
    assert until(lambda: house.sh("ann", "pgrep -f 'sleep 60[34]'", check=False) == "")


def test_no_script_runs_where_it_cannot(house: House) -> None:
    """Frozen, without a bit to run it, with a full disk: said in a word, in no time."""
    script(house, "before-release", "echo ran >/dev/shm/ran")
    house.sh("ann", "chmod -x /etc/lxgpu/hooks/before-release")
    outcome, _ = python(house, HOOK, "m3", "1")
    assert outcome.startswith("not run: it is no program")
    house.sh("ann", "chmod +x /etc/lxgpu/hooks/before-release")
    house.lxc("pause", "ann")
    try:
        outcome, took = python(house, HOOK, "m4", "1")
    finally:
        house.lxc("start", "ann")
    assert outcome == "not run: the container is frozen or stopped"
    assert took < 1
    fill(house)
    try:
        assert python(house, HOOK, "m5", "5")[0] == "started"
        assert until(lambda: house.sh("ann", "cat /dev/shm/ran", check=False) == "ran")
    finally:
        house.sh("ann", "rm -f /fill* /home/ann/fill*")


def test_a_card_that_comes_starts_the_script_that_waits_for_it(house: House) -> None:
    """`attach` is done when the cards are there; the script runs by itself and has them open."""
    house.ok("release", "ann", "--all", "--yes")
    script(house, "after-attach", 'ls /dev/dri >seen; echo "$LXGPU_GPUS" >>seen; exec sleep 605')
    house.ok("attach", "ann", "--gpus", "1")
    card = house.card_of("ann")
    want = [Path(node.path).name for node in card.nodes if "/dri/" in node.path]
    assert until(lambda: house.sh("ann", "cat /home/ann/seen", check=False).split() == [*sorted(want), card.uuid])
    (event,) = [row for row in house.ok("history", "-o", "json").items if row["kind"] == "hook"]
    assert event["detail"] == {"outcome": "started"}

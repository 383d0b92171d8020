"""`gpu` inside real containers, by the people themselves, over the sockets of a real daemon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from house import House, listens, until, with_daemon, without_cards

from lxgpu.lab import Lab

pytestmark = pytest.mark.lab

CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
HOLD = (
    "import glob, os, time\n"
    "for p in glob.glob('/dev/dri/*'):\n"
    " if not os.path.isdir(p): os.open(p, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)\n"
    "open('/home/alice/starts', 'a').write(f'{os.getpid()}\\n')\n"
    "time.sleep(600)\n"
)
"""A job that opens its cards and writes down that it started."""


@pytest.fixture(scope="module")
def house(lab: Lab) -> Iterator[House]:
    """Alice and bob have containers without cards, and the daemon is at work."""
    yield from with_daemon(lab)


@pytest.fixture(autouse=True)
def _clear(house: House) -> Iterator[None]:
    """Each test begins without cards and reservations."""
    yield
    without_cards(house)


def gpu(house: House, name: str, *words: str) -> tuple[int, str, str]:
    """What a person types in their own container: status, output, errors."""
    ran = house.ssh(name, "gpu " + " ".join(words))
    return ran.status, ran.out, ran.err


def told(house: House, name: str) -> dict[str, object]:
    """`gpu -o json`."""
    return dict(json.loads(gpu(house, name, "-o", "json")[1])["items"][0])


def test_people_see_their_own_container(house: House) -> None:
    """Alice as herself, and root inside as well; the first line counts the host's cards."""
    house.ok("attach", "alice", "--gpus", "1")
    for ran in (house.ssh("alice", "gpu"), house.ssh("alice", "sudo -n gpu")):
        assert (ran.status, ran.err) == (0, "")
        first, second, card = ran.out.splitlines()[:3]
        assert first.startswith("3 of 4 GPUs free")
        assert "(times in " in first
        assert second == "alice holds 1 GPU"
        mine = house.card_of("alice").uuid
        names = [line.split()[0] for line in house.ok("gpus").out.splitlines()]
        (name,) = [one for one in names if one.startswith("GPU-") and mine.startswith(one)]
        assert f"({name})" in card, "as the host's table calls it"
    assert told(house, "bob")["gpus"] == []
    assert house.ssh("alice", "stat -c %a /var/lib/lxgpu/api.sock").out.strip() == "666"
    status, out, _ = gpu(house, "alice", "why")
    assert status == 0
    assert "holds it" in out


def test_the_way_from_booking_to_giving_back(house: House) -> None:
    """Reserve, extend, keep and release, typed inside, with a line of history each in the owner's name."""
    status, out, err = gpu(house, "alice", "reserve 1 --for 1h")
    assert (status, err) == (0, "")
    assert until(lambda: [row.state.value for row in house.records().held_by("alice")] == ["active"])
    before = house.records().held_by("alice")[0].until
    assert gpu(house, "alice", "extend 30m")[0] == 0
    after = house.records().held_by("alice")[0].until
    assert before is not None
    assert after is not None
    # The time of a reservation runs from when its cards are usable: its end may move a little once more by then.
    assert 1800 <= (after - before).total_seconds() < 1805
    status, out, err = gpu(house, "alice", "keep 10m --reason 'a long load'")
    assert (status, err) == (0, ""), out
    assert [row.reason for row in house.records().keeps if row.instance == "alice"] == ["a long load"]
    status, out, err = gpu(house, "alice", "release")
    assert (status, err) == (0, "")
    assert out.splitlines()[-1] == "given back"
    assert not house.held("alice")
    newest_first = house.ok("history", "--subject", "alice", "-o", "json").items
    actors = {row["kind"]: row["actor"] for row in reversed(newest_first)}
    for kind in ("reserved", "extended", "kept", "releasing"):
        assert actors[kind] == "alice (inside alice)", kind


def test_nobody_speaks_for_another(house: House) -> None:
    """Bob's booking is not there for alice; her root can neither replace her socket nor see bob's."""
    assert gpu(house, "bob", "reserve 1 --for 1h")[0] == 0
    (booked,) = [row.id for row in house.records().reservations if row.instance == "bob"]
    status, _, err = gpu(house, "alice", "cancel", booked)
    assert status == 3
    assert "error[not_found]" in err
    assert booked in {row.id for row in house.records().reservations}
    for word in ("rm -f", "mv -f -t /tmp", "chmod 600", "touch /var/lib/lxgpu/x; ls"):
        house.sh("alice", f"{word} /var/lib/lxgpu/api.sock", check=False)
    assert gpu(house, "alice")[0] == 0
    assert "bob" not in house.sh("alice", "ls -R /var/lib/lxgpu")
    assert gpu(house, "bob", "cancel", booked)[0] == 0


def test_users_of_the_host_do_not_reach_the_sockets(house: House) -> None:
    """Whoever has an account on the host is in nobody's container by that."""
    path = house.socket_of("alice")
    ran = subprocess.run(
        ["/usr/bin/python3", "-c", CONNECT, str(path)], user=65534, group=65534, extra_groups=[], capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 1
    assert "PermissionError" in ran.stderr


def test_a_restart_of_the_container_keeps_the_way_open(house: House) -> None:
    """The folder is mounted again, and the socket in it is the same."""
    house.ok("restart", "alice", "--yes")
    assert gpu(house, "alice")[0] == 0


def test_a_new_container_gets_a_socket_soon_and_a_deleted_one_loses_it(house: House) -> None:
    """At the daemon's next turn."""
    house.ok("create", "carol")
    try:
        assert until(lambda: listens(house.socket_of("carol")), limit_s=30)
        assert gpu(house, "carol")[0] == 0
    finally:
        house.ok("delete", "carol", "--purge", "--yes")
    path = house.socket_of("carol")
    assert until(lambda: not path.exists(), limit_s=30)


def test_one_container_does_not_keep_the_daemon_from_another(house: House) -> None:
    """Root in alice's container calls as fast as it can, and hangs on; bob is answered all the same."""
    storm = (
        "import socket, threading\n"
        "def calls():\n"
        " while True:\n"
        "  try:\n"
        "   with socket.socket(socket.AF_UNIX) as s:\n"
        "    s.connect('/var/lib/lxgpu/api.sock'); s.settimeout(1)\n"
        "    s.sendall(b'POST /v1/keep HTTP/1.1\\r\\nContent-Length: 99999\\r\\n\\r\\n' + b'x' * 70000); s.recv(10)\n"
        "  except OSError: pass\n"
        "for _ in range(50): threading.Thread(target=calls).start()\n"
    )
    house.sh("alice", f"cat >/root/storm.py <<'X'\n{storm}X\nsystemd-run --quiet --unit=storm python3 /root/storm.py")
    try:
        with ThreadPoolExecutor(2) as pool:
            begun = time.monotonic()
            answers = list(pool.map(lambda _: gpu(house, "bob"), range(4)))
            assert [status for status, _, _ in answers] == [0] * 4
            assert time.monotonic() - begun < 15
        house.ok("attach", "bob", "--gpus", "1")
        assert until(lambda: len(told(house, "bob")["gpus"]) == 1)  # type: ignore[arg-type]
    finally:
        house.sh("alice", "systemctl kill --signal=KILL storm", check=False)
    assert until(lambda: gpu(house, "alice")[0] == 0)


def test_a_command_under_gpu_run_comes_back_with_its_card(house: House) -> None:
    """Bob takes alice's cards for a while: her job ends, waits, and starts again by itself when they return."""
    house.ok("attach", "alice", "--gpus", "4", "--class", "scavenge")
    house.sh("alice", f"rm -f /home/alice/starts; cat >/home/alice/job.py <<'X'\n{HOLD}X")
    start = "cd; nohup gpu run --gpus 4 -- sudo -n python3 job.py >run.log 2>&1 </dev/null &"
    assert house.ssh("alice", start).status == 0
    starts = lambda: house.sh("alice", "cat /home/alice/starts", check=False).split()  # noqa: E731 -- a look
    assert until(lambda: len(starts()) == 1)
    house.ok("reserve", "bob", "--gpus", "4", "--for", "10s", "--wait")
    assert house.held("bob")
    assert until(lambda: "its GPU was taken" in house.sh("alice", "cat /home/alice/run.log"))
    assert len(starts()) == 1
    assert until(lambda: len(starts()) == 2, limit_s=90), house.sh("alice", "cat /home/alice/run.log; gpu")
    assert not house.held("bob")
    house.sh("alice", "kill $(tail -n 1 /home/alice/starts)")
    assert until(lambda: not house.sh("alice", "pgrep -f '[g]pu run' || true"))


def test_gpu_run_asks_for_what_it_waits_for(house: House) -> None:
    """Nobody asked: it says so at once. With a time it asks itself, and the command starts when the card is here."""
    status, _, err = gpu(house, "alice", "run --gpus 1 -- true")
    assert status == 6
    assert "gpu reserve 1 --for 4h asks for them" in err
    assert gpu(house, "alice", "run --gpus 5 --for 1h -- true")[0] in {5, 7}
    status, out, err = gpu(house, "alice", "run --gpus 1 --for 1h -- sh -c 'echo here; exit 3'")
    assert (status, out) == (3, "here\n"), err
    assert house.held("alice")


def test_without_the_daemon_gpu_says_what_still_holds(house: House) -> None:
    """Status 8 as long as it is away; then it is as before."""
    os.kill(house.ok("daemon", "status", "-o", "json").items[0]["pid"], signal.SIGTERM)
    assert until(lambda: house.run("daemon", "status").status == 8)
    status, out, err = gpu(house, "bob")
    assert (status, out.splitlines()[1:]) == (8, ["You hold no GPU."]), "as it was last"
    assert "your cards stay" in err
    assert "may be old" in house.ssh("bob", "bash -lic true 2>/dev/null").out
    process = house.start("daemon", "run")
    try:
        assert until(lambda: listens(house.socket_of("bob")), limit_s=60)
        assert gpu(house, "bob")[0] == 0
        assert "may be old" not in house.ssh("bob", "bash -lic true 2>/dev/null").out
    finally:
        process.terminate()
        process.communicate(timeout=60)

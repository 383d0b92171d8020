"""What goes wrong around the page: the daemon dies or was never there, callers are slow, greedy or many."""

from __future__ import annotations

import contextlib
import hashlib
import re
import stat
import subprocess
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fakes.site import newcomer
from page_client import STREAM_ENDS, ask, dial, session_of, wait_for
from playwright.sync_api import expect

from lxgpu.services import statusfile


def begun_form(page):
    """The lines of a form that is to follow."""
    host = urlsplit(page.url).netloc
    return f"POST /in HTTP/1.1\r\nHost: {host}\r\nOrigin: {page.url}\r\nContent-Length: 9000\r\n\r\n".encode()


@pytest.fixture(scope="module", autouse=True)
def unfinished(page):
    """A request whose lines do not come to their end, and one whose body does not; begun before all else here."""
    with dial(page) as head, dial(page) as body:
        head.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-")
        body.sendall(begun_form(page) + b"x")
        yield head, body


def test_the_daemon_dies_and_the_page_stays(shaken, visit):
    """It says how old its data are, shows them, says that changes wait, and is well again by itself."""
    world, page = shaken
    tab, mine = visit("alice"), visit("alice", "/mine")
    expect(tab.locator("#age")).to_contain_text("Live")
    world.close()
    world.publish(age_s=245)
    expect(tab.locator("#age")).to_contain_text("The daemon has been silent for 4 min")
    expect(tab.locator(".card")).to_have_count(4)
    tab.reload()
    expect(tab.locator(".card")).to_have_count(4)
    expect(tab.locator("#age")).to_contain_text("silent for 4 min")
    mine.locator("#book").get_by_role("button", name="Book").click()
    expect(mine.locator("#said")).to_contain_text("The daemon does not answer")
    mine.reload()
    expect(mine.locator("#mine")).to_contain_text("The daemon does not answer")
    expect(mine.locator("#mine .row")).to_have_count(2)
    status, _, text = ask(page, "GET", "/", Cookie="lxgpu_session=" + "z" * 43)
    assert status == 503, "nobody can say whose that is"
    assert "alice" not in text
    world.open()
    expect(tab.locator("#age")).to_contain_text("Live")
    expect(tab.locator("#age")).not_to_contain_text("silent")
    assert tab.faults == []


def test_nothing_is_there_yet(shaken, visit):
    """No status.json, or one that makes no sense: said, and shown as soon as there is one."""
    world, _ = shaken
    tab = visit("alice")
    world.close()
    (world.site.settings.state_dir / statusfile.FILE).write_text("{half")
    expect(tab.locator("#age")).to_contain_text("Nothing is published yet")
    for path in ("/", "/calendar", "/mine"):
        tab.goto(path)
        expect(tab.locator("#age")).to_contain_text("Nothing is published yet")
    tab.goto("/")
    world.open()
    expect(tab.locator(".card")).to_have_count(4)


def test_a_card_less_host_and_a_pause_are_said(shaken, visit):
    """The empty state, and who paused the daemon and why."""
    world, _ = shaken
    now = world.site.clock.now()

    def change(found):
        paused = statusfile.PauseView("root", "a new driver", now)
        status = replace(found.status, gpus=replace(found.status.gpus, total=0, free=0, next_at=None))
        return replace(found, gpus=(), calendar=None, status=status, daemon=replace(found.daemon, paused=paused))

    world.change = change
    world.turn()
    tab = visit("alice")
    expect(tab.locator("h1")).to_contain_text("There are no GPUs")
    expect(tab.locator("#age")).to_contain_text("Paused by root")
    expect(tab.locator("#age")).to_contain_text("a new driver")
    tab.goto("/calendar")
    expect(tab.locator("#calendar")).to_contain_text("Nothing is held or booked")


def test_what_changes_before_the_stream_is_there_is_told_by_it(shaken):
    """A page names what it was made of in the address of its stream, so that nothing in between is missed."""
    world, page = shaken
    cookie, _ = session_of(page, world)

    def stream() -> str:
        _, _, text = ask(page, "GET", "/", Cookie=cookie)
        return re.search(r'sse-connect="([^"]+)"', text)[1]

    before = stream()
    world.change = lambda found: replace(found, gpus=found.gpus[:1])
    world.turn()
    wait_for(lambda: stream() != before)
    with dial(page) as link:
        link.sendall(f"GET {before} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n".encode())
        told = b""
        while b"event: cards" not in told:
            told += link.recv(4096)
            assert b"still here" not in told, told


def test_the_page_goes_and_says_so(fresh, visit):
    """What stays on a screen says that it may be old."""
    world, page = fresh
    tab = visit("alice", of=fresh)
    expect(tab.locator("#lost")).to_be_hidden()
    cookie, _ = session_of(page, world)
    with dial(page) as link:
        link.sendall(f"GET /live HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n".encode())
        told = link.recv(4096)
        page.stop()
        while part := link.recv(4096):
            told += part
    assert told.endswith(STREAM_ENDS), "pages that are open end by themselves, and hold nothing up"
    expect(tab.locator("#lost")).to_be_visible(timeout=15_000)


def test_slow_callers_block_nobody(page, world):
    """Some send half their lines, some half a body, some read nothing: who asks is answered before they are cut."""
    cookie, _ = session_of(page, world)
    with contextlib.ExitStack() as opened:
        slow = [opened.enter_context(dial(page)) for _ in range(60)]
        for number, link in enumerate(slow):
            if number % 3 == 0:
                link.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-")
            elif number % 3 == 1:
                link.sendall(begun_form(page) + b"link=")
            else:
                request = f"GET /live HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n"
                link.sendall(request.encode())
        assert ask(page, "GET", "/", Cookie=cookie)[0] == 200
        for link in (one for number, one in enumerate(slow) if number % 3 != 2):
            link.settimeout(0)
            with pytest.raises(BlockingIOError):  # it is still open, and nothing was said
                link.recv(1)


def test_large_requests_are_refused(page, world):
    """A body beyond 16 KiB, lines without end, and more fields than any form has."""
    cookie, token = session_of(page, world)
    assert ask(page, "POST", "/in", {"link": "x" * 20_000}, Origin=page.url)[0] == 413
    with dial(page) as link:
        with contextlib.suppress(OSError):  # it may be cut before all is said
            link.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 70_000)
        with contextlib.suppress(ConnectionResetError):
            assert link.recv(200)[:13] in {b"", b"HTTP/1.1 400 "}
    many = {f"f{number}": "1" for number in range(100)}
    assert ask(page, "POST", "/do/keep", many | {"token": token}, Cookie=cookie, Origin=page.url)[0] == 403


def test_so_many_streams_and_no_more(page, world):
    """Tabs that somebody left open do not use up what others need."""
    cookie, _ = session_of(page, world, "bob")
    request = f"GET /live HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n".encode()
    with contextlib.ExitStack() as opened:
        links = [opened.enter_context(dial(page)) for _ in range(9)]
        told = []
        for link in links:
            link.sendall(request)
            told.append(link.recv(200).split(b" ")[1])
        assert sorted(told) == [b"200"] * 8 + [b"429"]
    wait_for(lambda: first_of_stream(page, request) == b"200")


def first_of_stream(page, request):
    """The status with which a stream is answered now."""
    with dial(page) as link:
        link.sendall(request)
        return link.recv(200).split(b" ")[1]


def test_it_can_write_nothing(page, world):
    """Its process has no file open for writing but what it was given, and where it works all stays as it was."""
    cookie, _ = session_of(page, world)
    with world.still:  # the daemon writes nothing meanwhile
        before = tree(world.folder)
        for path in ("/", "/calendar", "/in", "/join", "/alive", "/nowhere", "/part/cards"):
            assert ask(page, "GET", path, Cookie=cookie)[0] in {200, 404}
        assert ask(page, "POST", "/in", {}, Origin="http://elsewhere.example")[0] == 403
        assert tree(world.folder) == before
    opened = []
    for number in Path(f"/proc/{page.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed by now
            info = Path(f"/proc/{page.process.pid}/fdinfo/{number.name}").read_text()
            target = str(number.readlink())
            writes = int(re.search(r"flags:\s+([0-7]+)", info)[1], 8) & 3
            opened += [target] if writes and target.startswith("/") and not target.startswith("/dev/") else []
    assert set(opened) <= {str(page.log)}


def test_a_port_that_is_taken_is_an_error_in_words(page):
    """What, why, and what helps; status 8."""
    port = str(urlsplit(page.url).port)
    argv = [*page.process.args[:-1], port]
    done = subprocess.run(argv, capture_output=True, text=True, cwd="/", env=page.env, timeout=30, check=False)
    assert done.returncode == 8
    assert "error[unavailable]" in done.stderr
    assert "--port" in done.stderr


def tree(folder):
    """Everything below a folder: sizes, times of change, and what is in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(info.st_mode) else ""
        found[path] = (info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, content)
    return found


def test_links_that_lead_elsewhere_are_said_when_it_starts(page):
    """The page of these tests listens on any port, and its address is the usual one."""
    assert "links lead to http://127.0.0.1:8470, and the page listens on port" in page.log.read_text()


def test_a_newcomer_makes_a_key_in_the_browser(visit, world, tmp_path):
    """The private half is saved in OpenSSH's form and fits the public one; it is not sent."""
    tab = visit(None, "/alive")
    sent = []
    tab.on("request", lambda request: sent.append(request.post_data or ""))
    tab.goto(world.invitation("alice"))
    expect(tab.locator("#bring")).to_contain_text("alice")
    assert "#" not in tab.url
    with tab.expect_download() as coming:
        tab.get_by_role("button", name="Make a key and save it").click()
    expect(tab.get_by_role("heading", name="Your key is in place")).to_be_visible()
    key = tmp_path / coming.value.suggested_filename
    coming.value.save_as(key)
    key.chmod(0o600)
    assert key.name == "lxgpu_alice"
    subprocess.run(["ssh-keygen", "-y", "-f", str(key)], capture_output=True, check=True)
    print_of = subprocess.run(["ssh-keygen", "-l", "-f", str(key)], capture_output=True, text=True, check=True).stdout
    assert print_of.split()[1] in {one.fingerprint for one in world.site.inventory.read().keys if one.person == "alice"}
    secret = "".join(key.read_text().splitlines()[1:-1])[60:100]
    assert not any(secret in text for text in sent)
    text = tab.locator("#ways").inner_text()
    assert "ssh -i ~/.ssh/lxgpu_alice -p 2200" in text
    assert "User alice" in text
    assert tab.faults == []


def test_a_newcomer_pastes_a_key(visit, world):
    """One that is none is told, and the invitation still stands; it takes one key and no more."""
    way = world.invitation("bob")
    tab = visit(None, "/alive")
    tab.goto(way)
    field = tab.get_by_label("Public key, one line")
    field.fill("ssh-rsa nonsense")
    tab.get_by_role("button", name="Use this key").click()
    expect(tab.locator("#join-trouble")).to_be_visible()
    _, line = world.site.login.new_key("bob@laptop")
    field.fill(line)
    tab.get_by_role("button", name="Use this key").click()
    expect(tab.get_by_role("heading", name="Your key is in place")).to_be_visible()
    again = visit(None, "/alive")
    again.goto(way)
    expect(again.get_by_role("heading", name="Your key is in place")).to_be_visible()
    expect(again.locator("#ways")).to_contain_text("User bob")
    assert again.locator("#bring").is_hidden()


def test_a_newcomer_without_a_container_reads_at_the_same_address_later_how_to_log_in(visit, world):
    """At first that it is to be made; when it is there, what to type, with the file that the browser saved."""
    way = world.invitation("erin")
    tab = visit(None, "/alive")
    tab.goto(way)
    with tab.expect_download():
        tab.get_by_role("button", name="Make a key and save it").click()
    expect(tab.locator("#later")).to_be_visible()  # the text alone is there before the key has arrived
    expect(tab.locator("#later")).to_contain_text("open it again")
    assert tab.locator("#ways").is_hidden()
    with world.still:
        newcomer(world.site, "erin")
    again = visit(None, "/alive")
    again.goto(way)
    expect(again.locator("#ways")).to_contain_text("ssh -i ~/.ssh/lxgpu_erin -p 2200")
    assert again.locator("#later").is_hidden()
    assert tab.faults + again.faults == []


def test_what_the_daemon_says_is_shown_and_not_run(visit, world):
    """Notes of others are text, whatever is in them."""
    cookie_stealer = "<img src=x onerror=alert(1)>{{ 7*7 }}"
    tab = visit("carol", "/mine")
    tab.locator("#book").get_by_label("At a time").check()
    at = world.site.clock.now().replace(minute=0, second=0)
    tab.locator("#book").get_by_label("Begins").fill(f"{at + timedelta(hours=50):%Y-%m-%dT%H:%M}")
    tab.locator("#book").get_by_label("What for").fill(cookie_stealer)
    tab.locator("#book").get_by_role("button", name="Book").click()
    expect(tab.locator("#mine")).to_contain_text(cookie_stealer)
    other = visit("bob")
    expect(other.locator("#cards")).to_contain_text(cookie_stealer)
    assert other.locator("#cards img").count() == 0
    assert tab.faults + other.faults == []


def test_what_does_not_come_to_its_end_is_ended(unfinished):
    """Ten seconds for a request's lines, ten for its body."""
    head, body = unfinished
    assert b" 408 " in body.recv(100)
    assert head.recv(100) == b""

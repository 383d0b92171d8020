"""What a login promises, asked of paramiko against a real SSH server on this machine, and of the fake."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from fakes.login import FakeLogin
from fakes.system import FakeClock
from ssh_door import Door

from lxgpu.drivers.login import ParamikoLogin
from lxgpu.errors import LxgpuError
from lxgpu.ports import Ran


class RealWorld:
    """paramiko and a server."""

    def __init__(self):
        self.login = ParamikoLogin()
        self.door = Door([])
        self.port = self.door.port

    def lets_in(self, line):
        """The key may enter."""
        self.door.lines.append(line)

    def closed_port(self):
        """A port that nobody listens on."""
        return free_port()

    def close(self):
        """End the server."""
        self.door.close()


class FakeWorld:
    """The fake and its door."""

    def __init__(self):
        self.lines = []
        self.port = 2201
        self.login = FakeLogin(FakeClock(), lambda _host, port, _user: self.lines if port == self.port else None)
        self.login.answers["whoami"] = Ran(0, "whoami\nwarned\n")

    def lets_in(self, line):
        """The key may enter."""
        self.lines.append(line)

    def closed_port(self):
        """A port that nobody listens on."""
        return 2202

    def close(self):
        """Nothing to end."""


@pytest.fixture(params=[RealWorld, FakeWorld])
def world(request):
    """A login and a server of each kind."""
    made = request.param()
    yield made
    made.close()


def check(login, port, private, *, command="whoami", timeout_s=3.0, **more):
    """A check with what seldom matters filled in."""
    return login.check(
        host="127.0.0.1",
        port=port,
        user="alice",
        private_key=private,
        timeout_s=timeout_s,
        command=command,
        **more,
    )


def refused(login, port, private, **how):
    """The error of a check that must fail."""
    with pytest.raises(LxgpuError) as raised:
        check(login, port, private, **how)
    return raised.value


def free_port():
    """A port that nobody listens on at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_fresh_pair_logs_in(world):
    """The private key made with a public line enters where that line is; the command's end comes back."""
    private, public = world.login.new_key("lxgpu check")
    assert public.startswith("ssh-ed25519 AAAA")
    assert public.endswith(" lxgpu check")
    world.lets_in(public)
    assert check(world.login, world.port, private) == Ran(status=0, output="whoami\nwarned\n")


def test_each_pair_is_another(world):
    """No key is given out twice."""
    assert world.login.new_key("a")[0] != world.login.new_key("a")[0]


def test_another_key_is_refused(world):
    """Somebody else's key does not enter, and the error says that it was the key."""
    private, _ = world.login.new_key("mine")
    world.lets_in(world.login.new_key("not mine")[1])
    error = refused(world.login, world.port, private)
    assert error.code == "unavailable"
    assert "refused" in error.brief


def test_nobody_listens(world):
    """A closed port is told as such, at the end of the time given."""
    private, _ = world.login.new_key("mine")
    error = refused(world.login, world.closed_port(), private, timeout_s=0.2)
    assert error.code == "unavailable"
    assert "refused" in error.why[0]


def test_what_is_no_key_is_told(world):
    """A text that is no private key is a `bad_key`."""
    assert refused(world.login, world.port, "ssh-ed25519 AAAA alice").code == "bad_key"


# ---- the real one alone: servers that do not behave


@pytest.fixture
def real():
    """paramiko, and a server that takes the key of this test."""
    made = RealWorld()
    made.private, public = made.login.new_key("test")
    made.lets_in(public)
    yield made
    made.close()


@contextlib.contextmanager
def answering(behave):
    """A server of another kind: `behave` gets each connection."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                KEPT.append(connection)
                behave(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(2)


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_any_type_of_key_in_openssh_form_enters(kind, real):
    """paramiko/paramiko#1430: the form says OPENSSH for each type; the type is found out."""
    private, public = openssh_pair(kind)
    real.lets_in(public)
    assert check(real.login, real.port, private).status == 0


def test_a_key_with_a_passphrase_is_told(real):
    """It cannot be used, and the error says what is needed."""
    error = refused(real.login, real.port, openssh_pair("ed25519", passphrase=b"secret")[0])
    assert error.code == "bad_key"
    assert "passphrase" in error.fix


def test_only_the_given_key_is_tried(real):
    """No agent, no keys of the account that runs the test."""
    check(real.login, real.port, real.private)
    assert len({entry.split()[1] for entry in real.door.tried}) == 1


def test_the_status_of_the_command_comes_back(real):
    """A failing command is an answer, no error."""
    assert check(real.login, real.port, real.private, command="fail").status == 3


def test_a_command_that_never_ends_ends_with_the_time(real):
    """The time given is for all of it."""
    started = time.monotonic()
    error = refused(real.login, real.port, real.private, command="hang", timeout_s=1.0)
    assert error.code == "unavailable"
    assert time.monotonic() - started < 10


def test_another_host_is_noticed(real):
    """With the host key given, a login that lands in the wrong container fails, and no key is shown to it."""
    assert check(real.login, real.port, real.private, host_key=f"{real.door.host_line()} root@alice").status == 0
    real.door.tried.clear()
    other = paramiko.ECDSAKey.generate()
    error = refused(real.login, real.port, real.private, host_key=f"{other.get_name()} {other.get_base64()}")
    assert "another host" in error.why[0]
    assert not real.door.tried


def test_a_server_that_takes_passwords_only_is_told(real):
    """The cause is the server's setting, not the key."""
    door = Door([], ways="password")
    try:
        assert "password" in refused(real.login, door.port, real.private).why[0]
    finally:
        door.close()


def test_a_server_that_comes_up_is_waited_for(real):
    """A container's sshd is there a moment later: the login follows at once."""
    opens = time.monotonic() + 0.4

    def forward(connection):
        """As a proxy device does: accept, and close while nobody answers inside."""
        if time.monotonic() < opens:
            connection.close()
            return
        inner = socket.create_connection(("127.0.0.1", real.port))
        KEPT.append(inner)
        for one, two in ((connection, inner), (inner, connection)):
            threading.Thread(target=pump, args=(one, two), daemon=True).start()

    with answering(forward) as port:
        assert check(real.login, port, real.private).status == 0
    assert time.monotonic() >= opens


def test_a_door_that_closes_on_a_key_is_no_refusal_of_it(real):
    """A system that still starts ends the connection when it is shown the right key: the key is not blamed."""
    real.door.ends = True
    error = refused(real.login, real.port, real.private)
    assert "refused" not in error.brief
    assert "ended the connection" in error.why[0]


@pytest.mark.parametrize(
    ("behave", "words"),
    [
        (lambda connection: connection.close(), "closed at once"),
        (lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "no SSH server"),
        (lambda _: None, "nothing was said"),
        (lambda connection: connection.sendall(b"SSH-2.0-half\r\n") or connection.close(), "connection failed"),
    ],
    ids=["closes", "other-protocol", "silent", "gives-up"],
)
def test_what_is_wrong_there_is_said(behave, words, real, capfd):
    """Each way of not being an SSH server has its words, in the time given; nothing is written to stderr."""
    started = time.monotonic()
    with answering(behave) as port:
        error = refused(real.login, port, real.private, timeout_s=0.6)
    assert error.code == "unavailable"
    assert words in error.why[0]
    assert time.monotonic() - started < 10
    time.sleep(0.05)
    assert capfd.readouterr() == ("", "")


KEPT = []


@pytest.fixture(autouse=True)
def _let_go():
    yield
    while KEPT:
        KEPT.pop().close()


def pump(source, target):
    """Carry bytes one way."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def openssh_pair(kind, *, passphrase=None):
    """A pair of a type, the private half in OpenSSH form."""
    made = {
        "ed25519": ed25519.Ed25519PrivateKey.generate,
        "ecdsa": lambda: ec.generate_private_key(ec.SECP256R1()),
        "rsa": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
    }[kind]()
    lock = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    private = made.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, lock).decode()
    return private, made.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()

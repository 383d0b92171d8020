"""What runs inside a `PlainInstance`: waits for one line, then holds a node in the way that its arguments say.

Arguments: the way, the node's path. It says `ok` (or what went wrong) and stays.
"""

import ctypes
import os
import signal
import socket
import sys
import threading
import time

KEPT = []


def say(words):
    """One line to the test."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def main(way, path):
    """Wait until the cgroups are set, hold, say so, stay."""
    sys.stdin.readline()
    try:
        WAYS[way](path)
    except OSError as error:
        say(error.strerror)
        return
    say("ok")
    time.sleep(1000)


def hold_open(path):
    """An open descriptor."""
    return os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)


def hold_stubbornly(path):
    """An open descriptor, and TERM is not obeyed."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hold_open(path)


def hold_mapped(path):
    """A mapping alone: its descriptor is closed."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    descriptor = hold_open(path)
    read, private = 1, 2
    if libc.mmap(None, 4096, read, private, descriptor, 0) in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "cannot be mapped")
    os.close(descriptor)


def hold_parked(path):
    """A descriptor in flight: sent to oneself and never received."""
    descriptor = hold_open(path)
    here, there = socket.socketpair()
    socket.send_fds(here, [b"x"], [descriptor])
    os.close(descriptor)
    KEPT.extend((here, there))


def hold_in_a_backlog(path):
    """A descriptor in flight in a connection that nobody has accepted, its other end closed."""
    listening, connection = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    listening.bind(f"\0lxgpu-test-{os.getpid()}")
    listening.listen()
    connection.connect(listening.getsockname())
    descriptor = hold_open(path)
    socket.send_fds(connection, [b"x"], [descriptor])
    os.close(descriptor)
    connection.close()
    KEPT.append(listening)


def hand_round(path):
    """Four processes hand the descriptor round as fast as they can."""
    pairs = [socket.socketpair() for _ in range(4)]
    descriptor = hold_open(path)
    mine = next((number for number in range(1, 4) if os.fork() == 0), 0)
    receiver, sender = pairs[mine][0], pairs[(mine + 1) % 4][1]
    if mine == 0:
        socket.send_fds(sender, [b"x"], [descriptor])
        say("ok")
    os.close(descriptor)
    while True:
        _, descriptors, _, _ = socket.recv_fds(receiver, 1, 1)
        socket.send_fds(sender, [b"x"], descriptors)
        for one in descriptors:
            os.close(one)


def hold_registered(path):
    """A file registered with io_uring; the descriptor is closed."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = hold_open(path)
    ring = libc.syscall(425, 4, ctypes.create_string_buffer(120))
    if ring < 0 or libc.syscall(427, ring, 2, (ctypes.c_int * 1)(descriptor), 1) < 0:
        raise OSError(ctypes.get_errno(), "no io_uring here")
    os.close(descriptor)


def hold_in_a_thread(path):
    """A thread with descriptors of its own holds the node; the first thread does not."""
    libc = ctypes.CDLL(None, use_errno=True)
    ready = threading.Event()
    clone_files = 0x400

    def body():
        libc.unshare(clone_files)
        hold_open(path)
        ready.set()
        time.sleep(1000)

    threading.Thread(target=body, daemon=True).start()
    ready.wait()


def hold_behind_a_dead_thread(path):
    """The first thread ends, another one goes on with the open node."""
    libc = ctypes.CDLL(None)
    hold_open(path)

    def body():
        time.sleep(1000)

    threading.Thread(target=body, daemon=True).start()
    say("ok")
    libc.syscall(60 if os.uname().machine == "x86_64" else 93, 0)


def hold_nothing(path):
    """Just runs."""


def come_back(path):
    """Whenever the child that holds the node ends, another one opens it."""
    first = True
    while True:
        child = os.fork()
        if child == 0:
            hold_open(path)
            if first:
                say(os.getpid())
            time.sleep(1000)
        os.waitpid(child, 0)
        first = False
        time.sleep(0.01)


WAYS = {
    "open": hold_open,
    "stubborn": hold_stubbornly,
    "mapped": hold_mapped,
    "parked": hold_parked,
    "backlog": hold_in_a_backlog,
    "ring": hand_round,
    "registered": hold_registered,
    "thread": hold_in_a_thread,
    "dead-leader": hold_behind_a_dead_thread,
    "nothing": hold_nothing,
    "respawn": come_back,
}

if __name__ == "__main__":
    main(*sys.argv[1:])

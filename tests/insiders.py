"""Programs that users run inside to keep a card, or to be in the way: given to Python or sh in a container."""

from __future__ import annotations

# A process that holds nodes and is on nobody's list; what it does on TERM, and where it puts the descriptors.
HOLD = r"""
import json, os, signal, socket, subprocess, sys, time
how = json.loads(sys.argv[1])
say = open("/root/" + how["name"] + ".log", "a", buffering=1)
def term(*_):
    say.write(f"term {time.time()}\n")
    if how["on_term"] == "save":
        time.sleep(1)
        say.write("saved\n")
        sys.exit(0)
    if how["on_term"] == "reboot":
        subprocess.run(["systemctl", "reboot", "--force", "--force"])
signal.signal(signal.SIGTERM, term)
held = [os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK) for path in how["nodes"]]
if how["park"]:
    if how["park"] == "self":
        here, there = socket.socketpair()
    else:
        here = socket.socket(socket.AF_UNIX)
        here.connect(how["park"])
    socket.send_fds(here, [b"x"], held)
    for one in held:
        os.close(one)
say.write("holds\n")
while True:
    time.sleep(60)
"""
# Another container's process that is sent descriptors: it takes them, or leaves them where they wait.
TAKE = r"""
import os, socket, sys, time
door = socket.socket(socket.AF_UNIX)
door.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
door.listen()
end, _ = door.accept()
held = socket.recv_fds(end, 1, 8) if sys.argv[2] == "take" else end
open("/root/take.log", "a").write("holds\n")
time.sleep(600)
"""
# As many processes as the limit lets, and again when one ends; gentle to the machine.
BOMB = r"""
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
    except OSError:
        time.sleep(0.1)
"""
# Fills the file system that a folder lies in, to the last block.
FILL = r"""
import os, sys
for folder in sys.argv[1:]:
    n = 0
    for size in (1 << 28, 1 << 24, 1 << 20, 1 << 14):
        try:
            while True:
                with open(f"{folder}/fill{n}", "wb") as file:
                    n += 1
                    os.posix_fallocate(file.fileno(), 0, size)
        except OSError:
            pass
    try:
        with open(f"{folder}/fill", "wb") as file:
            while True:
                file.write(b"x" * 65536)
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        print(error.errno)
"""
# A service that opens the card from the first second after each boot.
AGAIN = """[Unit]
DefaultDependencies=no
[Service]
ExecStart=/bin/sh -c 'while sleep 0.05; do exec 3</dev/dri/NODE; done'
Restart=always
[Install]
WantedBy=sysinit.target
"""

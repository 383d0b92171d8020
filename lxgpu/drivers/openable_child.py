"""The child of `openable.Trials`: for each message it tries the nodes of a directory in a container's cgroups.

Started as a file with -I -S: it imports only what is built in, and is ready in 10 ms. A message brings the number of
nodes, and as descriptors the directory, in which they are named 0, 1, 2, …, and the process lists of the cgroups. A
process of its own joins those for each trial, for nobody may come back out of a container's cgroups and go on as if
nothing had been. The answer has a letter for each node: `+` may be opened, `-` may not; or it begins with `!` and says
what went wrong. It ends with its parent.
"""

import _socket
import posix
import sys

_MOST = 16
_INT = 4


def main() -> None:
    """A trial for each message, until the parent has gone."""
    wire = _socket.socket(fileno=0)
    while True:
        message, extra, _, _ = wire.recvmsg(64, _socket.CMSG_SPACE(_MOST * _INT))
        if not message:
            return
        handles = _handles(extra)
        child = posix.fork()
        if not child:
            try:
                answer = _trial(handles[0], handles[1:], int(message))
            except OSError as error:
                answer = f"!{error}"
            wire.send(answer.encode())
            posix._exit(0)  # noqa: SLF001 -- the documented way out of a forked child
        for handle in handles:
            posix.close(handle)
        posix.waitpid(child, 0)


def _trial(room: int, joins: list[int], count: int) -> str:
    for join in joins:
        posix.write(join, b"0")
    return "".join("-" if _denied(str(at), room) else "+" for at in range(count))


def _denied(name: str, room: int) -> bool:
    """Whether the rule forbids both reading and writing."""
    return not posix.access(name, posix.R_OK, dir_fd=room) and not posix.access(name, posix.W_OK, dir_fd=room)


def _handles(extra: list[tuple[int, int, bytes]]) -> list[int]:
    data = b"".join(bytes(part) for _, _, part in extra)
    return [int.from_bytes(data[at : at + _INT], sys.byteorder) for at in range(0, len(data) - _INT + 1, _INT)]


main()

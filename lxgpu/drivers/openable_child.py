"""The child of `openable.openable`: joins cgroups, tries the nodes of its directory, answers in one line.

Started as a file with -I -S, so it may import nothing but what is built in. Arguments: the descriptors
of the cgroups' process lists, and how many nodes there are; they are named 0, 1, 2, … in the working
directory. The answer has a letter for each: `+` may be opened, `-` may not.
"""

import posix
import sys


def main() -> None:
    """Join, try, answer."""
    joins, count = sys.argv[1], int(sys.argv[2])
    for descriptor in joins.split(","):
        posix.write(int(descriptor), b"0")
    sys.stdout.write("".join("-" if _denied(str(at)) else "+" for at in range(count)) + "\n")


def _denied(name: str) -> bool:
    """Whether the rule forbids both reading and writing."""
    return not posix.access(name, posix.R_OK) and not posix.access(name, posix.W_OK)


main()

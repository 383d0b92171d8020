"""Four system calls that Python does not offer, by number, for x86_64 and aarch64.

`openat2` opens below a foreign root without being led out of it, `statx` tells what a descriptor is
without asking the file system behind it (a FUSE or NFS server of a user could let a plain `stat` wait
for ever), `kcmp` tells whether two threads share their descriptors, `bpf` sets the device rule.
Sources: openat2(2), statx(2), kcmp(2), bpf(2) and the kernel's include/uapi.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

RESOLVE_NO_XDEV = 0x01
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
RESOLVE_IN_ROOT = 0x10

_BY_MACHINE = {
    "x86_64": {"bpf": 321, "kcmp": 312, "statx": 332, "openat2": 437},
    "aarch64": {"bpf": 280, "kcmp": 272, "statx": 291, "openat2": 437},
}
_NUMBERS = _BY_MACHINE.get(os.uname().machine, {})
_AT_SYMLINK_NOFOLLOW = 0x100
_DONT_ASK = 0x4000 | 0x800  # AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT
_STATX_TYPE_MODE = 0x3
_Statx = ctypes.c_char * 256
# From the start of struct statx: the mode, then the device's own number, then the number of its file system.
_STATX = struct.Struct("<28xH98xIIII")
_KCMP_FILES = 2
_BPF_ATTR_BYTES = 120

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _number(name: str) -> int:
    if name not in _NUMBERS:
        raise OSError(errno.ENOSYS, f"lxgpu knows no number of {name} on {os.uname().machine}")
    return _NUMBERS[name]


def _raise(path: str = "") -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), path) if path else OSError(code, os.strerror(code))


def openat2(dirfd: int, path: str, flags: int, resolve: int) -> int:
    """Open `path` below `dirfd` under the `RESOLVE_*` restrictions; returns a descriptor (close-on-exec)."""
    how = ctypes.create_string_buffer(struct.pack("<QQQ", flags | os.O_CLOEXEC, 0, resolve), 24)
    found: int = _libc.syscall(_number("openat2"), dirfd, os.fsencode(path), how, ctypes.c_size_t(24))
    if found < 0:
        raise _raise(path)
    return found


def kind_and_device(dirfd: int, name: str, *, follow: bool) -> tuple[int, int, int, int, int]:
    """What `name` in the directory `dirfd` is, from the kernel's memory only.

    Returns (mode, device major, device minor, file system's major, file system's minor). With `follow`, a
    link is followed; /proc's links to open files lead to the file itself.
    """
    buffer = _Statx()
    flags = _DONT_ASK if follow else _DONT_ASK | _AT_SYMLINK_NOFOLLOW
    if _libc.syscall(_number("statx"), dirfd, os.fsencode(name), flags, _STATX_TYPE_MODE, buffer) < 0:
        raise _raise(name)
    return _STATX.unpack_from(buffer)


def same_files(first: int, second: int) -> bool:
    """Whether two threads (by host id) share one table of descriptors; False also when the kernel will not say."""
    return bool(_libc.syscall(_number("kcmp"), first, second, _KCMP_FILES, 0, 0) == 0)


def bpf(command: int, attributes: bytes) -> tuple[int, bytes]:
    """The bpf system call: its result (a descriptor or 0) and the attributes as the kernel left them."""
    buffer = ctypes.create_string_buffer(attributes, max(len(attributes), _BPF_ATTR_BYTES))
    found: int = _libc.syscall(_number("bpf"), command, buffer, len(buffer))
    if found < 0:
        raise _raise()
    return found, buffer.raw

"""Four system calls that Python does not offer, by number, for x86_64 and aarch64.

`openat2` opens below a foreign root without being led out of it, `statx` tells what a descriptor is
without asking the file system behind it (a FUSE or NFS server of a user could let a plain `stat` wait
for ever), `kcmp` tells whether two threads share their descriptors, `bpf` sets the device rule.
Sources: openat2(2), statx(2), kcmp(2), bpf(2) and the kernel's include/uapi.
"""

from __future__ import annotations

import ctypes
import os
import struct

RESOLVE_NO_XDEV = 0x01
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
RESOLVE_IN_ROOT = 0x10

_NUMBERS = {
    "x86_64": {"bpf": 321, "kcmp": 312, "statx": 332, "openat2": 437},
    "aarch64": {"bpf": 280, "kcmp": 272, "statx": 291, "openat2": 437},
}
_AT_EMPTY_PATH = 0x1000
_AT_NO_AUTOMOUNT = 0x800
_AT_SYMLINK_NOFOLLOW = 0x100
_AT_STATX_DONT_SYNC = 0x4000
_STATX_TYPE_MODE = 0x3
_STATX_BYTES = 256
_MODE_AT = 28
_RDEV_AT = 128
_KCMP_FILES = 2
_BPF_ATTR_BYTES = 120

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _number(name: str) -> int:
    machine = os.uname().machine
    if machine not in _NUMBERS:
        raise OSError(38, f"lxgpu knows no number of {name} on {machine}")
    return _NUMBERS[machine][name]


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


def kind_and_device(dirfd: int, name: str, *, follow: bool) -> tuple[int, int, int]:
    """What `name` in the directory `dirfd` is: (mode, device major, device minor), from the kernel's memory only.

    With `follow`, a link is followed; /proc's links to open files lead to the file itself.
    """
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    flags = _AT_STATX_DONT_SYNC | _AT_NO_AUTOMOUNT | (0 if follow else _AT_SYMLINK_NOFOLLOW)
    if not name:
        flags |= _AT_EMPTY_PATH
    if _libc.syscall(_number("statx"), dirfd, os.fsencode(name), flags, _STATX_TYPE_MODE, buffer) < 0:
        raise _raise(name)
    (mode,) = struct.unpack_from("<H", buffer, _MODE_AT)
    major, minor = struct.unpack_from("<II", buffer, _RDEV_AT)
    return mode, major, minor


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

"""The device rule under cgroup version 2: a small BPF program on the instance's cgroup.

All programs attached to a cgroup and to those above it must agree, so ours can only take away, and
lives beside LXD's. It goes with the cgroup when the instance stops. Sources: bpf(2), the kernel's
include/uapi/linux/bpf.h (BPF_PROG_TYPE_CGROUP_DEVICE) and kernel/bpf/cgroup.c.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lxgpu.drivers.syscalls import bpf

NAME = b"lxgpu"
"""How our programs are told from LXD's."""

_LOAD, _ATTACH, _DETACH, _FD_BY_ID, _INFO, _QUERY = 5, 8, 9, 13, 15, 16
_CGROUP_DEVICE_PROGRAM = 15
_CGROUP_DEVICE = 6
_ALLOW_MULTI = 2
_EFFECTIVE = 1
_IS_CHARACTER_DEVICE = 2
_MOST_PROGRAMS = 64
_INFO_BYTES = 232
_INFO_NAME_AT = 64


def attach(
    directory: Path, denied: Iterable[tuple[int, int]], *, replace_nameless: bool = False, beside: bool = False
) -> None:
    """Let nobody in the cgroup open the devices (major, minor); everything else is as it was before.

    The new rule is in force before the old one goes, so there is no moment without any. With
    `replace_nameless` a program without a name goes too: liblxc's own, made from `lxc.cgroup2.devices` lines. `beside`
    the one there the new one takes more away; the next one that is not replaces both.
    """
    replaced = {NAME, b""} if replace_nameless else {NAME}
    with _opened(directory) as cgroup:
        former = [] if beside else [number for number in _attached(cgroup) if _name(number) in replaced]
        numbers = sorted(set(denied))
        if numbers:
            program = _load(_instructions(numbers))
            try:
                bpf(_ATTACH, struct.pack("<IIII", cgroup, program, _CGROUP_DEVICE, _ALLOW_MULTI))
            finally:
                os.close(program)
        for number in former:
            with _program(number) as program:
                bpf(_DETACH, struct.pack("<IIII", cgroup, program, _CGROUP_DEVICE, 0))


def attached(directory: Path) -> list[int]:
    """The ids of our programs on a cgroup: one at most, but for an attach that was cut short."""
    with _opened(directory) as cgroup:
        return [number for number in _attached(cgroup) if _name(number) == NAME]


def decides(directory: Path) -> bool:
    """Whether any program, ours or another's, on the cgroup or above it, has a say in what may be opened there."""
    with _opened(directory) as cgroup:
        request = struct.pack("<IIIIQI", cgroup, _CGROUP_DEVICE, _EFFECTIVE, 0, 0, 0)
        try:
            _, answer = bpf(_QUERY, request)
        except OSError:  # the kernel will not say
            return True
    (count,) = struct.unpack_from("<I", answer, 24)
    return bool(count)


def _instructions(denied: list[tuple[int, int]]) -> bytes:
    """The program: answer 0 (refused) for a character device of the list, 1 for anything else.

    Its context is {u32 kind and access, u32 major, u32 minor}; r1 points to it, r0 is the answer.
    """

    def step(code: int, target: int = 0, source: int = 0, skip: int = 0, value: int = 0) -> bytes:
        return struct.pack("<BBhi", code, target | source << 4, skip, value)

    load_word, keep_bits, jump_if, jump_unless, set_value, leave = 0x61, 0x57, 0x15, 0x55, 0xB7, 0x95
    allow = [step(set_value, 0, value=1), step(leave)]
    refuse = [step(set_value, 0, value=0), step(leave)]
    out = [step(load_word, 2, 1, skip=0), step(load_word, 3, 1, skip=4), step(load_word, 4, 1, skip=8)]
    out += [step(keep_bits, 2, value=0xFFFF), step(jump_if, 2, skip=2, value=_IS_CHARACTER_DEVICE), *allow]
    for major, minor in denied:
        out += [step(jump_unless, 3, skip=3, value=major), step(jump_unless, 4, skip=2, value=minor), *refuse]
    return b"".join(out + allow)


def _load(code: bytes) -> int:
    instructions = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(b"GPL")
    # kind, count, instructions, licence; then log (3 fields), kernel version, flags, name, interface, attach type
    fields = (_CGROUP_DEVICE_PROGRAM, len(code) // 8, ctypes.addressof(instructions), ctypes.addressof(licence))
    return bpf(_LOAD, struct.pack("<IIQQIIQII16sII", *fields, 0, 0, 0, 0, 0, NAME, 0, _CGROUP_DEVICE))[0]


def _attached(cgroup: int) -> list[int]:
    """The ids of all device programs attached to exactly this cgroup."""
    numbers = (ctypes.c_uint32 * _MOST_PROGRAMS)()
    request = struct.pack("<IIIIQI", cgroup, _CGROUP_DEVICE, 0, 0, ctypes.addressof(numbers), _MOST_PROGRAMS)
    _, answer = bpf(_QUERY, request)
    (count,) = struct.unpack_from("<I", answer, 24)
    return list(numbers[:count])


def _name(number: int) -> bytes | None:
    """The name of a program; None when it has gone meanwhile."""
    info = ctypes.create_string_buffer(_INFO_BYTES)
    try:
        with _program(number) as program:
            bpf(_INFO, struct.pack("<IIQ", program, _INFO_BYTES, ctypes.addressof(info)))
    except FileNotFoundError:
        return None
    return info.raw[_INFO_NAME_AT : _INFO_NAME_AT + 16].rstrip(b"\0")


@contextmanager
def _program(number: int) -> Iterator[int]:
    handle = bpf(_FD_BY_ID, struct.pack("<III", number, 0, 0))[0]
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)

"""Every error a person can meet: what happened, why, how to fix it, and the exit status.

An error has a code from `CATALOGUE`; the code decides the exit status and has a longer
explanation, printed by `lxgpu explain CODE`. Raise `LxgpuError` with the code and the words
that fit the case; nothing below the command line catches it but to translate or to undo.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum


class Exit(IntEnum):
    """Exit statuses, as promised in docs/operations.md."""

    OK = 0
    FAULT = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_ALLOWED = 4
    REFUSED = 5
    CONFLICT = 6
    NO_CAPACITY = 7
    UNAVAILABLE = 8
    TIMED_OUT = 9
    FINDINGS = 10
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a file or a batch.

    `where` is `file:line:column: path`, or empty; `excerpt` is the offending line with a caret
    line below it, or empty.
    """

    text: str
    where: str = ""
    excerpt: str = ""


class LxgpuError(Exception):
    """An error that a person can act on.

    `brief` says what, `why` the reasons (one or several lines), `fix` the next step to take.
    `problems` lists everything wrong at once when the input was a file or a batch.
    """

    def __init__(
        self,
        code: str,
        brief: str,
        *,
        why: str | Sequence[str] = (),
        fix: str = "",
        problems: Sequence[Problem] = (),
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(brief)
        self.code = code
        self.brief = brief
        self.why: tuple[str, ...] = (why,) if isinstance(why, str) else tuple(why)
        self.fix = fix
        self.problems = tuple(problems)
        self.details: dict[str, object] = dict(details or {})

    @property
    def status(self) -> Exit:
        """The exit status that belongs to the code."""
        return CATALOGUE[self.code].status


def cannot_write(path: object, error: OSError) -> LxgpuError:
    """The error for a file of ours that was not written: `inventory_storage`, or `not_allowed` for who is not root."""
    why = error.strerror or str(error)
    if isinstance(error, PermissionError) and os.geteuid() != 0:
        return LxgpuError("not_allowed", f"{path} cannot be written", why=why, fix="run it with sudo")
    fix = (
        "see that its folder is one, that it may be written to, and that its disk has room; lxgpu doctor looks for more"
    )
    return LxgpuError("inventory_storage", f"{path} cannot be written", why=why, fix=fix)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a code means: its exit status and the text of `lxgpu explain CODE`."""

    status: Exit
    text: str


# One entry a code, in the order of the exit statuses; a test holds that each is used and documented.
CATALOGUE: dict[str, Entry] = {
    "internal": Entry(Exit.FAULT, "A fault in lxgpu itself. Please report it with the output of --debug."),
    "inventory_damaged": Entry(
        Exit.FAULT,
        "The inventory's file is not sound. `lxgpu inventory restore BACKUP` brings back a copy; without one,"
        " `lxgpu inventory rebuild` reads everything back from LXD. The damaged file is kept beside it.",
    ),
    "usage": Entry(Exit.USAGE, "The words of the command do not fit. `lxgpu COMMAND --help` lists them."),
    "bad_file": Entry(Exit.USAGE, "A file that lxgpu reads has mistakes. All of them are listed with line and column."),
    "bad_name": Entry(
        Exit.USAGE,
        "A name has 1 to 63 characters: a lower-case letter first, then lower-case letters, digits and"
        " hyphens, and no hyphen at the end. It is a host name and a Unix account at once.",
    ),
    "bad_time": Entry(
        Exit.USAGE,
        "A duration is a number and its unit, as 30s, 90m, 4h, 1d12h. A time is one of: now, +4h, 14:00 (today),"
        " tomorrow 09:00, mon 18:00 (the next one), 2027-05-01 09:00, or RFC 3339 such as 2027-05-01T09:00:00Z."
        " Without an offset the lab's zone counts. A time that the clock change skips or repeats is not guessed.",
    ),
    "bad_size": Entry(
        Exit.USAGE,
        "A size is a number and its unit: 512MiB and 64GiB count in powers of 1024, 2GB in powers of 1000."
        " A share is a number from 0 to 100 and a percent sign.",
    ),
    "bad_key": Entry(
        Exit.USAGE,
        "The text is no OpenSSH public key. A public key is one line such as `ssh-ed25519 AAAA… comment`;"
        " a private key must never be given away.",
    ),
    "no_plots": Entry(
        Exit.USAGE,
        "A page with plots (`--html`) is drawn by matplotlib, which lxgpu does without otherwise: it is the optional"
        " part `plots` of the package.",
    ),
    "confirm": Entry(
        Exit.USAGE,
        "The command destroys or takes something, and there is no terminal to ask on. Give --yes if you mean it.",
    ),
    "not_found": Entry(
        Exit.NOT_FOUND, "There is nothing of that name. `lxgpu ls` and `lxgpu gpus` list what there is."
    ),
    "no_image": Entry(
        Exit.NOT_FOUND,
        "There is no such image. `lxgpu image ls` lists those there are; `lxgpu image build` makes the base image.",
    ),
    "no_such_gpu": Entry(
        Exit.NOT_FOUND,
        "The host shows no card of that UUID or PCI address. `lxgpu gpus` lists them.",
    ),
    "no_such_model": Entry(
        Exit.NOT_FOUND,
        "No card of this host has a model like that. `lxgpu gpus` lists the models.",
    ),
    "unknown_class": Entry(
        Exit.NOT_FOUND,
        "The policy file has no priority class of that name. `lxgpu policy show` lists them.",
    ),
    "missing": Entry(
        Exit.NOT_FOUND,
        "The inventory knows the container, LXD does not: somebody removed it without lxgpu. Its home may be left.",
    ),
    "nothing_to_rebuild": Entry(
        Exit.NOT_FOUND, "The LXD server carries no inventory: lxgpu has never been used with it."
    ),
    "not_allowed": Entry(
        Exit.NOT_ALLOWED,
        "Only an admin named in the policy, or root, may do this. On the page: the link, the invitation or the"
        " session is used up, over, or may not do it; `gpu web` in a container prints a new link.",
    ),
    "not_ours": Entry(
        Exit.NOT_ALLOWED,
        "The instance was not made by lxgpu, or is a copy of one that was. `lxgpu adopt NAME` takes it over.",
    ),
    "class_not_allowed": Entry(
        Exit.NOT_ALLOWED,
        "The person may not use this priority class: it is above their own, and its `who` does not name them.",
    ),
    "over_limit": Entry(Exit.REFUSED, "The policy file allows this person less than was asked for."),
    "over_class_limit": Entry(
        Exit.REFUSED,
        "One person may hold only so many cards in this class (`max_gpus` of the class).",
    ),
    "over_group_limit": Entry(
        Exit.REFUSED,
        "The group holds as many cards as the policy file allows its members together (`total.limit`).",
    ),
    "person_ended": Entry(Exit.REFUSED, "The person's `until` in the policy file is over."),
    "booking_too_large": Entry(Exit.REFUSED, "One booking may have only so many cards (`reservations.max_gpus`)."),
    "booking_too_long": Entry(
        Exit.REFUSED,
        "One booking may last only so long (`reservations.longest`). An open lease (`lxgpu attach`) is no booking.",
    ),
    "beyond_horizon": Entry(
        Exit.REFUSED,
        "Bookings must end within `reservations.horizon` from now. Book it later, when that time is nearer.",
    ),
    "in_the_past": Entry(Exit.REFUSED, "The time asked for has begun or is over; nothing can be booked in the past."),
    "over_open_hours": Entry(
        Exit.REFUSED,
        "One person may have only so many GPU-hours booked ahead or waiting in the queue at a time"
        " (`reservations.open_gpu_hours`).",
    ),
    "one_part": Entry(Exit.REFUSED, "A container has one part of a card at a time; `lxgpu release` gives it back."),
    "over_open": Entry(
        Exit.REFUSED,
        "One person may have 20 requests in the queue and 100 bookings ahead. `lxgpu reservations` lists them;"
        " `lxgpu reservation cancel ID` gives one up.",
    ),
    "over_gpu_hours": Entry(
        Exit.REFUSED,
        "The person's GPU-hours (`gpu_hours`, as 200/30d) would be used up within the window. What was used longer ago"
        " than that does not count any more.",
    ),
    "guaranteed_to_others": Entry(
        Exit.REFUSED,
        "The cards are guaranteed to others. What those leave unused is open to all within `reservations.free_window`"
        " from now, not further ahead, since a booking is not taken back for them.",
    ),
    "too_few_gpus": Entry(Exit.REFUSED, "The host has fewer cards of that model than were asked for."),
    "over_keep": Entry(
        Exit.REFUSED,
        "Idle cards may be kept by hand for a bounded time only (`idle.keep` of the policy), so that those who wait"
        " get their turn. A booking has no such bound: `lxgpu reserve`.",
    ),
    "busy": Entry(Exit.REFUSED, "The card is in use. Name it with --gpu, or give --yes, and what holds it is ended."),
    "pool_full": Entry(
        Exit.REFUSED,
        "The storage pool is almost full. New containers would stop the others from writing.",
    ),
    "quota_unenforced": Entry(
        Exit.REFUSED,
        "The storage pool cannot hold a disk limit, and the settings want one that holds.",
    ),
    "exists": Entry(Exit.CONFLICT, "Something of that name exists already."),
    "conflict": Entry(Exit.CONFLICT, "Somebody else changed the same thing at the same time. Look again, then repeat."),
    "not_ready": Entry(Exit.CONFLICT, "The container is not in use: it is suspended, being made or being deleted."),
    "throw_away": Entry(
        Exit.CONFLICT,
        "The container lives for one run (`lxgpu run`): it has no login and no home, and nothing of it is kept.",
    ),
    "disk_in_use": Entry(
        Exit.CONFLICT,
        "The disk limit asked for is less than what is used. A limit below use could not be raised again, so it is not"
        " set at all.",
    ),
    "not_held": Entry(Exit.CONFLICT, "The container does not hold this card."),
    "daemon_runs": Entry(
        Exit.CONFLICT,
        "A daemon is at work on this host already, and one is all there may be. `lxgpu daemon status` says which.",
    ),
    "superseded": Entry(
        Exit.CONFLICT,
        "A newer inventory has taken over this LXD server; this one must not change anything any more.",
    ),
    "other_inventory": Entry(
        Exit.CONFLICT,
        "The LXD server belongs to another inventory: the state directory is probably the wrong one.",
    ),
    "inventory_lost": Entry(
        Exit.CONFLICT,
        "The inventory's file was removed or replaced while a command used it. The command stopped before it wrote"
        " anything. Removed by mistake: `lxgpu inventory rebuild` reads everything back from LXD.",
    ),
    "inventory_newer": Entry(
        Exit.CONFLICT,
        "A newer lxgpu has written the inventory, and an older one could destroy what it does not know. Install the"
        " newer one, or restore the copy that was made before the change (PATH.before-NNN).",
    ),
    "no_capacity": Entry(
        Exit.NO_CAPACITY,
        "Not enough free cards at this moment. `lxgpu gpus` shows who holds them and until when.",
    ),
    "not_free": Entry(
        Exit.NO_CAPACITY,
        "The card asked for is held, closed, in quarantine, or could not be proven free.",
    ),
    "booked": Entry(
        Exit.NO_CAPACITY,
        "The cards are free, but others have booked them from now on. `lxgpu reservations --calendar` shows it.",
    ),
    "cancelled": Entry(Exit.CONFLICT, "What was waited for was cancelled meanwhile. `lxgpu why ID` says by whom."),
    "no_room": Entry(
        Exit.NO_CAPACITY,
        "Others have booked the cards for that time. `lxgpu reservations --calendar` shows when they are free.",
    ),
    "no_numbers": Entry(
        Exit.NO_CAPACITY,
        "The range of ports, addresses or account ids is used up. The settings make it wider.",
    ),
    "unavailable": Entry(Exit.UNAVAILABLE, "LXD or NVML does not answer. `lxgpu doctor` looks for the cause."),
    "engine": Entry(Exit.UNAVAILABLE, "LXD answered with an error that lxgpu does not know how to mend."),
    "too_often": Entry(
        Exit.UNAVAILABLE,
        "Several changes asked for in this container wait for their turn, since only so many go through at a time.",
    ),
    "attach_failed": Entry(
        Exit.UNAVAILABLE,
        "The card did not arrive in the container as it should. What was done has been undone.",
    ),
    "limits_failed": Entry(
        Exit.UNAVAILABLE,
        "LXD took the limits, and the kernel's cgroups do not hold them. What was done has been undone.",
    ),
    "login_failed": Entry(
        Exit.UNAVAILABLE,
        "The container runs, and the login through its published port did not work. What was done has been undone.",
    ),
    "bootstrap_failed": Entry(
        Exit.UNAVAILABLE,
        "The script that makes account and keys inside the container failed. What was done has been undone.",
    ),
    "service_failed": Entry(
        Exit.UNAVAILABLE,
        "A program that the profile runs inside the container does not answer. What was done has been undone.",
    ),
    "image_unusable": Entry(
        Exit.UNAVAILABLE,
        "The image could not be made ready: it needs systemd and sshd, or a way to install them.",
    ),
    "lab_step": Entry(
        Exit.UNAVAILABLE,
        "A step of making or taking down the lab failed. What was done stays; `lxgpu lab up` goes on from there,"
        " `lxgpu lab down` takes it away.",
    ),
    "inventory_storage": Entry(
        Exit.UNAVAILABLE,
        "The inventory cannot be read or written: a full disk, a read-only or a network file system, a folder that is"
        " missing. What was being written is undone; nothing is half done.",
    ),
    "outcome_unknown": Entry(
        Exit.TIMED_OUT,
        "The answer did not come in time, so it is not known whether the change was made. lxgpu finds out and"
        " goes on from there at the next command.",
    ),
    "quarantined": Entry(
        Exit.TIMED_OUT,
        "The card could not be proven free in time, so it goes to nobody. `lxgpu gpu show` says who holds it.",
    ),
    "findings": Entry(Exit.FINDINGS, "The check found something; each finding has its remedy."),
    "lab_remains": Entry(
        Exit.FINDINGS,
        "`lxgpu lab down` could not take everything away; the list says what is left. End what uses it, then repeat.",
    ),
    "partly_failed": Entry(Exit.FINDINGS, "Some rows of the batch failed; the others were done."),
    "interrupted": Entry(Exit.INTERRUPTED, "Interrupted. What was begun is finished or undone by the next command."),
}

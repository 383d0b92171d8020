"""What an error says where whoever raised it did not: a reason and a next step for each code.

An error is three things: what happened, why, and what to do. Words that fit the case are better than these, and are
said where they are known; no error goes out without any.
"""

from __future__ import annotations

from lxgpu.errors import CATALOGUE, LxgpuError

_WAIT = "repeat it in a moment; lxgpu history says who did what"
_REPORT = "run it again with --debug and report what it says"
_LOOK = "lxgpu doctor looks for the cause"
_POLICY = "lxgpu policy show NAME lists what a person may have; an admin can change the policy file"

WHY = {
    "usage": "nothing was done, since the words of the command do not fit together",
    "not_found": "nothing of that name is there, or it is gone by now",
    "conflict": "it is in another state than the command needs",
    "internal": "this is a fault in lxgpu",
}
"""Reasons that say more than the meaning of the code."""

FIX = {
    "internal": _REPORT,
    "inventory_damaged": "lxgpu inventory restore FILE brings a backup back; lxgpu inventory rebuild does without one",
    "usage": "look the words up in the help page of the command",
    "bad_file": "mend the file, then repeat",
    "bad_name": "choose another name, as alice or alice-2",
    "bad_time": "write a duration as 30m or 4h, a time as 18:00 or 'tomorrow 09:00'",
    "bad_size": "write a size as 512MiB or 64GiB",
    "bad_key": "give the .pub file of a key pair",
    "no_plots": "leave --html out, or install the part `plots` of the package",
    "confirm": "add --yes if you mean it",
    "not_found": "lxgpu ls lists the containers; lxgpu gpus lists the cards",
    "no_image": "lxgpu image ls lists those there are",
    "no_such_gpu": "lxgpu gpus lists the cards",
    "no_such_model": "lxgpu gpus lists the models",
    "unknown_class": "lxgpu policy show lists the classes",
    "missing": "lxgpu doctor says what is left of it",
    "nothing_to_rebuild": "lxgpu config show says which LXD server is used",
    "not_allowed": "run it with sudo, or ask an admin",
    "not_ours": "lxgpu adopt NAME takes it over",
    "class_not_allowed": f"leave --class out for the person's own class; {_POLICY}",
    "over_limit": "ask for less, give some back (lxgpu release), or have the policy file changed",
    "over_class_limit": f"ask for less, or in another class; {_POLICY}",
    "over_group_limit": "wait until the group gives some back, or have the policy file changed",
    "person_ended": "ask for a time before that day, or have the policy file changed",
    "booking_too_large": "ask for fewer cards, or have the policy file changed",
    "booking_too_long": "ask for a shorter time; lxgpu attach NAME lends without a booking",
    "beyond_horizon": "book it later, when that time is nearer",
    "in_the_past": "give a time that is still to come, with its day: --at 'tomorrow 09:00'",
    "over_open_hours": "lxgpu reservations lists what is booked; lxgpu reservation cancel ID gives one up",
    "one_part": "lxgpu release NAME gives back the one that they have",
    "over_open": "lxgpu reservations lists them; lxgpu reservation cancel ID gives one up",
    "over_gpu_hours": "ask for less, or wait until what was used is longer ago; lxgpu report shows the hours",
    "guaranteed_to_others": "ask for fewer cards, or for a time that is nearer",
    "too_few_gpus": "ask for fewer cards; lxgpu gpus lists the cards",
    "over_keep": "keep them for less time, or book them: lxgpu reserve",
    "busy": "name the card with --gpu, or give --yes to end its processes",
    "pool_full": "make room in the storage pool; lxgpu status shows how full it is",
    "quota_unenforced": "use a pool that holds disk limits, or let the settings do without",
    "exists": "lxgpu ls --all lists what there is; create --if-not-exists leaves it as it is",
    "conflict": _WAIT,
    "not_ready": "lxgpu ls --all shows its state",
    "throw_away": "lxgpu ls -o wide shows the kind of each container",
    "disk_in_use": "ask for more, or let its person remove files",
    "not_held": "lxgpu show NAME lists the cards that it holds",
    "daemon_runs": "lxgpu daemon status says which",
    "superseded": "end this process; lxgpu daemon run begins with the inventory of today",
    "other_inventory": "lxgpu config show --origin says where the state directory comes from",
    "inventory_lost": "repeat it; lxgpu inventory rebuild reads it back from LXD, if it was removed by mistake",
    "inventory_newer": "install the newer lxgpu, or restore the copy from before the change",
    "no_capacity": "lxgpu gpus shows who holds them until when; repeat then, or have one given back (lxgpu release)",
    "not_free": "lxgpu gpus --free lists the free ones",
    "booked": "lxgpu reservations --calendar shows when they are free; lxgpu reserve asks for a time",
    "cancelled": "lxgpu history says by whom",
    "no_room": "lxgpu reservations --calendar shows when they are free",
    "no_numbers": "make the range wider in config.yaml; lxgpu config show lists it",
    "unavailable": _LOOK,
    "engine": f"{_LOOK}; LXD's own log says more",
    "too_often": "repeat it in a moment",
    "attach_failed": f"repeat it; {_LOOK}",
    "limits_failed": _LOOK,
    "login_failed": f"repeat it; {_LOOK}",
    "bootstrap_failed": f"repeat it; {_LOOK}",
    "service_failed": "lxgpu image build --profile P makes what it starts from; choose another profile meanwhile",
    "image_unusable": "lxgpu image build makes one that can be used",
    "lab_step": "lxgpu lab up goes on from there; lxgpu lab down takes it away",
    "inventory_storage": f"see that its folder may be written to and its disk has room; {_LOOK}",
    "outcome_unknown": "run any command: it finds out and goes on from there; lxgpu status shows what became of it",
    "quarantined": "lxgpu gpu show GPU says who holds it",
    "findings": "each finding has its remedy",
    "lab_remains": "end what uses it; lxgpu lab down takes the rest away",
    "partly_failed": "mend the rows that failed, then repeat with --if-not-exists",
    "interrupted": "run any command: it finishes or undoes what was begun",
}
"""The next step by code, in words that also help inside a container (see `guestfix`)."""


def reason_of(code: str) -> str:
    """Why an error of that code comes about at all: the first sentence of its meaning."""
    text = WHY.get(code) or CATALOGUE[code].text.split(". ")[0].rstrip(".")
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]  # as reasons are written; LXD stays LXD


def completed(error: LxgpuError) -> LxgpuError:
    """The error, with a reason and a next step where it has none; problems of a file are its reasons."""
    if not error.why and not error.problems:
        error.why = (reason_of(error.code),)
    error.fix = error.fix or FIX[error.code]
    return error

"""The JSON that INTERFACE promises to scripts: exactly these keys, an item of each noun."""

from __future__ import annotations

from collections.abc import Mapping

SHAPES: dict[str, object] = {
    "instances": {
        "name": "",
        "owner": "",
        "host": "",
        "state": "",
        "kind": "",
        "class": "",
        "gpus": [
            {
                "uuid": "",
                "pci": "",
                "model": "",
                "slot": "",
                "state": "",
                "since": "",
                "lease_until": "",
                "reservation": "",
            }
        ],
        "ssh": {"host": "", "port": 0, "user": ""},
        "limits": {"cpu": 0, "memory_bytes": 0, "disk_bytes": 0, "processes": 0},
        "disk_used_bytes": 0,
        "idle": {"verdict": "", "since": ""},
        "claims": [{"gpus": 0, "model": "", "since": "", "dies": ""}],
        "created_at": "",
        "expires": "",
    },
    "gpus": {
        "uuid": "",
        "index": 0,
        "pci": "",
        "model": "",
        "host": "",
        "memory_bytes": 0,
        "mode": "",
        "health": "",
        "slots": [
            {
                "slot": "",
                "holder": "",
                "state": "",
                "lease_until": "",
                "reservation": "",
                "memory_used_bytes": 0,
                "utilization_percent": 0,
            }
        ],
        "utilization_percent": 0,
        "memory_used_bytes": 0,
        "processes": [{"pid": 0, "instance": "", "user": "", "memory_bytes": 0}],
        "verdict": "",
        "sampled_at": "",
    },
    "reservations": {
        "id": "",
        "instance": "",
        "kind": "",
        "gpus": 0,
        "model": "",
        "host": "",
        "start": "",
        "end": "",
        "state": "",
        "class": "",
        "slots": [""],
        "displaced": [{"instance": "", "uuid": "", "reason": "", "owed": False}],
        "note": "",
        "position": 0,
        "estimate": "",
        "foreseen": False,
    },
    "plans": {
        "decision": "",
        "reasons": [{"code": "", "text": ""}],
        "steps": [{"do": "", "instance": "", "gpu": "", "at": "", "why": ""}],
        "victims": [""],
        "when": "",
    },
    "effects": {"code": "", "subject": "", "text": "", "gpus": 0, "at": ""},
    "keeps": {"id": "", "instance": "", "person": "", "since": "", "until": "", "reason": ""},
    "events": {"at": "", "actor": "", "kind": "", "subject": "", "rule": "", "detail": {}},
    "hosts": {
        "name": "",
        "state": "",
        "way": "",
        "gpus": 0,
        "faulty": 0,
        "driver": "",
        "cards": [
            {
                "uuid": "",
                "index": 0,
                "pci": "",
                "fault": "",
                "utilization_percent": 0,
                "memory_used_bytes": 0,
                "memory_total_bytes": 0,
            }
        ],
        "error": "",
        "fix": "",
        "drained_from": "",
        "drain_note": "",
    },
    "processes": {
        "gpu": "",
        "index": 0,
        "pid": 0,
        "instance": "",
        "user": "",
        "kind": "",
        "memory_bytes": 0,
        "command": "",
    },
    "report": {
        "by": "",
        "name": "",
        "held_gpu_hours": 0.0,
        "used_gpu_hours": 0.0,
        "idle_gpu_hours": 0.0,
        "unknown_gpu_hours": 0.0,
        "bookings": 0,
        "bookings_honoured": 0,
        "bookings_missed": 0,
        "bookings_failed": 0,
        "waits": 0,
        "wait_median_s": 0,
        "wait_longest_s": 0,
        "waiting": 0,
        "waited_gpu_hours": 0.0,
        "refused": 0,
        "refused_full": 0,
        "refused_gpu_hours": 0.0,
        "borrowed_gpu_hours": 0.0,
        "period_hours": 0.0,
        "wasted": [{"instance": "", "idle_gpu_hours": 0.0}],
    },
    "forecasts": {
        "what": "",
        "within_s": 0,
        "asked": 0,
        "came": 0,
        "forecast": 0.0,
        "same": 0.0,
        "usual": 0.0,
        "proven": False,
    },
    "simulations": {
        "rule": "",
        "policy": "",
        "jobs": 0,
        "never_started": 0,
        "never_started_why": {},
        "left_out": 0,
        "utilization": 0.0,
        "effective_use": 0.0,
        "mean_wait_s": 0.0,
        "median_wait_s": 0.0,
        "p95_wait_s": 0.0,
        "wait_by_group": {},
        "mean_jct_s": 0.0,
        "preemptions": 0,
        "lost_gpu_s": 0.0,
        "deadline_misses": 0,
        "false_reclaims": 0,
        "idle_reclaimed_gpu_s": 0.0,
        "borrowed_gpu_s": 0.0,
        "holder_slowdown": 0.0,
        "wall_s": 0.0,
        "events": 0,
    },
    "reasons": {"subject": "", "code": "", "text": "", "at": "", "actor": "", "rule": ""},
    "status": {
        "host": "",
        "at": "",
        "driver": "",
        "gpus": {"total": 0, "free": 0, "over": 0, "next_at": ""},
        "pool": {"name": "", "driver": "", "size_bytes": 0, "used_bytes": 0, "used_percent": 0.0},
        "containers": {},
        "operations": [{"kind": "", "instance": "", "step": "", "since": "", "actor": "", "undoing": False}],
        "problems": [{"subject": "", "text": "", "fix": ""}],
    },
    "daemon": {
        "running": True,
        "pid": 0,
        "started_at": "",
        "ticked_at": "",
        "next_at": "",
        "troubles": [""],
        "paused": {"who": "", "why": "", "when": ""},
        "policy": {"ok": True, "error": ""},
        "figures": {
            "ticks": 0,
            "ticks_s": 0.0,
            "last_s": 0.0,
            "within": [0],
            "failures": {},
            "events": {},
            "yield_last_s": 0.0,
            "yields_s": 0.0,
        },
    },
    "keys": {"person": "", "fingerprint": "", "type": "", "comment": "", "options": "", "added_at": ""},
    "invitations": {"person": "", "state": "", "expires": ""},
    "error": {
        "code": "",
        "message": "",
        "why": [""],
        "fix": "",
        "problems": [{"where": "", "text": "", "excerpt": ""}],
        "details": {},
    },
}
"""An example of each; what stands in it is the kind of value, `{}` any object. Every value may be null."""


def faults(noun: str, found: object) -> list[str]:
    """What of an item is not as promised: keys too many or too few, values of another kind."""
    return _faults(SHAPES[noun], found, noun)


def _faults(wanted: object, found: object, path: str) -> list[str]:
    if found is None or wanted == {}:
        return [] if found is None or isinstance(found, dict) else [f"{path} is no object: {found!r}"]
    if isinstance(wanted, Mapping) and isinstance(found, dict):
        lacking = [f"{path}.{key} is missing" for key in wanted if key not in found]
        more = [f"{path}.{key} is not promised" for key in found if key not in wanted]
        inner = [text for key in wanted if key in found for text in _faults(wanted[key], found[key], f"{path}.{key}")]
        return lacking + more + inner
    if isinstance(wanted, list) and isinstance(found, list):
        return [text for at, item in enumerate(found) for text in _faults(wanted[0], item, f"{path}[{at}]")]
    kinds = (int, float) if isinstance(wanted, float) else (type(wanted),)
    return [] if type(found) in kinds else [f"{path} is {found!r}"]

"""The person's own scripts at the moments when cards come and go: /etc/lxgpu/hooks/{before-release,after-attach}.

They are started in the background inside the container and end by their own time limit there, so no step ever waits
for what a person wrote: a taking looks again for some seconds whether `before-release` has ended, and goes on in any
case. Nothing runs in a container that is frozen or stopped, and what fails is a line of history, never an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from lxgpu.errors import LxgpuError
from lxgpu.model.instance import Power
from lxgpu.services.recipes import Wait, Work
from lxgpu.services.site import Site
from lxgpu.services.wanted import home_path

BEFORE_RELEASE, AFTER_ATTACH = "before-release", "after-attach"
FOLDER = "/etc/lxgpu/hooks"
LIMIT_S = 30.0
"""How long a script may run; then it gets TERM, and KILL two seconds later."""
WAIT_S = 10.0
"""How long a taking waits for `before-release` to end."""
START_S = 2.0
"""How long starting one may take; a container that starts nothing is not waited for."""
STARTED = "started"
NONE = ""

# Runs as the person: what the script prints, and how it ended, goes where they can read it. It takes all of it, also
# where it cannot be written, so that no script ends for want of a reader.
KEEP = """umask 077
log=$HOME/.local/state/lxgpu/hooks.log
mkdir -p "${log%/*}"
if [ "$(wc -c 2>/dev/null <"$log" || echo 0)" -gt 65536 ]; then tail -c 32768 "$log" >"$log.1" && mv "$log.1" "$log"; fi
echo "=== $(date "+%F %T %z") $LXGPU_HOOK: $LXGPU_REASON" >>"$log"
head -c 65536 >>"$log"
cat
"""
# Runs as root inside: $1 the script, $2 whose, $3 its seconds, $4 the file that tells when it ended, $5 the home.
_START = f"""set -eu
[ -f "$1" ] && [ -x "$1" ] || {{ echo "it is no program that may be run (chmod +x)"; exit 3; }}
uid=$(id -u "$2") gid=$(id -g "$2")
mkdir -p "${{4%/*}}"
rm -f "$4"
keep=$(cat <<'KEEP'
{KEEP}KEEP
)
export HOME="$5" USER="$2" LOGNAME="$2" PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin
setsid sh -c '
  cd "$HOME" 2>/dev/null || cd /
  as="setpriv --reuid $6 --regid $7 --init-groups --"
  {{ timeout -k 2 "$3" $as "$1" </dev/null 2>&1; code=$?
    echo "$code" >"$4"; echo "ended with status $code"; }} | $as sh -c "$8" >/dev/null 2>&1
' sh "$@" "$uid" "$gid" "$keep" </dev/null >/dev/null 2>&1 &
"""
LOG = ".local/state/lxgpu/hooks.log"
"""Below the person's home: what their scripts printed last."""


def run_hook(
    site: Site,
    name: str,
    user: str,
    hook: str,
    *,
    init: int | None,
    gpus: Iterable[str],
    reason: str,
    mark: str,
    limit_s: float = LIMIT_S,
) -> str:
    """Start a script of a person inside their container, if there is one; `started`, why not, or nothing.

    `init` is the container's, None when it does not run. The script finds LXGPU_GPUS (UUIDs with commas between them)
    and LXGPU_REASON in its environment. `mark` names the file below /run/lxgpu that holds its status once it has ended.
    """
    try:
        if init is None or site.probe.read_file(init, f"{FOLDER}/{hook}", most=1) is None:
            return NONE
        seen = site.engine.instance(name)
        if seen is None or seen.power is not Power.RUNNING:
            return "not run: the container is frozen or stopped"
        words = [f"{FOLDER}/{hook}", user, f"{limit_s:g}", _place(mark), home_path(user)]
        environment = {"LXGPU_HOOK": hook, "LXGPU_GPUS": ",".join(gpus), "LXGPU_REASON": reason}
        ran = site.engine.run(name, ["sh", "-c", _START, "sh", *words], environment=environment, timeout_s=START_S)
    except LxgpuError as error:
        return f"not run: {error.brief}"
    last = ran.output.strip().rpartition("\n")[2][:200]
    return STARTED if ran.status == 0 else f"not run: {last or f'status {ran.status}'}"


def ended(site: Site, init: int | None, mark: str) -> bool:
    """Whether a script that was started has ended; also when nobody can tell any more."""
    try:
        return init is None or bool(site.probe.read_file(init, _place(mark), most=1))
    except LxgpuError:
        return True


def before_release(work: Work, init: int | None) -> Wait | None:
    """Let the person save their work before cards are taken that they did not give back themselves.

    Started once, and waited for until it ends, `WAIT_S` at most.
    """
    if not work.text("rule"):
        return None
    until = work.text("hook_until")
    if not until:
        until = (work.site.clock.now() + timedelta(seconds=WAIT_S)).isoformat()
        work.note(hook_until=until)  # first, so that no crash starts it twice
        if _run(work, BEFORE_RELEASE, init, gpus=_gpus(work.texts("slots")), reason=work.text("rule")) != STARTED:
            work.note(hook_until=work.site.clock.now().isoformat())
            return None
    end = datetime.fromisoformat(until)
    if work.site.clock.now() >= end or ended(work.site, init, work.operation.id):
        return None
    return Wait(end)


def after_attach(work: Work, init: int | None, gpus: Iterable[str]) -> None:
    """Let the person go on with what waits for the cards; nobody waits for it, and no crash starts it twice."""
    if work.flag("hook_begun") or not _there(work.site, init, AFTER_ATTACH):
        return
    work.note(hook_begun=True)
    _run(work, AFTER_ATTACH, init, gpus=gpus, reason=work.text("reservation"))


def _there(site: Site, init: int | None, hook: str) -> bool:
    """Whether there is such a script; also when nobody can tell, which starting it then says."""
    try:
        return init is not None and site.probe.read_file(init, f"{FOLDER}/{hook}", most=1) is not None
    except LxgpuError:
        return True


def _run(work: Work, hook: str, init: int | None, *, gpus: Iterable[str], reason: str) -> str:
    site, row = work.site, work.instance()
    outcome = run_hook(site, work.name, row.owner, hook, init=init, gpus=gpus, reason=reason, mark=work.operation.id)
    if outcome != NONE:
        with site.write() as tx:
            tx.event("hook", work.name, rule=hook, detail={"outcome": outcome})
    return outcome


def _gpus(slots: Iterable[str]) -> list[str]:
    return [slot.partition("/")[0] for slot in slots]


def _place(mark: str) -> str:
    return f"/run/lxgpu/hooks/{mark}"

#!/bin/bash
# `make demo`: what lxgpu is for, in one minute, each command shown before it runs. A second run works as well.
# usage: demo.sh [down]     DEMO=host: on this machine's own LXD and cards; otherwise in a lab named "demo"
# In a lab the daemon and the page go on running when it ends; `make demo-down` takes them away with the lab.
set -euo pipefail
PATH=$(cd "$(dirname "$0")/.." && pwd)/.venv/bin:$PATH

lab=${LXGPU_DEMO_LAB:-demo}
host=${DEMO:-}

show() { # print a command as one would type it
  printf '\n\033[1m$ %s\033[0m\n' "$*"
}
[[ -t 1 && -z ${NO_COLOR:-} ]] || show() { printf '\n$ %s\n' "$*"; }

run() { # show a command, then run it
  show "$*"
  "$@"
}

if [[ ${1:-} == down ]]; then
  if [[ $host == host ]]; then
    run lxgpu delete alice --purge --yes
  else
    run lxgpu lab down --name "$lab"
  fi
  exit
fi

if [[ $host == host ]]; then
  command -v nvidia-smi >/dev/null || {
    echo "error: DEMO=host needs a machine with NVIDIA cards; without it a lab is used" >&2
    exit 2
  }
else
  run lxgpu lab up --name "$lab"
  show "eval \"\$(lxgpu lab env --name $lab)\""
  eval "$(lxgpu lab env --name "$lab")"
fi

stay_away() { # end what an earlier demo has left running: a daemon and a page, known by their pid and their mark
  local name pid
  for name in daemon page; do
    pid=$(cat "$LXGPU_RUN_DIR/demo-$name.pid" 2>/dev/null) || continue
    grep -qz "^LXGPU_LAB_PROCESS=$lab_dir$" "/proc/$pid/environ" 2>/dev/null || continue
    kill "$pid" 2>/dev/null || continue
    for _ in {1..100}; do
      [[ -d /proc/$pid ]] || break
      sleep 0.1
    done
  done
}

stay() { # run a program of the lab on after the demo, its pid on file; the mark is what `lxgpu lab down` ends it by
  LXGPU_LAB_PROCESS=$lab_dir setsid bash -c 'echo $$ >"$0"; exec "$@"' "$LXGPU_RUN_DIR/demo-$1.pid" "${@:2}" \
    </dev/null >"$LXGPU_RUN_DIR/demo-$1.log" 2>&1 &
  disown
}

if [[ $host != host ]]; then
  lab_dir=${LXGPU_CONFIG%/etc/config.yaml}
  stay_away
fi

run lxgpu create alice --gpus 1 --if-not-exists

# She gave no key, so lxgpu made one; her own computer is played by a folder with that key and two files for ssh.
key=${LXGPU_STATE_DIR:-/var/lib/lxgpu}/keys/alice
[[ -r $key ]] || {
  echo "error: $key is not there: this alice came with another key" >&2
  echo "fix: make demo-down, then again" >&2
  exit 1
}
hers=$(mktemp -d)
trap 'rm -rf "$hers"' EXIT
show 'lxgpu ssh-config alice'
lxgpu ssh-config alice >"$hers/config"
lxgpu ssh-config alice --known-hosts >"$hers/known_hosts"
grep -vE '^(#|$)' "$hers/config"

inside() { # run a command as alice, over SSH, as she will from her own computer
  show "ssh alice '$1'"
  ssh -F "$hers/config" -i "$key" -o UserKnownHostsFile="$hers/known_hosts" -o StrictHostKeyChecking=yes \
    -o BatchMode=yes -o ConnectTimeout=10 alice "$1"
}
inside 'id'
inside 'ls -l /dev/nvidia[0-9]* /dev/dri/render*'
inside 'grep MemTotal /proc/meminfo'

run lxgpu ls
run lxgpu gpus

say() { # what comes next, in words
  printf '\n\033[2m# %s\033[0m\n' "$*"
}
[[ -t 1 && -z ${NO_COLOR:-} ]] || say() { printf '\n# %s\n' "$*"; }

wait_for() { # wait until a command succeeds: wait_for SECONDS WORDS-FOR-THE-ERROR COMMAND...
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || {
      echo "error: $what" >&2
      exit 1
    }
    sleep 0.5
  done
}

cards_of() { # how many cards a container has and may use
  lxgpu show "$1" -o json | grep -cE '"state": "(active|warned)"'
}
has() { (($(cards_of "$1") == $2)); }

story() {
  say "Nobody else waits, so alice takes all four cards, in a class that yields, and computes on two of them."
  # What an earlier run that was cut short has left.
  lxgpu reservations -o name | xargs -r -n 1 lxgpu -q reservation cancel --yes
  ! lxgpu show bob >/dev/null 2>&1 || lxgpu -q release bob --all --yes
  run lxgpu release alice --all --yes
  run lxgpu attach alice --gpus 4 --class scavenge
  run lxgpu lab job alice --gpu 0
  run lxgpu lab job alice --gpu 1
  inside 'tmux has-session -t work 2>/dev/null || tmux new-session -d -s work "sleep 3600"; pgrep -o sleep'

  say "The daemon watches; bob comes, and reserves two cards for twenty seconds. First what it would mean:"
  show 'lxgpu daemon run &'
  lxgpu -q daemon run 2>/dev/null &
  daemon=$!
  trap 'kill $daemon 2>/dev/null || true; rm -rf "$hers"' EXIT
  wait_for 20 "the daemon does not come up" lxgpu daemon status
  run lxgpu create bob --if-not-exists
  run lxgpu reserve bob --gpus 2 --for 20s --dry-run
  run lxgpu reserve bob --gpus 2 --for 20s --wait
  run lxgpu gpus

  say "Alice was warned, only what held the two cards ended; her session and her work on the CPU live on."
  inside 'cat /var/lib/lxgpu/notice; pgrep -o sleep'
  run lxgpu why alice

  say "When bob's time is over the cards come back to her by themselves."
  wait_for 90 "the cards did not come back to alice" has alice 4
  run lxgpu gpus
  run lxgpu history --limit 12
  run lxgpu release alice --gpus 3 --yes
  kill "$daemon"
  wait "$daemon" || true
}
[[ $host == host ]] || story

page() { # the page stays up, and so does the daemon that it asks; a port of its own, so that labs live side by side
  local link
  say "The page: who has which card until when, live. Alice books there; whoever has no link sees nothing."
  LXGPU_WEB_PORT=$(python3 -c 'import socket
for port in 8470, 0:
    try:
        with socket.create_server(("127.0.0.1", port)) as found:
            print(found.getsockname()[1])
            break
    except OSError:
        continue')
  export LXGPU_WEB_PORT
  export LXGPU_WEB_URL=http://127.0.0.1:$LXGPU_WEB_PORT LXGPU_WEB_METRICS=off
  show 'lxgpu daemon run &'
  stay daemon lxgpu -q daemon run
  wait_for 20 "the daemon does not come up" lxgpu daemon status
  show 'lxgpu web &'
  stay page lxgpu web
  wait_for 20 "the page does not come up" python3 -c "import urllib.request; urllib.request.urlopen('$LXGPU_WEB_URL/alive')"
  show 'lxgpu web --link alice'
  link=$(lxgpu -q web --link alice)
  echo "$link"
  cat <<EOF

It opens once, within ten minutes; "lxgpu web --link alice" prints another. From another computer: first
  ssh -L $LXGPU_WEB_PORT:127.0.0.1:$LXGPU_WEB_PORT $(hostname)
EOF
}
[[ $host == host ]] || page
[[ $host == host ]] || cat <<EOF

Go on by hand, in this shell and in each new one:
  export PATH=$(dirname "$(command -v lxgpu)"):\$PATH
  eval "\$(lxgpu lab env --name $lab)"
  lxgpu ssh alice
  lxgpu create bob --gpus 1
EOF
printf '\ndemo: ok\n'

#!/bin/bash
# `make demo`: what lxgpu is for, in one minute, each command shown before it runs. A second run works as well.
# usage: demo.sh [down]     DEMO=host: on this machine's own LXD and cards; otherwise in a lab named "demo"
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
[[ $host == host ]] || cat <<EOF

Go on by hand, in this shell and in each new one:
  export PATH=$(dirname "$(command -v lxgpu)"):\$PATH
  eval "\$(lxgpu lab env --name $lab)"
  lxgpu ssh alice
  lxgpu create bob --gpus 1
EOF
printf '\ndemo: ok\n'

#!/bin/bash
# `make demo`: what lxgpu is for, in one minute, each command shown before it runs. A second run works as well.
# usage: demo.sh [down]     DEMO=host: on this machine's own LXD and cards; otherwise in a lab named "demo"
set -euo pipefail

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

keys=${LXGPU_DEMO_KEYS:-${XDG_CACHE_HOME:-$HOME/.cache}/lxgpu-demo}
mkdir -p -m 700 "$keys"
key=$keys/alice
[[ -e $key ]] || ssh-keygen -q -t ed25519 -N '' -C alice@demo -f "$key"

run lxgpu create alice --gpus 1 --ssh-key "$key.pub" --if-not-exists
lxgpu ssh-config alice >"$keys/config"

inside() { # run a command as alice, over SSH
  show "ssh alice '$1'"
  ssh -F "$keys/config" -i "$key" -o BatchMode=yes -o ConnectTimeout=10 alice "$1"
}
inside 'id'
inside 'ls -l /dev/nvidia[0-9]* /dev/dri/renderD* 2>/dev/null'
inside 'grep MemTotal /proc/meminfo'
show 'the line for her ~/.ssh/config'
grep -vE '^(#|$)' "$keys/config"

run lxgpu ls
run lxgpu gpus
printf '\ndemo: ok\n'

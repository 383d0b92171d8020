#!/bin/sh
# Installs what `make demo` and `make test` need from Debian's archive, and does nothing when all of it is there.
# usage: install-needs.sh [--list]     --list: print the packages that are missing, install nothing
set -eu

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export PATH

# What is looked for (a program, or a file when it begins with /) and the package that brings it.
needs='
python3                  python3
gcc                      gcc
/usr/include/stdio.h     libc6-dev
git                      git
lxd                      lxd
lxc                      lxd-client
lxcfs                    lxcfs
newuidmap                uidmap
rsync                    rsync
unsquashfs               squashfs-tools
mkfs.btrfs               btrfs-progs
debootstrap              debootstrap
dnsmasq                  dnsmasq-base
nft                      nftables
ip                       iproute2
ssh                      openssh-client
ps                       procps
nsenter                  util-linux
mount                    mount
systemd-analyze          systemd
chromium                 chromium
promtool                 prometheus
/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc fonts-noto-cjk
'

missing=$(
  echo "$needs" | while read -r thing package; do
    case $thing in
      '') continue ;;
      /*) [ -e "$thing" ] || echo "$package" ;;
      *) command -v "$thing" >/dev/null || echo "$package" ;;
    esac
  done
  python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
)
missing=$(echo $missing) # one line

if [ "${1:-}" = --list ]; then
  echo "$missing"
  exit
fi

if [ -n "$missing" ]; then
  command -v apt-get >/dev/null || {
    echo "error: this machine lacks the programs of the Debian packages: $missing" >&2
    echo "fix: install them with your own package manager, then run the same command again" >&2
    exit 1
  }
  [ "$(id -u)" = 0 ] || {
    echo "error: packages are missing: $missing" >&2
    echo "fix: sudo apt-get install --no-install-recommends $missing" >&2
    exit 1
  }
  echo "installing: $missing" >&2
  export DEBIAN_FRONTEND=noninteractive

  # Where no systemd runs, a package's script must not try to start a service.
  guard=/usr/sbin/policy-rc.d
  if [ ! -d /run/systemd/system ] && [ ! -e "$guard" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$guard"
    chmod 755 "$guard"
    trap 'rm -f "$guard"' EXIT
    trap 'exit 130' INT TERM
  fi

  # Fetch the lists only where they are not there, or name versions that the archive no longer has.
  log=$(mktemp)
  get() {
    apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1
  }
  failed() {
    cat "$log" >&2
    echo "error: apt-get could not install: $1" >&2
    exit 1
  }
  packages=$(echo "$missing" | tr ' ' '\n' | grep -vx prometheus | tr '\n' ' ')
  if [ -n "$packages" ]; then
    # shellcheck disable=SC2086  # a list of words
    {
      get install --no-install-recommends --download-only $packages || get update
      get install --no-install-recommends $packages || failed "$packages"
    }
  fi

  # Of prometheus one program is wanted that checks what we write for it, and no service: that file alone is taken out.
  if [ "$packages" != "$missing " ]; then
    aside=$(mktemp -d)
    cd "$aside"
    get download prometheus || { get update && get download prometheus; } || failed prometheus
    dpkg-deb --fsys-tarfile prometheus_*.deb | tar -xO ./usr/bin/promtool >promtool
    install -m 755 promtool /usr/local/bin/promtool
    cd /
    rm -rf "$aside"
  fi
  rm -f "$log"
fi

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "error: $(python3 --version) is too old: 3.11 is the least" >&2
  echo "fix: use Debian 12, Ubuntu 24.04 or newer" >&2
  exit 1
}

#!/bin/sh
# fresh.sh - tries both commands of the README on a machine with git and make
# only: a debootstrap folder, entered by chroot. By hand, as root; never from
# make test. Prints the wall times.
#
# usage: tests/fresh.sh [--user] [demo|test ...]
#   --user: as an ordinary user with sudo, not as root
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
user=
[ "${1:-}" != --user ] || { user=1; shift; }
goals=${*:-demo test}
suite=${SUITE:-bookworm}
box=$(mktemp -d /var/tmp/tide-fresh.XXXXXX)
chmod 755 "$box" # the user must pass its root

cleanup() {
  umount -l "$box/proc" "$box/dev/pts" "$box/dev" 2>/dev/null || true
  [ -n "${KEEP:-}" ] || rm -rf --one-file-system "$box"
}
trap cleanup EXIT

# The host's package settings: mirrors, proxies and certificates.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources \
  /etc/apt/sources.list.d/*.list 2>/dev/null | grep -E '^(URIs:|deb )' |
  grep -oE 'https?://[^ ]+' | head -1)
debootstrap --variant=minbase --include=git,make "$suite" "$box" $mirror \
  >"$box.log" 2>&1 || { tail -20 "$box.log"; exit 1; }
rm -rf "$box/etc/apt/sources.list" "$box/etc/apt/sources.list.d" \
  "$box/etc/apt/apt.conf.d"
cp -a /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d \
  "$box/etc/apt/" 2>/dev/null || true
[ ! -d /etc/apt/keyrings ] || cp -a /etc/apt/keyrings "$box/etc/apt/"
cp /etc/resolv.conf /etc/hosts "$box/etc/"
mkdir -p "$box/etc/ssl/certs"
cp -L /etc/ssl/certs/ca-certificates.crt "$box/etc/ssl/certs/" 2>/dev/null || true
[ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$box/etc/"
# Installing ca-certificates makes the bundle anew, without what this host added.
cp -L /etc/ssl/certs/ca-certificates.crt "$box/etc/host-ca.crt" 2>/dev/null || true
mount --bind /dev "$box/dev"
mount -t devpts devpts "$box/dev/pts" 2>/dev/null || true
mount -t proc proc "$box/proc"

git clone -q "$top" "$box/root/tide"
home=/root
run() { chroot "$box" /usr/bin/env -i HOME=$home PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  $(env | grep -iE '^(https?|no)_proxy=|^CI=|^PIP_' || true) \
  PIP_CERT=/etc/host-ca.crt sh -c "$1"; }
if [ -n "$user" ]; then
  run "apt-get update -q && apt-get install -q -y sudo && useradd -m tide &&
       echo 'tide ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/tide &&
       mv /root/tide /home/tide/ && chown -R tide /home/tide" >"$box.log" 2>&1
  home=/home/tide
fi
for goal in $goals; do
  start=$(date +%s)
  if [ -n "$user" ]; then run "su tide -c 'cd ~/tide && make $goal'"
  else run "cd ~/tide && make $goal"; fi
  echo "fresh: make $goal${user:+ as a user} took $(($(date +%s) - start)) s"
done

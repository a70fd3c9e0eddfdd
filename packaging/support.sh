# shellcheck shell=bash
# What the scripts that try packages share: a fresh Debian in a folder of its own, and checks. They need root.
#   L3A_DEBIAN=FOLDER  a debootstrap that stays; made if it is missing, and never changed: the scripts work in a layer above it
set -euo pipefail
suite=${L3A_SUITE:-bookworm}
[ "$(id -u)" -eq 0 ] || { echo "run this as root: it needs chroot" >&2; exit 2; }
"$(dirname "${BASH_SOURCE[0]}")/../tools/install-packages" try
work=$(mktemp -d "${TMPDIR:-/var/tmp}/l3a-try-XXXXXX")
debian=${L3A_DEBIAN:-$work/debian}
root=$work/root

# leave [CODE]: nothing is removed while something is still mounted in it.
leave() {
    local code=${1:-$?}
    awk -v work="$work/" 'index($2, work) == 1 { print $2 }' /proc/mounts | sort -r | while read -r mounted; do
        umount "$mounted"
    done
    rm -rf --one-file-system "$work"
    [ $code -eq 0 ] || echo "FAILED: ${step:-}" >&2
    exit $code
}
trap leave EXIT

# Prints what is done next; the message at the end names it if it fails.
step() {
    step=$1
    echo "== $1"
}

# make_debian_at FOLDER: a fresh Debian there
make_debian_at() {
    if [ ! -e "$debian/etc/debian_version" ]; then
        step "debootstrap $suite"
        debootstrap --variant=minbase "$suite" "$debian" >"$work/log" || { tail -n 20 "$work/log"; return 1; }
    fi
    mkdir "$1" "$1-above" "$1-between"
    mount -t overlay overlay -o "lowerdir=$debian,upperdir=$1-above,workdir=$1-between" "$1"
    mount -t proc proc "$1/proc"
    mount --bind /dev "$1/dev"
    cp /etc/resolv.conf "$1/etc/resolv.conf"
    sed "s/ $suite main/ $suite-updates main/" "$1/etc/apt/sources.list" >"$1/etc/apt/sources.list.d/updates.list"
}

# A fresh Debian at $root, which `inside` uses.
make_debian() {
    make_debian_at "$root"
    inside 'apt-get update -qq'
}

# inside COMMAND: a line for the shell in it, in its folder /root
inside() {
    chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive sh -euc "cd; $1"
}

# Every file but caches, logs, and the backups that adduser makes.
list_files() {
    chroot "$root" find / -xdev \( -path /proc -o -path /dev -o -path /root -o -path /tmp -o -path /var/cache -o -path /var/log \
        -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /run -o -path '/etc/*-' \) -prune -o -print | sort
}

# What the scripts that try packages share: a fresh Debian in a folder of its own, and checks. They need root and debootstrap.
#   L3A_DEBIAN=FOLDER  a debootstrap that stays; made if it is missing, and never changed: the scripts work in a layer above it
set -euo pipefail
suite=${L3A_SUITE:-bookworm}
[ "$(id -u)" -eq 0 ] || { echo "run this as root: it needs chroot" >&2; exit 2; }
work=$(mktemp -d "${TMPDIR:-/var/tmp}/l3a-try-XXXXXX")
debian=${L3A_DEBIAN:-$work/debian}
root=$work/root

# Nothing is removed while something is still mounted in it.
leave() {
    local code=$? mounted
    for mounted in "$root/proc" "$root/dev" "$root"; do
        ! mountpoint -q "$mounted" || umount "$mounted"
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

# A fresh Debian at $root.
make_debian() {
    if [ ! -e "$debian/etc/debian_version" ]; then
        step "debootstrap $suite"
        debootstrap --variant=minbase "$suite" "$debian" >"$work/log" || { tail -n 20 "$work/log"; return 1; }
    fi
    mkdir "$root" "$work/above" "$work/between"
    mount -t overlay overlay -o "lowerdir=$debian,upperdir=$work/above,workdir=$work/between" "$root"
    mount -t proc proc "$root/proc"
    mount --bind /dev "$root/dev"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    [ "$suite" != bookworm ] || debian_updates
    inside 'apt-get update -qq'
}

# The updates of the release, as the sources of every installed Debian have them.
debian_updates() {
    sed 's/ bookworm main/ bookworm-updates main/' "$root/etc/apt/sources.list" >"$root/etc/apt/sources.list.d/updates.list"
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

#!/bin/sh
# Type README's and the pages' commands on a Debian 12 with nothing else on it, as root and as an ordinary user.
#
#     tests/e2e/bare_debian.sh [PAGE...]
#
# Needs root, debootstrap and the package registries. The system is a root file system of its own with its own mounts and
# processes; of this machine it has the kernel and the network. STRATO_BARE_DEBIAN names a directory that keeps it,
# STRATO_BARE_USERS who types: "root reader" where it is not set.
set -eu

[ "$(id -u)" -eq 0 ] || { echo "error: run this as root: debootstrap and mounts need it" >&2; exit 2; }
if [ "${STRATO_BARE_INSIDE:-}" = "" ]; then
    command -v debootstrap >/dev/null || { echo "error: debootstrap is missing: apt-get install debootstrap" >&2; exit 2; }
    repository=$(cd "$(dirname "$0")/../.." && pwd)
    system=${STRATO_BARE_DEBIAN:-$(mktemp -d /var/tmp/strato-debian-XXXXXX)}
    [ -n "${STRATO_BARE_DEBIAN:-}" ] || trap 'rm -rf --one-file-system "$system"' EXIT
    packages=ca-certificates,python3,python3-venv,pipx,make,kubernetes-client,iproute2,nftables,procps,curl
    packages=$packages,distcc,gcc,libc6-dev,openmpi-bin,openssh-server,openssh-client # the pages of the examples name these
    [ -e "$system/etc/debian_version" ] || debootstrap --variant=minbase \
        --include="$packages" bookworm "$system"
    rm -rf "$system/checkout"
    mkdir "$system/checkout"
    git -C "$repository" ls-files -z --cached --others --exclude-standard | # what is not committed yet, too
        tar -C "$repository" --null -T - -c | tar -C "$system/checkout" -x
    cp /etc/resolv.conf "$system/etc/"
    for file in /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do # how this machine reaches its registries
        [ ! -e "$file" ] || cp "$file" "$system$file"
    done
    unshare --mount --pid --fork --kill-child env STRATO_BARE_INSIDE="$system" "$system/checkout/tests/e2e/bare_debian.sh" "$@"
    exit
fi

# A root of its own, not chroot: what is in a chroot may make no namespaces.
system=$STRATO_BARE_INSIDE
mount --make-rprivate /
mount --bind "$system" "$system"
cd "$system"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs -o mode=1777 tmpfs tmp
pivot_root . mnt
cd /
umount -l /mnt
id reader >/dev/null 2>&1 || useradd --create-home --shell /bin/bash reader

failed=0
for user in ${STRATO_BARE_USERS:-root reader}; do
    echo "== $user"
    home=$(getent passwd "$user" | cut -d: -f6)
    env -i HOME="$home" LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        setpriv --reuid="$user" --regid="$user" --init-groups sh -ec '
            cd
            rm -rf venv strato
            cp -r /checkout strato
            python3 -m venv venv
            venv/bin/python -m pip install --quiet "./strato[report]" pytest
            exec python3 strato/tests/docs/sessions.py --programs "$HOME/venv/bin" "$@"' sessions "$@" || failed=1
done
exit $failed

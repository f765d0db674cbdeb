#!/bin/sh
# image.sh ROOT USER COMMAND...: runs a command in the root of a container as this user. The root is read-only but for the
# volumes that the image names. In a mount namespace and a process namespace of its own.
set -e
root=$1
user=$2
shift 2
mount --bind "$root" "$root"
for volume in conf data datalog logs; do
    mount -t tmpfs -o mode=777 none "$root/$volume"
done
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -o remount,bind,ro "$root"
# Variables come from the image, but for the path to these programs here.
export "${INSIDE?}"
unset INSIDE
exec /usr/sbin/chroot --userspec="$user:$user" "$root" "$@"

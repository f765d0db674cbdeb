#!/bin/sh
# view.sh DIR SCRIPT ARGUMENT...: runs a script over this machine's file system, of which everything that is written goes
# to memory. In a mount namespace and a process namespace of its own; files below /tmp are seen, and not written.
set -e
dir=$1
shift
mount -t tmpfs none "$dir"
mkdir "$dir/upper" "$dir/work" "$dir/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" "$dir/root"
mount -t proc proc "$dir/root/proc"
mount --rbind /dev "$dir/root/dev"
# Nothing in here talks to this machine's own services.
mount -t tmpfs none "$dir/root/run"
exec chroot "$dir/root" sh "$@"

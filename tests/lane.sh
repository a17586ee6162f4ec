#!/bin/sh
# Runs a program in a lane: namespaces of its own for mounts, links, processes and System V memory,
# with its own /run, /tmp, /dev/shm and hugetlbfs, so that what tests make and leave there is seen by
# the tests of this lane alone. Needs root.
#   tests/lane.sh PROGRAM [ARGUMENT...]    its status is the program's, which ends with this script
# Not apart is what the kernel has once: hugepages, modules, control groups, sysctls other than those
# of a network; nor the rest of the file system.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck disable=SC2016 # expanded in there
inside='
set -eu
top=$1
shift
exec 9<"$top"
mount -t proc proc /proc
for each in run:755 tmp:1777 dev/shm:1777; do
	mount -t tmpfs -o "mode=${each#*:}" tmpfs "/${each%:*}"
done
mkdir -m 1777 /run/lock
# The links of this lane are in /sys; control groups stay where they are.
mkdir /run/cgroup
mount --rbind /sys/fs/cgroup /run/cgroup
mount -t sysfs sysfs /sys
mount --move /run/cgroup /sys/fs/cgroup
rmdir /run/cgroup
[ ! -d /sys/fs/bpf ] || mount -t bpf bpf /sys/fs/bpf
[ ! -d /dev/hugepages ] || mount -t hugetlbfs hugetlbfs /dev/hugepages
[ ! -d /dev/mqueue ] || mount -t mqueue mqueue /dev/mqueue
ip link set lo up
# Without another address, a name has no IPv4 address for a server that listens on all (Slurm).
ip address add 203.0.113.254/32 dev lo
# A checkout below /tmp or /run stays in its place.
case $top in
/tmp/* | /run/*)
	mkdir -p "$top"
	mount --bind /proc/self/fd/9 "$top"
	cd "$top"
	;;
esac
exec 9<&-
# Not exec: the first process of a namespace is to wait for orphans.
status=0
"$@" || status=$?
exit "$status"
'
exec setpriv --pdeathsig KILL unshare --mount --net --pid --ipc --fork --kill-child=KILL \
	--propagation private sh -c "$inside" lane "$top" "$@"

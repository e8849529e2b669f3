#!/bin/sh
# setup.sh mpi   what make demo and make test need
# setup.sh lab   what make lab needs besides
#
# Installs what is missing through apt, as root or with sudo. On other systems,
# and without the right to, it says what to install and fails.
set -eu

missing=
need() { # need COMMAND PACKAGE
	command -v "$1" >/dev/null || missing="$missing $2"
}

command -v go >/dev/null || { echo "setup: install Go first: https://go.dev/doc/install" >&2; exit 1; }
PATH=$PATH:/usr/sbin:/sbin
case ${1-} in
mpi)
	need gcc "gcc libc6-dev"
	need mpicc libopenmpi-dev
	need mpirun openmpi-bin
	;;
lab)
	need qemu-system-x86_64 qemu-system-x86
	need xz xz-utils
	need mkfs.ext4 e2fsprogs
	need ip iproute2
	need slurmctld slurmctld
	need slurmd slurmd
	need srun "slurm-client libpmi2-0"
	need munged munge
	need mpicc.mpich libmpich-dev
	need mpiexec.mpich mpich
	;;
*)
	echo "usage: setup.sh mpi|lab" >&2
	exit 2
	;;
esac
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
	echo "setup: this system has no apt-get. Install what these Debian packages hold:$missing" >&2
	exit 1
fi
as_root=
if [ "$(id -u)" != 0 ]; then
	as_root=sudo
	command -v sudo >/dev/null || { echo "setup: as root, run: apt-get install$missing" >&2; exit 1; }
fi
echo "setup: installing$missing"
# shellcheck disable=SC2086 # the words are packages
install() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing </dev/null >/dev/null; }
install 2>/dev/null || { $as_root apt-get update -qq && install; } # the lists may be old, or not there

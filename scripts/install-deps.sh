#!/usr/bin/env bash
# Installs the Debian 12 packages that comch is built, tested and demonstrated with.
# Does nothing, quickly, when all of them are there.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'END'
usage: scripts/install-deps.sh [--list]
  --list   print the package names, one a line, and install nothing
As root it calls apt-get, as another user sudo apt-get.
END
}

packages=(
    # building
    g++ cmake ninja-build ccache pkg-config
    # the log of the DOCA face; a build system that its programs use
    libspdlog-dev meson
    # libraries of the core: command lines, text, JSON, TOML, expected<>, hashes
    libcli11-dev libfmt-dev nlohmann-json3-dev libtoml11-dev libexpected-dev libxxhash-dev
    # unit tests; clang for those with sanitizers
    libgtest-dev libgmock-dev clang libclang-rt-dev
    # the UCX transport; ucx_info and ucx_perftest
    libucx-dev ucx-utils
    # the verbs link
    libibverbs-dev librdmacm-dev
    # UCX's internal headers: fetch its source package, unpack and configure it as Debian did
    dpkg-dev xz-utils patch autoconf automake libtool make libnuma-dev
    # the libfabric provider; fi_info and fi_pingpong
    libfabric-dev libfabric-bin
    # MPI jobs under both of Debian's implementations
    openmpi-bin libopenmpi-dev mpich libmpich-dev
    # scripts and multi-process tests: unshare, nsenter, taskset; ip; ps; programs under valgrind
    python3 util-linux iproute2 procps valgrind
    # the virtual machine with RDMA devices, and what is measured beside comch in it
    qemu-system-x86 busybox-static kmod cpio rdma-core ibverbs-utils ibverbs-providers rdmacm-utils
    perftest libfabric-bin strace
    # a build for the DPU's CPU, and running it here
    g++-aarch64-linux-gnu qemu-user-static
    # plots of perftest/compare; perftest/instructions
    python3-matplotlib gdb
)

case ${1:-} in
"") ;;
--list)
    printf '%s\n' "${packages[@]}"
    exit 0
    ;;
-h | --help)
    usage
    exit 0
    ;;
*)
    bad_usage "$1"
    ;;
esac

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
    die "this is not a Debian system (no dpkg-query, apt-get). Install the equivalents of:" \
        "${packages[*]}"

missing_packages() {
    # An architecture qualifier or a removed-but-configured package must not count as installed.
    dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null |
        sed -n 's/^installed //p' | sort -u |
        comm -13 - <(printf '%s\n' "${packages[@]}" | sort -u)
}

mapfile -t missing < <(missing_packages)
if [ "${#missing[@]}" -eq 0 ]; then
    say "all ${#packages[@]} packages are installed"
    exit 0
fi

codename=$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-unknown}")
[ "$codename" = bookworm ] ||
    warn "comch is developed on Debian 12 (bookworm); this system calls itself '$codename'"

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; }; then
        as_root=(sudo -n)
    else
        die "${#missing[@]} packages are missing, and neither am I root nor does sudo work. As root:
    apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
    fi
fi

say "installing ${#missing[@]} packages: ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get
    -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
log=$(mktemp "${TMPDIR:-/tmp}/comch-install-deps.XXXXXX.log")

update_lists() { retry 3 "${apt[@]}" update; }
install_missing() {
    # What an attempt got done stays done: only what is still missing is asked for again.
    mapfile -t missing < <(missing_packages)
    [ "${#missing[@]}" -eq 0 ] ||
        "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
}

# apt's exit code of `update` is 0 even where a mirror could not be reached, and the lists that are
# there may do: whether the packages can be installed decides.
run_logged "reading the package lists" "$log" update_lists
run_logged "installing packages" "$log" retry 3 install_missing ||
    die "apt-get could not install: ${missing[*]}. The whole log is $log"
rm -f "$log"

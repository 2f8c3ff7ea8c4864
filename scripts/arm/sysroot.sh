#!/usr/bin/env bash
# What a DPU's Debian 12 has of the libraries that comch is built with and of the programs that it is
# tested with: arm64 packages, downloaded and unpacked, nothing of them installed, and the machine's
# own package lists left alone.
# The last line printed on standard output is the folder that holds it.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
exec 3>&1 1>&2 # progress goes to standard error

usage() {
    cat <<'END'
usage: scripts/arm/sysroot.sh --cache DIR
  --cache DIR  where the result is kept, shared by any number of builds; remove it for newer packages
END
}

cache=
while [ $# -gt 0 ]; do
    case $1 in
    --cache)
        [ $# -ge 2 ] || die "$1 needs a value"
        cache=$2
        shift
        ;;
    -h | --help)
        usage >&3
        exit 0
        ;;
    *)
        usage
        exit 2
        ;;
    esac
    shift
done
[ -n "$cache" ] || die "--cache is missing"

# Why each is needed is said in install-deps.sh.
packages=(
    libc6-dev libstdc++-12-dev
    libspdlog-dev libcli11-dev libfmt-dev nlohmann-json3-dev libtoml11-dev libexpected-dev libxxhash-dev
    libgtest-dev libgmock-dev
    libucx-dev ucx-utils libibverbs-dev librdmacm-dev libfabric-dev libfabric-bin
)
# A changed recipe makes a new result.
want="recipe 1: ${packages[*]}"

begin_kept "$cache" sysroot "$want" "the packages of the DPU's side"
mkdir -p "$work/lists/partial" "$work/archives/archives/partial" && : >"$work/status" ||
    die "cannot write to '$cache'"

# For apt this is an arm64 machine on which nothing is installed yet.
options=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::status="$work/status"
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/archives"
    -o Acquire::Languages=none -o Acquire::Retries=3)
# Nothing but apt-get's own download user would be unable to write here.
[ "$(id -u)" -ne 0 ] || options+=(-o APT::Sandbox::User=root)

download() {
    apt-get -q "${options[@]}" update &&
        apt-get -q -y "${options[@]}" install --download-only --no-install-recommends "${packages[@]}"
}
unpack() {
    local file link
    for file in "$work"/archives/archives/*.deb; do
        dpkg -x "$file" "$work/kept" || return 1
    done
    # Absolute links would lead out of the folder.
    while IFS= read -r -d '' link; do
        ln -sfnr "$work/kept$(readlink "$link")" "$link" || return 1
    done < <(find "$work/kept" -type l -lname '/*' -print0)
}

run_logged "downloading the packages of the DPU's side" "$log" retry 3 download ||
    die "the arm64 packages could not be downloaded. The whole log is $log"
run_logged "unpacking them" "$log" unpack || die "the whole log is $log"
end_kept

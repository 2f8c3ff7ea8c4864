#!/usr/bin/env bash
# A Debian kernel for the virtual machine: what the package linux-image-amd64 depends on, downloaded
# and unpacked, nothing of it installed. What the machine needs of it is kept: the kernel itself, and
# the modules that its initial file system loads, in the order of `load`.
# The last line printed on standard output is the folder that holds it.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
exec 3>&1 1>&2 # progress goes to standard error

usage() {
    cat <<'END'
usage: scripts/vm/kernel.sh --cache DIR
  --cache DIR  where the result is kept, shared by any number of runs; remove it for a newer kernel
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

# virtio and 9p reach the root file system; rxe refuses every device without crc32; the CM's user
# interface and the virtual Ethernet pair are what comch and its lab need.
modules=(virtio_pci 9pnet_virtio 9p crc32_generic rdma_rxe ib_uverbs rdma_ucm veth)
# A changed recipe makes a new result.
want="recipe 2: ${modules[*]}"

[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] ||
    die "the virtual machine runs this machine's own programs under qemu-system-x86_64:" \
        "it takes a Debian system of architecture amd64"
begin_kept "$cache" kernel "$want" "the virtual machine's kernel"
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/deb" || die "cannot write to '$cache'"

download() { # APT_OPTIONS...
    local package options=("$@")
    # Nothing but apt-get's own download user would be unable to write here.
    [ "$(id -u)" -ne 0 ] || options+=(-o APT::Sandbox::User=root)
    package=$(apt-cache "${options[@]}" depends linux-image-amd64 |
        sed -n 's/^ *Depends: *\(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1)
    [ -n "$package" ] || {
        echo "the package lists have no linux-image-amd64"
        return 1
    }
    (cd "$work/deb" && apt-get -q "${options[@]}" -o Acquire::Retries=3 download "$package")
}
# The machine's package lists may be missing or too old: then fresh ones of our own are read, which
# takes no root and leaves the machine's alone.
download_with_fresh_lists() {
    local own=(-o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/archives"
        -o Acquire::Languages=none)
    [ "$(id -u)" -ne 0 ] || own+=(-o APT::Sandbox::User=root)
    rm -f "$work/deb"/*
    apt-get -q "${own[@]}" -o Acquire::Retries=3 update && download "${own[@]}"
}
fetch() { download || retry 3 download_with_fresh_lists; }

keep() {
    local version module file
    dpkg -x "$work"/deb/*.deb "$work/tree" && rm -rf "$work/deb" || return 1
    version=$(basename "$work"/tree/lib/modules/*)
    depmod -b "$work/tree" "$version" || return 1
    mkdir "$work/kept/modules"
    cp "$work/tree/boot/vmlinuz-$version" "$work/kept/vmlinuz" || return 1
    for module in "${modules[@]}"; do
        # "builtin NAME" is a part of the kernel itself.
        modprobe -d "$work/tree" -S "$version" --show-depends "$module" || return 1
    done | sed -n 's/^insmod \(.*[.]ko\).*/\1/p' | awk '!seen[$0]++' >"$work/order" || return 1
    while read -r file; do
        cp "$file" "$work/kept/modules/" && basename "$file" >>"$work/kept/load" || return 1
    done <"$work/order"
    printf '%s\n' "$version" >"$work/kept/version"
}

run_logged "downloading a kernel for the virtual machine" "$log" fetch ||
    die "the kernel package could not be downloaded. The whole log is $log"
run_logged "unpacking it" "$log" keep || die "the whole log is $log"
end_kept

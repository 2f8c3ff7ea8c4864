#!/usr/bin/env bash
# UCX's internal headers (uct/base/*.h and what they need) are in no binary package: this script
# takes them from the source package of exactly the UCX that is installed, and configures that as
# the installed library was, because the layout of UCX's structures depends on config.h.
# The last line printed on standard output is the folder: its src/ and itself are include paths.
# The machine's apt configuration is only read.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/ucx_source.sh"
exec 3>&1 1>&2 # progress goes to standard error

usage() {
    cat <<'END'
usage: scripts/fetch-ucx-headers.sh [--cache DIR] [--source TREE] [--ucx-info PROGRAM]
  --cache DIR         where the result is kept (default: $COMCH_UCX_CACHE, or build/ucx-src in the
                      repository); one subfolder per UCX version, shared by any number of builds
  --source TREE       use this unpacked UCX source tree instead of the installed version's source
                      package. It must be of UCX 1.13, the only version that comch supports. It is
                      used as it is if it has been configured (has a config.h), else it is copied
                      to the cache and configured there
  --ucx-info PROGRAM  the ucx_info of the UCX to build for (default: the one in PATH); tells its
                      version and configure flags
END
}

cache=${COMCH_UCX_CACHE:-$COMCH_ROOT/build/ucx-src}
source_tree=
ucx_info=ucx_info
while [ $# -gt 0 ]; do
    case $1 in
    --cache | --source | --ucx-info)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in
        --cache) cache=$2 ;;
        --source) source_tree=$2 ;;
        --ucx-info) ucx_info=$2 ;;
        esac
        shift 2
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
done

if [ -n "$source_tree" ]; then
    [ -f "$source_tree/src/uct/base/uct_iface.h" ] ||
        die "'$source_tree' is no UCX source tree: it has no src/uct/base/uct_iface.h"
    source_tree=$(cd "$source_tree" && pwd -P)
    if [ -f "$source_tree/config.h" ] && [ -f "$source_tree/src/uct/api/version.h" ]; then
        printf '%s\n' "$source_tree" >&3
        exit 0
    fi
fi

ask_ucx_info "$ucx_info" "point --ucx-info at the ucx_info of the UCX to build for"

# What a cached result was made from: kept in its stamp and compared, so that a changed input or a
# changed recipe (its number first) makes a new one.
if [ -n "$source_tree" ]; then
    origin="tree $source_tree"
    name=ucx-tree-$(printf '%s' "$source_tree" | cksum | cut -d ' ' -f 1)
else
    ask_ucx_package "$ucx_info" "pass --source with the source tree of UCX $library_version"
    origin="package $package $version"
    name=ucx-$(printf '%s' "$version" | tr ':~/' '___')
fi
want="recipe 2; $origin; $(uname -m); ${configure_flags[*]}"

begin_kept "$cache" "$name" "$want" "UCX's headers"

copy_tree() {
    mkdir "$work/tree" && (cd "$source_tree" && tar -cf - --exclude=.git .) | tar -xf - -C "$work/tree"
}
keep_headers() {
    # Nothing else is needed, and 3 MB instead of 30 can stay.
    (cd "$work/tree" && find src config.h LICENSE -type f \( -name '*.h' -o -name '*.inl' -o -name LICENSE \) -print0 |
        tar --null --no-recursion -T - -cf -) | tar -xf - -C "$work/kept" || return 1
    for file in config.h src/uct/api/version.h src/uct/base/uct_iface.h src/ucs/type/class.h; do
        [ -f "$work/kept/$file" ] || {
            echo "$file is missing after configure"
            return 1
        }
    done
}

hint="To use a source tree that is here already: COMCH_UCX_SOURCE (CMake) or --source; to build
without the UCX transport: -DCOMCH_WITH_UCX=OFF. The whole log is $log"
if [ -n "$source_tree" ]; then
    run_logged "copying UCX from $source_tree" "$log" copy_tree || die "$hint"
else
    run_logged "fetching the source package $package $version" "$log" retry 3 fetch_ucx_source "$work" ||
        die "the source package $package $version could not be fetched. If the mirrors no longer" \
            "have that version, upgrade the installed one: apt-get install libucx-dev ucx-utils
$hint"
    run_logged "unpacking it" "$log" unpack_ucx_source "$work" || die "$hint"
fi
run_logged "configuring it as the installed library was" "$log" configure_ucx "$work/tree" || die "$hint"
run_logged "keeping its headers" "$log" keep_headers || die "$hint"
end_kept

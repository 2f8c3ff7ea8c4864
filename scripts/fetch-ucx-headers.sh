#!/usr/bin/env bash
# UCX's internal headers (uct/base/*.h and what they need) are in no binary package: this script
# takes them from the source package of exactly the UCX that is installed, and configures that as
# the installed library was, because the layout of UCX's structures depends on config.h.
# The last line printed on standard output is the folder: its src/ and itself are include paths.
# The machine's apt configuration is only read.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
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

"$ucx_info" -v >/dev/null 2>&1 ||
    die "cannot run '$ucx_info -v': install ucx-utils (scripts/install-deps.sh does), or point" \
        "--ucx-info at the ucx_info of the UCX to build for"
# The flags are one line, separated by spaces; ${prefix} in them is for configure to expand.
read -ra configure_flags < <("$ucx_info" -v | sed -n 's/^# Configured with: *//p')
library_version=$("$ucx_info" -v | sed -n 's/^#.*[Vv]ersion:\{0,1\} *\([0-9][0-9.]*\).*/\1/p' | head -n 1)

# What a cached result was made from: kept in its stamp and compared, so that a changed input or a
# changed recipe (its number first) makes a new one.
if [ -n "$source_tree" ]; then
    origin="tree $source_tree"
    name=ucx-tree-$(printf '%s' "$source_tree" | cksum | cut -d ' ' -f 1)
else
    read -r package version < <(dpkg-query -W -f '${source:Package} ${source:Version}\n' \
        libucx-dev 2>/dev/null) || true
    [ -n "${version:-}" ] ||
        die "libucx-dev is not installed from a Debian package: install it" \
            "(scripts/install-deps.sh does), or pass --source with the source tree of UCX $library_version"
    case $version in
    "$library_version"[-+~]* | *:"$library_version"[-+~]* | "$library_version") ;;
    *) die "libucx-dev is $version, but '$ucx_info' says $library_version: the headers would not" \
        "fit. Put the matching ucx_info first in PATH, or pass --source" ;;
    esac
    origin="package $package $version"
    name=ucx-$(printf '%s' "$version" | tr ':~/' '___')
fi
want="recipe 2; $origin; $(uname -m); ${configure_flags[*]}"

begin_kept "$cache" "$name" "$want" "UCX's headers"

fetch_source() {
    local sources=$work/apt/machine.sources wanted=()
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial" "$work/apt/parts"
    # The repository that the installed package came from, if apt knows it (its lists may be empty).
    mapfile -t wanted < <(LC_ALL=C apt-cache policy libucx-dev 2>/dev/null |
        sed -n '/^ \*\*\* /,/^ \{0,5\}[0-9]/s#^ *[0-9]* \([a-z+]*:[^ ]*\) \([^ ]*\)/[^ /]* .*#--from=\1/\2#p')
    python3 "$COMCH_ROOT/scripts/apt_deb_src.py" "${wanted[@]}" >"$sources" || return 1
    local apt=(apt-get -q -o Dir::Etc::sourcelist="$sources" -o Dir::Etc::sourceparts="$work/apt/parts"
        -o Dir::State::Lists="$work/apt/lists" -o Dir::Cache="$work/apt/cache"
        -o Acquire::Retries=3 -o Acquire::Languages=none)
    # Nothing but apt-get's own download user would be unable to write here.
    [ "$(id -u)" -ne 0 ] || apt+=(-o APT::Sandbox::User=root)
    "${apt[@]}" update || return 1
    (cd "$work" && "${apt[@]}" source --only-source --download-only "$package=$version")
}
unpack_source() {
    # apt has checked the files against the signed index, so the .dsc's own signature is not needed.
    (cd "$work" && dpkg-source --no-check -x ./*.dsc tree)
}
copy_tree() {
    mkdir "$work/tree" && (cd "$source_tree" && tar -cf - --exclude=.git .) | tar -xf - -C "$work/tree"
}
configure_source() (
    cd "$work/tree" || exit 1
    # Debian's source package and a git checkout bring configure.ac only, a release tarball both.
    [ -x configure ] || ./autogen.sh || exit 1
    # What a caller exported for his own build (sanitizers, another compiler) is not for UCX.
    env -u CC -u CXX -u CFLAGS -u CXXFLAGS -u CPPFLAGS -u LDFLAGS ./configure "${configure_flags[@]}"
)
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
    run_logged "fetching the source package $package $version" "$log" retry 3 fetch_source ||
        die "the source package $package $version could not be fetched. If the mirrors no longer" \
            "have that version, upgrade the installed one: apt-get install libucx-dev ucx-utils
$hint"
    run_logged "unpacking it" "$log" unpack_source || die "$hint"
fi
run_logged "configuring it as the installed library was" "$log" configure_source || die "$hint"
run_logged "keeping its headers" "$log" keep_headers || die "$hint"
end_kept

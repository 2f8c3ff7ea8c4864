# UCX's sources, of exactly the UCX that is installed; sourced after lib.sh, never run.
# The machine's apt configuration is only read.
# shellcheck shell=bash

# ask_ucx_info PROGRAM [ELSE]: sets library_version and configure_flags from what `ucx_info -v` says.
# ELSE is what else can be done if that cannot be run.
ask_ucx_info() {
    "$1" -v >/dev/null 2>&1 ||
        die "cannot run '$1 -v': install ucx-utils (scripts/install-deps.sh does)${2:+, or $2}"
    # The flags are one line, separated by spaces; ${prefix} in them is for configure to expand.
    read -ra configure_flags < <("$1" -v | sed -n 's/^# Configured with: *//p')
    library_version=$("$1" -v | sed -n 's/^#.*[Vv]ersion:\{0,1\} *\([0-9][0-9.]*\).*/\1/p' | head -n 1)
}

# ask_ucx_package PROGRAM [ELSE]: sets package and version, the source package of the installed UCX.
ask_ucx_package() {
    read -r package version < <(dpkg-query -W -f '${source:Package} ${source:Version}\n' \
        libucx-dev 2>/dev/null) || true
    [ -n "${version:-}" ] ||
        die "libucx-dev is not installed from a Debian package: install it" \
            "(scripts/install-deps.sh does)${2:+, or $2}"
    case $version in
    "$library_version"[-+~]* | *:"$library_version"[-+~]* | "$library_version") ;;
    *) die "libucx-dev is $version, but '$1' says $library_version: its sources would not fit." \
        "Put the matching ucx_info first in PATH${2:+, or $2}" ;;
    esac
}

# fetch_ucx_source DIR: the source package's files.
fetch_ucx_source() {
    local sources=$1/apt/machine.sources wanted=()
    mkdir -p "$1/apt/lists/partial" "$1/apt/cache/archives/partial" "$1/apt/parts"
    # The repository that the installed package came from, if apt knows it (its lists may be empty).
    mapfile -t wanted < <(LC_ALL=C apt-cache policy libucx-dev 2>/dev/null |
        sed -n '/^ \*\*\* /,/^ \{0,5\}[0-9]/s#^ *[0-9]* \([a-z+]*:[^ ]*\) \([^ ]*\)/[^ /]* .*#--from=\1/\2#p')
    python3 "$COMCH_ROOT/scripts/apt_deb_src.py" "${wanted[@]}" >"$sources" || return 1
    local apt=(apt-get -q -o Dir::Etc::sourcelist="$sources" -o Dir::Etc::sourceparts="$1/apt/parts"
        -o Dir::State::Lists="$1/apt/lists" -o Dir::Cache="$1/apt/cache"
        -o Acquire::Retries=3 -o Acquire::Languages=none)
    # Nothing but apt-get's own download user would be unable to write here.
    [ "$(id -u)" -ne 0 ] || apt+=(-o APT::Sandbox::User=root)
    "${apt[@]}" update || return 1
    (cd "$1" && "${apt[@]}" source --only-source --download-only "$package=$version")
}

# unpack_ucx_source DIR: to DIR/tree.
unpack_ucx_source() {
    # apt has checked the files against the signed index, so the .dsc's own signature is not needed.
    (cd "$1" && dpkg-source --no-check -x ./*.dsc tree)
}

# configure_ucx TREE FLAGS...: as the installed library was, with more flags behind.
configure_ucx() (
    cd "$1" || exit 1
    shift
    # Debian's source package and a git checkout bring configure.ac only, a release tarball both.
    [ -x configure ] || ./autogen.sh || exit 1
    # What a caller exported for his own build (sanitizers, another compiler) is not for UCX.
    env -u CC -u CXX -u CFLAGS -u CXXFLAGS -u CPPFLAGS -u LDFLAGS ./configure "${configure_flags[@]}" "$@"
)

#!/usr/bin/env bash
# The libfabric provider against a libfabric that is not the machine's own, a 2.x say: builds that
# from its sources, with the providers that comch is compared to or that are layered on it, then
# comch's provider and its tests against it, and passes them. The machine's libfabric stays as it is.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Debian 13's.
version=2.1.0
url=http://deb.debian.org/debian/pool/main/libf/libfabric/libfabric_$version.orig.tar.xz
sha256=1a66369772d5bb151737214af1c478993e969cf298e8f9ed369e7a2ab8d8c6df

usage() {
    cat <<END
usage: scripts/libfabric-test.sh [--source TARBALL] [--build-dir DIR] [--no-install]
  --source TARBALL  of a libfabric release (default: $version, fetched from Debian's mirror)
  --build-dir DIR   libfabric and the build go there (default: build-libfabric in the repository)
  --no-install      install no packages
The last line is "N passed, N failed"; the exit code is 0 if none failed.
END
}

source=
build=$COMCH_ROOT/build-libfabric
install=yes
while [ $# -gt 0 ]; do
    case $1 in
    --no-install) install=no ;;
    --source | --build-dir)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in
        --source) source=$(realpath -e "$2") || die "'$2' is not there" ;;
        --build-dir) build=$(realpath -m "$2") ;;
        esac
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
    shift
done

jobs=$(comch_jobs)
mkdir -p "$build/log" || die "cannot create the build folder '$build': choose another with --build-dir"
[ "$install" = no ] || bash "$COMCH_ROOT/scripts/install-deps.sh" || exit 1

fetch() {
    python3 -c 'import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])' "$url" "$source.part" &&
        sha256sum --check <<<"$sha256  $source.part" && mv "$source.part" "$source"
}
if [ -z "$source" ]; then
    source=$build/libfabric-$version.tar.xz
    [ -f "$source" ] || run_logged "fetching libfabric $version" "$build/log/fetch.log" retry 3 fetch ||
        die "give the tarball of a release with --source"
fi

prefix=$build/libfabric
build_libfabric() {
    rm -rf "$build/source" "$prefix" && mkdir "$build/source" &&
        tar -xf "$source" --strip-components 1 -C "$build/source" && cd "$build/source" || return 1
    [ -x configure ] || autoreconf -i || return 1
    ./configure --prefix="$prefix" --disable-static --disable-efa --disable-psm2 --disable-psm3 \
        --disable-opx --disable-usnic --disable-ucx --disable-lpp --disable-verbs &&
        make -j "$jobs" && make install && sha256sum "$source" >"$prefix/made-from"
}
[ "$(sha256sum "$source")" = "$(cat "$prefix/made-from" 2>/dev/null)" ] ||
    run_logged "building libfabric" "$build/log/libfabric.log" build_libfabric || exit 1

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export LD_LIBRARY_PATH=$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH=$prefix/bin:$PATH
run_logged "configure" "$build/log/configure.log" \
    cmake -S "$COMCH_ROOT" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCOMCH_WERROR=ON \
    -DCOMCH_WITH_UCX=OFF -DCOMCH_WITH_MPI_TESTS=OFF || exit 1
run_logged "build" "$build/log/build.log" \
    cmake --build "$build" -j "$jobs" --target ofi_comch_test comch_fi_perftest || exit 1
run_logged "tests" "$build/log/tests.log" \
    ctest --test-dir "$build" -R '^ofi_comch_test' -j "$jobs" --no-tests=error --output-on-failure --timeout 300 ||
    tell_failures "$build/log/tests.log"
read -r passed failed skipped < <(ctest_counts "$build/log/tests.log")
say "libfabric $("$prefix/bin/fi_info" --version | sed -n 's/^libfabric: *//p'): ${skipped:-0} skipped"
echo "${passed:-0} passed, ${failed:-1} failed"
[ "${failed:-1}" -eq 0 ]

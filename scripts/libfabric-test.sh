#!/usr/bin/env bash
# The libfabric provider against a libfabric that is not the machine's own, a 2.x say: builds that
# from its sources, with the providers that comch is compared to or that are layered on it, then
# comch's provider and its tests against it, and passes them; and libfabric's own test programs over
# comch, if the sources have them. The machine's libfabric stays as it is.
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
  --build-dir DIR   libfabric and the build go there (default: build-libfabric in the repository);
                    what is in its folder other-libfabric is replaced
  --no-install      install no packages
If it comes to the tests, the last line is "N passed, N failed"; the exit code is 0 if none failed.
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
        --source)
            [ -f "$2" ] && [ -r "$2" ] || die "'$2' is no file that can be read"
            source=$(realpath "$2")
            ;;
        --build-dir) build=$(realpath -m "$2") ;;
        esac
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        bad_usage "$1"
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

prefix=$build/other-libfabric/installed
made_from="$(sha256sum <"$source"), with its test programs" || exit 1
build_libfabric() {
    local tree=$build/other-libfabric/source
    rm -rf "$build/other-libfabric" && mkdir -p "$tree" &&
        tar -xf "$source" --strip-components 1 -C "$tree" && cd "$tree" || return 1
    [ -x configure ] || autoreconf -i || return 1
    ./configure --prefix="$prefix" --disable-static --disable-efa --disable-psm2 --disable-psm3 \
        --disable-opx --disable-usnic --disable-ucx --disable-lpp --disable-verbs &&
        make -j "$jobs" && make install || return 1
    if [ -d fabtests ]; then
        cd fabtests || return 1
        [ -x configure ] || autoreconf -i || return 1
        ./configure --prefix="$prefix/fabtests" --with-libfabric="$prefix" &&
            make -j "$jobs" && make install || return 1
    fi
    echo "$made_from" >"$prefix/made-from"
}
[ "$made_from" = "$(cat "$prefix/made-from" 2>/dev/null)" ] ||
    run_logged "building libfabric" "$build/log/libfabric.log" build_libfabric || exit 1

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export LD_LIBRARY_PATH=$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH=$prefix/bin:$PATH
# Warnings are no errors: 2.x warns of names that programs written for 1.x use, as some tests do.
run_logged "configure" "$build/log/configure.log" \
    cmake --fresh -S "$COMCH_ROOT" -B "$build/comch" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCOMCH_WITH_UCX=OFF -DCOMCH_WITH_MPI_TESTS=OFF || exit 1
grep -q "^LIBFABRIC_PREFIX:INTERNAL=$prefix\$" "$build/comch/CMakeCache.txt" ||
    die "the build takes another libfabric than '$prefix'; see $build/log/configure.log"
run_logged "build" "$build/log/build.log" \
    cmake --build "$build/comch" -j "$jobs" --target ofi_comch_test comch_fi_perftest || exit 1
run_logged "tests" "$build/log/tests.log" \
    ctest --test-dir "$build/comch" -R '^ofi_comch_test' -j "$jobs" --no-tests=error --output-on-failure --timeout 300 ||
    tell_failures "$build/log/tests.log"
read -r passed failed skipped < <(ctest_counts "$build/log/tests.log")
passed=${passed:-0} failed=${failed:-1}
say "libfabric $("$prefix/bin/fi_info" --version | sed -n 's/^libfabric: *//p'): ${skipped:-0} skipped"
if [ -d "$prefix/fabtests/bin" ]; then
    # In a network namespace: some of the programs listen on all addresses.
    if [ "$(id -u)" -eq 0 ]; then alone=(unshare --net); else alone=(unshare --map-root-user --net); fi
    export FI_PROVIDER_PATH=$build/comch/lib/libfabric
    run_logged "libfabric's test programs" "$build/log/fabtests.log" "${alone[@]}" \
        sh -c 'ip link set lo up && exec python3 "$@"' sh "$COMCH_ROOT/scripts/fabtests.py" \
        --programs "$prefix/fabtests/bin"
    read -r more_passed more_failed < \
        <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$build/log/fabtests.log")
    passed=$((passed + ${more_passed:-0})) failed=$((failed + ${more_failed:-1}))
else
    say "these sources of libfabric bring no test programs (fabtests)"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

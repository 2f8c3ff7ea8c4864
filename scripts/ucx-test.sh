#!/usr/bin/env bash
# UCX's own tests, of transports (UCT) and of what is built on them (UCP), over comch: builds the
# sources of the installed UCX, with comch in the lists of transports that the tests are made for,
# and the transport against them. The machine's UCX stays as it is. Takes half an hour.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/ucx_source.sh"

usage() {
    cat <<END
usage: scripts/ucx-test.sh [--build-dir DIR] [--no-install] [--only REGEX]
  --build-dir DIR  UCX and the build go there (default: build-ucx in the repository); what is in its
                   folder ucx-source is replaced
  --no-install     install no packages
  --only REGEX     those test cases whose name ("comch/test_ucp_rma") has a match
If it comes to the tests, the last line is "N passed, N failed"; the exit code is 0 if none failed.
END
}

build=$COMCH_ROOT/build-ucx
install=yes
only=()
while [ $# -gt 0 ]; do
    case $1 in
    --no-install) install=no ;;
    --build-dir | --only)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in
        --build-dir) build=$(realpath -m "$2") ;;
        --only) only=(--only "$2") ;;
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
ask_ucx_info ucx_info
ask_ucx_package ucx_info
source=$build/ucx-source
tree=$source/tree
# shellcheck disable=SC2154 # ask_ucx_package sets them
made_from="$package $version, recipe 2"

fetch() {
    rm -rf "$source" && mkdir "$source" && retry 3 fetch_ucx_source "$source" && unpack_ucx_source "$source"
}
# The lists are in macros: one of UCT's transports, one of memory domains, two of UCP's choices.
add_comch() {
    cd "$tree/test/gtest" &&
        sed -i 's/^    posix, .*\\$/    comch, \\\n&/' uct/uct_test.h &&
        sed -i 's/^  *cma, \\$/comch, \\\n&/' uct/test_md.cc &&
        sed -i -e '/^    UCP_INSTANTIATE_TEST_CASE_TLS(_test_case, self, /i\    UCP_INSTANTIATE_TEST_CASE_TLS(_test_case, comch, "comch") \\' \
            -e '/^    UCP_INSTANTIATE_TEST_CASE_TLS_GPU_AWARE(_test_case, ugni, /i\    UCP_INSTANTIATE_TEST_CASE_TLS_GPU_AWARE(_test_case, comch, "comch") \\' \
            ucp/ucp_test.h || return 1
    # A test that takes every key to have eight bytes at most, and writes ours over its variables.
    sed -i -e 's/^    uint64_t key;$/    std::vector<uint64_t> key(32);/' -e 's/std::set<uint64_t> keys_set/std::set<std::vector<uint64_t> > keys_set/' \
        -e 's/mkey_pack_v2(md(), memh, &pack_params, &key)/mkey_pack_v2(md(), memh, \&pack_params, key.data())/' uct/test_md.cc &&
        grep -q 'pack_params, key.data()' uct/test_md.cc || return 1
    local added
    added=$(cat uct/uct_test.h uct/test_md.cc ucp/ucp_test.h | grep -c 'comch.*\\$')
    [ "$added" -eq 4 ] || {
        echo "comch was to come into four lists of the tests, and came into $added"
        return 1
    }
}
build_ucx() {
    configure_ucx "$tree" --prefix="$build/installed" --enable-gtest --without-java --without-go || return 1
    local part
    for part in src/ucm src/ucs src/uct src/ucp src/tools/perf; do
        make -C "$tree/$part" -j "$jobs" || return 1
    done
    # (-O2: with less, what UCX insists on having inlined is not.)
    make -C "$tree/test/gtest" -j "$jobs" CXXFLAGS="-O2 -g0 -w" all && echo "$made_from" >"$source/made-from"
}
if [ "$made_from" != "$(cat "$source/made-from" 2>/dev/null)" ]; then
    run_logged "fetching UCX $version" "$build/log/fetch.log" fetch || exit 1
    run_logged "adding comch to its tests" "$build/log/add.log" add_comch || exit 1
    run_logged "building it and its tests" "$build/log/ucx.log" build_ucx || exit 1
fi
run_logged "configure" "$build/log/configure.log" \
    cmake -S "$COMCH_ROOT" -B "$build/comch" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCOMCH_UCX_SOURCE="$tree" -DCOMCH_WITH_LIBFABRIC=OFF -DCOMCH_WITH_MPI_TESTS=OFF || exit 1
run_logged "build" "$build/log/build.log" \
    cmake --build "$build/comch" -j "$jobs" --target uct_comch || exit 1
# In a network namespace: some tests listen on all addresses.
if [ "$(id -u)" -eq 0 ]; then alone=(unshare --net); else alone=(unshare --map-root-user --net); fi
run_logged "UCX's tests" "$build/log/tests.log" "${alone[@]}" \
    sh -c 'ip link set lo up && exec python3 "$@"' sh "$COMCH_ROOT/scripts/ucx_gtest.py" \
    --program "$tree/test/gtest/gtest" --transport "$build/comch/lib/ucx/libuct_comch.so" "${only[@]}"
grep '^known: ' "$build/log/tests.log"
sed -n 's/^\([0-9]* skipped\)$/\1/p' "$build/log/tests.log"
result=$(tail -n 1 "$build/log/tests.log")
case $result in
*" passed, "*" failed") ;;
*) die "the tests did not come to their end; see $build/log/tests.log" ;;
esac
echo "$result"
[ "${result##*, }" = "0 failed" ]

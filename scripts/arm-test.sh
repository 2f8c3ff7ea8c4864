#!/usr/bin/env bash
# Tests for the DPU's CPU without one: builds for aarch64 against Debian's arm64 packages, has QEMU run
# the unit tests, and has programs of that build talk to this machine's over the soft device.
# (QEMU runs the instructions of the one, with the memory order of the other: order is not tested.)
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'END'
usage: scripts/arm-test.sh [--short] [--build-only] [--build-dir DIR] [--no-install] [-- CTEST_OPTIONS...]
  --short          of the unit tests only those of the core's shared memory and channels, without
                   those that throw dice for minutes
  --build-only     for aarch64, and run nothing
  --build-dir DIR  this machine's own build (default: build in the repository), which is made if it
                   is not there; that for aarch64 goes to DIR-arm
  --no-install     install no packages
The last line is "N passed, N failed"; the exit code is 0 if all passed. Options for ctest choose among
the tests: -N lists them, -R REGEX runs some, -L mixed those of both builds together. What QEMU does not
have is left out, unless they say with -E what to leave out. COMCH_UCX_CACHE: as for other builds.
COMCH_ARM_CACHE sets where the arm64 packages are kept (default: in the folder of that build).
END
}

install=yes
short=no
build_only=no
build=$COMCH_ROOT/build
while [ $# -gt 0 ]; do
    case $1 in
    --no-install) install=no ;;
    --short) short=yes ;;
    --build-only) build_only=yes ;;
    --build-dir)
        [ $# -ge 2 ] || die "--build-dir needs a value"
        build=$(realpath -m "$2")
        shift
        ;;
    --)
        shift
        break
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
arm=$build-arm
mkdir -p "$build/log" "$arm" || die "cannot write to the build folder '$build': choose another with --build-dir"
[ "$install" = no ] || bash "$COMCH_ROOT/scripts/install-deps.sh" || exit 1
sysroot=$(bash "$COMCH_ROOT/scripts/arm/sysroot.sh" --cache "${COMCH_ARM_CACHE:-$arm}") || exit 1

# Debian has configured the UCX of both architectures alike, but for their folders: the same internal
# headers do for both.
headers=$(bash "$COMCH_ROOT/scripts/fetch-ucx-headers.sh" --cache "${COMCH_UCX_CACHE:-$build/ucx-src}") || exit 1
emulator="qemu-aarch64-static -L $sysroot"
flags() { "$@" -v | sed -n 's/^# Configured with: *//p' | sed 's/[^ ]*-linux-gnu[^ ]*//g'; }
# shellcheck disable=SC2086
[ "$(flags ucx_info)" = "$(flags $emulator "$sysroot/usr/bin/ucx_info")" ] ||
    die "UCX's packages for the two architectures were configured differently: compare 'ucx_info -v'" \
        "with '$emulator $sysroot/usr/bin/ucx_info -v'"

configure_arm() {
    cmake -S "$COMCH_ROOT" -B "$arm" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCOMCH_WERROR=ON \
        -DCMAKE_TOOLCHAIN_FILE="$COMCH_ROOT/cmake/aarch64-linux-gnu.cmake" -DCOMCH_ARM_SYSROOT="$sysroot" \
        -DCOMCH_UCX_SOURCE="$headers" -DCOMCH_NATIVE_BUILD_DIR="$build" -DCOMCH_WITH_MPI_TESTS=OFF \
        -DCOMCH_UNITY_BUILD=TESTS
}
if [ "$build_only" = no ]; then
    if [ ! -e "$build/build.ninja" ]; then
        run_logged "configure" "$build/log/arm-native-configure.log" cmake -S "$COMCH_ROOT" -B "$build" \
            -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo || exit 1
    fi
    run_logged "build, for this machine" "$build/log/arm-native-build.log" \
        cmake --build "$build" -j "$jobs" --target comch_mixed_programs || exit 1
fi
run_logged "configure, for aarch64" "$build/log/arm-configure.log" configure_arm || exit 1
targets=(comch_unit_tests)
chosen=(-L '^unit$|^mixed$')
if [ "$short" = yes ]; then
    targets=(comch_base_test comch_memory_test comch_counters_test comch_link_soft_test comch_channel_test)
    chosen=(-R "^mixed|^($(IFS='|' && echo "${targets[*]}"))\\.")
fi
run_logged "build, for aarch64" "$build/log/arm-build.log" \
    cmake --build "$arm" -j "$jobs" --target "${targets[@]}" comch_mixed_programs || exit 1
[ "$build_only" = no ] || exit 0

# What QEMU does not have: reading another process's memory, giving pages back, seccomp, hooks in mmap, reports of
# unmapping; and a program that is built for aarch64 starting another.
not_here=('Joint(Get|TriedPart|Helper|Mapped)' AbsentPeer PeerMemory EndOfARawPeer.TellsOf
    PutsInAScribbledRing BulkMemory.GivesItsPagesBackWhenItIdles HooksUnmapWatch.FindsOutThatNobodyTells
    KernelsUnmapWatch 'UnmapWatches.*ByKernel' 'KeptRegistrations(ByKernel|AndThreads|OfPollers)'
    SoftSandbox /ASandboxed WhoCannotWatchItsProcess Settings.WrongOnesAreSaid ofi_comch_test.not_in_parts)
# What throws dice for minutes, whatever the CPU.
[ "$short" = no ] || not_here+=(ChannelFaults DirectWrite.AllMixtures DirectWrite.NobodyWrites RandomPrograms)
log=$build/log/arm-tests.log
rc=0
[ $# -gt 0 ] || set -- "${chosen[@]}"
case " $* " in
*" -E "* | *" --exclude-regex"*) ;;
*) set -- "$@" -E "$(IFS='|' && echo "${not_here[*]}")" ;;
esac
case " $* " in
*" -N "* | *" --show-only"*) exec ctest --test-dir "$arm" "$@" ;;
esac
run_logged "tests for aarch64" "$log" ctest --test-dir "$arm" -j "$jobs" --no-tests=error \
    --output-on-failure --timeout 900 "$@" || rc=$?
counts=$(ctest_counts "$log")
read -r passed failed skipped <<<"${counts:-0 1 0}"
[ "$rc" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
[ "$failed" -eq 0 ] || tell_failures "$log"
[ "$skipped" -eq 0 ] || echo "$skipped skipped; $log says which"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

#!/usr/bin/env bash
# Installs what is needed, builds, and passes all the tests: everything optimised with warnings as
# errors; what runs over RDMA devices, in a virtual machine that has some; and the unit tests again
# for the DPU's CPU, and under the address, undefined-behaviour and thread sanitizers.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'END'
usage: scripts/test.sh [--quick] [--vm | --no-vm] [--build-dir DIR] [--no-install]
  --quick          leave out the sanitizers, the virtual machine and the DPU's CPU
  --vm             all that there is in the virtual machine (scripts/vm-test.sh), also what takes
                   minutes there: the measuring programs, UCX's own tests, the DOCA face
  --no-vm          leave out the virtual machine
  --build-dir DIR  build there (default: build in the repository); the sanitizers' builds go to
                   DIR-asan and DIR-tsan, that for aarch64 to DIR-arm
  --no-install     install no packages
The last line is "N passed, N failed", summed over everything; the exit code is 0 if none failed.
Some tests want root, for namespaces and mounts: as another user those are skipped, and the table says so.
While tests run, the builds with sanitizers, and for aarch64, begin on what the tests leave of the CPUs.
COMCH_JOBS sets how many jobs run at once (default: one per CPU), COMCH_UCX_CACHE where UCX's
internal headers are kept, COMCH_VM_CACHE where the virtual machine's kernel is (default: in the
build folder), COMCH_ARM_CACHE where the arm64 packages are (default: in that build's folder).
END
}

quick=no
vm=--short
install=yes
build=$COMCH_ROOT/build
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=yes vm=no ;;
    --vm) vm= ;;
    --no-vm) vm=no ;;
    --no-install) install=no ;;
    --build-dir)
        [ $# -ge 2 ] || die "--build-dir needs a value"
        build=$(realpath -m "$2")
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
export COMCH_UCX_CACHE=${COMCH_UCX_CACHE:-$build/ucx-src}
# Colours and cursor movements do not belong in a log.
export NINJA_STATUS='[%f/%t] ' GTEST_COLOR=no
total_passed=0
total_failed=0
summary=()

# summarize NAME PASSED FAILED SECONDS [REMARK]
summarize() {
    summary+=("$(printf '%-34s %7s %7s %6s s  %s' "$1" "$2" "$3" "$4" "${5:-}")")
    total_passed=$((total_passed + $2))
    total_failed=$((total_failed + $3))
}

# stage NAME COMMAND...: a step that is no test; if it fails, that counts as one failure.
stage() {
    local name=$1 from=$SECONDS
    shift
    run_logged "$name" "$build/log/$(tr -c 'a-z0-9\n' - <<<"${name,,}").log" "$@" && return 0
    summarize "$name" 0 1 "$((SECONDS - from))" "did not get as far as testing"
    return 1
}

configure() { # FOLDER BUILD_TYPE OPTIONS...
    local folder=$1 type=$2
    shift 2
    cmake -S "$COMCH_ROOT" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE="$type" \
        -DCOMCH_WERROR=ON -DCOMCH_UCX_CACHE="$COMCH_UCX_CACHE" "$@"
}

# run_tests NAME FOLDER CTEST_OPTIONS...
run_tests() {
    local name=$1 folder=$2 from=$SECONDS rc=0 log counts passed failed skipped remark prefix=()
    log="$build/log/$(tr -c 'a-z0-9\n' - <<<"${name,,}").log"
    shift 2
    # The thread sanitizer wants a memory layout that randomisation does not always give it, and
    # UCX's memory hooks patch functions that it has replaced: the process would die.
    case $folder in
    *-tsan)
        prefix=(env UCX_MEM_MMAP_HOOK_MODE=none)
        setarch -R true 2>/dev/null && prefix+=(setarch -R)
        ;;
    esac
    run_logged "$name" "$log" "${prefix[@]}" ctest --test-dir "$folder" -j "$jobs" \
        --no-tests=error --output-on-failure --timeout 900 "$@" || rc=$?
    counts=$(ctest_counts "$log")
    if [ -z "$counts" ]; then
        summarize "$name" 0 1 "$((SECONDS - from))" "no test was run; see $log"
        return
    fi
    read -r passed failed skipped <<<"$counts"
    # With sanitizers ctest runs each test program as one test (cmake/ComchSources.cmake).
    [ "$folder" = "$build" ] || read -r passed failed skipped < <(
        gtest_counts "$folder/Testing/Temporary/LastTest.log" "$failed")
    [ "$rc" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
    remark=$([ "$skipped" -eq 0 ] || echo "$skipped skipped; ")
    [ "$failed$skipped" = 00 ] || remark+="see $log"
    summarize "$name" "$passed" "$failed" "$((SECONDS - from))" "$remark"
    [ "$failed" -eq 0 ] || tell_failures "$log"
}

# run_script NAME LOG COMMAND...: a script that counts its tests by itself, in its last line. That it
# has ended well too must come on top of the counts.
run_script() {
    local name=$1 log=$2 from=$SECONDS rc=0 passed=0 failed=0
    shift 2
    run_logged "$name" "$log" "$@" || rc=$?
    read -r passed failed < <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$log" | tail -n 1)
    passed=${passed:-0} failed=${failed:-0}
    [ "$rc" -eq 0 ] || { [ "$failed" -gt 0 ] && [ "$rc" -eq 1 ]; } || failed=$((failed + 1))
    summarize "$name" "$passed" "$failed" "$((SECONDS - from))" "$([ "$failed" -eq 0 ] || echo "see $log")"
    [ "$failed" -eq 0 ] || cut -c 1-300 "$log" | tail -n 400
}

# The builds with sanitizers, by the suffixes of their folders.
declare -A sanitizers=([asan]="address,undefined" [tsan]="thread")
configure_sanitized() { # SUFFIX
    # By clang, for a second opinion of the code, and in half of gcc's time. Not optimised: with
    # sanitizers, optimising takes ten times as long to build.
    configure "$build-$1" Debug -DCOMCH_SANITIZE="${sanitizers[$1]}" -DCOMCH_WITH_MPI_TESTS=OFF \
        -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DCOMCH_PRECOMPILED_HEADERS=ON -DCOMCH_UNITY_BUILD=ON
}
build_sanitized() { ninja -C "$build-$1" -j "$jobs" comch_unit_tests; } # SUFFIX
arm_test() { bash "$COMCH_ROOT/scripts/arm-test.sh" --short --no-install --build-dir "$build" "$@"; }

# build_ahead SUFFIX...: begins these builds while something else runs, on what that leaves of the CPUs. Tests
# leave much of them: many wait for time to pass, and those of whole processes go one at a time. By the
# kernel's idle policy a test that wants a CPU gets it at once: where that cannot be had, nothing is built
# ahead. What comes of it does not matter, as the stage itself builds what is not there.
ahead=
build_ahead() {
    chrt --idle 0 true 2>/dev/null || return 0
    # A process group of its own, to end as a whole. Ninja then ends its compilers and removes what is half
    # written, and the shell, which has a trap, waits for that: nothing else may run in the folder before.
    set -m
    (
        trap - EXIT INT
        trap 'exit 143' TERM
        chrt --idle --pid 0 "$BASHPID" >/dev/null
        for suffix in "$@"; do
            if [ "$suffix" = arm ]; then
                arm_test --build-only
            else
                configure_sanitized "$suffix" && build_sanitized "$suffix"
            fi
        done
    ) </dev/null >"$build/log/ahead.log" 2>&1 &
    ahead=$!
    set +m
}
stop_ahead() {
    [ -n "$ahead" ] || return 0
    kill -- "-$ahead" 2>/dev/null
    wait "$ahead" 2>/dev/null
    ahead=
}
trap 'stop_ticker; stop_ahead' EXIT

# sanitized NAME SUFFIX NEXT_SUFFIX...: while its tests run, the next builds go on.
sanitized() {
    stop_ahead
    stage "configure ($1)" configure_sanitized "$2" &&
        stage "build ($1)" build_sanitized "$2" || return
    build_ahead "${@:3}"
    run_tests "unit tests ($1)" "$build-$2" -L '^unit$'
}

mkdir -p "$build/log" || die "cannot create the build folder '$build': choose another with --build-dir"
[ "$install" = no ] || bash "$COMCH_ROOT/scripts/install-deps.sh" || exit 1

built=no
# The libraries as users build them; of the test programs several sources at once.
if stage "configure" configure "$build" RelWithDebInfo -DCOMCH_UNITY_BUILD=TESTS &&
    stage "build" cmake --build "$build" -j "$jobs"; then
    [ "$quick" = yes ] || build_ahead asan tsan arm
    run_tests "unit tests" "$build" -L '^unit$'
    # All that there is in the virtual machine: then what tests the machine itself as well.
    run_tests "system and MPI tests" "$build" -LE "$([ -z "$vm" ] && echo '^unit$' || echo '^unit$|^long$')"
    [ "$vm" = no ] || run_script "RDMA, in a virtual machine" "$build/log/vm.log" \
        bash "$COMCH_ROOT/scripts/vm-test.sh" $vm --no-install --build-dir "$build"
    built=yes
fi
if [ "$quick" = no ]; then
    sanitized "address, undefined" asan tsan arm
    sanitized "thread" tsan arm
    stop_ahead
    [ "$built" = no ] || run_script "aarch64, emulated" "$build/log/arm.log" arm_test
fi

echo
printf '%-34s %7s %7s %8s\n' "" passed failed time
printf '%s\n' "${summary[@]}"
echo
if [ "$total_failed" -eq 0 ]; then
    cat <<END
What to try next:
  scripts/demo.sh                     see comch at work
  ctest --test-dir $build -N          all the tests by name; -R REGEX runs some of them
END
else
    cat <<END
What to try next: run what failed again, alone and in full:
  ctest --test-dir $build --rerun-failed --output-on-failure
The logs are in $build/log.
END
fi
say "finished"
echo "$total_passed passed, $total_failed failed"
[ "$total_failed" -eq 0 ]

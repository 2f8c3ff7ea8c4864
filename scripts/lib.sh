# Shell helpers shared by the scripts in this folder; sourced, never run.
# shellcheck shell=bash

if [ -n "${BASH_SOURCE[0]:-}" ]; then
    COMCH_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
fi
COMCH_STARTED=${SECONDS}

# One progress line, with the seconds since the script started.
say() { printf '[%4ds] %s\n' "$((SECONDS - COMCH_STARTED))" "$*"; }
warn() { printf '[%4ds] warning: %s\n' "$((SECONDS - COMCH_STARTED))" "$*" >&2; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# bad_usage OPTION: of a script that has a usage() and no such option.
bad_usage() {
    printf "error: there is no option '%s'\n" "$1" >&2
    usage >&2
    exit 2
}

comch_jobs() {
    local n
    n=$(nproc 2>/dev/null || echo 2)
    echo "${COMCH_JOBS:-$n}"
}

# run_logged TITLE LOGFILE COMMAND...
# Runs a long command with its output in a file, and shows that it is alive: a line when it starts,
# one every 15 s with the last thing it said, one when it ends. A failure shows the end of the log.
COMCH_TICKER=
stop_ticker() {
    if [ -n "$COMCH_TICKER" ]; then
        kill "$COMCH_TICKER" 2>/dev/null
        wait "$COMCH_TICKER" 2>/dev/null
        COMCH_TICKER=
    fi
    return 0
}
run_logged() {
    local title=$1 log=$2 from=$SECONDS rc=0
    shift 2
    mkdir -p "$(dirname "$log")"
    : >"$log"
    say "$title ..."
    (
        # A pipe that nobody writes to is a sleep that leaves no child behind when it is killed.
        exec {quiet}<> <(:)
        while :; do
            read -rt 15 -u "$quiet" _
            say "    still at it: $(tail -n 1 "$log" | tr '\r' '\n' | tail -n 1 | cut -c 1-90)"
        done
    ) &
    COMCH_TICKER=$!
    "$@" >>"$log" 2>&1 </dev/null || rc=$?
    stop_ticker
    if [ "$rc" -eq 0 ]; then
        say "$title: done in $((SECONDS - from)) s"
    else
        say "$title: FAILED (exit code $rc) after $((SECONDS - from)) s"
        printf -- '---- the end of %s\n' "$log"
        tail -n "${COMCH_LOG_TAIL:-60}" "$log"
        printf -- '----\n'
    fi
    return "$rc"
}
trap stop_ticker EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# retry TIMES COMMAND...: for what depends on a network; waits 3, 6, 9 ... s between attempts.
retry() {
    local times=$1 attempt=1
    shift
    until "$@"; do
        [ "$attempt" -lt "$times" ] || return 1
        echo "attempt $attempt of $times failed; trying again in $((attempt * 3)) s" >&2
        sleep "$((attempt * 3))"
        attempt=$((attempt + 1))
    done
}

# tell_failures LOG: what the failed tests said; where only the terminal's text survives, nothing
# else is left to find the cause with.
tell_failures() {
    awk '/^ *[0-9]+\/[0-9]+ Test/ { failing = !/ Passed |\*\*\*Skipped/ } failing' "$1" | cut -c 1-300 | head -n 400
    sed -n '/^The following tests FAILED/,/^Errors while/p' "$1"
}

# What was made once is kept in a cache, for any number of builds and runs. A script that makes such a
# folder says on descriptor 3 where it is, and the rest on standard error:
#
#   begin_kept CACHE NAME RECIPE WHAT   where CACHE/NAME was made from this RECIPE, the script ends here.
#                                       Else it is made now: in $work/kept, with $log for what is said
#   end_kept                            all that was to be made is there
begin_kept() {
    local cache name=$2 what=$4
    mkdir -p "$1" || die "cannot create the folder '$1' for $what: choose another cache"
    cache=$(cd "$1" && pwd -P)
    kept=$cache/$name recipe=$3
    deliver_kept
    # Several may share the cache: one makes the result, the others wait for it.
    exec {kept_lock}>"$kept.lock" || die "cannot write to the cache '$cache'"
    flock -n "$kept_lock" || {
        say "another run is fetching $what; waiting for it"
        flock "$kept_lock"
    }
    deliver_kept
    work=$kept.work log=$kept.log
    rm -rf "$work" "$kept"
    mkdir -p "$work/kept" || die "cannot write to the cache '$cache'"
    trap 'stop_ticker; rm -rf "$work"' EXIT
}
end_kept() {
    # The stamp comes last within the folder, and the folder is moved as a whole.
    printf '%s\n' "$recipe" >"$work/kept/comch-stamp" && mv "$work/kept" "$kept" ||
        die "cannot write to '$kept'"
    rm -f "$log"
    deliver_kept
}
deliver_kept() {
    [ "$(cat "$kept/comch-stamp" 2>/dev/null)" = "$recipe" ] || return 0
    printf '%s\n' "$kept" >&3
    exit 0
}

# How many tests of a run of ctest passed, failed and were skipped, by its log; nothing: none was run.
# (In ctest's own sum those that were skipped have passed.)
ctest_counts() {
    local failed total skipped
    read -r failed total < <(sed -n \
        's/^[0-9]*% tests passed, \([0-9]*\) tests* failed out of \([0-9]*\)$/\1 \2/p' "$1" | tail -n 1)
    [ -n "$total" ] || return 0
    skipped=$(grep -c '^ *[0-9]*/[0-9]* Test .*\*\*\*Skipped' "$1")
    echo "$((total - failed - skipped)) $failed $skipped"
}

# The same where ctest runs whole programs of GoogleTest: by what these said in ctest's log of all output,
# LOG. FAILED programs are at least as many failures, as one that crashes does not say which test did.
gtest_counts() { # LOG FAILED
    awk -v failed="$2" '
        /^\[       OK \] .*\([0-9]+ ms\)$/ { passed++ }
        /^\[  SKIPPED \] .*\([0-9]+ ms\)$/ { skipped++ }
        /^\[  FAILED  \] .*\([0-9]+ ms\)$/ { told++ }
        END { print passed + 0, (told > failed ? told : failed) + 0, skipped + 0 }' "$1"
}

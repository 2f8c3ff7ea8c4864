#!/usr/bin/env bash
# A first look at comch on a fresh Debian 12 machine: installs what is needed, builds, shows the
# devices, runs ucx_perftest between the two sides, an MPI job over both, and a first table.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'END'
usage: scripts/demo.sh [--build-dir DIR] [--no-install] [--rounds N]
  --build-dir DIR  build there (default: build in the repository)
  --no-install     install no packages
  --rounds N       rounds of the table's measurements (default: 5, about 5 s each)
END
}

install=yes
rounds=5
build=$COMCH_ROOT/build
while [ $# -gt 0 ]; do
    case $1 in
    --no-install) install=no ;;
    --build-dir | --rounds)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in
        --build-dir) build=$(realpath -m "$2") ;;
        --rounds)
            [[ $2 =~ ^[1-9][0-9]*$ ]] || die "--rounds: '$2' is not a number above 0"
            rounds=$2
            ;;
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

export NINJA_STATUS='[%f/%t] '
jobs=$(comch_jobs)
# Paths as one would type them: relative to the current folder if they are below it.
short() { realpath -m --relative-base="$PWD" "$1"; }
library=$build/lib/ucx/libuct_comch.so # in full: programs may be started anywhere
failed=()

heading() { printf '\n=== %s\n\n' "$*"; }
# show COMMAND...: prints the command as one could type it, then runs it.
show() {
    printf '$ %s\n' "$*"
    "$@" </dev/null
}
# part TITLE COMMAND...: one part of the demo; the next ones are shown even if it fails.
part() {
    local title=$1
    shift
    "$@" || {
        echo "error: this part failed, see above" >&2
        failed+=("$title")
    }
}

mkdir -p "$build/log" || die "cannot create the build folder '$build': choose another with --build-dir"
[ "$install" = no ] || bash "$COMCH_ROOT/scripts/install-deps.sh" || exit 1
run_logged "configure" "$build/log/demo-configure.log" cmake -S "$COMCH_ROOT" -B "$build" -G Ninja \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo || exit 1
run_logged "build" "$build/log/demo-build.log" cmake --build "$build" -j "$jobs" \
    --target comch_tools uct_comch mpi_tests/all || exit 1

heading "The devices of the soft domain (no DPU is needed: it stands in for one)"
part "the devices" show "$(short "$build/bin/comch_info")"

heading "ucx_perftest between a host-side and a DPU-side process, over comch"
cat <<END
By hand, in two terminals, with LD_PRELOAD=$library and UCX_TLS=comch:
  COMCH_SIDE=dpu  ucx_perftest
  COMCH_SIDE=host ucx_perftest 127.0.0.1 -t tag_lat -s 8
Here one script starts both:
END
perftest() {
    show python3 "$(short "$COMCH_ROOT/scripts/perftest_pair.py")" --build-dir "$(short "$build")" -- "$@"
}
part "ucx_perftest latency" perftest -t tag_lat -s 8 -n 500000
part "ucx_perftest bandwidth" perftest -t tag_bw -s 1048576 -n 5000

heading "An unmodified OpenMPI job of 4 ranks, 2 on the host and 2 on the DPU, every byte checked"
export COMCH_BUILD_DIR=$build COMCH_SOURCE_DIR=$COMCH_ROOT PYTHONDONTWRITEBYTECODE=1
part "the MPI job" show python3 "$(short "$COMCH_ROOT/mpi_tests/run.py")" --mpi openmpi --ranks 4 --layout mixed \
    --tests pt2pt_sizes,collectives

heading "A first table: comch beside UCX's own posix+cma, measured now ($rounds rounds)"
part "the table" show python3 "$(short "$COMCH_ROOT/scripts/first_table.py")" --build-dir "$(short "$build")" \
    --rounds "$rounds"

heading "What to try next"
cat <<END
all the tests:
  $(short "$COMCH_ROOT/scripts/test.sh")
live connections, while a job runs:
  $(short "$build/bin/comch_stat")
any program that uses UCX, on the host side (two such programs find each other):
  LD_PRELOAD=$library UCX_TLS=comch COMCH_SIDE=host PROGRAM
the transport and its settings, as UCX sees them:
  LD_PRELOAD=$library ucx_info -d
  LD_PRELOAD=$library ucx_info -cf | grep UCX_COMCH
other MPI jobs, under OpenMPI and MPICH:
  $(short "$COMCH_ROOT/mpi_tests/run.py") --help; README.md shows the plain mpirun command lines
END
echo
if [ "${#failed[@]}" -ne 0 ]; then
    say "finished; failed:$(printf ' %s;' "${failed[@]}")"
    exit 1
fi
say "finished: everything worked"

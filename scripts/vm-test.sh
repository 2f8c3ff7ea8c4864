#!/usr/bin/env bash
# Tests on a real RDMA stack without RDMA hardware: boots a Debian kernel in QEMU (no KVM needed),
# with a soft-RoCE device each for a host (rxe0) and a DPU (rxe1), and runs tests/vm in there, or any
# other command.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
    cat <<'END'
usage: scripts/vm-test.sh [--short] [--build-dir DIR] [--no-install] [--logs DIR]
                          [--timeout SECONDS] [--memory MIB] [-- command...]
Without a command it builds and runs all the tests of tests/vm, and counts them: "N passed, N failed".
  --short            leave out the tests that take minutes
  --build-dir DIR    the build to test (default: build in the repository); the kernel is kept there
  --no-install       install no packages
  --logs DIR         where the command's output and the machine's logs are kept (default: DIR/log/vm)
  --timeout SECONDS  how long the command may take (default: 900; all the
                     tests: 3600)
  --memory MIB       of the machine (default: 2048; for all the tests 6144, because some of them send
                     a gigabyte; what it does not touch it does not take)
The machine sees this one's files, and can write to none but in /tmp, /var/tmp, /run and /dev/shm,
which are its own and empty. COMCH_DOMAIN_FILE describes the two devices as a domain;
COMCH_VM_HOST_ADDRESS, COMCH_VM_HOST_VF_ADDRESS and COMCH_VM_DPU_ADDRESS tell the addresses.
The exit code is the command's; 124 if it took too long, 125 if the machine crashed or hung.
COMCH_VM_CACHE sets where the kernel is kept.
END
}

install=yes
build=$COMCH_ROOT/build
logs=
short=()
options=()
while [ $# -gt 0 ]; do
    case $1 in
    --short) short=(--short) ;;
    --no-install) install=no ;;
    --build-dir | --logs | --timeout | --memory)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in
        --build-dir) build=$(realpath -m "$2") ;;
        --logs) logs=$(realpath -m "$2") ;;
        *) options+=("$1" "$2") ;;
        esac
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

[ $# -eq 0 ] || [ ${#short[@]} -eq 0 ] || die "--short is of the tests; it cannot go with a command of your own"
mkdir -p "$build/vm" || die "cannot write to the build folder '$build': choose another with --build-dir"
[ "$install" = no ] || bash "$COMCH_ROOT/scripts/install-deps.sh" || exit 1
kernel=$(bash "$COMCH_ROOT/scripts/vm/kernel.sh" --cache "${COMCH_VM_CACHE:-$build/vm}") || exit 1
if [ $# -eq 0 ]; then
    [ -e "$build/build.ninja" ] ||
        run_logged "configure" "$build/log/vm-configure.log" cmake -S "$COMCH_ROOT" -B "$build" \
            -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo || exit 1
    run_logged "build" "$build/log/vm-build.log" cmake --build "$build" -j "$(comch_jobs)" || exit 1
    set -- env COMCH_BUILD_DIR="$build" COMCH_SOURCE_DIR="$COMCH_ROOT" \
        python3 "$COMCH_ROOT/tests/vm/run.py" "${short[@]}"
    options=(--memory 6144 --timeout 3600 "${options[@]}")
fi
exec python3 "$COMCH_ROOT/scripts/vm/boot.py" --kernel "$kernel" --runs "$build/vm" \
    --logs "${logs:-$build/log/vm}" --folder "$build" "${options[@]}" -- "$@"

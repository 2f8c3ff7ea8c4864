#!/usr/bin/env bash
# The second stage of the virtual machine, process 1 on the root file system of the machine outside:
# makes the two devices, runs the command that job.sh names, and hands back what it said and its
# exit status through the folder that both sides share.
set -um
lab=/run/comch-vm
exec </dev/null >"$lab/machine.log" 2>&1

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp/home TMPDIR=/tmp
export LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
# As in domain.toml.
export COMCH_VM_HOST_ADDRESS=10.78.0.1 COMCH_VM_DPU_ADDRESS=10.78.0.2
export COMCH_VM_HOST_VF_ADDRESS=10.78.0.3 COMCH_DOMAIN_FILE=$lab/domain.toml
mkdir -p "$HOME"
hostname comch-vm
ulimit -l unlimited -c 0
# shellcheck source=/dev/null
. "$lab/job.sh"

end() { # STATUS
    dmesg >"$lab/kernel.log"
    echo "$1" >"$lab/status.new" && mv "$lab/status.new" "$lab/status"
    echo o >/proc/sysrq-trigger
    sleep 3600
}

# What stands still here is seen outside.
while :; do
    echo "$SECONDS" >"$lab/heartbeat"
    sleep 1
done &

bash "$lab/network.sh" || {
    cp "$lab/machine.log" "$lab/output"
    end 125
}

tell_what_hangs() {
    local pid tid state
    echo "vm: not done after $COMCH_VM_TIMEOUT s; these processes run:"
    ps -N --ppid 2 -p 2 -o pid,ppid,stat,wchan:24,args
    ps -eLo pid,tid,stat | while read -r pid tid state; do
        # D: waits in the kernel for something that does not come.
        case $state in D*)
            echo "thread $tid of process $pid, $(cat "/proc/$tid/comm"), is at"
            cat "/proc/$pid/task/$tid/stack"
            ;;
        esac
    done
}

(
    cd "$COMCH_VM_FOLDER" || exit 125
    exec "${COMCH_VM_COMMAND[@]}"
) >"$lab/output" 2>&1 &
command=$!
(
    sleep "$COMCH_VM_TIMEOUT"
    tell_what_hangs >>"$lab/output"
    : >"$lab/timed-out"
    kill -TERM -- "-$command"
    sleep 10
    kill -KILL -- "-$command"
) &
wait "$command"
status=$?
[ ! -e "$lab/timed-out" ] || status=124
end "$status"

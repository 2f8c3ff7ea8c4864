#!/usr/bin/env bash
# Inside the virtual machine: a host and a DPU that are one kernel. A virtual Ethernet pair joins
# them; each end has an address and a soft-RoCE device of its own: rxe0 is the host's, rxe1 the DPU's.
# The host has a second address, for a second function.
#
# Both ends in one network namespace, because soft-RoCE connects in no other. Left alone the kernel
# would then deliver whatever goes from one end to the other over the loopback device, and every
# connection would end up on one device. So the local table is looked up last, except for what came
# in over the pair, and what leaves from an end's address leaves through that end.
#
# It can be run again, and then makes only what is missing: an interface that is taken down loses its
# routes, and a device may have been deleted.
set -eu
host=$COMCH_VM_HOST_ADDRESS host_vf=$COMCH_VM_HOST_VF_ADDRESS dpu=$COMCH_VM_DPU_ADDRESS

make_pair() {
    local name address
    # Jumbo frames let the devices have RDMA's largest packets, 4096 bytes.
    ip link add h0 mtu 9000 type veth peer name d0 mtu 9000
    for name in all h0 d0; do
        echo 1 >"/proc/sys/net/ipv4/conf/$name/accept_local"
        echo 0 >"/proc/sys/net/ipv4/conf/$name/rp_filter"
        echo 1 >"/proc/sys/net/ipv4/conf/$name/arp_ignore"
    done
    ip rule add pref 32765 lookup local
    ip rule del pref 0
    ip rule add pref 1 iif h0 lookup local
    ip rule add pref 1 iif d0 lookup local
    # Each end reaches itself.
    ip rule add pref 5 from "$dpu" to "$dpu" lookup local
    for address in "$host" "$host_vf"; do
        ip rule add pref 5 from "$address" to "$host" lookup local
        ip rule add pref 5 from "$address" to "$host_vf" lookup local
    done
    ip rule add pref 10 from "$host" lookup 100
    ip rule add pref 10 from "$dpu" lookup 101
    ip rule add pref 10 from "$host_vf" lookup 102
    ip rule add pref 11 oif h0 lookup 100
    ip rule add pref 11 oif d0 lookup 101
    # Who does not say where he comes from is at the other end.
    ip rule add pref 20 to "$dpu" lookup 100
    ip rule add pref 20 to "$host" lookup 101
    ip rule add pref 20 to "$host_vf" lookup 101
}

make_device() { # NAME INTERFACE
    [ -e "/sys/class/infiniband/$1" ] || rdma link add "$1" type rxe netdev "$2"
}

ip link set lo up
[ -e /sys/class/net/h0 ] || make_pair
ip addr replace "$host/32" dev h0
ip addr replace "$host_vf/32" dev h0
ip addr replace "$dpu/32" dev d0
ip link set h0 up
ip link set d0 up
ip route replace "$dpu/32" dev h0 src "$host" table 100
ip route replace "$dpu/32" dev h0 src "$host_vf" table 102
ip route replace "$host/32" dev d0 src "$dpu" table 101
ip route replace "$host_vf/32" dev d0 src "$dpu" table 101
make_device rxe0 h0
make_device rxe1 d0

# The ends know each other's hardware address before anybody connects: with the packet that has to wait
# for that, soft-RoCE loses rdma_cm's first message, and it is sent again only after four seconds.
meet() { # INTERFACE ADDRESS
    echo >"/dev/udp/$2/9" # nobody listens there
    for _ in $(seq 100); do
        ip neigh show dev "$1" to "$2" | grep -q lladdr && return 0
        sleep 0.05
    done
    echo "network: no answer from $2 over $1" >&2
    return 1
}
meet h0 "$dpu"
meet d0 "$host"
meet d0 "$host_vf"

#!/usr/bin/env bash
# Inside the virtual machine: a host and a DPU that are one kernel. A virtual Ethernet pair joins
# them; each end has an address and a soft-RoCE device of its own: rxe0 is the host's, rxe1 the DPU's.
#
# Both ends in one network namespace, because soft-RoCE connects in no other. Left alone the kernel
# would then deliver whatever goes from one end to the other over the loopback device, and every
# connection would end up on one device. So the local table is looked up last, except for what came
# in over the pair, and what leaves from an end's address leaves through that end.
set -eu

ip link set lo up
# Jumbo frames let the devices have RDMA's largest packets, 4096 bytes.
ip link add h0 mtu 9000 type veth peer name d0 mtu 9000
for name in all h0 d0; do
    echo 1 >"/proc/sys/net/ipv4/conf/$name/accept_local"
    echo 0 >"/proc/sys/net/ipv4/conf/$name/rp_filter"
    echo 1 >"/proc/sys/net/ipv4/conf/$name/arp_ignore"
done
ip addr add "$COMCH_VM_HOST_ADDRESS/32" dev h0
ip addr add "$COMCH_VM_DPU_ADDRESS/32" dev d0
ip link set h0 up
ip link set d0 up

ip rule add pref 32765 lookup local
ip rule del pref 0
ip rule add pref 1 iif h0 lookup local
ip rule add pref 1 iif d0 lookup local
ip rule add pref 10 from "$COMCH_VM_HOST_ADDRESS" lookup 100
ip rule add pref 10 oif h0 lookup 100
ip rule add pref 11 from "$COMCH_VM_DPU_ADDRESS" lookup 101
ip rule add pref 11 oif d0 lookup 101
ip route add "$COMCH_VM_DPU_ADDRESS/32" dev h0 src "$COMCH_VM_HOST_ADDRESS" table 100
ip route add "$COMCH_VM_HOST_ADDRESS/32" dev d0 src "$COMCH_VM_DPU_ADDRESS" table 101

rdma link add rxe0 type rxe netdev h0
rdma link add rxe1 type rxe netdev d0

#!/bin/sh
# side_wrapper.sh host|dpu|mixed PROGRAM [ARGUMENT...]
# Runs one rank of an MPI job on its side of the domain; "mixed" takes the sides in turn.
layout=$1
shift
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
case $layout in
host | dpu) COMCH_SIDE=$layout ;;
mixed)
    case ${rank:?no rank in the environment: neither OpenMPI nor MPICH started this} in
    *[02468]) COMCH_SIDE=host ;;
    *) COMCH_SIDE=dpu ;;
    esac
    ;;
*)
    echo "side_wrapper.sh: '$layout' is no layout: use host, dpu or mixed" >&2
    exit 2
    ;;
esac
export COMCH_SIDE
exec "$@"

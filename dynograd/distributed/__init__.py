"""`torch.distributed`: processes that train together, over MPI, and a group of one for a process that trains on its own.

`python -m dynograd.run -n 4 train.py` starts them. A process alone is rank 0 of 1: sums over the group are its own numbers, nothing waits,
and all collectives check their arguments as with many. `simulate` runs a program's ranks in threads.
"""

from __future__ import annotations

from dynograd.base import stubs
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.distributed.collectives import (
    all_gather,
    all_gather_into_tensor,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
)
from dynograd.distributed.groups import (
    Backend,
    GroupMember,
    destroy_process_group,
    get_backend,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    new_group,
)
from dynograd.distributed.meshes import DeviceMesh, init_device_mesh
from dynograd.distributed.messages import (
    P2POp,
    batch_isend_irecv,
    irecv,
    isend,
    recv,
    recv_object_list,
    send,
    send_object_list,
)
from dynograd.distributed.networks import Network
from dynograd.distributed.object_collectives import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    scatter_object_list,
)
from dynograd.distributed.process_groups import ProcessGroup, Work
from dynograd.distributed.reductions import ReduceOp
from dynograd.distributed.rendezvous import register_rendezvous_handler, rendezvous
from dynograd.distributed.simulation import simulate
from dynograd.distributed.stores import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    FileStore,
    HashStore,
    PrefixStore,
    QueueEmptyError,
    Store,
    TCPStore,
)
from dynograd.distributed.traffic import Traffic
from dynograd.distributed.virtual_shards import VirtualShards

globals().update(stubs.names("distributed"))

__all__ = [
    *stubs.names("distributed"),
    "Backend",
    "DeviceMesh",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "GroupMember",
    "HashStore",
    "Network",
    "P2POp",
    "PrefixStore",
    "ProcessGroup",
    "QueueEmptyError",
    "ReduceOp",
    "Store",
    "TCPStore",
    "Traffic",
    "VirtualShards",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_device_mesh",
    "init_process_group",
    "irecv",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "register_rendezvous_handler",
    "rendezvous",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "simulate",
]

_show_plainly(globals())

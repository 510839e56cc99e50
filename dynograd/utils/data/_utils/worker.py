"""`torch.utils.data._utils.worker`: what a worker may know about itself."""

from dynograd.data.worker import WorkerInfo, get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]

"""Which ops autocast runs in which dtype: the field `cast` of their rows, which follows PyTorch's lists. Others run in the dtypes they get."""

from __future__ import annotations

from dynograd import ops  # noqa: F401  (fills the table)
from dynograd.ops.op import Op, registry

__all__ = ["BANNED", "POLICIES"]


def _policy(entry: Op, device: str) -> str | None:
    cast = entry.row["cast"]
    return cast.get(device) if isinstance(cast, dict) else cast


# device type -> op -> policy
POLICIES: dict[str, dict[str, str]] = {
    device: {entry.name: policy for entry in registry.values() if (policy := _policy(entry, device))}
    for device in ("cuda", "cpu")
}

# Ops that are refused on a GPU, and what to do instead.
BANNED: dict[str, str] = {
    "binary_cross_entropy": "nn.functional.binary_cross_entropy and nn.BCELoss are unsafe to autocast. Many models use a sigmoid layer "
    "right before the binary cross entropy layer. In this case, combine the two layers using "
    "nn.functional.binary_cross_entropy_with_logits or nn.BCEWithLogitsLoss, which are safe to autocast."
}

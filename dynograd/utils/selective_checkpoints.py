"""Policies of `torch.utils.checkpoint`: which ops keep their results. Here all are computed again; results and gradients are the same."""

from __future__ import annotations

import enum
import functools
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from dynograd.errors import NoEffectWarning, user_level
from dynograd.transforms.checkpoint import noop_context_fn

__all__ = ["CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]


class CheckpointPolicy(enum.Enum):
    """What a policy says of an op: keep its result, compute it again, or keep it in host memory; `MUST` or only `PREFER`.

    >>> from dynograd.utils.checkpoint import CheckpointPolicy
    >>> CheckpointPolicy.MUST_SAVE.value, CheckpointPolicy.PREFER_RECOMPUTE.value
    (0, 3)
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy is called with: whether ops are computed again, and what the op gave.

    Args:
        is_recompute: whether the part runs again.
        op_output: the result of the op.

    >>> from dynograd.utils.checkpoint import SelectiveCheckpointContext
    >>> SelectiveCheckpointContext(is_recompute=False).is_recompute
    False
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | Iterable[Any], allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager, AbstractContextManager]:
    """Contexts for `context_fn` of `checkpoint`. The policy is not asked: all of the part is computed again, which a warning says, once.

    Results and gradients are those of any policy; what it would have kept costs its time a second time.

    Args:
        policy_fn_or_list: a function of (context, op, *args, **kwargs) that returns a CheckpointPolicy, or a list of ops to keep.
        allow_cache_entry_mutation: kept for compatibility; nothing is cached.
    Returns:
        two contexts, for the forward and for running again, that do nothing.
    Raises:
        TypeError: neither a function nor a list.

    >>> import functools, warnings
    >>> from dynograd.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> contexts = functools.partial(create_selective_checkpoint_contexts, [dynograd.ops.aten.mm.default])
    >>> with warnings.catch_warnings(action="ignore"):
    ...     checkpoint(lambda x: x.exp().sum(), x, use_reentrant=False, context_fn=contexts).backward()
    >>> x.grad
    tensor([2.7183, 7.3891])
    """
    if not callable(policy_fn_or_list) and not isinstance(policy_fn_or_list, list):
        raise TypeError(
            f"create_selective_checkpoint_contexts: policy_fn_or_list must be either a function or a list of ops, got "
            f"{type(policy_fn_or_list).__name__}."
        )
    _say_once()
    return noop_context_fn()


@functools.cache
def _say_once() -> None:
    warnings.warn(
        "utils.checkpoint.create_selective_checkpoint_contexts: the policy is not asked, all of a checkpointed part is computed again. Results "
        "are the same. Leave context_fn out, or checkpoint only the parts that are cheap to compute.",
        NoEffectWarning,
        stacklevel=user_level(),
    )

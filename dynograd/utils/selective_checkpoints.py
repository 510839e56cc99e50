"""Policies of `torch.utils.checkpoint`: which ops of a checkpointed part keep their results, and which are computed again.

A reader sees each op of the part. In the forward it asks the policy, and notes of what is kept the result and what the op saved for
backward; when the part runs again the op is not computed: what was noted goes through the hooks of saved tensors as if it had been.
"""

from __future__ import annotations

import enum
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from dynograd import ops
from dynograd.interpreter import TENSORS
from dynograd.ops.op import Op, registry
from dynograd.ops.pytorch_names import name_in_pytorch
from dynograd.ops.readers import Entry, Reader
from dynograd.tensor.graphs import active_hooks, saved_tensors_hooks
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.checkpoint import CheckpointError
from dynograd.utils import _pytree
from dynograd.utils.kept_results import Note

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

    `op_name` is the name of our op ("matmul"), None for an operator of the program.

    >>> from dynograd.utils.checkpoint import SelectiveCheckpointContext
    >>> SelectiveCheckpointContext(is_recompute=False).is_recompute
    False
    """

    op_name: str | None = None

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | list[Any], allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager, AbstractContextManager]:
    """Contexts for `context_fn` of `checkpoint`: results of some ops are kept, so that they are not computed again.

    The policy is asked of every op that has a kernel of its own, in the forward, by PyTorch's name (`ops.aten.mm.default`) or, of ops that
    PyTorch lacks, by ours (`ops.dynograd.segment_sum.default`). Views are always made again: they take no time and hold no memory.
    What is kept lives as long as the graph.

    Args:
        policy_fn_or_list: a function of (context, op, *args, **kwargs), with the arguments of our op, that returns a CheckpointPolicy (or True
            to keep); or a list of ops to keep: operators, functions such as `dynograd.matmul`, or names of our ops. CPU_OFFLOAD keeps the
            result in host memory.
        allow_cache_entry_mutation: what was kept may be written to in place before backward, which then computes with what is there.
    Returns:
        two contexts, for the forward and for running again.
    Raises:
        TypeError: neither a function nor a list; in the part: a policy that returns something else.
        ValueError: something in the list is no op.
        CheckpointError: when it runs again: a kept result was written to, or an op is called more often than in the forward.

    >>> import functools
    >>> from dynograd.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> x = tensor([[1.0, 2.0]], requires_grad=True)
    >>> contexts = functools.partial(create_selective_checkpoint_contexts, [dynograd.ops.aten.mm.default])
    >>> checkpoint(lambda x: (x @ x.T).exp().sum(), x, use_reentrant=False, context_fn=contexts).backward()
    >>> x.grad
    tensor([[296.8263, 593.6526]])
    """
    if isinstance(policy_fn_or_list, list):
        policy: Callable[..., Any] = _OfList(policy_fn_or_list)
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError(
            f"create_selective_checkpoint_contexts: policy_fn_or_list must be either a function or a list of ops, got "
            f"{type(policy_fn_or_list).__name__}."
        )
    notes: _Notes = defaultdict(list)
    return _Keeping(policy, notes), _Giving(notes, allow_cache_entry_mutation)


# --- the ops that are seen -----------------------------------------------------------------------------------------------------


_Notes = defaultdict[Any, list[Note | None]]  # by operator, of its calls in order; None: computed again


class _Selecting(threading.local):
    """The innermost context of the thread; None also inside of an op, and while a policy is asked."""

    mode: _Mode | None = None


SELECTING = _Selecting()


class _Selection(Reader):
    name = "checkpoint"
    sets_aside = ("",)

    def sees(self, entry: Entry) -> bool:
        return entry.op is not None and entry.op.kind != "composed" and not entry.key.endswith(".public")

    def call(self, entry: Entry, below: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        mode = SELECTING.mode
        return below(*args, **kwargs) if mode is None else mode.run(entry.op, below, args, kwargs)


_selection = _Selection()


class _Mode:
    """A context in which `answer` stands for each op."""

    def __init__(self) -> None:
        self.before: list[_Mode | None] = []

    def __enter__(self) -> None:
        self.before.append(SELECTING.mode)
        SELECTING.mode = self
        _selection.turn_on()

    def __exit__(self, *error: Any) -> None:
        _selection.turn_off()
        SELECTING.mode = self.before.pop()

    def run(self, op: Any, below: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> object:
        """What the op gives; of ragged rows and other types the ops on plain tensors beneath are seen instead."""
        operands = [operand for operand in _pytree.tree_iter((args, kwargs)) if isinstance(operand, Tensor)]
        if not all([type(operand) in TENSORS for operand in operands]):
            return below(*args, **kwargs)
        SELECTING.mode = None
        try:
            return self.answer(op, below, args, kwargs)
        finally:
            SELECTING.mode = self

    def answer(self, op: Any, below: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> object:
        raise NotImplementedError


class _Keeping(_Mode):
    """The forward: asks the policy, and notes what is kept."""

    def __init__(self, policy: Callable[..., Any], notes: _Notes) -> None:
        super().__init__()
        self.policy, self.notes = policy, notes

    def answer(self, op: Any, below: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> object:
        saved: list[Tensor] = []
        hooks = active_hooks()
        if hooks is None or getattr(op, "view", None):
            result = below(*args, **kwargs)
        else:

            def pack(tensor: Tensor) -> Any:
                saved.append(tensor)
                return hooks.pack_hook(tensor)

            listening = saved_tensors_hooks(pack, hooks.unpack_hook)
            with listening:
                result = below(*args, **kwargs)
            listening.pack_hook = hooks.pack_hook  # nodes hold `listening`, which shall not hold what they saved
        if not any([isinstance(output, Tensor) for output in _pytree.tree_iter(result)]):
            return result
        operator = _operator_of(op, args, kwargs)
        context = SelectiveCheckpointContext(is_recompute=False, op_output=result)
        context.op_name = op.name if isinstance(op, Op) else None
        said = self.policy(context, operator, *args, **kwargs)
        if isinstance(said, bool):
            said = CheckpointPolicy.MUST_SAVE if said else CheckpointPolicy.PREFER_RECOMPUTE
        if not isinstance(said, CheckpointPolicy):
            raise TypeError(
                f"create_selective_checkpoint_contexts: the policy returned {said!r} for {operator}, expected a CheckpointPolicy such as "
                f"CheckpointPolicy.MUST_SAVE or PREFER_RECOMPUTE, or True or False."
            )
        note = None
        if said not in _COMPUTED_AGAIN and not getattr(op, "view", None):
            note = Note(result, saved, (*args, *kwargs.values()), offload=said not in _SAVED)
        self.notes[operator].append(note)
        return result


class _Giving(_Mode):
    """Running again: gives what was kept."""

    def __init__(self, notes: _Notes, allow_mutation: bool) -> None:
        super().__init__()
        self.notes, self.allow_mutation = notes, allow_mutation
        self.places: dict[Any, int] = defaultdict(int)

    def __enter__(self) -> None:
        self.places.clear()
        super().__enter__()

    def answer(self, op: Any, below: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> object:
        if not any([isinstance(operand, Tensor) for operand in _pytree.tree_iter((args, kwargs))]):
            return below(*args, **kwargs)
        operator = _operator_of(op, args, kwargs)
        notes, place = self.notes[operator], self.places[operator]
        self.places[operator] += 1
        if place >= len(notes):
            if not any(notes):
                return below(*args, **kwargs)
            raise CheckpointError(
                f"checkpoint: {operator} is called once more when the part runs again, after {len(notes)} calls in the forward, where results of it "
                f"were kept. The function must do the same both times."
            )
        note = notes[place]
        if note is None:
            return below(*args, **kwargs)
        return note.again(operator, (*args, *kwargs.values()), self.allow_mutation)


_SAVED = CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE
_COMPUTED_AGAIN = CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE


# --- names ---------------------------------------------------------------------------------------------------------------------

_operators: dict[tuple[str, str], Any] = {}


def _operator_of(op: Any, args: tuple, kwargs: dict[str, Any]) -> Callable[..., Any]:
    """The operator as a policy is told of it; of an operator of the program itself."""
    if not isinstance(op, Op):
        return op
    name = name_in_pytorch(op, args, kwargs)
    operator = _operators.get((op.name, name))
    if operator is None:
        packet, _, overload = name.partition(".")
        own = getattr(ops.aten, packet, None) or getattr(ops.dynograd, op.name)
        operator = _operators[op.name, name] = getattr(own, overload or "default")
    return operator


class _OfList:
    """The policy of a list: keeps what is in it. An operator stands for all its overloads, which one function computes."""

    def __init__(self, listed: list[Any]) -> None:
        self.names: set[str] = set()
        self.operators: set[Any] = set()
        for op in listed:
            own = registry.get(op) if isinstance(op, str) else getattr(op, "op", None)
            if isinstance(own, Op) and own.kind != "composed":
                self.names.add(own.name)
            elif getattr(op, "namespace", None) == "dynograd":
                self.names.add(op.overloadpacket.__name__)
            elif hasattr(op, "overloadpacket") or hasattr(op, "overloads"):
                self.operators.add(getattr(op, "overloadpacket", op))
            else:
                why = "; it is made of other ops, name those" if isinstance(own, Op) else ""
                raise ValueError(
                    f"create_selective_checkpoint_contexts: expected ops in the list, such as ops.aten.mm.default, dynograd.matmul or 'matmul', "
                    f"got {op!r} of type {type(op).__name__}{why}."
                )

    def __call__(self, context: SelectiveCheckpointContext, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        keep = context.op_name in self.names or op.overloadpacket in self.operators
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

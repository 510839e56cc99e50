"""`torch.distributed.tensor.parallel`: layers whose parameters are split over the processes of a group, with the numbers of one process."""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping
from fnmatch import fnmatchcase

from dynograd.distributed.meshes import DeviceMesh
from dynograd.distributed.placements import Partial, Placement, Replicate, Shard
from dynograd.distributed.process_groups import ProcessGroup
from dynograd.distributed.redistribution import entering, redistribute
from dynograd.distributed.splits import add_split, along, splits_of
from dynograd.distributed.synchronizing import broadcast_tensors
from dynograd.nn import functional as F
from dynograd.nn.layers.linear import Linear
from dynograd.nn.layers.sparse import Embedding
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.nn.sharding.styles import (
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    SequenceParallel,
)
from dynograd.tensor.tensor import Tensor

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "parallelize_module",
]


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | Mapping[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Splits the parameters of a module over the processes of a mesh of one dim, as a plan says; results and gradients stay what they were.

    All processes of the mesh run the same program with the same inputs. Make the optimizer afterwards: parameters are replaced by parts.

    Args:
        module: whose layers are split, in place.
        device_mesh: of one dim, such as `mesh["tp"]`.
        parallelize_plan: a style for `module` itself, or styles by the names of its submodules ("layers.*.up": * and ? stand for others).
        src_data_rank: the parameters of the first process of the mesh are split; None: each process has the same ones already.
    Returns:
        `module`.
    Raises:
        ValueError: a mesh of several dims, or a name in the plan that no submodule has.

    >>> from dynograd.distributed.device_mesh import init_device_mesh
    >>> from dynograd.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    >>> def program():
    ...     model = dynograd.nn.Sequential(dynograd.nn.Linear(4, 6), dynograd.nn.ReLU(), dynograd.nn.Linear(6, 2))
    ...     parallelize_module(model, init_device_mesh("cpu", (2,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    ...     return tuple(model[0].weight.shape), tuple(model(dynograd.ones(3, 4)).shape)
    >>> dynograd.distributed.simulate(program, ranks=2)
    [((3, 4), (3, 2)), ((3, 4), (3, 2))]
    """
    if not isinstance(device_mesh, DeviceMesh) or device_mesh.ndim != 1:
        raise ValueError(
            f"parallelize_module: expected a DeviceMesh of one dim, got {device_mesh!r}. Take a dim of it, mesh['tp']."
        )
    group = device_mesh.get_group()
    if src_data_rank is not None:
        whole = [
            parameter
            for parameter in module.parameters()
            if all([split.group is not group for split in splits_of(parameter)])
        ]
        broadcast_tensors([*whole, *module.buffers()], group)
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.apply(module, group)
        return module
    for pattern, style in (parallelize_plan or {}).items():
        if not isinstance(style, ParallelStyle):
            raise TypeError(
                f"parallelize_module: expected parallelize_plan[{pattern!r}] to be a ParallelStyle, got {style!r}."
            )
        matching = [part for name, part in module.named_modules() if _matches(name, pattern)]
        if not matching:
            raise ValueError(f"parallelize_module: {type(module).__name__} has no submodule {pattern!r}.")
        for part in matching:
            style.apply(part, group)
    return module


def _matches(name: str, pattern: str) -> bool:
    words, patterns = name.split("."), pattern.split(".")
    return len(words) == len(patterns) and all([fnmatchcase(*pair) for pair in zip(words, patterns)])


def _split(module: Module, name: str, dim: int, group: ProcessGroup) -> slice:
    """A parameter becomes this process's part of it, which is given."""
    whole = module._parameters[name]
    split = along(group, tuple(whole.shape), dim)
    part = Parameter(split.cut(whole), whole.requires_grad)
    add_split(part, whole, split)
    module.register_parameter(name, part)
    return split.own


def _placement(who: str, name: str, placement: Placement | None, default: Placement) -> Placement:
    if placement is None:
        return default
    if not isinstance(placement, (Shard, Replicate)):
        raise ValueError(f"{who}: expected {name} to be Shard(dim) or Replicate(), got {placement!r}.")
    return placement


class _OfLayer(ParallelStyle):
    """Of a Linear or an Embedding."""

    inputs: Placement
    outputs: Placement
    dims: tuple[int, int]  # along which the weight of a Linear, and that of an Embedding, is cut

    def apply(self, module: Module, group: ProcessGroup) -> None:
        if isinstance(module, Linear):
            _split(module, "weight", self.dims[0], group)
            if module.bias is not None and self.dims[0] == 0:
                _split(module, "bias", 0, group)
            Module.__setattr__(module, "forward", functools.partial(self._linear, module, group))
        elif isinstance(module, Embedding):
            if module.max_norm is not None or module.scale_grad_by_freq:
                raise NotImplementedError(
                    f"{type(self).__name__}: an Embedding with max_norm or scale_grad_by_freq looks at whole rows and batches, and is not "
                    f"split. Leave these options out."
                )
            own = _split(module, "weight", self.dims[1], group)
            Module.__setattr__(module, "forward", functools.partial(self._embedding, module, group, own))
        else:
            raise NotImplementedError(
                f"{type(self).__name__}: splits Linear and Embedding, got {type(module).__name__}. Name the layers in the plan."
            )

    @abc.abstractmethod
    def _linear(self, layer: Linear, group: ProcessGroup, input: Tensor) -> Tensor: ...

    @abc.abstractmethod
    def _embedding(self, layer: Embedding, group: ProcessGroup, own: slice, input: Tensor) -> Tensor: ...


class ColwiseParallel(_OfLayer):
    """Each process has some of a layer's output features: rows of a Linear's weight and bias, columns of an Embedding's.

    Args:
        input_layouts: how the input lies: `Replicate()` unless given, or `Shard(dim)`.
        output_layouts: how the output is to lie: `Shard(-1)` unless given, `Replicate()` or `Shard(dim)`.
        use_local_output: accepted; tensors are this process's.

    >>> from dynograd.distributed.tensor.parallel import ColwiseParallel, parallelize_module
    >>> def program():
    ...     layer = parallelize_module(dynograd.nn.Linear(4, 5), dynograd.distributed.init_device_mesh("cpu", (2,)), ColwiseParallel())
    ...     return tuple(layer(dynograd.ones(3, 4)).shape)
    >>> dynograd.distributed.simulate(program, ranks=2)
    [(3, 2), (3, 3)]
    """

    dims = (0, 1)

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.inputs = _placement("ColwiseParallel", "input_layouts", input_layouts, Replicate())
        self.outputs = _placement("ColwiseParallel", "output_layouts", output_layouts, Shard(-1))

    def _linear(self, layer: Linear, group: ProcessGroup, input: Tensor) -> Tensor:
        x = redistribute(input, self.inputs, Replicate(), group, enters=True)
        return redistribute(F.linear(x, layer.weight, layer.bias), Shard(-1), self.outputs, group)

    def _embedding(self, layer: Embedding, group: ProcessGroup, own: slice, input: Tensor) -> Tensor:
        ids = redistribute(input, self.inputs, Replicate(), group)
        rows = F.embedding(ids, layer.weight, layer.padding_idx, sparse=layer.sparse)
        return redistribute(rows, Shard(-1), self.outputs, group)


class RowwiseParallel(_OfLayer):
    """Each process has some of a layer's input features: columns of a Linear's weight (the bias is whole), or words of an Embedding.

    Args:
        input_layouts: how the input lies: `Shard(-1)` unless given (`Replicate()` of an Embedding), or another one.
        output_layouts: how the output is to lie: `Replicate()` unless given, or `Shard(dim)`.
        use_local_output: accepted; tensors are this process's.

    >>> from dynograd.distributed.tensor.parallel import RowwiseParallel, parallelize_module
    >>> def program():
    ...     words = parallelize_module(dynograd.nn.Embedding(5, 2), dynograd.distributed.init_device_mesh("cpu", (2,)), RowwiseParallel())
    ...     return tuple(words.weight.shape), tuple(words(tensor([0, 4, 2])).shape)
    >>> dynograd.distributed.simulate(program, ranks=2)
    [((2, 2), (3, 2)), ((3, 2), (3, 2))]
    """

    dims = (1, 0)

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self._given = input_layouts
        self.inputs = _placement("RowwiseParallel", "input_layouts", input_layouts, Shard(-1))
        self.outputs = _placement("RowwiseParallel", "output_layouts", output_layouts, Replicate())

    def _linear(self, layer: Linear, group: ProcessGroup, input: Tensor) -> Tensor:
        x = redistribute(input, self.inputs, Shard(-1), group)
        y = redistribute(F.linear(x, layer.weight), Partial(), self.outputs, group)
        if layer.bias is None:
            return y
        if isinstance(self.outputs, Replicate):
            return y + layer.bias
        if isinstance(self.outputs, Shard) and self.outputs.dim % y.ndim == y.ndim - 1:
            return y + redistribute(layer.bias, Replicate(), Shard(0), group)
        return y + entering(layer.bias, group)

    def _embedding(self, layer: Embedding, group: ProcessGroup, own: slice, input: Tensor) -> Tensor:
        ids = redistribute(input, Replicate() if self._given is None else self.inputs, Replicate(), group)
        _check_words(layer, ids)
        here = ((ids >= own.start) & (ids < own.stop)).unsqueeze(-1).to(layer.weight.dtype)
        padding = layer.padding_idx
        padding = padding - own.start if padding is not None and own.start <= padding < own.stop else None
        if own.start == own.stop:
            rows = here * layer.weight.sum(0)
        else:
            places = (ids - own.start).clamp(0, own.stop - own.start - 1)
            rows = F.embedding(places, layer.weight, padding, sparse=layer.sparse) * here
        return redistribute(rows, Partial(), self.outputs, group)


def _check_words(layer: Embedding, ids: Tensor) -> None:
    elements = ids.values() if ids.is_nested else ids
    if elements.numel() and (int(elements.min()) < 0 or int(elements.max()) >= layer.num_embeddings):
        raise IndexError(
            f"embedding: an index is outside the {layer.num_embeddings} rows of the table, which go from 0 to {layer.num_embeddings - 1}: "
            f"{int(elements.min())} to {int(elements.max())}."
        )

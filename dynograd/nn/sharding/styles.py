"""How modules are split that have no parameters in parts: their inputs and outputs, and layers that treat each place of a sequence alike."""

from __future__ import annotations

import abc
import copy
from collections.abc import Sequence
from typing import Any

from dynograd.distributed import collectives
from dynograd.distributed.placements import Placement
from dynograd.distributed.process_groups import ProcessGroup
from dynograd.distributed.redistribution import redistribute
from dynograd.distributed.reductions import ReduceOp
from dynograd.nn.module import Module
from dynograd.tensor.tensor import Tensor

__all__ = ["ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput", "SequenceParallel"]


class ParallelStyle(abc.ABC):
    """How a module is split: what `parallelize_module` is given.

    >>> from dynograd.distributed.tensor.parallel import ColwiseParallel, ParallelStyle
    >>> isinstance(ColwiseParallel(), ParallelStyle)
    True
    """

    src_data_rank: int | None = 0

    @abc.abstractmethod
    def apply(self, module: Module, group: ProcessGroup) -> None:
        """Splits a module.

        Args:
            module: which, in place.
            group: whose processes have the parts.
        """


class SequenceParallel(ParallelStyle):
    """A layer that treats each place of a sequence alike (LayerNorm, RMSNorm, Dropout): each process has some places, and all parameters.

    Args:
        sequence_dim: which dim of input and output is split.
        use_local_output: accepted; tensors are this process's.

    >>> from dynograd.distributed.tensor.parallel import SequenceParallel, parallelize_module
    >>> def program():
    ...     norm = parallelize_module(dynograd.nn.LayerNorm(4), dynograd.distributed.init_device_mesh("cpu", (2,)), SequenceParallel())
    ...     norm(dynograd.ones(1, 3, 4)).sum().backward()  # three places in each process
    ...     return norm.bias.grad.tolist()
    >>> dynograd.distributed.simulate(program, ranks=2)
    [[6.0, 6.0, 6.0, 6.0], [6.0, 6.0, 6.0, 6.0]]
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = True) -> None:
        self.sequence_dim = sequence_dim

    def apply(self, module: Module, group: ProcessGroup) -> None:
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        module.__dict__.setdefault("_summed", []).append(_Summed(parameters, group))


class _Summed:
    """Parameters whose gradients are added up over a group; in a copy of the module, its own."""

    def __init__(self, parameters: Sequence[Tensor], group: ProcessGroup) -> None:
        self.parameters, self.group = parameters, group
        for parameter in parameters:
            parameter.register_hook(self._sum)

    def _sum(self, gradient: Tensor) -> Tensor:
        total = gradient.clone()
        collectives.all_reduce(total, ReduceOp.SUM, self.group)
        return total

    def __deepcopy__(self, memo: dict) -> _Summed:
        return _Summed([copy.deepcopy(parameter, memo) for parameter in self.parameters], self.group)


def _listed(placements: Any) -> list[Placement | None]:
    return list(placements) if isinstance(placements, (tuple, list)) else [placements]


def _moved(
    values: Any, sources: list[Placement | None], targets: list[Placement | None], group: ProcessGroup
) -> list[Any]:
    values = list(values)
    if len(sources) != len(targets) or len(sources) > len(values):
        raise ValueError(
            f"expected as many layouts as tensors, got {len(sources)} and {len(targets)} for {len(values)}; None leaves one alone."
        )
    for place, (source, target) in enumerate(zip(sources, targets)):
        if source is not None and target is not None:
            values[place] = redistribute(values[place], source, target, group)
    return values


class PrepareModuleInput(ParallelStyle):
    """Moves a module's inputs from one placement to another.

    Args:
        input_layouts, desired_input_layouts: how positional inputs lie, and how the module wants them: one, or a tuple; None leaves one alone.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same of keyword inputs, by name.
        use_local_output: accepted; tensors are this process's.

    >>> from dynograd.distributed.tensor import Replicate, Shard
    >>> from dynograd.distributed.tensor.parallel import PrepareModuleInput, parallelize_module
    >>> def program():
    ...     style = PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())
    ...     layer = parallelize_module(dynograd.nn.Identity(), dynograd.distributed.init_device_mesh("cpu", (2,)), style)
    ...     return tuple(layer(dynograd.ones(1, 3, 4)).shape)
    >>> dynograd.distributed.simulate(program, ranks=2)
    [(1, 6, 4), (1, 6, 4)]
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = True,
    ) -> None:
        self._sources, self._targets = _listed(input_layouts), _listed(desired_input_layouts)
        self._of_names, self._to_names = input_kwarg_layouts or {}, desired_input_kwarg_layouts or {}
        if set(self._of_names) != set(self._to_names):
            raise ValueError(
                f"PrepareModuleInput: input_kwarg_layouts has {sorted(self._of_names)}, desired_input_kwarg_layouts {sorted(self._to_names)}; "
                f"they should have the same names."
            )

    def apply(self, module: Module, group: ProcessGroup) -> None:
        def before(
            module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> tuple[tuple[Any, ...], dict[str, Any]]:
            named = {
                name: redistribute(kwargs[name], source, self._to_names[name], group)
                for name, source in self._of_names.items()
                if name in kwargs
            }
            return tuple(_moved(args, self._sources, self._targets, group)), {**kwargs, **named}

        module.register_forward_pre_hook(before, with_kwargs=True)


class PrepareModuleOutput(ParallelStyle):
    """Moves a module's outputs from one placement to another.

    Args:
        output_layouts, desired_output_layouts: how outputs lie, and how they are wanted: one, or a tuple; None leaves one alone.
        use_local_output: accepted; tensors are this process's.

    >>> from dynograd.distributed.tensor import Replicate, Shard
    >>> from dynograd.distributed.tensor.parallel import PrepareModuleOutput, parallelize_module
    >>> def program():
    ...     style = PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0))
    ...     layer = parallelize_module(dynograd.nn.Identity(), dynograd.distributed.init_device_mesh("cpu", (2,)), style)
    ...     return layer(tensor([1.0, 2.0, 3.0])).tolist()
    >>> dynograd.distributed.simulate(program, ranks=2)
    [[1.0], [2.0, 3.0]]
    """

    def __init__(self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True) -> None:
        self._sources, self._targets = _listed(output_layouts), _listed(desired_output_layouts)

    def apply(self, module: Module, group: ProcessGroup) -> None:
        def behind(module: Module, args: object, output: Any) -> object:
            if isinstance(output, (tuple, list)):
                return type(output)(_moved(output, self._sources, self._targets, group))
            return _moved([output], self._sources, self._targets, group)[0]

        module.register_forward_hook(behind)


class PrepareModuleInputOutput(ParallelStyle):
    """`PrepareModuleInput` and `PrepareModuleOutput` of one module.

    Args:
        input_layouts, desired_input_layouts, input_kwarg_layouts, desired_input_kwarg_layouts: as of `PrepareModuleInput`.
        output_layouts, desired_output_layouts: as of `PrepareModuleOutput`.
        use_local_input, use_local_output: accepted; tensors are this process's.

    >>> from dynograd.distributed.tensor import Replicate, Shard
    >>> from dynograd.distributed.tensor.parallel import PrepareModuleInputOutput, parallelize_module
    >>> def program():
    ...     style = PrepareModuleInputOutput(
    ...         input_layouts=Shard(0), desired_input_layouts=Replicate(), output_layouts=Replicate(), desired_output_layouts=Shard(0)
    ...     )
    ...     layer = parallelize_module(dynograd.nn.Identity(), dynograd.distributed.init_device_mesh("cpu", (2,)), style)
    ...     return layer(tensor([float(dynograd.distributed.get_rank())])).tolist()
    >>> dynograd.distributed.simulate(program, ranks=2)
    [[0.0], [1.0]]
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:
        self._input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
        )
        self._output = PrepareModuleOutput(output_layouts=output_layouts, desired_output_layouts=desired_output_layouts)

    def apply(self, module: Module, group: ProcessGroup) -> None:
        self._input.apply(module, group)
        self._output.apply(module, group)

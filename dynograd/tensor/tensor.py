"""Tensor: an array, its gradient, and the node that made it. Its other methods are ops, installed from the registry.

`array` is the memory, `node` the op that computed it (None for leaves), `_meta` the rarely used rest: hooks, and what it is a view of.
"""

from __future__ import annotations

import copy
import copyreg
import functools
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy

from dynograd import arrays, interpreter
from dynograd.arrays import dlpack, ndarray, storages
from dynograd.autograd.engine import is_private, run_backward, through_hooks_of_tensor
from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import Hooks, Node, OutputNode, Partial, inspected
from dynograd.autograd.replacements import check_replacement
from dynograd.autograd.writes import before_rebinding, version
from dynograd.base import devices, dtypes, layouts
from dynograd.base.dtypes import BY_NUM
from dynograd.base.listing import of_pytorch
from dynograd.base.shapes import SIZES, Size, as_shape
from dynograd.base.values import TENSORS
from dynograd.errors import DeviceError, DtypeError, GradientError, user_level
from dynograd.interpreter import differentiation
from dynograd.interpreter.tensor_parts import (
    SILENT,
    Meta,
    RemovableHandle,
    constructors,
    full_meta,
    node_hooks,
    view_of,
)
from dynograd.interpreter.view_history import edge_of, follow_base
from dynograd.kernels import KernelOfType, kernel
from dynograd.ops.op import install, registry
from dynograd.tensor import printing

if TYPE_CHECKING:  # a stub beside this file: what the table of ops and other files put on the class at import
    from dynograd.tensor.installed_methods import InstalledMethods
else:
    InstalledMethods = object

__all__ = ["Tensor", "is_tensor"]

# (bases, namespace) -> the bases that a subclass gets, and who is told of it when it is there: `__torch_function__`.
choose_bases: list[Callable[[tuple[type, ...], dict[str, Any]], tuple[type, ...]]] = []
when_derived: list[Callable[[type], Any]] = []
_ADD_INTO = KernelOfType("gradients", "add_into")
_adding = threading.Lock()  # several threads may send gradients to one leaf
_LARGE = 1 << 18  # bytes
_ONE = numpy.ones(())  # the gradient of a loss, in its dtype


def _renew_lock() -> None:
    """In a forked child: no thread of the parent holds it there."""
    global _adding
    _adding = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


@functools.cache
def _unlisted() -> frozenset[str]:
    """Names of Tensor that `dir` and completion do not show: dynograd's own, but for the array. What a program puts on Tensor is shown."""
    names = {name for name in type.__dir__(Tensor) if not name.startswith("_")} - of_pytorch()["Tensor"] - {"array"}
    homes = {name: getattr(getattr(Tensor, name), "__module__", None) or "dynograd" for name in names}
    return frozenset([name for name, home in homes.items() if home.partition(".")[0] in ("dynograd", "builtins")])


class TensorType(type):
    """The type of Tensor and its subclasses, whose bases are chosen when they are made."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> TensorType:
        for choose in choose_bases:
            bases = choose(bases, namespace)
        return super().__new__(mcs, name, bases, namespace, **options)

    def __dir__(cls) -> list[str]:
        return sorted({*super().__dir__()} - _unlisted())


class Tensor(InstalledMethods, metaclass=TensorType):
    """A multi-dimensional array that can remember how it was computed.

    Make one with `dynograd.tensor(data)`, `zeros`, `randn` and the like. With `requires_grad=True` every op on it is recorded
    and `backward()` fills `.grad` of the leaves.

    Args:
        data: numbers, nested lists of them, an array, or sizes of a tensor of zeros (old; `dynograd.tensor` is what programs use).
        device: where it lies.
        dtype: of the elements; the default floating dtype unless given.

    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    # Not written out as a tuple: editors would list them.
    __slots__ = tuple("__dict__ __weakref__ _grad _meta _requires_grad array node".split())
    __array_priority__ = 1000

    array: Any
    _requires_grad: bool
    _grad: Tensor | None
    _meta: Meta | None

    @staticmethod
    def _make_wrapper_subclass(cls: type, *size: object, **options: object) -> NoReturn:
        raise NotImplementedError(
            f"_make_wrapper_subclass: {cls.__name__} would be a tensor without memory of its own, which PyTorch's dispatcher unwraps; there is "
            f"none here. Derive from Tensor, keep the inner tensors as attributes and define __torch_function__."
        )

    def __new__(cls, *data: Any, device: Any = None, dtype: Any = None) -> Any:
        if cls is not Tensor and data and isinstance(data[0], Tensor):
            return _init(object.__new__(cls), _memory_of(data[0]))
        result = object.__new__(cls)
        kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
        place = arrays.check_device("Tensor", device)
        if not data:
            array = arrays.empty((0,), kind, place)
        elif len(data) == 1 and not isinstance(data[0], int):
            value = data[0]
            if isinstance(value, Tensor):
                array = _memory_of(value)
            elif isinstance(value, Size):
                array = arrays.zeros(tuple(value), kind, place)
            else:
                array = arrays.to_device(arrays.from_python(value, kind), place)
        else:
            array = arrays.zeros(as_shape("Tensor", data), kind, place)
        return _init(result, array)

    def __init__(self, *data: Any, **options: Any) -> None:
        """Nothing; derived classes may take more in `__new__`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not hasattr(cls, "__dynograd_op__"):
            interpreter.TENSORS.add(cls)
        for told in when_derived:
            told(cls)

    # --- what it is -----------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The sizes of the dims, a `Size`."""
        return SIZES[self.array.shape]

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return self.array.ndim

    @property
    def dtype(self) -> dtypes.dtype:
        """The type of the elements."""
        return BY_NUM[self.array.dtype.num]

    @property
    def device(self) -> devices.device:
        """Where the tensor lives."""
        array = self.array
        return devices.cpu if type(array) is ndarray else arrays.device_of(array)

    @property
    def layout(self) -> layouts.layout:
        """How the elements lie in memory: `dynograd.strided`, unless the tensor is sparse."""
        return layouts.strided

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.array.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.array.size * self.array.dtype.itemsize

    is_cuda = property(
        lambda self: type(self.array) is not ndarray and self.device.type == "cuda",
        doc="Whether it lives in a GPU's memory.",
    )
    is_cpu = property(
        lambda self: type(self.array) is ndarray or self.device.type == "cpu", doc="Whether it lives in host memory."
    )
    is_meta = property(
        lambda self: self.device.type == "meta", doc="Whether it has a shape and a dtype, and no elements."
    )
    is_sparse = is_sparse_csr = is_quantized = is_nested = is_mps = property(
        lambda self: False, doc="False: this tensor is a dense one in host memory or on a CUDA GPU."
    )

    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: int, *, axis: None = None) -> int: ...
    @overload
    def size(self, *, axis: int) -> int: ...
    def size(self, dim: int | None = None, *, axis: int | None = None) -> Size | int:
        """The shape, or the size of one dim.

        Args:
            dim: which dim; negative counts from the end. None: all.
        Returns:
            A `Size`, or an int.

        >>> dynograd.zeros(2, 3).size(), dynograd.zeros(2, 3).size(0)
        (dynograd.Size([2, 3]), 2)
        """
        shape = self.array.shape
        if dim is None:
            if axis is None:
                return SIZES[shape]
            dim = axis
        if type(dim) is int:
            try:
                return shape[dim]
            except IndexError:
                pass
        place = _dim("size", dim, self)
        if not shape:
            raise IndexError(f"size: Dimension specified as {dim} but tensor has no dimensions.")
        return shape[place]

    def dim(self) -> int:
        """The number of dims.

        >>> dynograd.zeros(2, 3).dim()
        2
        """
        return self.array.ndim

    ndimension = dim

    def numel(self) -> int:
        """The number of elements.

        >>> dynograd.zeros(2, 3).nelement()
        6
        """
        return self.array.size

    nelement = numel

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        """The tensor with all its elements, in `dtype`; itself unless it is sparse.

        Args:
            dtype: of the result.
            masked_grad: accepted.
        Returns:
            A tensor of the same shape.

        >>> tensor([1.0, 0.0]).to_sparse().to_dense()
        tensor([1., 0.])
        """
        return self if dtype is None else self.to(dtype)

    def sparse_dim(self) -> int:
        """How many dims are sparse: none.

        >>> dynograd.zeros(2, 3).sparse_dim()
        0
        """
        return 0

    def dense_dim(self) -> int:
        """How many dims are not sparse: all.

        >>> dynograd.zeros(2, 3).dense_dim()
        2
        """
        return self.array.ndim

    def element_size(self) -> int:
        """The bytes of an element.

        >>> tensor([1.0]).element_size()
        4
        """
        return self.array.dtype.itemsize

    def stride(self, dim: int | None = None, *, axis: int | None = None) -> Any:
        """Elements to step over to the next index of each dim (or of `dim`).

        Args:
            dim: which dim; negative counts from the end. None: all.
        Returns:
            A tuple of ints, or an int.

        >>> dynograd.zeros(2, 3).stride()
        (3, 1)
        """
        array = self.array
        if dim is None:
            if axis is None:
                return arrays.strides_in_elements(array)
            dim = axis
        return arrays.strides_in_elements(array)[_dim("stride", dim, self)]

    def storage_offset(self) -> int:
        """The place of the first element in the memory, in elements.

        >>> tensor([1.0, 2.0])[1:].storage_offset()
        1
        """
        array = self.array
        return 0 if type(array) is ndarray and array.base is None else arrays.offset_in_elements(array)

    def data_ptr(self) -> int:
        """The address of the first element, in the memory of the tensor's device; 0 if there is none.

        >>> x = tensor([1.0, 2.0])
        >>> x[1:].data_ptr() - x.data_ptr()
        4
        """
        if MODES.plan is not None:
            MODES.plan.before_lending(self)
        return arrays.address_of(self.array) if self.array.size else 0

    def _before_own_kernel(self) -> None:
        """Kernels that are no op's are about to read the memory, or write it."""
        if MODES.plan is not None:
            MODES.plan.before_own_kernel(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """What numba-cuda, CuPy and others read CUDA tensors by; there is none on the CPU."""
        if not self.is_cuda:
            raise AttributeError("a tensor on the CPU has no __cuda_array_interface__; x.cuda() has.")
        self._before_own_kernel()
        if self.requires_grad and MODES.grad:
            raise RuntimeError(
                "can't get __cuda_array_interface__ of a tensor that requires grad. If gradients aren't required, use x.detach()."
            )
        return self.array.__cuda_array_interface__

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in memory in that order: row by row, unless `memory_format` says otherwise.

        Args:
            memory_format: accepted by its name; see `dynograd.memory_format`.
        Returns:
            A bool.

        >>> dynograd.zeros(2, 3).t().is_contiguous()
        False
        """
        if memory_format is None and type(self.array) is ndarray:
            return self.array.flags.c_contiguous
        rank = getattr(memory_format, "rank", 0)
        if rank:
            return self.array.ndim == rank and arrays.is_channels_last(self.array)
        return arrays.is_contiguous(self.array)

    def is_floating_point(self) -> bool:
        """Whether the elements are floating-point numbers (complex ones are not).

        >>> tensor([1.0]).is_floating_point()
        True
        """
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the elements are complex numbers.

        >>> tensor([1j]).is_complex()
        True
        """
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers.

        >>> tensor([1.0]).is_signed()
        True
        """
        return self.dtype.is_signed

    def get_device(self) -> int:
        """The index of the CUDA device, -1 for the CPU.

        >>> tensor([1.0]).get_device()
        -1
        """
        index = self.device.index
        return -1 if index is None else index

    def is_inference(self) -> bool:
        """False: what is computed in `inference_mode` is an ordinary tensor, which may meet autograd later.

        >>> tensor([1.0]).is_inference()
        False
        """
        return False

    # --- autograd -------------------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether ops on this tensor are recorded."""
        if self._meta is not None:
            follow_base(self)
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self._meta is not None:
            follow_base(self)
        if self.node is not None:
            raise GradientError(
                "requires_grad: you can only change requires_grad flags of leaf variables, but this tensor was computed by "
                f"{self.node.op_name()}. Use detach() to get a tensor without history."
            )
        if value and self.array.dtype.kind not in "fcV":
            raise GradientError(
                f"requires_grad: only Tensors of floating point and complex dtype can require gradients, got {self.dtype}. "
                f"Convert first, e.g. x.float()."
            )
        if MODES.plan is not None and self._requires_grad is not bool(value):
            MODES.plan.before_flag(self)
        self._requires_grad = bool(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Sets `requires_grad` in place. A tensor that was computed already wants a gradient, and must go on doing so.

        Args:
            requires_grad: record what is done with the result.
        Returns:
            The tensor itself.

        >>> tensor([1.0]).requires_grad_()
        tensor([1.], requires_grad=True)
        """
        if self._meta is not None:
            follow_base(self)
        if not requires_grad or self.node is None:
            self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no op made it that backward goes through."""
        if self._meta is not None:
            follow_base(self)
        return self.node is None

    @property
    def grad_fn(self) -> Node | None:
        """The node that computed this tensor, or None; the same one for all outputs of an op."""
        if self._meta is not None:
            follow_base(self)
        node = self.node
        return None if node is None else inspected(node.edges[0] if type(node) is OutputNode else node)

    @property
    def output_nr(self) -> int:
        """Which of the results of its op it is, from 0."""
        if self._meta is not None:
            follow_base(self)
        return self.node.attrs if isinstance(self.node, OutputNode) else 0

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient of this leaf; None before the first backward. It warns of what is no leaf and has no `retain_grad()`."""
        g = self._grad
        if g is None and self.node is not None and not self.retains_grad:
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated during "
                "autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the "
                "non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead.",
                stacklevel=user_level(),
            )
        return g

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"grad: expected a Tensor or None, got {type(value).__name__}.")
            new, own = value.array, self.array
            if new.shape != own.shape:
                raise GradientError(
                    f"grad: assigned grad has data of a different size: expected {tuple(own.shape)}, got {tuple(new.shape)}."
                )
            if new.dtype != own.dtype:
                raise GradientError(
                    f"grad: assigned grad has dtype {value.dtype}, expected {self.dtype}. Convert it first."
                )
            if value is self:
                raise GradientError("grad: can't assign a tensor as its own grad. Assign a clone().")
            if not (type(new) is type(own) is ndarray) and value.device != self.device:
                raise GradientError(
                    f"grad: assigned grad is on {value.device}, expected {self.device}. Move it first, e.g. grad.to(x.device)."
                )
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def data(self) -> Tensor:
        """The same memory without history; writes to it are not watched."""
        if MODES.plan is not None:
            return MODES.plan.detach(self, True)
        result = object.__new__(Tensor)
        result.array = self.array
        result.node = result._grad = None
        result._requires_grad = False
        result._meta = SILENT
        return result

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"data: expected a Tensor, got {type(value).__name__}.")
        if self.requires_grad and value.array.dtype.kind not in "fcV":
            raise GradientError(
                f"data: data set to a tensor that requires gradients must be floating point or complex dtype, got {value.dtype}. Call "
                f"x.requires_grad_(False) first."
            )
        if (type(value.array) is arrays.MetaArray) is not (type(self.array) is arrays.MetaArray):
            raise DeviceError(
                f"data: a tensor on {self.device} cannot take the memory of one on {value.device}. Use x.to(...), or "
                f"module.to_empty(device=...)."
            )
        self.take_memory(value)

    @property
    def _version(self) -> int:
        return version(self.array)

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
        *,
        step: bool = False,
    ) -> None:
        """Adds d(self)/d(leaf) to `.grad` of every leaf it was computed from.

        Args:
            gradient: what to multiply with, in this tensor's shape; may be left out for a single element.
            retain_graph: keep what the ops saved, for a second backward.
            create_graph: record the backward pass too, so that `.grad` can be differentiated.
            inputs: accumulate only into these tensors.
            step: stop at each node, under the debugger: see `debug.stepping`.
        Raises:
            GradientError: no history, not a single element, or the graph was freed.

        >>> x = tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
        """
        if self._meta is not None:
            follow_base(self)
        if step:
            constructors["stepping"](self, gradient, retain_graph, create_graph, inputs)
            return
        if gradient is None and inputs is None and not create_graph and self._requires_grad and type(self) in TENSORS:
            array = self.array
            if type(array) is ndarray and not array.ndim and array.dtype.kind in "fV" and MODES.plan is None:
                run_backward([(self.node or self, _ONE.astype(array.dtype))], retain_graph=bool(retain_graph))
                return
        differentiation.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def detach(self) -> Tensor:
        """The same memory without history.

        >>> tensor([1.0], requires_grad=True).detach()
        tensor([1.])
        """
        return wrap(self.array) if MODES.plan is None else MODES.plan.detach(self)

    def detach_(self) -> Tensor:
        """Cuts this tensor from its history, in place.

        >>> (tensor([1.0], requires_grad=True) * 2).detach_()
        tensor([2.])
        """
        if view_of(self) is not None:
            raise GradientError(
                f"detach_: Can't detach views in-place (a view of shape {tuple(self.array.shape)}). Use detach() instead."
            )
        return _without_history(self)

    def retain_grad(self) -> None:
        """Makes backward fill `.grad` of this non-leaf tensor too.

        >>> x = tensor([1.0], requires_grad=True)
        >>> y = x * 2
        >>> y.retain_grad()
        >>> (y * 3).sum().backward()
        >>> y.grad
        tensor([3.])
        """
        if self._meta is not None:
            follow_base(self)
        if not self._requires_grad:
            raise GradientError("retain_grad: can't retain_grad on Tensor that has requires_grad=False.")
        if self.node is None or self.retains_grad:
            return
        self.meta().retained = RemovableHandle(node_hooks(self.node).last, keeping_hook(self))

    @property
    def retains_grad(self) -> bool:
        """Whether backward fills `.grad` though it is no leaf."""
        return type(self._meta) is Meta and self._meta.retained is not None

    def register_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(grad)` when backward has this tensor's gradient; a returned tensor replaces it.

        Args:
            hook: function of the gradient.
        Returns:
            A handle; its `remove()` takes the hook away.

        >>> x = tensor([1.0], requires_grad=True)
        >>> handle = x.register_hook(lambda grad: grad * 10)
        >>> (x * 2).sum().backward()
        >>> x.grad
        tensor([20.])
        """
        if self._meta is not None:
            follow_base(self)
        if not self._requires_grad:
            raise GradientError("register_hook: cannot register a hook on a tensor that doesn't require gradient.")
        if self.node is None:
            meta = self.meta()
            if meta.hooks is None:
                meta.hooks = Hooks()
            return RemovableHandle(meta.hooks.before, tensor_hook(hook))
        return RemovableHandle(node_hooks(self.node).before, tensor_hook(hook))

    def register_post_accumulate_grad_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(tensor)` each time backward has added to this leaf's `.grad`.

        Args:
            hook: function of the tensor.
        Returns:
            A handle; its `remove()` takes the hook away.

        >>> x = tensor([1.0], requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda leaf: print(leaf.grad))
        >>> (x * 2).sum().backward()
        tensor([2.])
        """
        if self._meta is not None:
            follow_base(self)
        if self.node is not None or not self._requires_grad:
            raise GradientError("register_post_accumulate_grad_hook: expected a leaf that requires grad.")
        meta = self.meta()
        if meta.after_accumulate is None:
            meta.after_accumulate = {}
        return RemovableHandle(meta.after_accumulate, hook)

    # --- values ---------------------------------------------------------------------------------------------------------

    def item(self) -> bool | Any:  # to checkers a bool is an int and a float, too
        """The value of a one-element tensor as a Python number.

        >>> tensor([1.5]).item()
        1.5
        """
        if self.array.size != 1:
            raise RuntimeError(
                f"item: a Tensor with {self.array.size} elements cannot be converted to Scalar (shape {tuple(self.array.shape)}). "
                f"Use tolist(), or pick one element."
            )
        return arrays.item(self.array)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; a number for a tensor without dims.

        >>> tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        return arrays.tolist(self.array)

    def numpy(self, *, force: bool = False) -> ndarray:
        """A NumPy array that shares this tensor's memory.

        Args:
            force: also of tensors on a GPU or with history, whose elements are copied.
        Returns:
            An array of the same shape.

        >>> tensor([1.0, 2.0]).numpy()
        array([1., 2.], dtype=float32)
        """
        if self.requires_grad and MODES.grad and not force:
            raise RuntimeError(
                "numpy: Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        if self.is_meta or (self.is_cuda and not force):
            raise TypeError(
                f"numpy: can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
                f"host memory first."
            )
        if MODES.recorder is not None:
            MODES.recorder.before_lending(self)
        if MODES.plan is not None:
            MODES.plan.before_lending(self)
        return arrays.to_numpy(self.array)

    def __array__(self, dtype: Any = None, copy: Any = None) -> ndarray:
        result = self.numpy()
        if dtype is not None and result.dtype != dtype:
            if copy is False:
                raise ValueError(
                    f"__array__: {self.dtype} cannot become {dtype} without a copy. Ask for copy=None, or convert before."
                )
            return result.astype(dtype)
        return arrays.copy(result) if copy else result

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
        return wrap(arrays.as_result(array))

    def __bool__(self) -> bool:
        if self.array.size != 1:
            raise RuntimeError(
                "bool: Boolean value of Tensor with "
                + (
                    "no values is ambiguous."
                    if not self.array.size
                    else "more than one value is ambiguous. Use any() or all()."
                )
            )
        return bool(self.array.item())

    def __int__(self) -> int:
        value = self.item()
        return int(value if type(value) is not complex else _real_part(value, "int"))

    def __float__(self) -> float:
        value = self.item()
        return float(value if type(value) is not complex else _real_part(value, "float"))

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.array.dtype.kind not in "biu" or self.array.size != 1:
            raise TypeError(
                f"only integer tensors of a single element can be converted to an index, got {self.dtype} of shape "
                f"{tuple(self.array.shape)}."
            )
        return int(self.array.item())

    def __len__(self) -> int:
        if not self.array.ndim:
            raise TypeError("len() of a 0-d tensor. Use numel() for the number of elements, item() for the value.")
        return self.array.shape[0]

    def __delitem__(self, index: Any) -> NoReturn:
        raise TypeError("Tensor does not support deleting items. Keep the others: x[mask], or cat([x[:i], x[i + 1:]]).")

    def __iter__(self) -> Iterator[Tensor]:
        if not self.array.ndim:
            raise TypeError("iteration over a 0-d tensor. Use item() for its value.")
        return iter(registry["unbind"].function(self, 0))

    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, (Tensor, int, float, complex)):
            raise RuntimeError(
                f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
            )
        return bool((self == element).any().item())

    __hash__ = object.__hash__

    def _history_name(self) -> str | None:
        """The name of the node that made it."""
        return None if self.node is None else self.node.name()

    def __repr__(self, **options: Any) -> str:
        requires_grad = self.requires_grad  # a view has followed its base from here on
        name = self._history_name()
        return printing.format_tensor(
            None if self.is_meta else arrays.to_numpy(self.array),
            contents="..." if self.is_meta else None,
            size=self.array.shape if self.is_meta else None,
            dtype_suffix=printing.dtype_suffix(self.dtype, 0 if self.is_meta else self.array.size),
            device_suffix=None if self.device.type == "cpu" else f"'{self.device}'",
            requires_grad=requires_grad and name is None,
            grad_fn_name=None if name is None else f"<{name}>",
            prefix=self._printed_prefix,
        )

    _printed_prefix = "tensor("

    def __format__(self, spec: str) -> str:
        if self.array.ndim == 0 and (spec or type(self) is Tensor) and type(self.array) is not arrays.MetaArray:
            return format(self.item(), spec)
        return object.__format__(self, spec) if spec else str(self)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self)} - _unlisted())

    # --- copies and moves -----------------------------------------------------------------------------------------------

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        """A DLPack capsule of this tensor's memory, or, with `copy` or for the CPU as `dl_device` (1, 0), of a copy.

        Args:
            stream: of the taker on a GPU, which waits for the work on this tensor.
            max_version: (major, minor), the newest version of DLPack that the taker knows; from (1, 0) on the capsule says its version and
                whether the memory must not be written.
            dl_device: (kind, index) as DLPack numbers devices; None: where the tensor is.
            copy: True copies, False never does.
        Raises:
            BufferError: the tensor requires grad while gradients are recorded (use `detach()`), or `dl_device` is another GPU or cannot
                be reached without a copy.
        """
        if self.requires_grad and MODES.grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if MODES.recorder is not None:
            MODES.recorder.before_lending(self)
        if MODES.plan is not None:
            MODES.plan.before_lending(self)
        array = self.array
        if dl_device is not None and (int(dl_device[0]), int(dl_device[1])) != dlpack.device_of_capsules(array):
            if int(dl_device[0]) != dlpack.CPU or copy is False:
                raise BufferError(
                    f"__dlpack__: a tensor on {self.device} is exported there, or copied to the CPU (1, 0); got dl_device="
                    f"{dl_device} with copy={copy}. Use x.to(device) first."
                )
            return dlpack.capsule_of(arrays.to_numpy(array), None, max_version, copied=True)
        return dlpack.capsule_of(arrays.copy(array) if copy else array, stream, max_version, bool(copy))

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.device_of_capsules(self.array)

    def __copy__(self) -> Tensor:
        """Another tensor on the same memory, with the same attributes; a leaf without `.grad`."""
        return _rebuild(type(self), self.array, self.requires_grad, _attributes(self))

    def __deepcopy__(self, memo: dict) -> Tensor:
        """A copy of the tensor, its `.grad` and its attributes; those that share memory share it again, in one `deepcopy`."""
        if self._meta is not None:
            follow_base(self)
        if self.node is not None:
            raise RuntimeError(
                "deepcopy: Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol. "
                "Use x.detach().clone()."
            )
        if id(self) in memo:
            return memo[id(self)]
        array = arrays.copy(self.array) if self.is_meta else storages.copied_memory(self.array, memo)
        result = _rebuild(type(self), array, self._requires_grad, {})
        memo[id(self)] = result
        result._grad = None if self._grad is None else self._grad.__deepcopy__(memo)
        attributes = _attributes(self)
        if attributes:
            _set_attributes(result, copy.deepcopy(attributes, memo))
        return result

    def __reduce_ex__(self, protocol: Any) -> tuple:
        place = str(self.device) if self.is_cuda else None
        array = self.array if self.is_meta else arrays.to_numpy(self.array)
        return _rebuild, (type(self), array, self.requires_grad, _attributes(self), place)

    def cpu(self, memory_format: Any = None) -> Tensor:
        """The tensor in host memory; itself when it lies there.

        Args:
            memory_format: accepted by its name; see `dynograd.memory_format`.
        Returns:
            A tensor of the same shape and dtype.

        >>> tensor([1.0]).cpu().device
        device(type='cpu')
        """
        if type(self) is Tensor and type(self.array) is ndarray and memory_format is None:
            return self
        return self.to("cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
        """The tensor in a GPU's memory: of the current device unless `device` names one.

        Args:
            device: which GPU; the current one by default.
            non_blocking: do not wait for the copy.
            memory_format: accepted by its name; see `dynograd.memory_format`.
        Returns:
            A tensor of the same shape and dtype.
        Raises:
            DeviceError: there is no such device here.

        >>> if dynograd.cuda.is_available():
        ...     assert tensor([1.0]).cuda().is_cuda
        """
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def pin_memory(self, device: Any = None) -> Tensor:
        """A copy in pinned host memory, from which `to("cuda", non_blocking=True)` does not wait; itself when it lies there.

        Args:
            device: accepted.
        Returns:
            A tensor of the same shape and dtype.
        Raises:
            RuntimeError: the tensor is not in host memory.

        >>> if dynograd.cuda.is_available():
        ...     assert tensor([1.0]).pin_memory().is_pinned()
        """
        if not self.is_cpu:
            raise RuntimeError(f"pin_memory: cannot pin '{self.device}' memory, only dense CPU tensors can be pinned.")
        return self if self.is_pinned() else wrap(arrays.pinned_copy(self.array))

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the tensor lies in pinned host memory.

        Args:
            device: accepted.
        Returns:
            A bool.

        >>> tensor([1.0]).is_pinned()
        False
        """
        return arrays.is_pinned(self.array)

    def record_stream(self, s: Any) -> None:
        """Notes that work on the stream `s` uses this tensor's memory too, so that it is not given to others before that work is done.

        Args:
            s (Stream): the stream.

        >>> tensor([1.0]).record_stream(dynograd.Stream())
        """
        if self.is_cuda:
            arrays.record_stream(self.array, s)


def _memory_of(tensor: Any) -> object:
    """Its array, computed now if it is still to come."""
    settle = getattr(type(tensor), "__dynograd_settle__", None)
    return (tensor if settle is None else settle(tensor)).array


def _init(result: Any, array: Any) -> Tensor:
    result.array = array
    result.node = result._grad = result._meta = None
    result._requires_grad = False
    return result


def _without_history(tensor: Tensor) -> Tensor:
    tensor.node = None
    tensor._requires_grad = False
    return tensor


def wrap(array: Any) -> Tensor:
    """A tensor around `array`, sharing its memory."""
    result = object.__new__(Tensor)
    result.array = array
    result.node = result._grad = result._meta = None
    result._requires_grad = False
    return result


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a Tensor.

    Args:
        obj: anything.
    Returns:
        A bool.

    >>> dynograd.is_tensor(tensor([1.0])), dynograd.is_tensor([1.0])
    (True, False)
    """
    return isinstance(obj, Tensor)


def _rebuild(cls: Any, array: Any, requires_grad: bool, attributes: dict, place: str | None = None) -> Any:
    if place is not None:
        array = arrays.to_device(array, arrays.check_device("unpickle", place))
    result = _init(object.__new__(cls), array)
    result._requires_grad = requires_grad
    if attributes:
        _set_attributes(result, attributes)
    return result


def _real_part(value: complex, kind: str) -> float:
    if value.imag:
        raise DtypeError(f"{kind}(): {value} cannot be converted without its imaginary part. Use tensor.real.")
    return value.real


def _attributes(tensor: Tensor) -> dict[str, Any]:
    """What users and subclasses have put on the tensor: in its dict, and in slots of the subclass."""
    attributes = dict(tensor.__dict__)
    if type(tensor) is not Tensor:
        attributes |= {name: getattr(tensor, name) for name in _slots(type(tensor)) if hasattr(tensor, name)}
    return attributes


def _set_attributes(tensor: Tensor, attributes: dict[str, Any]) -> None:
    slots = _slots(type(tensor))
    for name, value in attributes.items():
        if name in slots:
            setattr(tensor, name, value)
        else:
            tensor.__dict__[name] = value


def _slots(cls: Any) -> list[str]:
    """The slots of a subclass."""
    return [name for name in copyreg._slotnames(cls) if name not in Tensor.__slots__]  # type: ignore[attr-defined]


def _dim(who: str, dim: int, tensor: Tensor) -> int:
    from dynograd.base.shapes import normalize_dim

    return normalize_dim(who, dim, tensor.array.ndim)


def tensor_hook(hook: Any) -> Callable[..., Any]:
    """A user's hook on tensors as a hook on what the engine carries; it passes on a tensor, for the hooks behind it."""

    def run(g: Any, create_graph: bool) -> Any:
        if isinstance(g, Partial):
            return g
        tensor = g if isinstance(g, Tensor) else wrap(arrays.as_result(g))
        new = hook(tensor)
        if new is None:
            return tensor
        check_replacement("hook", hook, tensor, new)
        return new

    return run


def keeping_hook(tensor: Tensor) -> Callable[..., Any]:
    """The hook of `retain_grad`: it adds what comes to the tensor's `.grad`."""
    reference = weakref.ref(tensor)

    def keep(g: Any, create_graph: bool) -> Any:
        tensor = reference()
        if tensor is not None:
            part = g if isinstance(g, Tensor) else wrap(arrays.copy(arrays.as_result(g)))
            tensor._grad = part if tensor._grad is None else tensor._grad + part
        return g

    return keep


# --- what the engine asks of a tensor as the end of a graph: not in the class statement, whose names editors list -----------


def meta(self: Tensor) -> Meta:
    return full_meta(self)


def run_hooks(self: Tensor, g: Any) -> Any:
    """A leaf's hooks on its incoming gradient (array or tensor)."""
    meta = self._meta
    if type(meta) is Meta and meta.hooks is not None:
        if MODES.task is not None:
            MODES.task.settle()
        g = through_hooks_of_tensor(meta.hooks, g, isinstance(g, Tensor))
    return g


def adds_directly(self: Tensor, part: Any) -> bool:
    """Adds a part of the gradient to `.grad` at once, if there is one and no hook waits for the sum; whether it did."""
    grad = self._grad
    meta = self._meta
    if (
        grad is None
        or grad._requires_grad
        or not self._requires_grad
        or (type(meta) is Meta and (meta.hooks or meta.after_accumulate))
    ):
        return False
    if type(part) not in arrays.array_types or (type(grad) is not Tensor and grad.is_sparse):
        return False
    if grad.array.shape != part.shape:
        return False
    with _adding:
        _ADD_INTO[type(grad.array)](grad.array, part)
    return True


def accumulate_grad(self: Tensor, g: Any) -> None:
    """Adds the gradient `g` (array, or tensor under create_graph) to `.grad`; the engine calls it once per backward."""
    meta = self._meta
    if type(meta) is Meta and meta.hooks is not None:
        g = self.run_hooks(g)
        for hook in list(meta.hooks.prehooks.values()):
            if g is not None:
                g = hook(g, isinstance(g, Tensor))
    grad = self._grad
    if g is None or not self._requires_grad:  # a hook took it away, or the leaf was frozen after the forward
        pass
    elif grad is not None and grad.shape != g.shape:
        raise GradientError(
            f"backward: this leaf has a .grad of shape {tuple(grad.shape)}, to which a gradient of shape {tuple(g.shape)} "
            f"cannot be added: its .data was given another shape since. Set .grad to None first."
        )
    elif isinstance(g, Tensor):
        self._grad = g if grad is None else grad + g
    elif grad is None:
        if not is_private(g):
            large = type(g) is arrays.ndarray and g.nbytes >= _LARGE  # may be a transpose
            g = kernel("copies", "copied", g)(g) if large else arrays.copy(g)
        self._grad = wrap(g)
    elif grad._requires_grad or grad.is_sparse:
        self._grad = grad + wrap(arrays.as_result(g))
    else:
        with _adding:
            kernel("gradients", "add_into", grad.array)(grad.array, g)
    if type(meta) is Meta and meta.after_accumulate:
        if MODES.task is not None:
            MODES.task.settle()
        for after in list(meta.after_accumulate.values()):
            returned = after(self)
            if returned is not None and not isinstance(returned, Tensor):
                raise TypeError(
                    f"register_post_accumulate_grad_hook: expected the hook '{getattr(after, '__name__', after)}' to return None, "
                    f"got {type(returned).__name__}. It may change x.grad instead."
                )
    if type(meta) is Meta and meta.hooks is not None and g is not None:
        for hook in list(meta.hooks.after.values()):
            hook((), g, isinstance(g, Tensor))


def gradients(outputs: list, inputs: list, seeds: list, create_graph: bool) -> list:
    """Gradients of `outputs` with respect to `inputs`, None where no path leads."""

    def run(outputs: Any, inputs: Any, seeds: Any, own: Any) -> list:
        roots = [
            (edge_of(out), seed if create_graph else seed.array)
            for out, seed in zip(outputs, seeds, strict=True)
            if out.requires_grad
        ]
        result = run_backward(
            roots,
            retain_graph=create_graph,
            create_graph=create_graph,
            targets=[x if (edge := edge_of(x)) is None else edge for x in inputs],
        )
        assert result is not None
        return [g if g is None or isinstance(g, Tensor) else wrap(own(g)) for g in result]

    if MODES.plan is None:
        return run(outputs, inputs, seeds, arrays.as_result)
    flags = (create_graph, create_graph, "transform")
    return MODES.plan.gradients(run, tuple(outputs), tuple(inputs), tuple(seeds), arrays.as_result, flags)


def take_memory(self: Tensor, source: Tensor) -> None:
    """Stands from now on for the memory of `source`, whatever its device and dtype."""
    before_rebinding(self, source)
    self.array = source.array
    if self._meta is not None:
        full_meta(self)  # no longer the view that the record alone says


Tensor.seq = 0
Tensor.edges = ()
Tensor.takes_deferred_sums = True
for _member in (
    accumulate_grad,
    adds_directly,
    meta,
    run_hooks,
    take_memory,
    staticmethod(gradients),
    staticmethod(wrap),
):
    setattr(Tensor, _member.__name__, _member)
interpreter.tensor_class[0] = Tensor
interpreter.TENSORS.add(Tensor)
install(interpreter.write_function, interpreter.write_shortcut)

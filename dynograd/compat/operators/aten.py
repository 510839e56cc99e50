"""`torch.ops.aten`: the functions that are here, under PyTorch's inner names and with its order of arguments.

A name is looked for in `aten_forms`, at the top level (`aten.add`), in `linalg`, `fft` and `special` (`aten.linalg_qr`), in `nn.functional`,
and among the methods of Tensor (`aten.view`, `aten.add_`). An overload (`aten.add.Tensor`) is the same function.
`torch.ops.dynograd` has the ops of the table under their own names.
"""

from __future__ import annotations

import difflib
import importlib
from typing import Any, NamedTuple, NoReturn

from dynograd.compat.operators.aten_forms import FORMS
from dynograd.compat.operators.registry import Operator, OpOverloadPacket
from dynograd.interpreter.override_protocol import OVERRIDING, dispatch
from dynograd.ops.op import registry as table
from dynograd.tensor.tensor import Tensor
from dynograd.utils._pytree import tree_leaves

__all__ = ["find", "find_own", "near"]

# The names of overloads that PyTorch's operators have; each also with `_out` behind it.
_OVERLOADS = frozenset(
    """default out Tensor Scalar Tensor_Tensor Tensor_Scalar Scalar_Tensor Tensor_out Scalar_out int int_out dim dims dim_IntList dim_dtype
    dim_int dim_max dim_min dim_values correction unbiased unary_out input data self self_int self_scalar other other_scalar value value_reduce
    values values_stable stable reduce src start start_step step sections indices size sizes array tensor_indices_or_sections vec x_scalar
    n_scalar mode Tensor_mode Scalar_mode ScalarOpt_dim ScalarOpt_dim_dtype ScalarOpt_dtype ScalarSelf ScalarOther Scalar_Self Scalar_Other
    ord_str p p_str dtype device dtype_layout memory_format low low_dtype generator low_generator low_generator_dtype from to
    tensor_to intlist using_ints bins_tensor bin_ct eigenvalues beta decimals no_stats quantized grad_input output all_out list List IntList
    tensors str_ord atol_rtol_tensor atol_rtol_float rcond_tensor tol_tensor float float_float Tensor_float float_Tensor two inverse periodic
    periodic_alpha periodic_alpha_beta hacked_twin padding_idx scalar tensor_shape center""".split()
)
_PLACES = ("linalg", "fft", "special")


class _Writes(NamedTuple):
    is_mutable: bool


def _standing_for_tensors(args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    """What stands for tensors among the arguments, as in a trace: it takes the operator as it is. Tensors of other types take the function."""
    leaves = tree_leaves([args, kwargs])
    return [leaf for leaf in leaves if type(leaf) in OVERRIDING and not isinstance(leaf, Tensor)]


class AtenPacket(OpOverloadPacket):
    """A function of ours as an operator of PyTorch: itself, and all its overloads."""

    def __init__(self, name: str, function: Any, namespace: str = "aten") -> None:
        super().__init__(namespace, name)
        self.function = function
        self.__doc__ = function.__doc__

    @property
    def path_in_library(self) -> str:
        """Where programs read it."""
        return f"dynograd.ops.{self._qualified_op_name.replace('::', '.')}"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if OVERRIDING and (standing := _standing_for_tensors(args, kwargs)):
            return dispatch(self, standing, args, kwargs)
        if "self" in kwargs:  # the name of the first argument there
            args = (kwargs.pop("self"), *args)
        return self.function(*args, **kwargs)

    def overloads(self) -> list[str]:
        """Those that were named."""
        return list(self._overloads) or ["default"]

    def __getattr__(self, name: str) -> Any:
        if name not in self._overloads and (name in _OVERLOADS or name.removesuffix("_out") in _OVERLOADS):
            self._overloads[name] = AtenOverload(self, name)  # type: ignore[assignment]
        return super().__getattr__(name)


class AtenOverload(Operator):
    """An overload; it calls the function, which takes the arguments of all overloads."""

    def __init__(self, packet: AtenPacket, name: str) -> None:
        self.overloadpacket, self._overloadname = packet, name
        self.namespace, self.__name__ = packet._qualified_op_name.partition("::")[0], f"{packet.__name__}.{name}"
        self.__doc__ = packet.__doc__

    @property
    def path_in_library(self) -> str:
        """Where programs read it."""
        return f"{self.overloadpacket.path_in_library}.{self._overloadname}"

    @property
    def _schema(self) -> _Writes:
        """Of what PyTorch's declares, whether the operator writes into what it is given: its name says so."""
        return _Writes(self.overloadpacket.__name__.endswith("_") and not self.overloadpacket.__name__.endswith("__"))

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if OVERRIDING and (standing := _standing_for_tensors(args, kwargs)):
            return dispatch(self, standing, args, kwargs)
        return self.overloadpacket(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.overloadpacket, self._overloadname)

    def name(self) -> str:
        return f"{self.overloadpacket._qualified_op_name}" + f".{self._overloadname}" * (
            self._overloadname != "default"
        )

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.overloadpacket.__qualname__}', overload='{self._overloadname}')>"


def find(library: Any, name: str) -> AtenPacket | None:
    """The operator of a name, None if there is nothing of that name.

    PyTorch's inner operators (`aten._pin_memory`) are there as keys of tables, and refuse to be called.
    """
    function = _function(library, name)
    if function is None and name.startswith("_") and not name.startswith("__"):
        function = _absent(name)
    return None if function is None else AtenPacket(name, function)


def find_own(name: str) -> AtenPacket | None:
    """The op of the table as an operator (`ops.dynograd.segment_sum`), None if there is none of that name."""
    op = table.get(name)
    return None if op is None else AtenPacket(name, op.function, "dynograd")


def _absent(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"aten.{name}: this inner operator is not here. Call the public function that it serves."
        )

    return refuse


def near(library: Any, name: str) -> list[str]:
    """Names like this one."""
    return difflib.get_close_matches(name, [*FORMS, *library.__all__], cutoff=0.8)


def _function(library: Any, name: str) -> Any:
    if name in FORMS:
        return FORMS[name]
    if name.endswith("_backward"):  # ours have arguments of their own
        return None
    function = getattr(library, name, None) if name in library.__all__ else None
    for place in _PLACES:
        if function is None and name.startswith(f"{place}_"):
            function = getattr(importlib.import_module(f"dynograd.{place}"), name.removeprefix(f"{place}_"), None)
    if function is None:
        function = getattr(importlib.import_module("dynograd.nn.functional"), name, None)
    if function is None and not name.startswith("__"):
        function = vars(Tensor).get(name)
    return function if callable(function) and not isinstance(function, type) else None

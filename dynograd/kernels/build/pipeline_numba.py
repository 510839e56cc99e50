"""What Numba does with a kernel between its Python text and its machine code, shortened to what kernels need.

Numba compiles every helper like a function that Python calls: two wrappers, an optimisation of its own, machine code. Here a helper
that is compiled for another kernel stays as its front end wrote it; the kernel takes it in, and all is optimised once. Passes for
object mode, `with`, closures and array expressions run only for functions that have them. `tests/kernels/test_pipeline.py` pins the
internals of Numba that this stands on; where one is missing, `pipeline_of` gives Numba's own pipeline: slower to compile, the same
results. Importing this loads Numba.
"""

from __future__ import annotations

import inspect
import operator
from typing import Any, NoReturn

import llvmlite.ir
import numpy
from llvmlite import binding
from numba import types
from numba.core import cgutils, compiler, ir, lowering, typed_passes, untyped_passes
from numba.core.callwrapper import PyCallWrapper
from numba.core.compiler_lock import global_compiler_lock
from numba.core.datamodel.models import OpaqueModel
from numba.core.environment import lookup_environment
from numba.core.funcdesc import PythonFunctionDescriptor
from numba.core.imputils import impl_ret_borrowed
from numba.core.ir_utils import build_definitions
from numba.core.runtime import rtsys
from numba.core.runtime.context import NRTContext
from numba.core.ssa import reconstruct_ssa
from numba.core.targetconfig import ConfigStack
from numba.core.typing.context import Context
from numba.core.typing.templates import Signature
from numba.extending import register_model
from numba.np import arrayobj

from dynograd.kernels.build import drivers_numba, targets_numba

_ENVIRONMENT = "_ZN08NumbaEnv"


class _Pending:
    """The entry point of a helper that has no machine code yet: called from Python, it is compiled as a kernel of its own."""

    __slots__ = ("_arguments", "_entry", "_kernel")

    def __init__(self, kernel: Any, arguments: tuple[Any, ...]) -> None:
        self._kernel, self._arguments = kernel, arguments
        self._entry: Any = None

    def __call__(self, *arguments: Any, **keywords: Any) -> object:
        self.finish()
        return self._entry(*arguments, **keywords)

    def finish(self) -> None:
        """Compiles it as a kernel of its own, which is kept."""
        if self._entry is None:
            kernel = self._kernel
            with global_compiler_lock:
                result = kernel._compiler.compile(self._arguments, None)
                kernel.add_overload(result)
                kernel._cache.save_overload(self._arguments, result)
            self._entry = result.entry_point


def adopt(kernel: Any) -> None:
    """Lets Python call a dispatcher's function also after it was compiled as part of another kernel."""
    add = kernel.add_overload

    def add_overload(result: Any) -> None:
        library = result.library
        if isinstance(library, KernelLibrary) and not library.finalized:
            arguments = tuple(result.signature.args)
            result = result._replace(entry_point=_Pending(kernel, arguments))
            result.target_context.insert_user_function(result.entry_point, result.fndesc, [library])
            kernel.overloads[arguments] = result
        else:
            add(result)

    kernel.add_overload = add_overload


class KernelLibrary(targets_numba.KernelLibrary):
    """The LLVM module of a kernel or helper: optimised once, together with all helpers, and only when machine code is asked for."""

    def __init__(self, owner: Any, name: str) -> None:
        super().__init__(owner, name)
        self._complete = False
        self._shared: Any = None
        self._own_bitcode = b""
        self.enable_object_caching()

    @property
    def has_dynamic_globals(self) -> bool:
        """Also says of a helper without machine code that it is not to be cached."""
        return not self._finalized or super().has_dynamic_globals

    def _ensure_finalized(self) -> None:
        """Numba asks this of every library that another one links; see `get_pointer_to_function`."""

    @property
    def finalized(self) -> bool:
        """Whether there is machine code."""
        return bool(self._finalized)

    def get_pointer_to_function(self, name: str) -> int:
        if not self._finalized:
            self.finalize()
        return super().get_pointer_to_function(name)

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def add_linking_library(self, library: Any) -> None:
        if not isinstance(library, KernelLibrary):
            library._ensure_finalized()
        self._linking_libraries.append(library)

    def _complete_module(self) -> binding.ModuleRef:
        """The module with all that it calls, not optimised: what other kernels are made from is the same whoever came first."""
        if not self._complete:
            self._complete = True
            linked: dict[Any, None] = {}
            _gather(self, linked)
            runtime = linked.pop(rtsys.library, self) is None
            for library in linked:
                self._final_module.link_in(_linkable(library), preserve=True)
            if runtime and any(f.is_declaration and f.name.startswith("NRT_") for f in self._final_module.functions):
                self._final_module.link_in(_linkable(rtsys.library), preserve=True)
        return self._final_module

    def _own_module(self) -> binding.ModuleRef:
        if self._shared is None:
            own = self._own_bitcode
            self._shared = binding.parse_bitcode(own) if own else _weakened(self._final_module)
        return self._shared

    def _get_module_for_linking(self) -> binding.ModuleRef:
        if self._shared_module is None and not self._finalized:
            self._shared_module = _weakened(self._complete_module())
        return super()._get_module_for_linking()

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._own_module()
        self._get_module_for_linking()
        self._optimize_final_module()
        self._finalize_final_module()
        for variable in self._final_module.global_variables:
            if variable.name.startswith(_ENVIRONMENT):
                environment = lookup_environment(variable.name)
                if environment is not None:
                    self._codegen.set_env(variable.name, environment)
        self._let_modules_go()

    def _let_modules_go(self) -> None:
        """Of what other kernels are made from only the bitcode stays, a tenth as large: most kernels are part of no other."""
        self._own_bitcode = bytes(self._own_module().as_bitcode())
        self.symbols = targets_numba.symbols_of(self._shared_module)
        self.bitcode = bytes(self._shared_module.as_bitcode())
        self._shared = self._shared_module = None


def _gather(library: KernelLibrary, linked: dict[Any, None]) -> None:
    for inner in library._linking_libraries:
        if inner not in linked:
            linked[inner] = None
            if isinstance(inner, KernelLibrary):
                _gather(inner, linked)


def _linkable(library: Any) -> binding.ModuleRef:
    return library._own_module() if isinstance(library, KernelLibrary) else library._get_module_for_linking()


def _weakened(module: Any) -> binding.ModuleRef:
    """A copy whose functions vanish where they are no longer called."""
    module = module.clone()
    for function in module.functions:
        if not function.is_declaration and function.linkage == binding.Linkage.external:
            function.linkage = "linkonce_odr"
    return module


class _Function(types.Function):
    """An operator or builtin function that remembers the types of its results.

    Numba tries all templates of `+` (numbers, arrays, strings, sets, ...) at every `+`. What it compiles for a call (`overload`)
    depends on flags, and is left to it.
    """

    def __init__(self, templates: Any) -> None:
        super().__init__(templates)
        self._signatures: dict[Any, Any] = {}
        self._on_numbers = self.typing_key in _ON_NUMBERS

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Signature | None:
        if kws:
            return super().get_call_type(context, args, kws)
        key = tuple(args)
        if self._on_numbers and all(isinstance(argument, _NUMBERS) for argument in key):
            args = key = tuple(types.unliteral(argument) for argument in key)
        signature = self._signatures.get(key)
        if signature is None:
            signature = super().get_call_type(context, args, kws)
            if signature is not None and self._impl_keys.get(signature.args) == self.typing_key:
                self._signatures[key] = signature
        return signature


register_model(_Function)(OpaqueModel)


class _Typing(Context):
    """A view of Numba's typing context that remembers what it looked up."""

    def _lookup_global(self, gv: Any) -> types.Type | None:
        kind = super()._lookup_global(gv)
        if type(kind) is not types.Function:
            return kind
        function = _functions.get(id(kind))
        if function is None:
            function = _functions[id(kind)] = kind, _Function(kind.templates)
        return function[1]

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Signature | None:
        kind = func if isinstance(func, types.Type) else self._lookup_global(func)
        if isinstance(kind, _Function):
            signature = kind._signatures.get(tuple(args))
            if signature is not None and not kws:
                return signature
        return super().resolve_function_type(func, args, kws)

    def resolve_getattr(self, typ: Any, attr: str) -> types.Type | None:
        if attr not in _ATTRIBUTES or not isinstance(typ, (types.Array, types.Function)):
            return super().resolve_getattr(typ, attr)
        try:
            return _attributes[typ, attr]
        except KeyError:
            result = _attributes[typ, attr] = super().resolve_getattr(typ, attr)
            return result


_functions: dict[int, tuple[Any, _Function]] = {}
_attributes: dict[tuple[Any, str], Any] = {}
_NUMBERS = types.Integer, types.Float, types.Boolean, types.IntegerLiteral, types.BooleanLiteral
_ATTRIBUTES = frozenset(("__call__", "shape", "size", "ndim", "strides", "itemsize"))
# Of numbers, known or not: the type of the result is the same.
_ON_NUMBERS = frozenset(
    getattr(operator, prefix + name)
    for prefix, names in (
        ("", "add sub mul truediv floordiv mod and_ or_ xor lshift rshift lt le gt ge eq ne neg pos invert"),
        ("i", "add sub mul truediv floordiv mod and or xor lshift rshift"),
    )
    for name in names.split()
)


def _view_of(context: Any) -> _Typing:
    """The typing context, remembering: another class on the same attributes."""
    view = _views.get(context)
    if view is None:
        view = _views[context] = _Typing.__new__(_Typing)
        view.__dict__ = context.__dict__
    return view


_views: dict[Any, Any] = {}
_SCALARS = types.Number, types.Boolean


class KernelCompiler(compiler.CompilerBase):
    """From bytecode to LLVM, without the passes that a kernel has no use for."""

    splits = False

    def define_pipelines(self) -> NoReturn:
        raise NotImplementedError  # `_compile_core` runs the passes

    def _compile_core(self) -> compiler.CompileResult:
        state = self.state
        state.typingctx = _view_of(state.typingctx)
        state.targetctx.typing_context = state.typingctx
        nested = ConfigStack.top_or_none() is not None
        closures = any(inspect.iscode(constant) for constant in state.func_id.code.co_consts)
        with ConfigStack().enter(state.flags.copy()):
            for step in (*_BYTECODE, *_CLOSURES, *_UNTYPED, *_FUNCTIONS) if closures else (*_BYTECODE, *_UNTYPED):
                step.run_pass(state)
            state.func_ir = _defined(reconstruct_ssa(state.func_ir))
            _PRUNING.run_pass(state)
            _INFERENCE.run_pass(state)
            state.func_ir = _defined(_PHIS._strip_phi_nodes(state.func_ir))
            _OVERLOADS.run_pass(state)
            if _has_array_expressions(state):
                _REWRITES.run_pass(state)
            _LEGALIZATION.run_pass(state)
            if _only_borrows(state):
                state.targetctx.enable_nrt = False
            state.targetctx.nrt = _References(state.targetctx, True)  # also for temporary memory of what borrows
            _lower(state, nested, self.splits)
            _BACKEND.run_pass(state)
        state.pipeline = None
        return state.cr


class ChunkedCompiler(KernelCompiler):
    """The same for a kernel (..., start, stop) that Python may tell to run in parts: see `drivers_numba`."""

    splits = True


_untyped: Any = untyped_passes
_typed: Any = typed_passes
_PRUNING = _untyped.DeadBranchPrune()
_PRUNING.analysis = {_untyped.DeadBranchPrune: True}
_BYTECODE = (_untyped.TranslateByteCode(), _untyped.FixupArgs())
_CLOSURES = (_untyped.IRProcessing(), _untyped.InlineClosureLikes())
_FUNCTIONS = (_untyped.MakeFunctionToJitFunction(), _untyped.IRProcessing())
_UNTYPED = (_untyped.RewriteSemanticConstants(), _PRUNING, _untyped.GenericRewrites(), _untyped.RewriteDynamicRaises())
_INFERENCE, _PHIS, _OVERLOADS = _typed.NopythonTypeInference(), _typed.PreLowerStripPhis(), _typed.InlineOverloads()
_REWRITES, _LEGALIZATION, _BACKEND = _typed.NopythonRewrites(), _typed.IRLegalization(), _typed.NoPythonBackend()


def _defined(function: Any) -> ir.FunctionIR:
    """The function with its variables' definitions looked up anew. How long each lives is found when `_LEGALIZATION` asks for it."""
    function._definitions = build_definitions(function.blocks)
    return function


def _has_array_expressions(state: Any) -> bool:
    """Whether something is computed on whole arrays: Numba then makes loops of it."""
    for block in state.func_ir.blocks.values():
        for assignment in block.find_insts(ir.Assign):
            expression = assignment.value
            if isinstance(expression, ir.Expr) and isinstance(state.typemap[assignment.target.name], types.Array):
                if expression.op in ("unary", "binop", "inplace_binop"):
                    return True
                if expression.op == "call":
                    function = state.typemap[expression.func.name]
                    if isinstance(function, types.Function) and isinstance(function.typing_key, numpy.ufunc):
                        return True
    return False


def _only_borrows(state: Any) -> bool:
    """Whether all arrays are the caller's or views of them: their references need not be counted then."""
    models, typemap = state.targetctx.data_model_manager, state.typemap
    counted = {name for name, kind in typemap.items() if models.lookup(kind).contains_nrt_meminfo()}
    if models.lookup(state.return_type).contains_nrt_meminfo():
        return False
    if not all(isinstance(typemap[name], types.Array) for name in counted):
        return False
    for block in state.func_ir.blocks.values():
        for assignment in block.find_insts(ir.Assign):
            expression = assignment.value
            if assignment.target.name in counted and isinstance(expression, ir.Expr):
                if expression.op not in _VIEWS:
                    return False
                if expression.op == "getitem" and _selects(typemap[expression.index.name]):
                    return False
    return True


def _selects(index: Any) -> bool:
    """Whether what such an index reads is a new array."""
    return any(
        isinstance(part, types.Array) for part in (index.types if isinstance(index, types.BaseTuple) else (index,))
    )


_VIEWS = frozenset(("getitem", "static_getitem", "cast", "phi"))


class _References(NRTContext):
    """Numba's counting of references, which finds an array's without taking its other fields out, too."""

    def get_meminfos(self, builder: Any, ty: Any, val: Any) -> list[tuple[Any, Any]]:
        if isinstance(ty, types.Array):
            return [(ty, builder.extract_value(val, _position(self._context, ty, "meminfo")))]
        if not self._context.data_model_manager[ty].contains_nrt_meminfo():
            return []
        return super().get_meminfos(builder, ty, val)


class _Lower(lowering.Lower):
    """Numba's writer of LLVM, which takes the fields of arrays from registers where they are indexed by integers."""

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> llvmlite.ir.Value:
        place = self._place(value, index, signature) or self._run(value, index, signature)
        if place is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        context, builder, kind = self.context, self.builder, signature.args[0]
        pointer, array, shape, strides = place
        if not shape:
            result = arrayobj.load_item(context, builder, kind, pointer)
        else:
            view, items = signature.return_type, shape[0]
            for size in shape[1:]:
                items = builder.mul(items, size)
            fields = {"nitems": items, "data": pointer}
            fields["shape"], fields["strides"] = (cgutils.pack_array(builder, sizes) for sizes in (shape, strides))
            for name in ("meminfo", "parent", "itemsize"):
                fields[name] = builder.extract_value(array, _position(context, kind, name))
            result = llvmlite.ir.Constant(context.get_value_type(view), llvmlite.ir.Undefined)
            for name, field in fields.items():
                result = builder.insert_value(result, field, _position(context, view, name))
            result = impl_ret_borrowed(context, builder, view, result)
        return context.cast(builder, result, signature.return_type, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> llvmlite.ir.Value:
        place = self._place(target_var, index_var, signature)
        is_filled = place is None and isinstance(types.unliteral(self.typeof(value_var.name)), _SCALARS)
        if is_filled:
            place = self._run(target_var, index_var, signature)
        if place is None or (place[2] and not is_filled):
            return super().lower_setitem(target_var, index_var, value_var, signature)
        context, builder, kind = self.context, self.builder, signature.args[0]
        value = context.cast(builder, self.loadvar(value_var.name), self.typeof(value_var.name), signature.args[2])
        value = context.cast(builder, value, signature.args[2], kind.dtype)
        pointer, _, sizes, _ = place
        if not is_filled:
            return arrayobj.store_item(context, builder, kind, value, pointer)
        with cgutils.for_range(builder, sizes[0]) as loop:
            arrayobj.store_item(context, builder, kind, value, builder.gep(pointer, [loop.index]))
        return None

    def _run(self, array_var: Any, index_var: Any, signature: Any) -> tuple[Any, Any, list[Any], list[Any]] | None:
        """What `_place` gives, of a slice without a step of a vector that lies in one piece."""
        context, builder, (kind, index_kind) = self.context, self.builder, signature.args[:2]
        if (
            not isinstance(kind, types.Array)
            or kind.ndim != 1
            or kind.layout != "C"
            or not isinstance(kind.dtype, _SCALARS)
            or types.unliteral(index_kind) != types.slice2_type
            or types.unliteral(self.typeof(array_var.name)) != types.unliteral(kind)
        ):
            return None
        array = self.loadvar(array_var.name)
        index = context.cast(builder, self.loadvar(index_var.name), self.typeof(index_var.name), types.slice2_type)
        limits = context.make_helper(builder, types.slice2_type, index)
        shape, strides = (builder.extract_value(array, _position(context, kind, name)) for name in ("shape", "strides"))
        (size,), zero = cgutils.unpack_tuple(builder, shape, 1), context.get_constant(types.intp, 0)

        def within(bound: Any) -> Any:
            bound = builder.select(builder.icmp_signed("<", bound, zero), builder.add(bound, size), bound)
            bound = builder.select(builder.icmp_signed("<", bound, zero), zero, bound)
            return builder.select(builder.icmp_signed(">", bound, size), size, bound)

        start, stop = within(limits.start), within(limits.stop)
        count = builder.sub(stop, start)
        count = builder.select(builder.icmp_signed("<", count, zero), zero, count)
        pointer = builder.gep(builder.extract_value(array, _position(context, kind, "data")), [start])
        return pointer, array, [count], cgutils.unpack_tuple(builder, strides, 1)

    def _place(self, array_var: Any, index_var: Any, signature: Any) -> tuple[Any, Any, list[Any], list[Any]] | None:
        """The address of what is indexed, the array, and the sizes and strides that are left; None where Numba is to do it."""
        context, builder = self.context, self.builder
        kind, index_kind = signature.args[:2]
        kinds = index_kind.types if isinstance(index_kind, types.BaseTuple) else (index_kind,)
        if (
            not isinstance(kind, types.Array)
            or not isinstance(kind.dtype, _SCALARS)
            or kind.layout not in "CA"
            or len(kinds) > kind.ndim
            or not all(isinstance(part, types.Integer) for part in kinds)
            or context.enable_boundscheck
            or types.unliteral(self.typeof(array_var.name)) != types.unliteral(kind)
        ):
            return None
        array = self.loadvar(array_var.name)
        index = context.cast(builder, self.loadvar(index_var.name), self.typeof(index_var.name), index_kind)
        parts = cgutils.unpack_tuple(builder, index, len(kinds)) if isinstance(index_kind, types.BaseTuple) else [index]
        shape, strides = (
            cgutils.unpack_tuple(builder, builder.extract_value(array, _position(context, kind, name)), kind.ndim)
            for name in ("shape", "strides")
        )
        places = [
            arrayobj.fix_integer_index(context, builder, part_kind, part, size)
            for part_kind, part, size in zip(kinds, parts, shape, strict=False)
        ]
        data = builder.extract_value(array, _position(context, kind, "data"))
        if kind.layout == "C" and kind.ndim == 1:
            pointer = builder.gep(data, places)
        else:
            zeros = [context.get_constant(types.intp, 0)] * (kind.ndim - len(places))
            pointer = cgutils.get_item_pointer2(
                context, builder, data, shape, strides, kind.layout, places + zeros, wraparound=False
            )
        return pointer, array, shape[len(places) :], strides[len(places) :]


def _position(context: Any, kind: Any, name: str) -> int:
    return int(context.data_model_manager[kind].get_field_position(name))


def _lower(state: Any, nested: bool, splits: bool) -> None:
    """Writes the function's LLVM module, and the wrapper that Python calls if Python is to call it."""
    context, flags = state.targetctx, state.flags
    if state.library is None:
        state.library = KernelLibrary(context.codegen(), state.func_id.func_qualname)
    library = state.library
    description = PythonFunctionDescriptor.from_specialized_function(
        state.func_ir,
        state.typemap,
        state.return_type,
        state.calltypes,
        mangler=context.mangler,
        inline=flags.forceinline,
        noalias=flags.noalias,
        abi_tags=[flags.get_mangle_string()],
    )
    with context.push_code_library(library):
        lower = _Lower(context, library, description, state.func_ir, metadata=state.metadata)
        lower.lower()
        if nested:
            entry: Any = [].append  # nobody calls it: Numba wants some builtin function, and another one for each result
        else:
            if not flags.no_cpython_wrapper:
                _write_wrapper(context, library, description, lower, splits)
            if not flags.no_cfunc_wrapper and flags.no_cpython_wrapper:
                lower.create_cfunc_wrapper()
            entry = context.get_executable(library, description, lower.env)
    context.insert_user_function(entry, description, [library])
    state["cr"] = compiler._LowerResult(description, lower.call_helper, cfunc=entry, env=lower.env)


def _write_wrapper(context: Any, library: Any, description: Any, lower: Any, splits: bool) -> None:
    """The function that Python calls: it unpacks the arguments."""
    module = context.create_module("wrapper")
    if not context.data_model_manager[description.restype].contains_nrt_meminfo():
        context = context.subtarget(enable_nrt=False)  # arguments are borrowed
    kind = context.call_conv.get_function_type(description.restype, description.argtypes)
    callee = llvmlite.ir.Function(module, kind, description.llvm_func_name)
    releases = lower.flags.release_gil
    if splits:
        callee, releases = drivers_numba.add_splitter(module, callee, releases), False
    PyCallWrapper(
        context,
        module,
        callee,
        description,
        lower.env,
        call_helper=lower.call_helper,
        release_gil=releases,
    ).build()
    library.add_ir_module(module)

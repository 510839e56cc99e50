"""`dynograd.onnx.export`: a module or function as an ONNX model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from dynograd import version
from dynograd.autograd.modes import no_grad
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.compat.exporting import while_exporting
from dynograd.errors import OnnxError
from dynograd.export.exported_program import ExportedProgram
from dynograd.export.formula_search import AmbiguousFormulas, FormulaSearch
from dynograd.nn.module import Module
from dynograd.onnx.axes import Axes, axes_of
from dynograd.onnx.bags import BAGS
from dynograd.onnx.building import Builder, onnx_type
from dynograd.onnx.creations import CREATIONS
from dynograd.onnx.exported_programs import axes_of_program, example_of
from dynograd.onnx.lengths import LENGTHS
from dynograd.onnx.noting import turned_on
from dynograd.onnx.packages import ModelProto, onnx_package
from dynograd.onnx.places import PLACES
from dynograd.onnx.programs import ONNXProgram, TrainingMode
from dynograd.onnx.readings import READINGS
from dynograd.onnx.records import Record
from dynograd.onnx.row_patterns import rows_of_padded
from dynograd.onnx.sampling import further_record, other_inputs, recorded
from dynograd.onnx.structures import STRUCTURES
from dynograd.onnx.traced import Program
from dynograd.onnx.verifying import difference
from dynograd.onnx.writers import write_call, write_structure
from dynograd.plans.reporting.graphs import Value
from dynograd.tensor.tensor import Tensor

__all__ = ["export"]

_MOST_RECORDS = 16  # at further sizes, to tell formulas apart
_OPSETS = range(17, 24)
_IR_VERSIONS = {17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}
# Arguments of torch.onnx.export that change nothing here, and those that ask for what is not done.
_IDLE = {
    "verbose": None, "dynamo": True, "report": False, "optimize": True, "profile": False, "dump_exported_program": False, "artifacts_dir": ".",
    "fallback": False, "do_constant_folding": True, "autograd_inlining": True,
}  # fmt: skip
_UNKNOWN = {"custom_translation_table": None, "custom_opsets": None, "export_modules_as_functions": False}


def export(
    model: Callable[..., Any],
    args: Any = (),
    f: Any = None,
    *,
    kwargs: dict[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamic_axes: Any = None,
    dynamic_shapes: Any = None,
    external_data: bool | None = None,
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    verify: bool = False,
    ragged: str | None = None,
    **options: Any,
) -> ONNXProgram:
    """Writes a module or function of tensors as an ONNX model, with PyTorch's arguments.

    The program runs at its example's sizes, and at two further sizes of each dynamic axis, without gradients; numbers that differ become
    formulas of the sizes. Weights keep their names (`encoder.0.weight`), shared ones are written once, and each node says which line of the
    program it comes from. A program that reads values, or whose ops depend on the sizes, is refused with that line.

    Args:
        model: a Module (call `eval()` before), a function of tensors, or a program of `dynograd.export`, which needs no example, and has the
            dynamic axes that it was exported with.
        args: the example's arguments: a tuple, or one tensor.
        f: a path, or a file opened for writing bytes; None: nothing is written.
        kwargs: more arguments by name.
        input_names: names of the tensors among the arguments, in order; without: those of the parameters of `forward`.
        output_names: names of the results; without: "output", or "output_0" and so on.
        opset_version: of ONNX's operators, 17 to 23; without: 21.
        dynamic_axes: axes of any size: `{"x": {0: "batch"}}`, or `{"x": [0]}`. Axes of one name have one size.
        dynamic_shapes: the same in the newer form, as of `dynograd.export.export`: `{"x": {0: Dim("batch")}}`, or a tuple with one of these for
            each argument, nested as it is.
        external_data: write weights into a file beside the model; None: where they are above 1 GB.
        export_params: write the weights; else they are inputs.
        keep_initializers_as_inputs: list weights among the inputs, too.
        verify: run `onnx.checker`, and compare with onnxruntime at three sizes.
        ragged: what a ragged tensor among the arguments is: "values": two inputs, its values and its offsets (`x` and `x_offsets`), of any
            number; "padded": its rows padded to (B, T, *), with anything behind their ends, and their lengths (`x` and `x_lengths`).
        options: `verbose`, `dynamo`, `do_constant_folding` and their like, which change nothing here.
    Returns:
        The program: `save` writes it, `verify` checks it, `print` lists it, and a call runs it on onnxruntime.
    Raises:
        OnnxError: the program has no form in ONNX (which line, and a way out), or an argument does not fit.
        ImportError: the extra `onnx` is not installed.

    >>> model = dynograd.nn.Sequential(dynograd.nn.Linear(4, 2), dynograd.nn.ReLU()).eval()
    >>> program = dynograd.onnx.export(model, (dynograd.ones(3, 4),), input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    >>> [node.op_type for node in program.model_proto.graph.node]
    ['Gemm', 'Relu', 'Identity']
    """
    onnx_package("onnx", "onnx.export")
    _check_options(options)
    opset = 21 if opset_version is None else opset_version
    if opset not in _OPSETS:
        raise OnnxError(f"onnx.export: opset_version is 17 to 23, got {opset_version!r}. Leave it out for 21.")
    if isinstance(model, Module) and any([module.training for module in model.modules()]) and _can_differ(model):
        raise OnnxError(
            f"onnx.export: {type(model).__name__} is in training mode, in which it draws or normalises by the batch. Call model.eval() before."
        )
    if ragged not in (None, "values", "padded"):
        raise OnnxError(f"onnx.export: ragged is 'values', 'padded' or None, got {ragged!r}. Use one of these.")
    if isinstance(model, ExportedProgram):
        shapes = axes_of_program(model)
        args = example_of(model) if isinstance(args, (tuple, list)) and not args and not kwargs else args
        dynamic_shapes = dynamic_shapes if dynamic_shapes or dynamic_axes else shapes
    program = Program(model, args if isinstance(args, (tuple, list)) else (args,), kwargs or {}, ragged or "")
    names = _names("input_names", input_names, program.names)
    _check_not_complex(names, program.tensors, "Give view_as_real(x), and take view_as_complex of it in the model")
    axes = axes_of(
        program.shapes(),
        names,
        program.paths,
        program.arguments,
        list(output_names or []),
        dynamic_axes,
        dynamic_shapes,
    )
    axes.take_rows(program.rows, names, program.tensors)
    try:
        with turned_on(READINGS, STRUCTURES, LENGTHS, BAGS, CREATIONS, PLACES), while_exporting(to_onnx=True):
            graphs, samples = recorded(program, axes)
            count = len(graphs[0].results)
            usual = [f"output_{number}" for number in range(count)] if count > 1 else ["output"]
            outputs = _names("output_names", output_names or None, usual)
            _check_not_complex(outputs, graphs[0].results, "Return view_as_real of it")
            builder = _written(program, axes, graphs, samples, opset, names, outputs)
    finally:
        program.state.restore()
    proto = _proto(builder, program, names, outputs, axes, graphs, opset)

    def check(model: ModelProto) -> float:
        with no_grad():
            return difference(model, program, program.fed, other_inputs(program, axes, samples))

    result = ONNXProgram(proto, check)
    if verify:
        result.verify()
    if f is not None:
        result.save(
            f,
            include_initializers=export_params,
            keep_initializers_as_inputs=keep_initializers_as_inputs,
            external_data=external_data,
        )
    return result


def _written(
    program: Program,
    axes: Axes,
    graphs: list[Record],
    samples: list[dict[str, int]],
    opset: int,
    names: list[str],
    outputs: list[str],
) -> Builder:
    """The nodes, after records at further sizes where several formulas fit a number."""
    settled: list[dict[str, int]] = []
    is_sure = False
    while True:
        longest = {f"{names[values]}_longest": offsets for offsets, values in program.rows.items()}
        sizes_of = [
            {
                **sample,
                **{pick.name: pick.size(graph) for pick in axes.picks},
                **_longest_at(program, axes, sample, longest),
            }
            for sample, graph in zip(samples, graphs)
        ]
        unsettled = settled if len(settled) < _MOST_RECORDS else None
        search = FormulaSearch(sizes_of, unsettled, axes.expressions) if sizes_of[0] else None
        builder = Builder(opset, axes, search, names, outputs, program.weights, write_call, write_structure)
        builder.picks = {pick.name: (pick.value(graphs[0]), pick.axis) for pick in axes.picks}
        own = builder.inputs = list(names)
        if program.ragged == "padded":
            for offsets, values in program.rows.items():
                own[values], own[offsets] = rows_of_padded(builder, names[values], names[offsets])
        builder.rows = {
            own[number]: [program.at(axes, sample)[number].array for sample in samples] for number in program.rows
        }
        builder.longest = {size: own[offsets] for size, offsets in longest.items()}
        try:
            builder.write(graphs, own)
            probes = [] if search is None or is_sure else search.apart()
            if not probes:
                return builder
            is_sure = True
        except AmbiguousFormulas as ambiguous:
            settled.append(ambiguous.sizes)
            probes = [ambiguous.sizes]
        for probe in probes:
            sizes = {name: probe[name] for name in axes.sizes}
            record = further_record(program, axes, sizes, graphs)
            if record is not None:
                graphs.append(record)
                samples.append(sizes)


def _longest_at(program: Program, axes: Axes, sample: dict[str, int], longest: dict[str, int]) -> dict[str, int]:
    """How long the longest rows are that have these offsets."""
    tensors = program.at(axes, sample)
    return {name: int(max(numpy.diff(tensors[offsets].array), default=0)) for name, offsets in longest.items()}


def _check_not_complex(names: Sequence[str], tensors: Sequence[Tensor | Value], way_out: str) -> None:
    for name, tensor in zip(names, tensors):
        if tensor.dtype.numpy.kind == "c":
            raise OnnxError(
                f"onnx.export: expected real inputs and outputs, got {name} of {tensor.dtype}, which onnxruntime has not. {way_out}."
            )


def _check_options(options: dict[str, Any]) -> None:
    for name, value in options.items():
        if name in _UNKNOWN and value != _UNKNOWN[name]:
            raise OnnxError(
                f"onnx.export: {name} is not here: ops have the forms of docs/support.md. Leave {name} out."
            )
        if name not in {**_IDLE, **_UNKNOWN, "training": None, "operator_export_type": None}:
            raise TypeError(f"export() got an unexpected keyword argument {name!r}")
    if options.get("training") is TrainingMode.TRAINING:
        raise OnnxError(
            "onnx.export: expected training=TrainingMode.EVAL or PRESERVE, got TRAINING, in which a model draws. Leave it out."
        )


def _can_differ(model: Module) -> bool:
    """Whether training mode changes what a module computes."""
    return any(
        [
            hasattr(module, "p") or hasattr(module, "running_mean") or getattr(module, "dropout", 0)
            for module in model.modules()
        ]
    )


def _names(what: str, chosen: Sequence[str] | None, usual: list[str]) -> list[str]:
    names = list(chosen) if chosen is not None else usual
    if len(names) != len(usual):
        raise OnnxError(f"onnx.export: expected {len(usual)} {what}, one for each tensor, got {len(names)}: {names}.")
    if len(set(names)) != len(names):
        raise OnnxError(f"onnx.export: {what} must differ, got {names}. Rename one of them.")
    return names


def _proto(
    builder: Builder,
    program: Program,
    names: list[str],
    outputs: list[str],
    axes: Axes,
    graphs: list[Record],
    opset: int,
) -> ModelProto:
    from onnx import helper, numpy_helper

    results = graphs[0].results
    builder.module = ""
    infos = []
    for number, (name, value) in enumerate(zip(outputs, results)):
        builder.nodes.append(helper.make_node("Identity", [builder.name(value)], [name], name=f"node_{name}"))
        shapes = [graph.results[number].shape for graph in graphs]
        dims = [
            size if len(set(sizes)) == 1 else _dim(builder, axes, name, axis, sizes)
            for axis, (size, sizes) in enumerate(zip(shapes[0], zip(*shapes)))
        ]
        infos.append(helper.make_tensor_value_info(name, onnx_type(value.dtype.numpy), dims))
    inputs = [
        helper.make_tensor_value_info(name, onnx_type(tensor.dtype.numpy), _shape(program, axes, names, number))
        for number, (name, tensor) in enumerate(zip(names, program.tensors))
    ]
    nodes, names_read = _needed(builder.nodes, outputs)
    weights = [
        numpy_helper.from_array(numpy.ascontiguousarray(array).reshape(array.shape), name)
        for name, array in builder.initializers.items()
        if name in names_read
    ]
    graph = helper.make_graph(nodes, program.name, inputs, infos, weights)
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=_IR_VERSIONS[opset],
        producer_name="dynograd",
        producer_version=version.__version__,
    )


def _shape(program: Program, axes: Axes, names: list[str], number: int) -> list[int | str]:
    """The shape of an input."""
    shape = axes.shape(number, program.tensors[number])
    if program.ragged != "padded" or number not in {*program.rows, *program.rows.values()}:
        return shape
    rows = f"{names[number if number in program.rows else number + 1]}_rows"
    return [rows] if number in program.rows else [rows, f"{names[number]}_steps", *shape[1:]]


def _needed(nodes: list[Any], outputs: list[str]) -> tuple[list[Any], set[str]]:
    """The nodes that the outputs need, and the names that these read."""
    needed: list[Any] = []
    read = set(outputs)
    for node in reversed(nodes):
        if read.intersection(node.output):
            needed.append(node)
            read.update(_read_by(node))
    return needed[::-1], read


def _read_by(node: Any) -> Iterator[str]:
    """What a node reads, also in graphs within it."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _read_by(inner)


def _dim(builder: Builder, axes: Axes, name: str, axis: int, sizes: tuple[int, ...]) -> str:
    """The name of an output's axis: that of the input's axis that it is."""
    for known, column in builder.columns().items():
        if list(sizes) == column:
            return known
    return f"{name}_dim_{axis}"


_show_plainly(globals())

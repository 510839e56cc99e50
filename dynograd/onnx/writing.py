"""The code of a model: one line of Python for each node of the graph."""

from __future__ import annotations

import builtins
import inspect
import keyword
import re
from collections.abc import Callable
from typing import Any

import numpy

from dynograd.errors import OnnxError
from dynograd.nn.module import Module
from dynograd.onnx.files import array_of
from dynograd.onnx.literals import Constant, constant_of, is_listed, literal, plain
from dynograd.onnx.reading import FAMILIES
from dynograd.onnx.reading.registry import DIRECT, Operator, operator_at
from dynograd.onnx.reading.sizes import SIZES

__all__ = ["CodeWriter", "is_known"]

FAMILY_NAMES = {family.__name__.rpartition(".")[2]: family for family in FAMILIES}
_TAKEN = {*keyword.kwlist, *dir(builtins), *FAMILY_NAMES, "self", "dynograd", "numpy", "sizes", "values"}
_ATTRIBUTES = {*dir(Module()), "code", "initializer", "input_names"}  # which no tensor of the model can be
_STATISTICS = {  # inputs that training leaves as they are, beside those that are read as numbers
    "BatchNormalization": (3, 4),
    "QuantizeLinear": (1, 2),
    "DequantizeLinear": (1, 2),
    "QLinearConv": (1, 4, 6),
    "QLinearMatMul": (1, 4, 6),
}


def domain_of(node: Any) -> str:
    return "" if node.domain == "ai.onnx" else node.domain


def is_known(node: Any, version: int) -> bool:
    """Whether there is a line of Python for the node."""
    domain = domain_of(node)
    return node.op_type in ("Constant",) or (not domain and node.op_type in DIRECT) or operator_at(
        domain, node.op_type, version
    ) is not None  # fmt: skip


class CodeWriter:
    """Writes `forward` of a graph; `tensors` collects what the model holds: name -> (array, "parameter", "buffer" or "constant")."""

    def __init__(self, model: Any) -> None:
        self.opsets = {"" if row.domain == "ai.onnx" else row.domain: row.version for row in model.opset_import}
        self.tensors: dict[str, tuple[numpy.ndarray, str]] = {}
        self.families: set[str] = set()
        self.functions: dict[str, Any] = {}  # those that programs have entered, by their names in the code
        self._groups: set[str] = set()  # of the names in `tensors`: those of the modules that they are in
        self._used: set[str] = set(_TAKEN)
        self._fixed: set[str] = set()
        self._arrays: set[str] = set()  # names in the code that are arrays: sizes, and what is computed from them

    def write(self, graph: Any) -> str:
        """The text of `forward`, with the imports that it needs."""
        initialised = {tensor.name for tensor in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
        inputs = [value for value in graph.input if value.name not in initialised]
        self.inputs = [(value.name, _sizes_of(value)) for value in inputs]
        names: dict[str, str | Constant] = {}
        arguments = "".join(f", {self._new(value.name, names)}" for value in inputs)
        body = self._body(graph, names, "    ")
        imports = "import dynograd\n"
        if any("numpy." in line for line in body):
            imports = "import numpy\n\n" + imports
        if self.families:
            imports += f"from dynograd.onnx.reading import {', '.join(sorted(self.families))}\n"
        for word, function in self.functions.items():
            imports += f"# {word} is {function.__module__}.{function.__qualname__}\n"
        return f"{imports}\n\ndef forward(self{arguments}):\n" + "".join(f"{line}\n" for line in body)

    def _new(self, name: str, names: dict[str, Any]) -> str:
        """A Python name for the value, of its own in the whole model."""
        stem = re.sub(r"\W", "_", name, flags=re.ASCII)
        stem = stem if stem and not stem[0].isdigit() else f"v{stem}"
        word, count = stem, 2
        while word in self._used:
            word, count = f"{stem}_{count}", count + 1
        self._used.add(word)
        names[name] = word
        return word

    def _hold(self, name: str, array: numpy.ndarray, kind: str) -> str:
        """The expression of a tensor that the module holds under this name."""
        key, count = name, 2
        while self._is_taken(key):
            key, count = f"{name.replace('.', '_')}_{count}", count + 1
        self.tensors[key] = (array, kind)
        self._groups.update(_groups_of(key))
        if array.dtype.kind not in "OSU" and all(
            part.isidentifier() and not keyword.iskeyword(part) for part in key.split(".")
        ):
            return f"self.{key}"
        return f"self.initializer({key!r})"

    def _is_taken(self, key: str) -> bool:
        """Whether a module cannot hold a tensor under this name: another is there, or the module has such an attribute."""
        if any(not part or part in _ATTRIBUTES for part in key.split(".")) or key in self._groups:
            return True
        return key in self.tensors or any(group in self.tensors for group in _groups_of(key))

    def _body(self, graph: Any, outer: dict[str, str | Constant], indent: str) -> list[str]:
        names = dict(outer)
        if graph.sparse_initializer:
            raise OnnxError(
                f"onnx.load: graph {graph.name!r} has sparse initialisers. Expected dense ones; write them dense."
            )
        for node in graph.node:
            self._fixed.update(node.input[i] for i in _STATISTICS.get(node.op_type, ()) if i < len(node.input))
            self._fixed.update(name for name, kind in zip(node.input, self._kinds(node)) if "Number" in kind)
        for tensor in graph.initializer:
            array = array_of(tensor)
            if self._is_trained(tensor.name, array):
                names[tensor.name] = self._hold(tensor.name or "weight", array, "parameter")
            else:
                names[tensor.name] = Constant(tensor.name, array)
        lines: list[str] = []
        for node in graph.node:
            lines += [indent + line for line in self._node(node, names)]
        results = [self._value(value.name, names, f"the output of graph {graph.name!r}") for value in graph.output]
        lines.append(f"{indent}return {', '.join(results) or 'None'}")
        return lines

    def _is_trained(self, name: str, array: numpy.ndarray) -> bool:
        """Whether an initialiser is a parameter: floats that are no single number and no statistics."""
        if name in self._fixed or not array.ndim:
            return False
        return array.dtype.name in ("float16", "bfloat16", "float32", "float64")

    def _kinds(self, node: Any) -> list[str]:
        """What the operator's function takes, for each input: the words of its annotations."""
        domain = domain_of(node)
        entry = operator_at(domain, node.op_type, self.opsets.get(domain, 0))
        if entry is None or (not domain and node.op_type in DIRECT):
            return [""] * len(node.input)
        parameters = [p for p in inspect.signature(entry.function).parameters.values() if p.kind is not p.KEYWORD_ONLY]
        words = [str(p.annotation) for p in parameters]
        return words + (words[-1:] or [""]) * max(len(node.input) - len(words), 0)

    def _size_function(self, node: Any, names: dict[str, str | Constant]) -> Callable[..., Any] | None:
        """NumPy's way for the node, where all that it reads are sizes and small constants."""
        function = SIZES.get(node.op_type) if not domain_of(node) else None
        if function is None or node.op_type in ("Shape", "Size"):
            return function
        values = [names.get(name) for name in node.input if name]
        if not all(value in self._arrays if isinstance(value, str) else is_listed(value) for value in values):
            return None
        parameters = inspect.signature(function).parameters if not isinstance(function, numpy.ufunc) else {}
        known = all(attribute.name in parameters for attribute in node.attribute)
        return function if known and values else None

    def _array(self, name: str, names: dict[str, str | Constant], who: str) -> str:
        """The expression of sizes."""
        value = names.get(name)
        if not isinstance(value, Constant):
            return self._value(name, names, who) if value not in self._arrays else str(value)
        numbers, word = repr(value.array.tolist()), numpy.dtype(value.array.dtype).name.replace("bool", "bool_")
        if word == "int64":
            return numbers
        return f"numpy.array({numbers}, numpy.{word})" if value.array.ndim else f"numpy.{word}({numbers})"

    def _numbers(self, name: str, kind: str, names: dict[str, str | Constant], who: str) -> str:
        """The expression of an input that is read as numbers."""
        value = names.get(name)
        if is_listed(value):
            return self._array(name, names, who) if "Typed" in kind else plain(value)
        return str(value) if value in self._arrays else self._value(name, names, who)

    def _value(self, name: str, names: dict[str, str | Constant], who: str) -> str:
        """The expression of a tensor."""
        if name and name not in names:
            raise OnnxError(
                f"onnx.load: {who} reads {name!r}, which is no input or initialiser and which no node before it makes "
                "(nodes are missing, out of order or in a circle). Mend the program that wrote the model."
            )
        value = names[name] if name else "None"
        if isinstance(value, Constant):
            value.expression = value.expression or self._hold(value.name or "constant", value.array, value.kind)
            return value.expression
        if value in self._arrays:
            self.families.add("values")
            return f"values.tensor_of_sizes({value})"
        return value

    def _node(self, node: Any, names: dict[str, str | Constant]) -> list[str]:
        who = f"node {node.name or node.op_type!r} ({node.op_type})"
        if node.op_type == "Constant" and not domain_of(node):
            names[node.output[0]] = constant_of(node, who)
            return []
        function = self._size_function(node, names)
        if function is not None and node.output and node.output[0]:
            return self._sizes(node, function, names, who)
        inputs = [
            self._numbers(name, kind, names, who) if "Number" in kind else self._value(name, names, who)
            for name, kind in zip(node.input, self._kinds(node))
        ]
        while inputs and inputs[-1] == "None":
            inputs.pop()
        domain, entry = domain_of(node), None
        attributes = {attribute.name: attribute for attribute in node.attribute}
        version = self.opsets.get(domain, 0)
        if not domain and node.op_type in DIRECT:
            text, texts, functions = DIRECT[node.op_type], [], []
            if attributes:
                raise self._unexpected(who, sorted(attributes), [])
        else:
            entry = operator_at(domain, node.op_type, version)
            if entry is None:
                raise self._unknown(node, who, version)
            text = self._function(entry)
            texts, functions = self._attributes(entry, attributes, node, names, who)
        arguments = ", ".join(inputs + texts)
        targets = [self._new(name, names) if name else "_" for name in node.output]
        if entry is not None and entry.outputs > 1:
            targets += ["_"] * (entry.outputs - len(targets))
        return [*functions, f"{', '.join(targets)} = {text}({arguments})"]

    def _sizes(self, node: Any, function: Any, names: dict[str, str | Constant], who: str) -> list[str]:
        """The line of a node that computes sizes."""
        if isinstance(function, numpy.ufunc):
            text = f"numpy.{function.__name__}"
        else:
            self.families.add("sizes")
            text = f"sizes.{function.__name__}"
        inputs = [self._array(name, names, who) if name else "None" for name in node.input]
        texts = [f"{part.name}={self._attribute(part, node, names, who)[0]}" for part in node.attribute]
        word = self._new(node.output[0], names)
        self._arrays.add(word)
        return [f"{word} = {text}({', '.join(inputs + texts)})"]

    def _function(self, entry: Operator) -> str:
        """The expression of an operator's function."""
        package, _, family = entry.function.__module__.rpartition(".")
        if package == "dynograd.onnx.reading":
            self.families.add(family)
            return f"{family}.{entry.function.__name__}"
        for word, function in self.functions.items():
            if function is entry.function:
                return word
        word = self._new(entry.function.__name__, {})
        self.functions[word] = entry.function
        return word

    def _unknown(self, node: Any, who: str, version: int) -> OnnxError:
        return OnnxError(
            f"onnx.load: {who} is an operator of {node.domain or 'ai.onnx'}, opset {version}, that has no function here. "
            f"Write one and enter it with @dynograd.onnx.operator({node.op_type!r}, domain={node.domain!r}), or export "
            "the model with plain operators."
        )

    def _unexpected(self, who: str, attributes: list, expected: list) -> OnnxError:
        return OnnxError(
            f"onnx.load: {who} has the attributes {', '.join(attributes)}. Expected {', '.join(expected) or 'none'}; convert "
            "the model to a newer opset (onnx.version_converter)."
        )

    def _attributes(
        self, entry: Operator, attributes: dict, node: Any, names: dict[str, str | Constant], who: str
    ) -> tuple:
        parameters = inspect.signature(entry.function).parameters.values()
        known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters) and not set(attributes) <= set(known):
            raise self._unexpected(who, sorted(attributes), [name for name in known if name != "n_outputs"])
        missing = [
            p.name
            for p in parameters
            if p.kind is p.KEYWORD_ONLY and p.default is p.empty and p.name not in attributes and p.name != "n_outputs"
        ]
        if missing:
            raise OnnxError(
                f"onnx.load: {who} lacks the attribute {', '.join(missing)}. Mend the program that wrote the model."
            )
        texts, functions = [], []
        for name, attribute in attributes.items():
            if not name.isidentifier() or keyword.iskeyword(name):
                raise self._unexpected(who, [repr(name)], known)
            value, lines = self._attribute(attribute, node, names, who)
            texts.append(f"{name}={value}")
            functions += lines
        if not entry.outputs and ("n_outputs" in known):
            texts.append(f"n_outputs={len(node.output)}")
        return texts, functions

    def _attribute(
        self, attribute: Any, node: Any, names: dict[str, str | Constant], who: str
    ) -> tuple[str, list[str]]:
        import onnx

        kind = attribute.type
        if kind == onnx.AttributeProto.GRAPH:
            inner = dict(names)
            function = self._new(attribute.name, {})
            arguments = ", ".join(self._new(value.name, inner) for value in attribute.g.input)
            return function, [f"def {function}({arguments}):", *self._body(attribute.g, inner, "    ")]
        if kind == onnx.AttributeProto.TENSOR:
            return self._hold(f"{node.output[0]}_{attribute.name}", array_of(attribute.t), "constant"), []
        if kind == onnx.AttributeProto.TYPE_PROTO:
            return "None", []
        if kind in (onnx.AttributeProto.FLOAT, onnx.AttributeProto.FLOATS, onnx.AttributeProto.INT,
                    onnx.AttributeProto.INTS, onnx.AttributeProto.STRING, onnx.AttributeProto.STRINGS):  # fmt: skip
            return literal(onnx.helper.get_attribute_value(attribute)), []
        raise OnnxError(
            f"onnx.load: {who} has the attribute {attribute.name} of a kind that is not read (number {kind})."
        )


def _groups_of(key: str) -> list[str]:
    parts = key.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _sizes_of(value: Any) -> list[int | None] | None:
    """The sizes that an input declares, None for one that may differ; None where it declares no tensor's shape."""
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        return None
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in value.type.tensor_type.shape.dim]

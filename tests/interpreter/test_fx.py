"""`fx`: traced graphs, the text made of them, and what changes them."""

import collections
import copy
import dataclasses
import enum
import math
import operator
import pickle

import pytest

import dynograd
from dynograd import fx, nn

t = dynograd.tensor


class Block(nn.Module):
    """A bit of everything: layers, a parameter and a buffer of its own, functions, methods, attributes, unpacking, structures."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.scale = nn.Parameter(dynograd.full((4,), 2.0))
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.register_buffer("shift", dynograd.ones(4))

    def forward(self, x, flag=None):
        y = dynograd.relu(self.first(x) * self.scale.exp()) + self.shift
        left, right = y.chunk(2, -1)
        z = dynograd.cat([right, left], dim=1).view(x.shape[0], -1)
        return {"out": self.inner(z).sum(dim=-1)[:, None], "size": z.size(), "half": z[:, :2] / math.sqrt(4)}


@pytest.fixture
def block():
    dynograd.manual_seed(0)
    return Block()


def same(a, b):
    return a["size"] == b["size"] and all(a[key].equal(b[key]) for key in ("out", "half"))


def test_a_traced_module_gives_what_the_module_gives(block):
    x, traced = dynograd.randn(2, 3), fx.symbolic_trace(block)
    traced.graph.lint()
    assert same(traced(x), block(x)) and same(fx.Interpreter(traced).run(x), block(x))
    kinds = [(node.op, str(node.target)) for node in traced.graph.nodes if node.op in ("call_module", "get_attr")]
    assert kinds == [
        ("call_module", "first"),
        ("get_attr", "scale"),
        ("get_attr", "shift"),
        ("call_module", "inner.0"),
        ("call_module", "inner.1"),
    ]
    assert {*traced.state_dict()} == {*block.state_dict()} and traced.scale is block.scale
    traced(x)["out"].sum().backward()
    assert block.scale.grad is not None


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies(block, copied):
    x, traced = dynograd.randn(2, 3), fx.symbolic_trace(block)
    twin = copied(traced)
    assert same(twin(x), block(x)) and twin.code == traced.code and twin.graph is not traced.graph


def test_the_text_can_be_read_and_stepped_through(block):
    import inspect

    traced = fx.symbolic_trace(block)
    assert inspect.getsource(type(traced).forward).strip() == traced.code.strip()
    assert "def forward(self, x, flag = None):" in traced.code and 'getattr(self.inner, "0")(view)' in traced.code
    assert traced.print_readable(print_output=False).startswith("class Block(torch.nn.Module):\n")


TEXTS = [
    (lambda x: x[0] + 1, "getitem = x[0];  x = None\n    add = getitem + 1;  getitem = None\n    return add"),
    (lambda x: x[1:, None], "getitem = x[(slice(1, None, None), None)];  x = None\n    return getitem"),
    (lambda x: -x.T, "getattr_1 = x.T;  x = None\n    neg = -getattr_1;  getattr_1 = None\n    return neg"),
    (lambda x: (x, [x]), "return (x, [x])"),
    (lambda x: x.to(dynograd.float64), "to = x.to(torch.float64);  x = None\n    return to"),
    (lambda x: x * float("inf"), "mul = x * inf;  x = None\n    return mul"),
    (lambda x: 2 - x, "sub = 2 - x;  x = None\n    return sub"),
    (lambda x: nn.functional.gelu(x), "gelu = torch.gelu(x);  x = None\n    return gelu"),
    (lambda x: math.sqrt(x.shape[0]), "getattr_1 = x.shape;  x = None\n    getitem = getattr_1[0];  getattr_1 = None"),
]


@pytest.mark.parametrize(("program", "text"), TEXTS, ids=range(len(TEXTS)))
def test_texts(program, text):
    traced = fx.symbolic_trace(program)
    assert text in traced.code
    x = dynograd.ones(2, 2)
    expected = program(x)
    result = traced(x)
    assert str(result) == str(expected)


def test_every_argument_form():
    def program(x, *rest, twice=2, **named):
        return x + rest[0] * twice + named["bias"]

    traced = fx.symbolic_trace(program)
    assert traced(1, 2, bias=3) == 8 and traced(1, 2, twice=0, bias=3) == 4


def test_concrete_arguments_are_constants_with_a_check():
    def program(x, flag, pair):
        return (x if flag else -x) + pair[0] * pair[1]

    traced = fx.symbolic_trace(program, concrete_args={"flag": False})
    assert traced(t(1.0), False, (t(2.0), 3)).item() == 5
    with pytest.raises(AssertionError, match="flag has been specialized to have value False"):
        traced(t(1.0), True, (t(2.0), 3))
    apart = fx.symbolic_trace(program, concrete_args={"flag": True, "pair": (fx.PH, fx.PH)})
    assert apart(t(1.0), True, (t(2.0), t(3.0))).item() == 7


class Opaque(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.opaque = Opaque()

    def forward(self, x):
        return self.opaque(x) * 2


def test_a_tracer_says_what_is_a_leaf():
    class Whole(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, Opaque) or super().is_leaf_module(m, module_qualified_name)

    module = Holder()
    graph = Whole().trace(module)
    assert [node.op for node in graph.nodes] == ["placeholder", "call_module", "call_function", "output"]
    assert fx.GraphModule(module, graph)(t([1.0])).tolist() == [4.0]


@fx.wrap
def decided(x, limit):
    return x if x.max() < limit else x.clamp(max=limit)


fx.wrap("len")


def test_wrapped_functions_are_one_call():
    traced = fx.symbolic_trace(lambda x: decided(x, 2.0) * len(x))
    assert [node.name for node in traced.graph.nodes] == ["x", "decided", "len_1", "mul", "output"]
    assert traced(t([1.0, 5.0])).tolist() == [2.0, 4.0]
    assert decided(t([3.0]), 2.0).item() == 2  # outside a trace it is the function


FAILURES = [
    (lambda x: x if x.sum() > 0 else -x, fx.proxy.TraceError, "bool.*is known when the graph runs"),
    (lambda x: list(x), fx.proxy.TraceError, "cannot be iterated"),
    (lambda x: range(x.shape.__len__()), RuntimeError, "'len' is not supported"),
    (lambda x: dynograd.relu(x, object()), NotImplementedError, "argument of type: <class 'object'>"),
]


@pytest.mark.parametrize(("program", "error", "words"), FAILURES, ids=range(len(FAILURES)))
def test_what_cannot_be_traced_says_so(program, error, words):
    with pytest.raises(error, match=words):
        fx.symbolic_trace(program)
    assert dynograd.relu(t([-1.0])).item() == 0  # all patches are taken back


def test_graphs_are_checked():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(dynograd.relu, (x,))
    graph.output(y)
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(x)
    y.append(x)
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        graph.lint()
    with pytest.raises(NotImplementedError, match="does not support mutation"):
        graph.call_function(dynograd.cat, ([x, y],)).args[0].append(x)
    with pytest.raises(RuntimeError, match="reads 'layer', and the dict"):
        other = fx.Graph()
        other.output(other.call_module("layer", (other.placeholder("x"),)))
        fx.GraphModule({}, other)


def test_a_graph_is_changed():
    traced = fx.symbolic_trace(lambda x: dynograd.relu(x) + 1)
    for node in traced.graph.nodes:
        if node.target is dynograd.relu:
            with traced.graph.inserting_after(node):
                new = traced.graph.call_function(dynograd.neg, node.args)
            assert [user.name for user in node.replace_all_uses_with(new)] == ["add"]
            traced.graph.erase_node(node)
    traced.graph.call_function(dynograd.exp, (next(iter(traced.graph.nodes)),))
    assert traced.graph.eliminate_dead_code()
    traced.recompile()
    assert traced(t([2.0])).tolist() == [-1.0]
    assert str(traced.graph).startswith("graph():\n    %x : [num_users=1] = placeholder[target=x]\n    %neg")


def test_a_graph_as_text():
    def function(x, factor: int = 2):
        return {"both": [x * factor, None], "input": x}

    assert str(fx.symbolic_trace(function).graph).splitlines() == [
        "graph():",
        "    %x : [num_users=2] = placeholder[target=x]",
        "    %factor : int [num_users=1] = placeholder[target=factor](default=2)",
        "    %mul : [num_users=1] = call_function[target=operator.mul](args = (%x, %factor), kwargs = {})",
        "    return {'both': [mul, None], 'input': x}",
    ]


def test_a_graph_as_a_table(capsys):
    fx.symbolic_trace(lambda x: x.neg()).graph.print_tabular()
    assert capsys.readouterr().out.splitlines() == [
        "opcode       name    target    args    kwargs",
        "-----------  ------  --------  ------  --------",
        "placeholder  x       x         ()      {}",
        "call_method  neg     neg       (x,)    {}",
        "output       output  output    (neg,)  {}",
    ]


def test_patterns_are_replaced():
    traced = fx.symbolic_trace(lambda a, b: dynograd.relu(a + b) * dynograd.relu(a + 1))
    matches = fx.replace_pattern(traced, lambda x, y: dynograd.relu(x + y), lambda x, y: (x - y).abs())
    assert len(matches) == 2 and traced(t([1.0]), t([3.0])).tolist() == [0.0]
    shared = fx.symbolic_trace(lambda a: (s := dynograd.exp(a)) + dynograd.relu(s))
    assert not fx.replace_pattern(shared, lambda x: dynograd.relu(dynograd.exp(x)), lambda x: x), (
        "exp is read elsewhere"
    )


def test_transformers_and_shapes(block):
    class Doubled(fx.Transformer):
        def call_function(self, target, args, kwargs):
            result = super().call_function(target, args, kwargs)
            return result * 2 if target is operator.add else result

    assert Doubled(fx.symbolic_trace(lambda x: x + 1)).transform()(t([1.0])).tolist() == [4.0]
    traced = fx.symbolic_trace(block)
    fx.passes.shape_prop.ShapeProp(traced).propagate(dynograd.ones(5, 3))
    shapes = {node.name: tuple(node.meta["tensor_meta"].shape) for node in traced.graph.nodes if node.name == "cat"}
    assert shapes == {"cat": (5, 4)}


def test_a_folder_of_a_program_is_imported(tmp_path, monkeypatch):
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    traced = fx.symbolic_trace(model)
    traced = fx.GraphModule({"a": model[0], "b": model[1]}, _chain())
    traced.to_folder(tmp_path / "written", "Written")
    monkeypatch.syspath_prepend(tmp_path)
    written = __import__("written").Written()
    x = dynograd.randn(4, 2)
    assert written(x).equal(model(x))


def _chain():
    graph = fx.Graph()
    graph.output(graph.call_module("b", (graph.call_module("a", (graph.placeholder("x"),)),)))
    return graph


def test_functions_look_for_proxies_only_while_one_is_about():
    from dynograd.overrides.guards import types_reader

    before = types_reader.times
    fx.symbolic_trace(lambda x: x + 1)
    assert types_reader.times == before


def two_results(a):
    return dynograd.sigmoid(a), dynograd.relu(a)


def three_results(a, b):
    c = a - b
    return dynograd.sigmoid(c), dynograd.relu(c), c


def late_input(x):
    y = dynograd.sigmoid(x)
    return dynograd.relu(y * 2) + y


REWRITES = {
    "both": (
        lambda x: dynograd.sigmoid(x) + dynograd.relu(x),
        two_results,
        lambda x: (x.exp(), x.abs()),
        lambda x: x.exp() + x.abs(),
        1,
    ),
    "in the other order, read between": (
        lambda x: dynograd.relu(x) * 2 - dynograd.sigmoid(x),
        two_results,
        lambda x: (x.exp(), x.abs()),
        lambda x: x.abs() * 2 - x.exp(),
        1,
    ),
    "twice": (
        lambda x: (dynograd.sigmoid(x) + dynograd.relu(x)) - (dynograd.sigmoid(x + 1) * dynograd.relu(x + 1)),
        two_results,
        lambda x: (x.exp(), x.abs()),
        lambda x: x.exp() + x.abs() - dynograd.sigmoid(x + 1) * dynograd.relu(x + 1),
        1,
    ),
    "one is not there": (
        lambda x: dynograd.sigmoid(x) * 2,
        two_results,
        lambda x: (x.exp(), x.abs()),
        lambda x: dynograd.sigmoid(x) * 2,
        0,
    ),
    "of other inputs": (
        lambda x: dynograd.sigmoid(x) + dynograd.relu(x + 1),
        two_results,
        lambda x: (x.exp(), x.abs()),
        lambda x: dynograd.sigmoid(x) + dynograd.relu(x + 1),
        0,
    ),
    "an inner one too": (
        lambda x: sum(three_results(x, x * 3)),
        three_results,
        lambda a, b: (b.abs(), b.abs(), a.exp()),
        lambda x: 2 * (x * 3).abs() + x.exp(),
        1,
    ),
    "an input that is made of a result": (
        late_input,
        lambda a, b: (dynograd.sigmoid(a), dynograd.relu(b)),
        lambda a, b: (a.exp(), b.abs()),
        late_input,
        0,
    ),
}


@pytest.mark.parametrize("program, pattern, replacement, expected, count", REWRITES.values(), ids=REWRITES)
def test_patterns_of_several_results(program, pattern, replacement, expected, count):
    traced, x = fx.symbolic_trace(program), t([-1.0, 0.5, 2.0])
    assert len(fx.replace_pattern(traced, pattern, replacement)) == count
    traced.graph.lint()
    dynograd.testing.assert_close(traced(x), expected(x))


class Kind(enum.Enum):
    HALF = 0.5
    TWICE = 2.0


@dataclasses.dataclass
class Parts:
    left: dynograd.Tensor
    right: tuple


Pair = collections.namedtuple("Pair", "x y")


def leaves_of(value):
    return [value.left, *map(leaves_of, value.right)] if isinstance(value, Parts) else value


@fx.wrap
def times(x, kind):
    return x * kind.value


PASSED_ON = {
    "an enum": (lambda x: times(x, Kind.TWICE), {}),
    "a dataclass": (lambda x: Parts(x + 1, (Parts(x, (x * 2,)), x)), {}),
    "a default that stays": (lambda x, other=None: x if other is None else x + other, {"other": None}),
    "lists and dicts": (lambda x: x["a"] * sum(x["z"]), {"x": {"a": fx.PH, "z": [fx.PH, fx.PH]}}),
    "a named tuple": (lambda x: x.x - x.y, {"x": Pair(fx.PH, fx.PH)}),
    "a number among them": (lambda x: x["a"] * x["n"], {"x": {"a": fx.PH, "n": 3}}),
}


@pytest.mark.parametrize("program, concrete", PASSED_ON.values(), ids=PASSED_ON)
def test_what_a_program_passes_on(program, concrete):
    numbers = iter([t([1.0, 2.0]), t([3.0, 4.0]), t([5.0, 6.0])])
    x = dynograd.utils._pytree.tree_map(lambda leaf: next(numbers) if leaf is fx.PH else leaf, concrete.get("x", fx.PH))
    traced = fx.symbolic_trace(program, concrete_args=concrete)
    again = pickle.loads(pickle.dumps(traced)) if "x" in concrete else copy.deepcopy(traced)
    expected = program(x)
    for module in (traced, again, *([] if "other" in concrete else [fx.symbolic_trace(traced)])):
        result = module(x)
        assert type(result) is type(expected)
        dynograd.testing.assert_close(*[leaves_of(value) for value in (result, expected)])


def test_a_wrapped_function_stays_one_call_when_its_graph_is_traced_again():
    traced = fx.symbolic_trace(fx.symbolic_trace(lambda x: times(x, Kind.HALF) + 1))
    assert next(node.target for node in traced.graph.nodes if node.op == "call_function") is times
    assert traced(t([4.0])).tolist() == [3.0]


def test_steps_with_effects_are_no_dead_code():
    class Noting(nn.ReLU):
        _is_impure = True

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Noting(), nn.ReLU()

        def forward(self, x):
            dynograd._assert(x.sum() > 0, "positive")
            self.first(x), self.second(x)
            dynograd.ops.aten.add_.Tensor(x, 1)
            return x * 2

    class Leaves(fx.Tracer):
        def is_leaf_module(self, module, path):
            return isinstance(module, nn.ReLU)

    model = Model()
    traced = fx.GraphModule(model, Leaves().trace(model))
    count = len(traced.graph.nodes)
    assert traced.graph.eliminate_dead_code() and len(traced.graph.nodes) == count - 1
    traced.recompile()
    assert traced(t([1.0])).tolist() == [4.0]
    with pytest.raises(AssertionError, match="positive"):
        traced(t([-1.0]))


def test_what_nodes_know_goes_with_them():
    tracer = fx.Tracer()
    tracer.record_stack_traces = True
    traced = fx.GraphModule({}, tracer.trace(lambda x: three_results(x + 1, x)))
    assert all(__file__ in node.stack_trace for node in traced.graph.nodes if node.op == "call_function")
    assert "in three_results" in list(traced.graph.nodes)[-2].stack_trace
    for node in traced.graph.nodes:
        node.meta["source_fn_stack"] = [node.name]
    changed = fx.Transformer(traced).transform()
    kept = [node.meta for node in changed.graph.nodes if node.op == "call_function"]
    assert [meta["source_fn_stack"] for meta in kept] == [
        [node.name] for node in traced.graph.nodes if node.op == "call_function"
    ]
    assert all(__file__ in meta["stack_trace"] for meta in kept)


def test_a_copy_of_what_refers_to_itself():
    traced = fx.symbolic_trace(lambda x: x + 1)
    traced.meta["self"] = traced
    copied = copy.deepcopy(traced)
    assert copied.meta["self"] is copied is not traced
    tracer = fx.Tracer()
    before = copy.deepcopy(tracer)
    tracer.trace(lambda x: x + 1)
    assert str(copy.deepcopy(tracer).graph) == str(tracer.graph) and not hasattr(before, "graph")


def test_a_module_without_self_is_refused():
    class Model(nn.Module):
        def forward(*args):
            return args[1]

    with pytest.raises(RuntimeError, match=r"`self` argument cannot be part of \*args expansion"):
        fx.symbolic_trace(Model())


def test_operators_are_steps_as_they_are():
    """One that writes would else be run on what stands for the tensor, and the graph without it."""

    def program(x):
        dynograd.ops.aten.add_.Tensor(x, 1)
        return dynograd.ops.aten.cat([x, dynograd.ops.aten.mul.Tensor(x, 2)])

    traced = fx.symbolic_trace(program)
    targets = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    aten = dynograd.ops.aten
    assert (
        targets == [aten.add_.Tensor, aten.mul.Tensor, aten.cat] and "torch.ops.aten.add_.Tensor(x, 1)" in traced.code
    )
    for module in (traced, pickle.loads(pickle.dumps(traced)), copy.deepcopy(traced)):
        x = t([1.0])
        assert module(x).tolist() == [2.0, 4.0] and x.tolist() == [2.0]

"""Names that PyTorch's packages import or call: what they give, and what those answer that refuse."""

import collections
import importlib
import math
import os

import numpy
import pytest

import dynograd as torch
from dynograd.base import stubs
from dynograd.compat import faces, refused
from dynograd.utils import _pytree


@pytest.mark.parametrize("path", faces.FACES)
def test_a_path_has_the_names_of_another(path):
    module = importlib.import_module(path)
    source = importlib.import_module(faces.FACES[path][0])
    names = faces.FACES[path][1] if path.partition(".")[2] in refused.modules() else module.__all__
    assert names and all(getattr(module, name) is getattr(source, name) for name in names)


@pytest.mark.parametrize("path", refused.modules())
def test_what_is_refused_can_be_imported_and_says_why_when_called(path):
    why, names = refused.modules()[path]
    module = importlib.import_module(f"dynograd.{path}")
    face = faces.FACES.get(f"dynograd.{path}", ("", ()))[1]
    answered = {*stubs.names(path), *face}  # that do what they should all the same
    assert why and names and {*module.__all__} == {name.removesuffix("()") for name in names} | {*answered}
    for name in {*module.__all__} - {*answered}:
        value = getattr(module, name)
        if value.__module__ == "dynograd.distributed.placements":
            continue
        with pytest.raises(NotImplementedError) as error:
            value()
        assert name in str(error.value) and why in str(error.value)
        assert not isinstance(value, type) or not isinstance(3, value)
        example, error_line = value.__doc__.splitlines()[-4], value.__doc__.splitlines()[-1]
        assert example.startswith(">>> dynograd.") and example.endswith(f".{name}()")
        assert error_line.startswith("NotImplementedError: ") and f".{name}: ..." in error_line


def test_a_module_that_is_called_is_the_function_of_its_name():
    for path in ("export.unflatten", "ao.quantization.quantize"):
        with pytest.raises(NotImplementedError, match=path):
            importlib.import_module(f"dynograd.{path}")(None)
    with pytest.raises(TypeError, match=r"module 'dynograd.distributions.beta' is not callable. Name one of its"):
        importlib.import_module("dynograd.distributions.beta")(None)


def test_a_refused_class_is_one_under_all_its_paths():
    tensor, old = (importlib.import_module(f"dynograd.distributed.{name}") for name in ("tensor", "_tensor"))
    assert tensor.DTensor is old.DTensor and tensor.Shard(0) == old.Shard(0) != tensor.Replicate()
    with pytest.raises(AttributeError, match="StateDictType.FULL: this way of splitting"):
        importlib.import_module("dynograd.distributed.fsdp").StateDictType.FULL  # noqa: B018


def test_placements():
    tensor = importlib.import_module("dynograd.distributed.tensor")
    assert tensor.Shard(1).is_shard(1) and not tensor.Shard(1).is_shard(0)
    assert tensor.Replicate().is_replicate() and tensor.Partial().is_partial("sum")


CHECKS = [
    (torch._check, RuntimeError),
    (torch._check_index, IndexError),
    (torch._check_value, ValueError),
    (torch._check_type, TypeError),
    (torch._check_not_implemented, NotImplementedError),
]


@pytest.mark.parametrize(("check", "error"), CHECKS)
def test_checks(check, error):
    assert check(True, lambda: 1 / 0) is None
    with pytest.raises(error, match="the words 3"):
        check(False, lambda: f"the words {3}")
    with pytest.raises(error, match="Expected cond to be True, but got False"):
        check(False)
    with pytest.raises(TypeError, match="message must be a callable"):
        check(False, "words")
    with pytest.raises(TypeError, match="cond must be a bool"):
        check(3)


def test_more_checks():
    torch._check_is_size(3, max=3)
    for size, options in ((-1, {}), (4, {"max": 3})):
        with pytest.raises(RuntimeError):
            torch._check_is_size(size, **options)
    torch._check_tensor_all(torch.tensor([True, True]))
    with pytest.raises(RuntimeError, match="some are not"):
        torch._check_tensor_all(torch.tensor([True, False]), lambda: "some are not")
    with pytest.raises(TypeError, match="dtype bool"):
        torch._check_tensor_all(torch.ones(2))
    with pytest.raises(AssertionError, match="words"):
        torch._assert(False, "words")


def test_numbers_that_are_symbols_elsewhere():
    assert not isinstance(3, torch.SymInt) and not isinstance(3.0, torch.SymFloat)
    with pytest.raises(TypeError, match="SymInt: sizes are plain numbers"):
        torch.SymInt(3)
    assert (torch.sym_int(2.5), torch.sym_float(2), torch.sym_not(False)) == (2, 2.0, True)
    assert (torch.sym_max(2, 3), torch.sym_min(2, 3.0), torch.sym_sum([1, 2, 3])) == (3, 2.0, 6)
    assert type(torch.sym_max(2, 1.0)) is float and torch.sym_ite(True, 1, 2) == 1 and torch.sym_sqrt(4) == 2.0


def test_hub_reads_what_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr("dynograd.compat.hub._folder", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert torch.hub.get_dir() == os.path.join(tmp_path, "hub")
    with pytest.raises(FileNotFoundError, match=r"nothing is downloaded, and there is no .*w\.pth\. Download http"):
        torch.hub.load_state_dict_from_url("https://example.org/w.pth")
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    torch.save({"w": torch.ones(2)}, tmp_path / "hub" / "checkpoints" / "w.pth")
    assert torch.hub.load_state_dict_from_url("https://example.org/w.pth")["w"].tolist() == [1.0, 1.0]
    torch.hub.set_dir(tmp_path / "other")
    assert torch.hub.get_dir() == str(tmp_path / "other")


def test_inner_operators_refuse():
    with pytest.raises(NotImplementedError, match="aten._pin_memory: this inner operator is not here"):
        torch.ops.aten._pin_memory.default(torch.ones(1))


def test_nothing_is_traced():
    assert (
        torch._C._get_tracing_state() is None
        and not torch._C._is_tracing()
        and torch._C._log_api_usage_once("x") is None
    )


def test_storages_of_files(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(numpy.arange(4, dtype=numpy.float32).tobytes())
    storage = torch.UntypedStorage.from_file(path, nbytes=16)
    tensor = torch.asarray(storage, dtype=torch.uint8).view(torch.float32)
    tensor += 1  # a copy of the page
    assert tensor.tolist() == [1.0, 2.0, 3.0, 4.0] and path.read_bytes()[:4] == bytes(4)
    assert torch.storage.UntypedStorage is torch.UntypedStorage and torch.torch_version.TorchVersion
    with pytest.raises(RuntimeError, match="has 16 bytes, 17 were asked for"):
        torch.UntypedStorage.from_file(path, nbytes=17)


class Natural(torch.distributions.ExponentialFamily):
    _mean_carrier_measure = 0.0

    def __init__(self, loc):
        self.loc = loc
        super().__init__(loc.shape, validate_args=False)

    @property
    def _natural_params(self):
        return (self.loc, torch.full_like(self.loc, -0.5))

    def _log_normalizer(self, x, y):
        return -0.25 * x.pow(2) / y + 0.5 * torch.log(-math.pi / y)


def test_the_entropy_of_an_exponential_family():
    normal = torch.distributions.Normal(torch.tensor([0.0, 3.0], dtype=torch.float64), 1.0)
    entropy = Natural(normal.loc).entropy()  # a Normal of scale 1 by its natural parameters
    assert numpy.allclose(entropy.detach().numpy(), normal.entropy().numpy())


# --- trees ----------------------------------------------------------------------------------------------------------------------


def test_paths_through_trees():
    tree = {"a": [1, (2, 3)], "b": {"c": 4}}
    pairs, spec = _pytree.tree_flatten_with_path(tree)
    assert {_pytree.keystr(path): leaf for path, leaf in pairs} == {
        "['a'][0]": 1,
        "['a'][1][0]": 2,
        "['a'][1][1]": 3,
        "['b']['c']": 4,
    }
    assert all(_pytree.key_get(tree, path) == leaf for path, leaf in pairs)
    assert spec == _pytree.tree_structure(tree) and hash(spec) == hash(_pytree.tree_structure(tree))
    doubled = _pytree.tree_map_with_path(lambda path, leaf: (len(path), leaf), tree)
    assert doubled == {"a": [(2, 1), ((3, 2), (3, 3))], "b": {"c": (2, 4)}}


def test_nodes_are_a_table():
    assert {dict, list, tuple} <= set(_pytree.SUPPORTED_NODES) and _pytree._get_node_type([1]) is list
    leaves, context = _pytree.SUPPORTED_NODES[dict].flatten_fn({"a": 1})
    assert (leaves, context) == ([1], ["a"]) and _pytree.LeafSpec().is_leaf()
    with pytest.raises(TypeError, match="expected treespec to be a TreeSpec, got int"):
        _pytree.tree_unflatten([1], 3)
    with pytest.raises(ValueError, match="registered without flatten_with_keys_fn"):
        _pytree.register_pytree_node(Box, lambda box: ([box.x], None), lambda children, context: Box())
        _pytree.tree_flatten_with_path(Box())


class Box:
    x = 1


def test_return_types():
    x = torch.rand(3, 3)
    square = x @ x.T + torch.eye(3)
    of = torch.return_types
    for value, kind in [
        (x.max(0), of.max), (x.nanmedian(0), of.nanmedian), (torch.frexp(x), of.frexp), (torch.slogdet(square), of.slogdet),
        (torch.histogram(x, 4), of.histogram), (torch.linalg.eigh(square), of.linalg_eigh), (torch.linalg.lu(x), of.linalg_lu),
    ]:  # fmt: skip
        assert isinstance(value, kind)
    with pytest.raises(AttributeError, match="no function 'relu' gives a named tuple"):
        of.relu  # noqa: B018


EQUAL = [
    (torch.ones(2), [1.0, 1.0]),
    ({"loss": [torch.ones(2), 0.5]}, {"loss": [[1.0, 1.0], 0.5]}),
    (numpy.ones(2), torch.ones(2, dtype=torch.float64)),
    (torch.tensor(3), 3),
    (0.1 + 0.2, 0.3),
    ("a", "a"),
    (torch.tensor(float("nan")), torch.tensor(float("nan"))),
]
UNEQUAL = [
    (torch.ones(2), torch.zeros(2), "not close"),
    (1, 2, "Scalars are not close"),
    ("a", "b", "'a' != 'b'"),
    ([1], [1, 2], "1 != 2"),
    ({1: 2}, {2: 2}, "second set"),
    (torch.ones(2), torch.ones(2).double(), "dtype"),
    (torch.ones(2), None, "no comparison of Tensor and NoneType"),
]


def test_test_cases():
    case = importlib.import_module("dynograd.testing._internal.common_utils").TestCase()
    for first, second in EQUAL:
        case.assertEqual(first, second)
    for first, second, words in UNEQUAL:
        with pytest.raises(AssertionError, match=words):
            case.assertEqual(first, second)
    case.assertEqual(torch.ones(2), torch.ones(2).double() + 0.1, exact_dtype=False, atol=0.2, rtol=0)
    with pytest.raises(AssertionError, match="mine"):
        case.assertEqual(torch.ones(2), torch.zeros(2), "mine")


def test_reductions_of_losses():
    of = importlib.import_module("dynograd.nn._reduction")
    assert [of.get_enum(word) for word in ("none", "mean", "sum")] == [0, 1, 2]
    with pytest.raises(
        ValueError, match="get_enum: most is not a valid value for reduction: expected 'none', 'mean' or 'sum'"
    ):
        of.get_enum("most")
    for switches, word in {
        (None, None): "mean",
        (False, None): "sum",
        (True, False): "none",
        (None, True): "mean",
    }.items():
        with pytest.warns(UserWarning, match=f"reduction='{word}'"):
            assert of.legacy_get_string(*switches) == word
    assert of.legacy_get_enum(False, True, emit_warning=False) == 2


def test_names_of_the_cplusplus_core_refuse():
    assert not isinstance(3, torch._C.Graph) and torch._C.Graph is torch._C.Graph
    for name in ("Event", "Generator", "Size", "Stream", "default_generator", "dtype", "layout", "memory_format"):
        assert getattr(torch._C, name) is getattr(torch, name)
    assert torch._C._TensorBase is torch.Tensor and torch._C._LinAlgError is torch.linalg.LinAlgError
    assert not any([module._is_in_bad_fork() for module in (torch.cuda, torch.mps, torch.xpu)])
    for call in (torch._C.Value, torch._C.parse_ir, torch.jit._get_trace_graph):
        with pytest.raises(NotImplementedError, match="there is no TorchScript, and no graph or type of it"):
            call()
    with pytest.raises(AttributeError, match="no attribute 'Grph'"):
        torch._C.Grph  # noqa: B018
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        torch.distributed.isend(torch.ones(1), 1)
    assert importlib.import_module("dynograd.quantization.observer").MinMaxObserver.__name__ == "MinMaxObserver"


def test_loss_scaling_in_place():
    gradients, infinite = [torch.tensor([2.0, 4.0]), torch.tensor([float("inf")])], torch.zeros(1)
    torch._amp_foreach_non_finite_check_and_unscale_(gradients[:1], infinite, torch.tensor([0.5]))
    assert gradients[0].tolist() == [1.0, 2.0] and not infinite
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, infinite, torch.tensor([1.0]))
    assert infinite.item() == 1
    scale, tracker = torch.tensor([8.0]), torch.tensor([0])
    for seen, expected in ((1, 4), (0, 4), (0, 8), (0, 8)):
        torch._amp_update_scale_(scale, tracker, torch.tensor([float(seen)]), 2.0, 0.5, 2)
        assert scale.item() == expected
    assert torch._cast_Long(torch.tensor([2.5])).tolist() == [2]


def test_weak_dicts_by_identity():
    weak = torch.utils.weak if hasattr(torch.utils, "weak") else importlib.import_module("dynograd.utils.weak")
    x, y = torch.ones(2), torch.ones(2)
    names = weak.WeakIdKeyDictionary({x: "x"})
    assert names[x] == "x" and y not in names and 3 not in names and names.get(y) is None
    names[y] = "y"
    assert names == names.copy() and len(names) == 2 and {id(key) for key in names} == {id(x), id(y)}
    assert names != weak.WeakIdKeyDictionary({x: "x"}) and weak.WeakIdRef(x) == weak.WeakIdRef(x) != weak.WeakIdRef(y)
    reference = weak.TensorWeakRef(y)
    assert reference() is y and len(names.keyrefs()) == 2
    del y, names[x]
    assert reference() is None and len(names) == 0
    with pytest.raises(TypeError, match="TensorWeakRef: expected a tensor, got int"):
        weak.TensorWeakRef(3)


def test_swapped_tensors():
    layer, other = torch.nn.Linear(2, 2), torch.nn.Parameter(torch.zeros(3, 3))
    weight, layer.weight.tag = layer.weight, "old"
    torch.utils.swap_tensors(weight, other)
    assert layer.weight is weight and weight.shape == (3, 3) and other.shape == (2, 2) and other.tag == "old"
    plain = torch.ones(2)
    torch.utils.swap_tensors(plain, other)
    assert type(other) is torch.Tensor and isinstance(plain, torch.nn.Parameter) and plain.requires_grad
    with pytest.raises(RuntimeError, match="a tensor is a view or has views"):
        torch.utils.swap_tensors(weight[0], plain)
    with pytest.raises(TypeError, match="expected two tensors, got int"):
        torch.utils.swap_tensors(weight, 3)


def test_masked_tensors_can_be_asked_for():
    assert not isinstance(torch.ones(2), torch.masked.MaskedTensor)
    for name in ("MaskedTensor", "masked_tensor", "as_masked_tensor", "is_masked_tensor"):
        with pytest.raises(NotImplementedError, match=r"dynograd\.masked has reductions with a mask"):
            getattr(torch.masked, name)(torch.ones(2), torch.ones(2) > 0)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        torch.masked.nothing  # noqa: B018


def test_underlined_names_of_distributions():
    from dynograd.distributions.multivariate_normal import _batch_mahalanobis, _batch_mv, _precision_to_scale_tril
    from dynograd.distributions.transforms import _clipped_sigmoid

    draw = numpy.random.default_rng(0)
    wide = draw.normal(size=(2, 3, 3))
    root, vector = numpy.tril(wide) + 3 * numpy.eye(3), draw.normal(size=(2, 3))
    L, x = torch.tensor(root), torch.tensor(vector)
    solved = numpy.linalg.solve(root, vector[..., None])[..., 0]
    numpy.testing.assert_allclose(_batch_mv(L, x).numpy(), (root @ vector[..., None])[..., 0])
    numpy.testing.assert_allclose(_batch_mahalanobis(L, x).numpy(), (solved**2).sum(-1))
    precision = numpy.linalg.inv(root @ root.transpose(0, 2, 1))
    numpy.testing.assert_allclose(_precision_to_scale_tril(torch.tensor(precision)).numpy(), root, atol=1e-12)
    limits = torch.finfo(torch.float32)
    assert _clipped_sigmoid(torch.tensor([-200.0, 0.0, 200.0])).tolist() == [limits.tiny, 0.5, 1 - limits.eps]
    assert math.isfinite(torch.distributions.SigmoidTransform().inv(torch.tensor(1.0)).item())


def test_underlined_names_of_layers():
    from dynograd.nn.functional import _canonical_mask, _in_projection_packed, _none_or_dtype
    from dynograd.nn.modules.rnn import apply_permutation

    x, w, b = torch.randn(4, 2, 3), torch.randn(9, 3), torch.randn(9)
    for operands in ((x, x, x), (x, x + 1, x + 2)):
        for part, operand, weight, bias in zip(
            _in_projection_packed(*operands, w, b), operands, w.chunk(3), b.chunk(3), strict=True
        ):
            numpy.testing.assert_allclose(part.numpy(), (operand @ weight.T + bias).numpy(), rtol=1e-5, atol=1e-6)
    mask = torch.tensor([True, False])
    assert _canonical_mask(mask, "mask", None, "", torch.float32).tolist() == [-math.inf, 0.0]
    assert _canonical_mask(None, "mask", torch.bool, "other", torch.float32) is None
    with pytest.warns(UserWarning, match="mismatched mask and other"):
        _canonical_mask(mask, "mask", torch.float32, "other", torch.float32)
    assert _none_or_dtype(None) is None and _none_or_dtype(x) is torch.float32
    assert apply_permutation(x, torch.tensor([1, 0])).tolist() == x.flip(1).tolist()


def test_structures_as_text():
    """PyTorch's JSON, which exported programs have in their files."""
    Point = collections.namedtuple("Point", "x y")

    class Pair:
        def __init__(self, first, second):
            self.parts = [first, second]

    leaf = '{"type": null, "context": null, "children_spec": []}'
    for tree, text in (
        ({"a": [1]}, f'"builtins.dict", "context": "[\\"a\\"]", "children_spec": [{{"type": "builtins.list", "context": "null", '
         f'"children_spec": [{leaf}]}}]'),
        (collections.deque(maxlen=3), '"collections.deque", "context": "3", "children_spec": []'),
        (collections.OrderedDict(), '"collections.OrderedDict", "context": "[]", "children_spec": []'),
        (collections.defaultdict(list), '"collections.defaultdict", "context": {"default_factory_module": "builtins", '
         '"default_factory_name": "list", "dict_context": []}, "children_spec": []'),
    ):  # fmt: skip
        spec = _pytree.tree_structure(tree)
        written = _pytree.treespec_dumps(spec)
        assert written == f'[1, {{"type": {text}}}]' and _pytree.treespec_loads(written) == spec
    try:
        _pytree.register_pytree_node(Pair, lambda pair: (pair.parts, {1}), lambda parts, context: Pair(*parts),
                                     serialized_type_name="Pair", to_dumpable_context=sorted, from_dumpable_context=set)  # fmt: skip
        spec = _pytree.tree_structure((Pair(1, 2), Point(3, 4)))
        with pytest.raises(NotImplementedError, match=r"namedtuple class .*Point.*_register_namedtuple"):
            _pytree.treespec_dumps(spec)
        _pytree._register_namedtuple(Point, serialized_type_name="Point")
        written = _pytree.treespec_dumps(spec)
        assert '"type": "Pair", "context": [1]' in written and '"context": "Point"' in written
        assert _pytree.treespec_loads(written) == spec
    finally:
        for table in (_pytree.SUPPORTED_NODES, _pytree._FORMS):
            table.pop(Pair, None)
        _pytree._NAMED_TUPLES.pop(Point, None)
    with pytest.raises(NotImplementedError, match="Deserializing Pair is not registered"):
        _pytree.treespec_loads(written)


def test_structures_without_text():
    class Single:
        pass

    spec = _pytree.tree_structure([1])
    with pytest.raises(TypeError, match="instance of TreeSpec, got int"):
        _pytree.treespec_dumps(3)
    for call in (lambda: _pytree.treespec_dumps(spec, protocol=2), lambda: _pytree.treespec_loads("[2, {}]")):
        with pytest.raises(ValueError, match=r"Unknown protocol 2. Available protocols: \[1\]"):
            call()
    with pytest.raises(TypeError, match="Unable to serialize context .*to_dumpable_context"):
        _pytree.treespec_dumps(_pytree.tree_structure({(1, 2): 3, object: 4}))
    with pytest.raises(ValueError, match="both to_dumpable_context and from_dumpable_context for Single"):
        _pytree.register_pytree_node(Single, None, None, to_dumpable_context=list)
    try:
        _pytree.register_pytree_node(Single, lambda single: ([], None), lambda parts, context: Single())
        with pytest.raises(
            NotImplementedError, match="No registered serialization name for .*Single.*serialized_type_name"
        ):
            _pytree.treespec_dumps(_pytree.tree_structure(Single()))
    finally:
        _pytree.SUPPORTED_NODES.pop(Single, None)


def test_a_text_of_a_structure_imports_nothing():
    text = _pytree.treespec_dumps(_pytree.tree_structure(collections.defaultdict(list, {"a": 1})))
    assert _pytree.treespec_loads(text) == _pytree.tree_structure(collections.defaultdict(list, {"a": 1}))
    for module, name in (("os", "getcwd"), ("builtins", "breakpoint"), ("builtins", "missing")):
        other = text.replace("builtins", module).replace('"list"', f'"{name}"').replace('\\"list\\"', f'\\"{name}\\"')
        with pytest.raises(
            ValueError, match=f"expected a defaultdict of a type of Python's own, such as list, got {module}.{name}"
        ):
            _pytree.treespec_loads(other)


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "tree, rest, parts",
    [
        ({"a": 1, "b": 2}, {"b": 3, "a": 4}, [4, 3]),
        ({"a": 1, "b": 2}, collections.OrderedDict(b=3, a=4), [4, 3]),
        (collections.defaultdict(int, a=1, b=2), {"b": 3, "a": 4}, [4, 3]),
        ([1, 2], [[1, 2], {"a": 1}], [[1, 2], {"a": 1}]),
        (Point(1, 2), Point(3, (4,)), [3, (4,)]),
        (collections.deque([1]), collections.deque([2], maxlen=3), [2]),
        (1, [1, 2], [[1, 2]]),
    ],
)
def test_trees_side_by_side(tree, rest, parts):
    spec = _pytree.tree_structure(tree)
    assert spec.flatten_up_to(rest) == parts
    seen = []
    _pytree.tree_map(lambda leaf, part: seen.append(part), tree, rest)
    assert seen == parts


@pytest.mark.parametrize(
    "tree, rest, words",
    [
        ({"a": 1}, {"b": 1}, r"keys mismatch; expected \['a'\], but got \['b'\]"),
        ([1, 2], (1, 2), "type mismatch; expected .*list.* got .*tuple"),
        ([1, 2], [1], "arity mismatch; expected 2, but got 1"),
        ([1, 2], 3, "type mismatch; expected .*list.* got .*int"),
        (Point(1, 2), collections.namedtuple("Other", "x y")(1, 2), "context mismatch"),
    ],
)
def test_trees_that_do_not_fit(tree, rest, words):
    with pytest.raises(ValueError, match=words):
        _pytree.tree_map(max, tree, rest)

"""Modules that programs import: what they answer, and how they refuse."""

import collections
import importlib.util
import os
import pickle
import signal
import sys
import tomllib
from pathlib import Path

import pytest

import dynograd as torch
from dynograd.utils.benchmark import Compare, Measurement, TaskSpec, Timer

ROOT = Path(__file__).parents[2]


def test_version():
    expected = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert torch.version.dynograd_version == expected
    assert torch.__version__ == torch.version.__version__ == f"2.13.0+dynograd.{expected}"
    assert torch.version.cuda is None and torch.version.hip is None


def test_version_compares_by_numbers():
    version = torch.__version__
    assert (
        version > "2.2"
        and version >= "2.13"
        and version >= (2, 13, 0)
        and version <= "2.13.0"
        and version < "2.14.0.dev1"
    )
    assert version < "10.0" and not version < "1.9.1" and not version > (3,) and version != "2.13.0"
    assert version.split(".")[0] == "2" and int(version[0]) == 2
    with pytest.raises(ValueError, match=r"version: expected numbers such as '2.13', got 'new'"):
        assert version > "new"


def test_jit():
    assert torch.jit.wait(torch.jit.fork(max, 1, 2)) == 2
    assert torch.jit.isinstance([1], list[int]) and not torch.jit.isinstance(1, (list[int], str))
    assert torch.jit.Final[int] is not None


@pytest.fixture
def alone():
    """The default group, of this process alone."""
    torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    yield torch.distributed
    torch.distributed.destroy_process_group()


def test_a_group_of_one(alone, monkeypatch):
    x = torch.arange(4.0)
    work = alone.all_reduce(x, op=alone.ReduceOp.AVG, async_op=True)
    assert work.wait() and work.is_completed() and x.tolist() == [0, 1, 2, 3]
    assert alone.broadcast(x, src=0) is alone.barrier() is alone.reduce(x, 0) is None
    for fill in (
        lambda out: alone.all_gather([out], x),
        lambda out: alone.all_gather_into_tensor(out, x),
        lambda out: alone.gather(x, [out], dst=0),
        lambda out: alone.scatter(out, [x], src=0),
        lambda out: alone.reduce_scatter(out, [x]),
        lambda out: alone.reduce_scatter_tensor(out, x),
        lambda out: alone.all_to_all([out], [x]),
        lambda out: alone.all_to_all_single(out, x, [4], [4]),
    ):
        out = torch.empty(4)
        assert fill(out) is None and out.equal(x)
    result = [None]
    alone.gather_object({"a": 1}, result, dst=0)
    alone.broadcast_object_list(result, src=0)
    assert result == [{"a": 1}]
    alone.scatter_object_list(result, ["b"], src=0)
    assert result == ["b"]
    assert alone.get_backend() == "gloo" and alone.group.WORLD.size() == 1 and alone.get_process_group_ranks() == [0]
    part = alone.new_group([0])
    assert alone.get_rank(part) == 0 and alone.get_world_size(alone.new_group([])) == -1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda dist: dist.init_process_group(), ValueError, "initialize the default process group twice"),
        (lambda dist: dist.all_reduce([1.0]), TypeError, "all_reduce: expected tensor to be a Tensor, got list"),
        (lambda dist: dist.all_reduce(torch.ones(1), op="sum"), TypeError, "all_reduce: expected op .* got 'sum'"),
        (lambda dist: dist.broadcast(torch.ones(1), src=2), ValueError, "broadcast: src=2 is not part of the group"),
        (lambda dist: dist.all_gather([], torch.ones(1)), ValueError, "all_gather: expected tensor_list .* got 0"),
        (lambda dist: dist.all_gather_into_tensor(torch.ones(3), torch.ones(2)), RuntimeError, "shape .3,. cannot hold .*.2,."),
        (lambda dist: dist.scatter(torch.ones(2).int(), [torch.ones(2)]), RuntimeError, "scatter_list.0. has .*float32.*int32"),
        (lambda dist: dist.all_to_all_single(torch.ones(2), torch.ones(2), [1], [2]), ValueError, "output_split_sizes=.1."),
        (lambda dist: dist.new_group([0, 1]), ValueError, "new_group.*got .0, 1."),
        (lambda dist: dist.get_rank("x"), TypeError, "expected a ProcessGroup .* got str"),
        (lambda dist: dist.get_global_rank(None, 1), ValueError, "get_global_rank: group_rank=1"),
        (lambda dist: dist.all_gather_object([], 1), ValueError, "all_gather_object.*got 0"),
        (lambda dist: dist.gather_object(1), ValueError, "gather_object: .*got None"),
        (lambda dist: dist.scatter_object_list([None], []), ValueError, "scatter_object_list"),
        (lambda dist: torch.nn.parallel.DistributedDataParallel(torch.nn.ReLU()), RuntimeError, "not needed .*ReLU"),
    ],
)  # fmt: skip
def test_mistakes_in_a_group_of_one(alone, call, error, words):
    with pytest.raises(error, match=words):
        call(alone)


def test_groups_of_several_need_mpi(monkeypatch):
    dist = torch.distributed
    assert dist.is_available() and not dist.is_initialized() and dist.group.WORLD is None
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(
        RuntimeError, match="world_size=4 needs mpi4py, which is not installed.*python -m dynograd.run -n 4"
    ):
        dist.init_process_group("nccl")
    with pytest.raises(ValueError, match="rank must be in .*rank=1, world_size=1"):
        dist.init_process_group("nccl", world_size=1)
    with pytest.raises(ValueError, match="Unknown c10d backend type 'pigeons'"):
        dist.init_process_group("pigeons")
    with pytest.raises(ValueError, match="has not been initialized, please make sure to call init_process_group"):
        dist.get_world_size()
    with pytest.raises(ValueError, match="has not been initialized"):
        torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))


def test_distributed_data_parallel_trains_as_its_module(alone):
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 1)
    model = torch.nn.parallel.DistributedDataParallel(layer, device_ids=None, find_unused_parameters=True)
    assert list(model.state_dict()) == ["module.weight", "module.bias"]
    with model.no_sync():
        assert not model.require_backward_grad_sync
        model(torch.ones(2, 3)).sum().backward()
    with model.join():
        assert layer.weight.grad.tolist() == [[2, 2, 2]] and model.require_backward_grad_sync
    assert torch.nn.parallel.data_parallel(layer, torch.ones(2, 3)).shape == (2, 1)


def test_summary_writer_takes_tensors(tmp_path):
    tensorboard = pytest.importorskip("tensorboardX", reason="the extra `tensorboard` is not installed")
    pytest.importorskip("PIL", reason="pillow, which tensorboardX makes images with, is not installed")
    from dynograd.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        assert isinstance(writer, tensorboard.SummaryWriter)
        writer.add_scalar("loss", torch.tensor(0.5, requires_grad=True), 1)
        writer.add_scalars("losses", {"a": torch.tensor(1.0), "b": 2.0}, global_step=1)
        writer.add_histogram("weights", torch.randn(10).bfloat16(), 1)
        writer.add_image("image", torch.rand(3, 4, 4), 1)
        writer.add_text("text", "words", 1)
        with pytest.raises(NotImplementedError, match="add_graph: .* of Linear"):
            writer.add_graph(torch.nn.Linear(1, 1))
    written = b"".join(file.read_bytes() for file in tmp_path.rglob("events.*"))
    assert b"loss" in written and b"weights" in written and b"words" in written


def test_summary_writer_without_tensorboardx(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    spec = importlib.util.find_spec("dynograd.utils.tensorboard")
    module = importlib.util.module_from_spec(spec)  # beside the one that other tests have
    spec.loader.exec_module(module)
    with pytest.raises(ImportError, match=r"SummaryWriter: .* tensorboardX, .* pip install 'dynograd\[tensorboard\]'"):
        module.SummaryWriter("runs", write_to_disk=False)


def test_summary_writer_lies_where_packages_import_it():
    pytest.importorskip("tensorboardX", reason="the extra `tensorboard` is not installed")
    writer = importlib.import_module("dynograd.utils.tensorboard.writer")
    assert writer.SummaryWriter is importlib.import_module("dynograd.utils.tensorboard").SummaryWriter


def test_random():
    torch.random.manual_seed(3)
    state = torch.random.get_rng_state()
    with torch.random.fork_rng(device_type="cpu"):
        first = torch.rand(3)
    assert torch.rand(3).equal(first)
    torch.random.set_rng_state(state)
    assert torch.rand(3).equal(first) and torch.random.initial_seed() == 3


def test_a_checkpoint_without_gradients_warns():
    from dynograd.utils.checkpoint import check_backward_validity

    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        check_backward_validity([torch.ones(2), 3])
    check_backward_validity([3, torch.ones(2, requires_grad=True)])


def test_backends_of_devices():
    assert torch.distributed.get_default_backend_for_device(torch.device("cuda:1")) == "nccl"
    with pytest.raises(ValueError, match="no backend is registered for device 'meta'; there are cpu, cuda"):
        torch.distributed.get_default_backend_for_device("meta")


def work(place, base):
    if base + place > 10:
        raise ValueError(f"place {place}")


def end(place):
    os.kill(os.getpid(), signal.SIGTERM)


def leave(place):
    if place:
        sys.exit(7)


@pytest.mark.slow
def test_spawn():
    mp = torch.multiprocessing
    assert mp.start_processes(work, (1,), nprocs=2, start_method="fork") is None
    context = mp.start_processes(work, (1,), nprocs=2, join=False, start_method="fork")
    assert len(context.pids()) == 2 and context.join()
    with pytest.raises(mp.ProcessRaisedException, match=r"(?s)Process 1 terminated.*ValueError: place 1") as raised:
        mp.start_processes(work, (10,), nprocs=2, start_method="fork")
    assert raised.value.error_index == 1 and raised.value.pid > 0
    with pytest.raises(mp.ProcessExitedException, match="process 1 terminated with exit code 7") as left:
        mp.start_processes(leave, nprocs=2, start_method="fork")
    assert left.value.exit_code == 7 and left.value.signal_name is None
    with pytest.raises(mp.ProcessException, match="process 0 terminated with signal SIGTERM") as ended:
        mp.start_processes(end, start_method="fork")
    again = pickle.loads(pickle.dumps(ended.value))
    assert (again.exit_code, again.signal_name, again.error_index) == (-15, "SIGTERM", 0)
    assert importlib.import_module("dynograd.multiprocessing.spawn").ProcessContext is mp.ProcessContext
    assert mp.spawn is not None and callable(mp.spawn)


def test_multiprocessing():
    import multiprocessing

    mp = torch.multiprocessing
    assert mp.Process is multiprocessing.Process and mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    with pytest.raises(ValueError, match=r"expected one of \['file_descriptor', 'file_system'\], got 'x'"):
        mp.set_sharing_strategy("x")


def test_devices():
    assert torch.accelerator.is_available() == torch.cuda.is_available()
    assert torch.accelerator.device_count() == torch.cuda.device_count()
    if not torch.cuda.is_available():
        assert torch.accelerator.current_accelerator() is None and torch.accelerator.synchronize() is None
    with torch.cpu.amp.autocast(dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    with torch.cpu.amp.autocast(False):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


def test_flat_tensors():
    from dynograd._utils import _flatten_dense_tensors, _unflatten_dense_tensors

    arguments = [torch.randn(2, 3), torch.randn(4), torch.tensor(1.0)]
    flat = _flatten_dense_tensors(arguments)
    assert flat.shape == (11,)
    for element, two in zip(arguments, _unflatten_dense_tensors(flat, arguments)):
        assert element.equal(two) and element.shape == two.shape
    with pytest.raises(ValueError, match="flat has 3 elements but the tensors have 11"):
        _unflatten_dense_tensors(flat[:3], arguments)


def test_backends():
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark
    with cudnn.flags(benchmark=not before, deterministic=True):
        assert cudnn.benchmark is not before and cudnn.deterministic
    assert cudnn.benchmark is before and not cudnn.deterministic
    with torch.backends.cuda.sdp_kernel(enable_flash=False):
        pass
    with (
        pytest.raises(TypeError, match="no argument 'flash'; known are enable_flash"),
        torch.backends.cuda.sdp_kernel(flash=False),
    ):
        pass
    assert torch.backends.cuda.flash_sdp_enabled()
    torch.backends.cuda.enable_flash_sdp(False)
    assert not torch.backends.cuda.flash_sdp_enabled()
    torch.backends.cuda.enable_flash_sdp(enabled=True)
    assert (
        torch.backends.cuda.preferred_linalg_library("magma")
        == torch.backends.cuda.preferred_linalg_library()
        == "magma"
    )
    assert (
        torch.backends.cuda.preferred_linalg_library("default")
        == torch.backends.cuda.preferred_blas_library()
        == "default"
    )
    with pytest.raises(RuntimeError, match="preferred_linalg_library: expected 'default', 'cusolver', .*'eigen'"):
        torch.backends.cuda.preferred_linalg_library("eigen")
    with torch.backends.mkldnn.flags(enabled=False):
        assert not torch.backends.mkldnn.enabled
    assert torch.backends.mkldnn.enabled and not torch.backends.mkldnn.is_available()


def test_sdpa_kernel():
    from dynograd.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        pass
    with pytest.raises(AssertionError, match="expected SDPBackend or a list of it, got 'math'"), sdpa_kernel(["math"]):
        pass


def test_safe_globals():
    from dynograd.serialization import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals

    with safe_globals([set]):
        assert get_safe_globals() == [set]
    add_safe_globals([dict, dict])
    assert get_safe_globals() == [dict]
    clear_safe_globals()
    assert get_safe_globals() == []


def test_pytree():
    from collections import OrderedDict, namedtuple

    from dynograd.utils import _pytree as tree

    Pair = namedtuple("Pair", "a b")
    argument = {"x": [1, (2, None)], "y": Pair(3, OrderedDict(z=4))}
    leaves, spec = tree.tree_flatten(argument)
    assert leaves == [1, 2, None, 3, 4] and spec.num_leaves == 5
    again = tree.tree_unflatten(leaves, spec)
    assert again == argument and type(again["y"]) is Pair
    assert tree.tree_map_only(int, lambda x: -x, argument)["x"] == [-1, (-2, None)]
    assert tree.tree_map(lambda a, b: a + b, [1, 2], [3, 4]) == [4, 6]
    assert tree.tree_leaves([[1], 2], is_leaf=lambda x: x == [1]) == [[1], 2]
    assert tree.tree_any(lambda x: x == 2, [1, 2]) and not tree.tree_all(lambda x: x == 2, [1, 2])
    with pytest.raises(ValueError, match="expected 5 leaves, got 1"):
        tree.tree_unflatten([1], spec)


def test_hooks_and_timer():
    from dynograd.utils.hooks import RemovableHandle

    x = torch.ones(1, requires_grad=True)
    assert isinstance(x.register_hook(print), RemovableHandle)
    own, more, others = {}, {}, {}  # hooks of a program's own
    handle = RemovableHandle(own, extra_dict=[more, others])
    own[handle.id] = more[handle.id] = print
    handle.remove()
    assert own == more == others == {} and RemovableHandle(own, extra_dict=more).id == handle.id + 1
    calls = []
    result = Timer(lambda: calls.append(1), label="appending").blocked_autorange(min_run_time=0.001)
    assert (
        result.median > 0
        and result.mean > 0
        and result.iqr >= 0
        and len(result.times) * result.number_per_run <= len(calls)
    )
    assert repr(result).startswith("appending\n  median")


def test_a_timer_sets_the_threads_and_goes_on_until_times_agree():
    seen, before = [], torch.get_num_threads()
    result = Timer(lambda: seen.append(torch.get_num_threads()), num_threads=before + 1).adaptive_autorange(
        threshold=1e9, min_run_time=0.001
    )
    assert {*seen} == {before + 1} and torch.get_num_threads() == before and len(result.times) >= 4


def test_measurements_are_compared_in_tables():
    tasks = [
        TaskSpec("x + 1", label="adding", sub_label=size, description=how, num_threads=threads)
        for size, how, threads in (("[10]", "eager", 1), ("[10]", "compiled", 1), ("[10]", "eager", 2))
    ]
    table = Compare([Measurement(2, [4e-6 * (number + 1)], task) for number, task in enumerate(tasks)])
    table.extend_results([Measurement(1, [1e-3], TaskSpec("x.exp()"))])
    for mark in (table.trim_significant_figures, table.colorize, table.highlight_warnings):
        mark()
    first, second = str(table).split("\n\n")
    assert [line.split() for line in first.splitlines()] == [
        ["adding", "(medians", "in", "us)"],
        ["threads", "eager", "compiled"],
        ["[10]", "1", "2.00", "4.00"],
        ["[10]", "2", "6.00"],
    ]
    assert second.splitlines()[-1].split() == ["x.exp()", "1", "1000.00"]


t = torch.tensor


@pytest.mark.parametrize(
    ("actual", "expected", "options"),
    [
        (t([1.0, 2.0]), t([1.0, 2.0]), {}),
        (t([1.0, float("nan")]), t([1.0, float("nan")]), dict(equal_nan=True)),
        (t([1.0]), t([1.1]), dict(rtol=0, atol=0.2)),
        ([t(1), (t(True), None)], [t(1), (t(True), None)], {}),
        ({"a": t(1.0), "b": 2}, {"a": t(1.0), "b": 2}, {}),
        (1.0, 1.0, {}),
        (t([1.0]), t([1.0], dtype=torch.float64), dict(check_dtype=False)),
        (t([0.0, 1.0]).to_sparse(), t([0.0, 1.0]).to_sparse(), {}),
        (torch.sparse_coo_tensor([[1, 1]], [1.0, 2.0], (2,)), t([0.0, 3.0]).to_sparse(), {}),
        (torch.eye(2).to_sparse_csr(), torch.eye(2).to_sparse_csr(), {}),
        (torch.eye(2).to_sparse_csc(), torch.eye(2).to_sparse(), dict(check_layout=False)),
        (torch.eye(2), torch.eye(2).to_sparse(), dict(check_layout=False)),
        (torch.ragged_tensor([[1.0, 2.0], [3.0]]), torch.ragged_tensor([[1.0, 2.0], [3.0]]), {}),
    ],
)
def test_close(actual, expected, options):
    torch.testing.assert_close(actual, expected, **options)


@pytest.mark.parametrize(
    ("actual", "expected", "options", "words"),
    [
        (t([[1.0, 2.0], [3.0, 4.0]]), t([[1.0, 2.0], [3.5, 4.1]]), {},
         r"(?s)Mismatched elements: 2 / 4 \(50.0%\).*difference: 0.5 at index \(1, 0\): got 3.0, expected 3.5"),
        (t([1.0]), t([1.0, 2.0]), {}, "'shape' do not match"),
        (t([1.0]), t([1]), {}, "'dtype' do not match: dynograd.float32 != dynograd.int64"),
        (t([1.0, float("nan")]), t([1.0, float("nan")]), {}, "Mismatched elements: 1 / 2"),
        ([t(1.0)], [t(2.0)], {}, r"not close at item \[0\]"),
        ([t(1.0)], [], {}, "length of the sequences mismatch: 1 != 0"),
        ({"a": 1}, {"b": 1}, {}, "keys of the mappings"),
        (1.0, 2.0, {}, "(?s)Scalars are not close.*Expected 2.0 but got 1.0"),
        (t([1.0]), None, {}, "no comparison of Tensor and NoneType"),
        (t([1]), t([2]), dict(msg="mine"), "^mine$"),
        (t([1]), t([2]), dict(msg=lambda text: "so: " + text), "^so: Tensor"),
        ("a", "b", {}, "Expected 'b' but got 'a'"),
        (t([[1.0, 2.0], [3.0, 4.0]]).t(), t([[1.0, 3.0], [2.0, 4.0]]), dict(check_stride=True), "stride"),
        (torch.eye(2), torch.eye(2).to_sparse(), {}, "'layout' do not match: dynograd.strided != dynograd.sparse_coo"),
        (t([0.0, 1.0]).to_sparse(), t([1.0, 0.0]).to_sparse(), {}, "close in the indices!"),
        (t([0.0, 1.0]).to_sparse(), t([1.0, 1.0]).to_sparse(), {}, "'shape' do not match in the indices"),
        ([torch.eye(2).to_sparse_csr()], [(torch.eye(2) * 2).to_sparse_csr()], {}, r"close in the values at item \[0\]!"),
        (torch.eye(2).to_sparse_csc(), torch.eye(2).flip(0).to_sparse_csc(), {}, "close in the row_indices"),
        (torch.eye(2).to_sparse_csc(), torch.eye(2) * 2, dict(check_layout=False), "close in the elements!"),
        (torch.ragged_tensor([[1.0, 2.0], [3.0]]), torch.ragged_tensor([[1.0], [2.0, 3.0]]), {}, "'shape' do not match"),
        (torch.ragged_tensor([[1.0, 2.0], [3.0]]), torch.ragged_tensor([[1.0, 2.0], [4.0]]), {}, "close in the values"),
    ],
)  # fmt: skip
def test_not_close(actual, expected, options, words):
    with pytest.raises(AssertionError, match=words):
        torch.testing.assert_close(actual, expected, **options)


@pytest.mark.parametrize(
    ("actual", "expected", "options"),
    [
        (t([1.0]), [1.0], {}),
        (1.0, t([1.0]), {}),
        ("a", ["a"], {}),
        (torch.nn.Parameter(t([1.0])), t([1.0]), dict(allow_subclasses=False)),
    ],
)  # fmt: skip
def test_not_comparable(actual, expected, options):
    with pytest.raises(TypeError, match="no comparison of .* expected equal types"):
        torch.testing.assert_close(actual, expected, **options)


def test_sequences_and_mappings_of_several_kinds_are_close():
    torch.testing.assert_close([t([1.0]), 2.0], (t([1.0]), 2.0))
    torch.testing.assert_close({"a": 1.0, "b": [2]}, collections.OrderedDict(b=(2,), a=1.0))


def test_assert_allclose():
    torch.testing.assert_allclose(t([1.0]), [1.0])
    with pytest.raises(ValueError, match="rtol and atol must both be specified"):
        torch.testing.assert_close(1.0, 1.0, rtol=0.1)


def test_registered_tree_nodes():
    from dynograd.utils import _pytree as tree

    class Span:
        def __init__(self, parts, name):
            self.parts, self.name = parts, name

    tree.register_pytree_node(Span, lambda one: (one.parts, one.name), Span, serialized_type_name="span")
    leaves, spec = tree.tree_flatten([Span([1, {"a": 2}], "x"), 3])
    assert leaves == [1, 2, 3] and spec.num_leaves == 3
    back = tree.tree_unflatten([4, 5, 6], spec)
    assert back[0].parts == [4, {"a": 5}] and back[0].name == "x" and back[1] == 6
    for known in (Span, dict):
        with pytest.raises(ValueError, match=f"{known.__name__} is already registered"):
            tree.register_pytree_node(known, None, None)


def test_errors_in_callbacks_of_futures_are_logged(caplog):
    future = torch.futures.Future()
    seen = []
    future.add_done_callback(lambda: None)
    future.add_done_callback(seen.append)
    future.set_result(5)
    future.add_done_callback(lambda done: 1 / 0)
    assert future.wait() == 5 and seen == [future]
    assert [record.exc_info[0] for record in caplog.records] == [TypeError, ZeroDivisionError]

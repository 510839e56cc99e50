"""What recording does to the process: nothing that another thread sees."""

import threading

import pytest

import dynograd as torch
from dynograd.kernels.attention.any_size import is_alike_at_any_size
from dynograd.kernels.build.batch_invariance import USES
from dynograd.ops.readers import is_read

pytest.importorskip("onnx", reason="needs the extra onnx")


class Waits(torch.nn.Module):
    """Runs something in another thread while it is recorded."""

    def __init__(self, meanwhile):
        super().__init__()
        self.meanwhile = meanwhile

    def forward(self, x):
        thread = threading.Thread(target=self.meanwhile)
        y = x + 1
        thread.start()
        thread.join()
        return y * 2


def test_another_thread_reads_computes_and_differentiates_as_ever():
    seen = []

    def meanwhile():
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = (x * x).sum()
        y.backward()
        batch_invariant = torch.is_batch_invariant(), USES.batch_invariant, is_alike_at_any_size()
        seen.append((y.item(), bool(y > 0), x.grad.tolist(), torch.is_grad_enabled(), batch_invariant))

    program = torch.onnx.export(Waits(meanwhile), (torch.ones(2, 3),), input_names=["x"], dynamic_axes={"x": [0]})
    assert seen
    assert set(map(repr, seen)) == {repr((5.0, True, [2.0, 4.0], True, (False, USES.batch_invariant, False)))}
    kinds = [node.op_type for node in program.model_proto.graph.node]
    assert [kind for kind in kinds if kind != "Constant"] == ["Add", "Mul", "Identity"]


def test_batch_invariance_is_never_asked_for():
    before = USES.batch_invariant
    torch.onnx.export(torch.nn.MultiheadAttention(8, 2).eval(), (torch.ones(2, 3, 8),) * 3)
    assert USES.batch_invariant == before


@pytest.mark.parametrize("fails", ["in the program", "by a reading"])
def test_an_error_leaves_tensors_and_thread_as_they_were(fails):
    def program(x):
        if fails == "in the program":
            raise ZeroDivisionError
        return x * x.sum().item()

    with pytest.raises(ZeroDivisionError if fails == "in the program" else torch.onnx.OnnxError):
        torch.onnx.export(program, (torch.ones(2),))
    assert not is_read(torch.Tensor.item)
    assert not is_alike_at_any_size()
    assert torch.is_grad_enabled()
    assert torch.ones(1).item() == 1


READING = {
    "item": lambda x: x * x.max().item(),
    "tolist": lambda x: x * x.tolist()[0],
    "numpy": lambda x: x + torch.from_numpy(x.numpy() * 2),
    "__bool__": lambda x: x if x.sum() > 0 else -x,
    "__index__": lambda x: x[: int(x.sum().long())],
    "__dlpack__": lambda x: x + torch.from_dlpack(x),
}


@pytest.mark.parametrize("method", READING)
def test_values_that_are_read_are_refused_with_the_line(method):
    with pytest.raises(torch.onnx.OnnxError) as error:
        torch.onnx.export(READING[method], (torch.tensor([1.0]),))
    assert "reads values" in str(error.value)
    assert "test_records.py" in str(error.value)
    assert "dynograd.where" in str(error.value)


def reads_what_a_branch_gave(x):
    y = torch.cond(x.sum() > 0, lambda z: z + 1, lambda z: z - 1, (x,))
    return x * y.max().item()


def reads_within_a_branch(x):
    y = x * 2
    return torch.cond(x.sum() > 0, lambda z: z * y.sum().item(), lambda z: z, (x,))


def reads_a_value_from_around_a_branch(x):
    y = (x * 2).sum()
    return torch.cond(x.sum() > 0, lambda z: z * y.item(), lambda z: z, (x,))


def computes_beside_ops(x):
    return x + torch.tensor(x.detach().array.max())


@pytest.mark.parametrize(
    "program",
    [reads_what_a_branch_gave, reads_within_a_branch, reads_a_value_from_around_a_branch, computes_beside_ops],
)
def test_values_that_find_their_way_into_constants_are_refused(program):
    with pytest.raises(torch.onnx.OnnxError, match="values.*test_records.py"):
        torch.onnx.export(program, (torch.tensor([[1.0, 2.0], [5.0, 3.0]]),))


def test_values_of_what_follows_from_sizes_may_be_read():
    def program(x):
        mask = torch.ones(x.shape[1], x.shape[1]).tril() * 2
        return x @ mask if bool((mask[0, -1] == 0).all()) else x

    program_of = torch.onnx.export(program, (torch.ones(2, 3),), input_names=["x"], dynamic_axes={"x": [1]})
    assert program_of.verify() < 1e-4

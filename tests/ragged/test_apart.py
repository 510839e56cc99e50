"""Ragged tensors: indexing, joins along the rows, and what has no loop to compare with."""

import os
import pathlib
import subprocess
import sys

import pytest

import dynograd
from dynograd import ragged_tensor, tensor
from dynograd.errors import ShapeError

ROWS = [[1.0, 2.0, 3.0], [4.0], [5.0, 6.0]]


def words():
    return ragged_tensor(ROWS)


def tables():
    """(3, j, 2): each number and its tenfold."""
    return ragged_tensor([tensor([[element, 10 * element] for element in row]) for row in ROWS])


def ragged(*rows):
    return ragged_tensor(list(rows))


def levels():
    """(2, j, k): sentences of words."""
    return ragged_tensor([[[1.0, 2.0], [3.0]], [[4.0]]])


def pairs():
    """(3, j), of one length."""
    return ragged_tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


# an expression of x (3, j), t (3, j, 2), p (3, j) of one length, l (2, j, k), and what it gives
INDEXED = {
    "x[0]": [1, 2, 3],
    "x[-1]": [5, 6],
    "x[tensor(1)]": [4],
    "x[1:]": [[4], [5, 6]],
    "x[::2]": [[1, 2, 3], [5, 6]],
    "x[[2, 0]]": [[5, 6], [1, 2, 3]],
    "x[tensor([1, 1])]": [[4], [4]],
    "x[tensor([True, False, True])]": [[1, 2, 3], [5, 6]],
    "x[x.lengths() > 1]": [[1, 2, 3], [5, 6]],
    "x[:, 0]": [1, 4, 5],
    "x[:, -1]": [3, 4, 6],
    "x[:, :2]": [[1, 2], [4], [5, 6]],
    "x[:, 1:]": [[2, 3], [], [6]],
    "x[:, -2:]": [[2, 3], [4], [5, 6]],
    "x[:, ::2]": [[1, 3], [4], [5]],
    "x[:, 1:tensor([2, 1, 2])]": [[2], [], [6]],
    "x[:, [0, -1]]": [[1, 3], [4, 4], [5, 6]],
    "x[1:, :1]": [[4], [5]],
    "x[..., 0]": [1, 4, 5],
    "x[...]": ROWS,
    "x[None][0]": ROWS,
    "x[:, None][:, 0]": ROWS,
    "x[..., None][..., 0]": ROWS,
    "x[0, 1]": 2,
    "x[x > 2]": [[3], [4], [5, 6]],
    "x[:, ragged([2, 0], [0], [])]": [[3, 1], [4], []],
    "x[ragged([2], [0, 1])]": [[[5, 6]], [[1, 2, 3], [4]]],
    "tensor([7.0, 8.0, 9.0])[ragged([0, 2], [1])]": [[7, 9], [8]],
    "t[:, -1, 1]": [30, 40, 60],
    "t[..., 1]": [[10, 20, 30], [40], [50, 60]],
    "t[:, 0]": [[1, 10], [4, 40], [5, 50]],
    "t[:, :, [1, 0]][0, 0]": [10, 1],
    "t[x > 4]": [[], [], [[5, 50], [6, 60]]],
    "t[t > 30]": [[], [40], [50, 60]],
    "t.transpose(1, 2)[:, 1, -1]": [30, 40, 60],
    "t.transpose(1, 2)[..., :1][0]": [[1], [10]],
    "x.select(1, 0)": [1, 4, 5],
    "x.narrow(0, 1, 2)": [[4], [5, 6]],
    "x.index_select(0, tensor([2, 2]))": [[5, 6], [5, 6]],
    "x.split(2)[1]": [[5, 6]],
    "x.split([1, 2])[1]": [[4], [5, 6]],
    "x.split(2, 1)[1]": [[3], [], []],
    "x.chunk(2, 1)[0]": [[1, 2], [4], [5]],
    "x.chunk(2)[0]": [[1, 2, 3], [4]],
    "x.tensor_split(2, 1)[1]": [[3], [], [6]],
    "x.tensor_split(2)[1]": [[5, 6]],
    "torch.vsplit(x, [1])[0]": [[1, 2, 3]],
    "x.unbind()[2]": [5, 6],
    "torch.cat([x, x[1:2]])": [*ROWS, [4]],
    "torch.cat([x, torch.zeros(1, 2)])": [*ROWS, [0, 0]],
    "torch.vstack([x, x[:1]])": [*ROWS, ROWS[0]],
    "torch.cat([x, x[:, :1]], 1)": [[1, 2, 3, 1], [4, 4], [5, 6, 5]],
    "torch.cat([torch.zeros(3, 1), x], 1)": [[0, 1, 2, 3], [0, 4], [0, 5, 6]],
    "torch.cat([torch.zeros(3, 1, 2), t], 1)[:, 0]": [[0, 0]] * 3,
    "torch.stack([x, x])[1]": ROWS,
    "torch.stack([x, x], 1)[:, 1]": ROWS,
    "x.flip(0)": ROWS[::-1],
    "x.flip(1)": [row[::-1] for row in ROWS],
    "x.flipud()": ROWS[::-1],
    "x.roll(1, 0)": [ROWS[2], ROWS[0], ROWS[1]],
    "x.roll(1, 1)": [[3, 1, 2], [4], [6, 5]],
    "x.repeat(2, 1)": ROWS + ROWS,
    "x.repeat(1, 2)": [row + row for row in ROWS],
    "x.repeat_interleave(2, 0)": [row for row in ROWS for _ in range(2)],
    "x.repeat_interleave(ragged([2, 0, 1], [1], [0, 3]), 1)": [[1, 1, 3], [4], [6, 6, 6]],
    "x.repeat_interleave(tensor([0, 2, 0]), 0)": [[4], [4]],
    "F.pad(x, (1, 0))": [[0, *row] for row in ROWS],
    "F.pad(x, (-1, 1), value=9.0)": [[2, 3, 9], [9], [6, 9]],
    "x.unsqueeze(0)[0]": ROWS,
    "x.flatten()": [1, 2, 3, 4, 5, 6],
    "x.view(-1)": [1, 2, 3, 4, 5, 6],
    "t.flatten(1)": [[1, 10, 2, 20, 3, 30], [4, 40], [5, 50, 6, 60]],
    "t.reshape(3, -1)": [[1, 10, 2, 20, 3, 30], [4, 40], [5, 50, 6, 60]],
    "(t.mT > 2).nonzero()": [
        [0, 0, 2],
        [0, 1, 0],
        [0, 1, 1],
        [0, 1, 2],
        [1, 0, 0],
        [1, 1, 0],
        [2, 0, 0],
        [2, 0, 1],
        [2, 1, 0],
        [2, 1, 1],
    ],
    "(x > 2).nonzero()": [[0, 2], [1, 0], [2, 0], [2, 1]],
    "torch.argwhere(x > 5)": [[2, 1]],
    "torch.where(x > 5)[1]": [1],
    "torch.nonzero_static(x > 5, size=2)": [[2, 1], [-1, -1]],
    "x + tensor([[1.0], [2.0], [3.0]])": [[2, 3, 4], [6], [8, 9]],
    "x + tensor([1.0, 2.0, 3.0])": [[2, 3, 4], [6], [8, 9]],
    "tensor([[1.0], [2.0], [3.0]]) - x": [[0, -1, -2], [-2], [-2, -3]],
    "t * tensor([1.0, 0.0])": [[[1, 0], [2, 0], [3, 0]], [[4, 0]], [[5, 0], [6, 0]]],
    "t + tensor([[[1.0, 0.0]], [[2.0, 0.0]], [[3.0, 0.0]]])": [
        [[2, 10], [3, 20], [4, 30]],
        [[6, 40]],
        [[8, 50], [9, 60]],
    ],
    "p + tensor([[1.0], [2.0], [3.0]])": [[2, 3], [5, 6], [8, 9]],
    "p - tensor([1.0, 2.0, 3.0])": [[0, 1], [1, 2], [2, 3]],
    "tensor([[1.0], [2.0], [3.0]]) - p": [[0, -1], [-1, -2], [-2, -3]],
    "p * tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])": [[1, 20], [6, 80], [15, 180]],
    "p * tensor([[2.0]])": [[2, 4], [6, 8], [10, 12]],
    "p * tensor(2.0)": [[2, 4], [6, 8], [10, 12]],
    "p + 2 * p + tensor([[1.0], [2.0], [3.0]])": [[4, 7], [11, 14], [18, 21]],
    "torch.where(p > 2, p, tensor([[7.0], [8.0], [9.0]]))": [[7, 7], [3, 4], [5, 6]],
    "torch.addcmul(p, p, tensor([[1.0], [0.0], [2.0]]))": [[2, 4], [3, 4], [15, 18]],
    "p[..., None] * tensor([[[1.0, 0.0]], [[0.0, 1.0]], [[2.0, 0.0]]])": [
        [[1, 0], [2, 0]],
        [[0, 3], [0, 4]],
        [[10, 0], [12, 0]],
    ],
    "p[:, None] + tensor([[[1.0], [2.0]], [[0.0], [0.0]], [[3.0], [4.0]]])": [
        [[2, 3], [3, 4]],
        [[3, 4], [3, 4]],
        [[8, 9], [9, 10]],
    ],
    "torch.is_ragged(p + tensor([[1.0], [2.0], [3.0]]))": True,
    "torch.linalg.det(t[..., None] * tensor([[1.0, 0.0], [0.0, 1.0]]))": [[10, 40, 90], [160], [250, 360]],
    "t.unfold(1, 1, 1)[..., 0]": [[[1, 10], [2, 20], [3, 30]], [[4, 40]], [[5, 50], [6, 60]]],
    "t.unfold(2, 2, 1)[:, :, 0]": [[[1, 10], [2, 20], [3, 30]], [[4, 40]], [[5, 50], [6, 60]]],
    "x[[0, 2]].unfold(1, 2, 1)": [[[1, 2], [2, 3]], [[5, 6]]],
    "p.unfold(1, 1, 2)": [[[1]], [[3]], [[5]]],
    "t[[0, 2]].transpose(1, 2).unfold(2, 2, 1)[:, 0]": [[[1, 2], [2, 3]], [[5, 6]]],
    "torch.unfold_copy(x[[0, 2]], 1, 2, 1)": [[[1, 2], [2, 3]], [[5, 6]]],
    "torch.tensordot(t, tensor([[1.0], [2.0]]), 1)": [[[21], [42], [63]], [[84]], [[105], [126]]],
    "torch.is_ragged(F.cosine_similarity(t, t, -1))": True,
    "torch.einsum('bjd,db->bj', t, tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]))": [[1, 2, 3], [40], [50, 60]],
    "torch.einsum('bjk,bjk->b', l, l)": [14, 16],
    "torch.einsum('bjk,b->b', l, tensor([2.0, 3.0]))": [12, 12],
    "torch.einsum('bjk,bjk->bj', l, l)": [[5, 9], [16]],
    "x.data": ROWS,
    "F.pad(x, (-1, 0))": [[2, 3], [], [6]],
    "x[:, ragged([-1], [0, -1], [])]": [[3], [4, 4], []],
    "x == x.clone()": [[True] * 3, [True], [True] * 2],
    "x.sum()": 21,
    "x.mean((0, 1))": 3.5,
    "x.sum((0, 1), keepdim=True)": [[21]],
    "t.amax((0, 1, 2), keepdim=True)": [[[60]]],
    "t.sum((0, 1))": [21, 210],
    "t.mean(dim=(0, 1), keepdim=True)": [[[3.5, 35.0]]],
    "x.max(1).indices": [2, 0, 1],
    "x.argmax(1, keepdim=True)": [[2], [0], [1]],
    "x.argmax()": 5,
    "x.median()": 3,
    "x.unique()": [1, 2, 3, 4, 5, 6],
    "x.unique(return_inverse=True)[1]": [[0, 1, 2], [3], [4, 5]],
    "torch.unique(x)": [1, 2, 3, 4, 5, 6],
    "x.where(x > 2, tensor(0.0))": [[0, 0, 3], [4], [5, 6]],
    "torch.addbmm(torch.zeros(2, 2), t.transpose(1, 2), t)": [[91, 910], [910, 9100]],
    "torch.einsum('bj,bj->b', x, x)": [14, 16, 61],
    "torch.einsum('bjd,bd->bj', t, torch.ones(3, 2))": [[11, 22, 33], [44], [55, 66]],
    "torch.einsum('bjd,bkd->bjk', t, t)[1]": [[1616]],
    "torch.einsum('bjd->d', t)": [21, 210],
    "torch.einsum('...d,d->...', t, tensor([1.0, 0.0]))": ROWS,
    "torch.einsum('bjd,d', t, tensor([1.0, 0.0]))": ROWS,
    "torch.einsum('...ij,...kj->...ik', t, t)[1]": [[1616]],
    "torch.equal(x, x * 1)": True,
    "torch.allclose(x, x + 1e-9)": True,
    "4.0 in x": True,
    "x.tolist()": ROWS,
    "sorted(len(row) for row in x)": [1, 2, 3],
}


def plain(result):
    return result.tolist() if isinstance(result, dynograd.Tensor) else result


@pytest.mark.parametrize("text", INDEXED)
def test_expression(text):
    space = {
        "x": words(),
        "t": tables(),
        "p": pairs(),
        "l": levels(),
        "tensor": tensor,
        "torch": dynograd,
        "F": dynograd.nn.functional,
        "ragged": ragged,
    }
    assert plain(eval(text, space)) == INDEXED[text]


def test_gradients_may_be_set():
    x = words().requires_grad_()
    x.grad = words() * 2
    assert x.grad.tolist() == [[2, 4, 6], [8], [10, 12]]
    with pytest.raises(ShapeError, match=r"grad: row 0 has 3 elements in the ragged operand and 1 in the given"):
        x.grad = ragged([1.0], [2.0, 3.0, 4.0], [5.0, 6.0])
    with pytest.raises(
        ShapeError, match=r"grad: expected a ragged tensor with lengths \[3, 1, 2\], got a tensor of shape \(3,\)"
    ):
        x.grad = dynograd.ones(3)


# --- offsets through kernels -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_offsets_lead_out_of_bounds():
    """Any offsets are refused or stay inside: in a process whose kernels check every index."""
    script = pathlib.Path(__file__).with_name("offsets_fuzz.py")
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "PYTHONPATH": str(script.parents[2])}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    refused, passed = map(int, done.stdout.split()[-2:])
    assert refused > 50 and passed > 50

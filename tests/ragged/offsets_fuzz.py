"""Random offsets, most of them wrong, through everything that reads them. Run with NUMBA_BOUNDSCHECK=1 by `test_apart.py`; prints (refused, passed)."""

import numpy

import dynograd
from dynograd import RaggedTensor
from dynograd.kernels import segments_cpu
from dynograd.kernels.compiled_kernels import compiled_for

OPS = [
    lambda x: x.sum(1),
    lambda x: x.softmax(1),
    lambda x: x.cumsum(1),
    lambda x: x.std(1, unbiased=False),
    lambda x: x.logsumexp(1),
    lambda x: x.prod(1),
    lambda x: x.flip(1),
    lambda x: x.roll(2, 1),
    lambda x: x[:, :2],
    lambda x: x[:, 1::2],
    lambda x: x.sort(1).values,
    lambda x: dynograd.cat([x, x], 1),
    lambda x: dynograd.nn.functional.pad(x, (0, 0, 1, 2)),
    lambda x: x @ x.transpose(1, 2),
]


def through_ops(rng):
    """Offsets as users give them: refused with a message, or everything is as for each row alone."""
    offsets = numpy.cumsum(rng.integers(-1 if rng.random() < 0.4 else 0, 4, rng.integers(1, 6))) - rng.integers(
        0, 2
    ) * (rng.random() < 0.3)
    offsets = numpy.concatenate(([0], offsets)) if rng.random() < 0.8 else offsets
    total = int(max(offsets[-1], 0)) if rng.random() < 0.8 else int(rng.integers(0, 12))
    try:
        x = RaggedTensor(dynograd.from_numpy(rng.normal(size=(total, 3))), offsets=offsets.tolist())
    except (IndexError, ValueError, RuntimeError) as error:
        assert "offsets" in str(error), error
        return False
    x.requires_grad_()
    for op in OPS:
        found = op(x)
        for one, row in zip(found, x.unbind(), strict=True):
            numpy.testing.assert_allclose(
                one.detach().numpy(), op(row.unsqueeze(0))[0].detach().numpy(), rtol=1e-9, atol=1e-12
            )
        (found * found).sum().backward()
    return True


def through_kernels(rng):
    """Bounds that no user can give: kernels cut them to the rows that exist."""
    values = rng.normal(size=(int(rng.integers(1, 9)), int(rng.integers(1, 4))))
    count = int(rng.integers(0, 4))
    cuts = numpy.sort(rng.integers(-5, len(values) + 6, 2 * count))
    starts, ends = cuts[::2].copy(), cuts[1::2].copy()
    for kind in ("sum", "prod", "max", "min"):
        segments_cpu.reduce_segments(values, starts, ends, kind)
    segments_cpu.spread_segments(values[:1].repeat(count, 0), starts, ends, len(values))
    segments_cpu.scan_segments(values, starts, ends, bool(rng.integers(2)))
    segments_cpu.softmax_segments(values, starts, ends)
    segments_cpu.segment_gradients(
        values[:1].repeat(count, 0), values, values[:1].repeat(count, 0), starts, ends, "max"
    )


def main() -> None:
    assert compiled_for(1 << 20) is not None  # compiled kernels from the first call on
    rng = numpy.random.default_rng(3)
    passed = sum(through_ops(rng) for _ in range(250))
    for _ in range(200):
        through_kernels(rng)
    print(250 - passed, passed)


if __name__ == "__main__":
    main()

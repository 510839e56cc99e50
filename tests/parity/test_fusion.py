"""`fuse_conv_bn_weights` and `fuse_linear_bn_weights` beside PyTorch's."""

import numpy
import pytest
import torch

import dynograd

ROWS = [("fuse_conv_bn_weights", (4, 3, 2), 4, {}), ("fuse_conv_bn_weights", (3, 4, 2, 2), 4, {"transpose": True})]
ROWS += [("fuse_linear_bn_weights", (4, 3), 4, {})]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_same_weights(row, bias):
    name, shape, size, options = row
    results = []
    for library in (dynograd, torch):
        random = numpy.random.default_rng(0)
        make = lambda *sizes, library=library, random=random: library.from_numpy(random.uniform(0.5, 1, sizes))  # noqa: E731
        weight = library.nn.Parameter(make(*shape))
        vectors = [make(size) for _ in range(5)]
        first = library.nn.Parameter(vectors[0]) if bias else None
        fuse = getattr(library.nn.utils.fusion, name)
        results.append(fuse(weight, first, vectors[1], vectors[2], 1e-3, vectors[3], vectors[4], **options))
    for result, expected in zip(*results):
        assert result.requires_grad == expected.requires_grad
        numpy.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), atol=1e-12)

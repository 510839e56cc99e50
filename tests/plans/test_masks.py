"""Steps that write at masks and at places, whose numbers differ from step to step, give what they give as they are written."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.test_writes_in_place import Twins, lines, rows
from tests.plans.twins import difference, overwritten_between_steps, seen

STEPS = 14
BATCHES = 3  # which come again and again, each with another number of places

PROGRAMS = {
    "a number at a mask of the step's own": "h[h.detach() > 0.1] = 0.5; h[(x > 0) & (h.detach() < 0)] = 0.0",
    "a tensor without dims": "h[x > 0] = x.sum(); h[x < 0] = h.mean()",
    "values at a mask": "v = h[x > 0] * 2; h = h * 1; h[x > 0] = v",
    "rows at a mask": "h[x[:, 0] > 0] = m(x[x[:, 0] > 0])",
    "one row at a mask of rows": "h[x[:, 0] > 0] = x[0] * m(x)[1]",
    "a mask behind a dim": "h[:, x[0] > 0] = m(x)[:, x[0] > 0] * 2",
    "a mask and a slice": "h[x[:, 0] > 0, 1:3] = 0.25; h[1:4][x[1:4] > 0] = 0.5",
    "places": "i = x.argmax(1); h[torch.arange(5), i] = 0.5; h[i] = x[:1]; h[i, 1] = m(x)[:, 2]",
    "places of outside": "i = torch.tensor([n % 3, 3]); h[i] = m(x)[:2]; h[:, i] *= 2; h[i, i - 4] = 1.0",
    "masked_scatter": "h = h.masked_scatter(x > 0, m(x) * 2); h = h.masked_scatter(x[:, :1] > 0, x)",
    "masked_scatter_": "h.masked_scatter_(x > 0.5, m(x)); h += x",
    "index_put": "h = h.index_put((x > 0,), torch.tensor(0.5)); h = torch.index_put(h, (x[:, 0] > 0,), m(x)[0], accumulate=True)",
    "index_put_": "h.index_put_((x.argmax(1), x.argmin(1)), m(x)[:, 0], accumulate=True); h.index_put_((x > 1,), x.sum())",
    "without a gradient": "with torch.no_grad(): k = x * 2; k[k > 1] = 0.5; k[k.sum(1) > 0] = x[0]\nh = h * k",
    "a view": "v = h.view(2, 10); v[v.detach() > 0] = 0.5; h = h + v.view(5, 4)",
}


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_writes_at_masks_go_along_the_record(name: str, exact: bool) -> None:
    twins = Twins(lines(PROGRAMS[name]), exact=exact)
    with overwritten_between_steps():
        check(twins, 0.0 if exact else 1e-4)
    least = (
        3 if name == "masked_scatter" else STEPS - 2 - 2 * BATCHES
    )  # there a number of elements comes before its places
    assert twins.compiled.walked >= least, twins.compiled.report()


def check(twins: Any, tolerance: float) -> None:
    kept: list[list[Any]] = [[], []]
    for n in range(STEPS):
        sights = []
        for (step, model), own in zip(twins.sides, kept):
            own.append(step(rows(n % BATCHES), n))
            sights.append([seen(own), seen(model)])
        told = difference(*sights, tolerance)
        assert not told, f"step {n}: {told}\n{twins.compiled.report()}"

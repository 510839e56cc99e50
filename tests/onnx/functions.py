"""Functions that leave as ONNX: (function, shapes of its inputs of normal numbers, dynamic axes by (input, axis))."""

import math

import numpy

import dynograd as torch

F = torch.nn.functional
scan = torch._higher_order_ops.scan


def written_in_place(x):
    y = x * 2
    y += 1
    y[:, 0] = 0
    y[:, 1:3] = x[:, :2]
    y[:, -1].add_(1)
    return y


def written_into_a_copy(x):
    y = torch.zeros(2, 3).clone()
    y[:, 0] = x[:, 0]
    y[1] += 2
    return y


def written_into_tensors_it_makes(x):
    """Sums, rows and places of tensors that are made to be written into; one was a view before, one is not set at all."""
    total, rows, full = torch.zeros(x.shape[0]), torch.empty(x.shape[0], 3), x.new_full((2, 4), 0.5)
    first = full[0]
    total += x.sum(1)
    total -= x.exp().mean(1)
    for column in range(3):
        rows[:, column] = x[:, column + 1] * total
    first.mul_(3)
    like = torch.zeros_like(x, dtype=torch.float32).index_add_(1, torch.tensor([0, 2]), x[:, :2])
    return total, rows, full + x[:1], like, torch.ones_like(x).masked_fill_(x > 0, 2.0)


def picked_by_single_numbers(x):
    """Indices that are tensors without dims, which follow from the input."""
    place = x.sum(1).argmax()
    y = x * 2
    y[place] = x[0]
    return x[place], x[:, x[0].argmin()], x[place, 1:3], x[place, x[1].argmax()], y


def reduced_at_indices(x):
    index = torch.tensor([[0, 2, 2, 0], [1, 2, 2, 1], [0, 0, 3, 3]])
    base = x * 0.5
    results = [
        base.scatter_reduce(1, index, x, reduce, include_self=own)
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    ]
    whole = (x * 9).long().scatter_reduce(0, index % 3, (x * 7).long(), "amax", include_self=False)
    return (*results, whole)


def written_into_the_input(x):
    return x.relu_() + 1


def put_at_indices(x):
    y = torch.index_put(x, (torch.tensor([[0], [1]]), torch.tensor([0, 2])), torch.tensor(7.0))
    return torch.index_put(
        y, (torch.tensor([0, 1, 1]), torch.tensor([1, 1, 1])), torch.tensor([1.0, 2.0, 3.0]), accumulate=True
    )


def written_at_indices(x):
    y = x * 2
    y[:, torch.tensor([2, 0])] = x[:, :2]
    y[:, torch.tensor([[1], [3]])] = 7.0
    y[torch.tensor([2, 0]), torch.tensor([1, 3])] += 1
    y[torch.tensor([1]), 1:3] = x[:1, :2]
    return y


class MaskedHeads(torch.nn.Module):
    """Attention weights of rows with keys left out, some of all keys."""

    def __init__(self):
        super().__init__()
        self.heads = torch.nn.MultiheadAttention(4, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True)
        self.plain = torch.nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x):
        left_out = x[..., 0] > 0
        weights = self.plain(x, x, x, key_padding_mask=left_out, average_attn_weights=False)
        return (*self.heads(x, x, x, key_padding_mask=left_out), *weights)


class Gate(torch.nn.Module):
    """One of two layers, by the input; both take the input from around them, too."""

    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        y = x * 2
        return torch.cond(x.sum() > 0, lambda z: self.a(z) + y, lambda z: self.b(z) - x, (x + 1,)) * 3


def branches_in_branches(x):
    return torch.cond(
        x.sum() > 0,
        lambda z: torch.cond(z.max() > 1, lambda u: (u + x, u), lambda u: (u - x, u * 2), (z,)),
        lambda z: (z * 3, x),
        (x,),
    )


def halved(x):
    """Halves the input until it is small."""
    count, y = torch.while_loop(
        lambda count, y: y.abs().sum() > 1, lambda count, y: (count + 1, y / 2), (torch.tensor(0), x)
    )
    return y, count


def by_newton(x):
    """Square roots by a loop whose body takes the input from around it, and which follows a branch."""
    target = torch.cond(x.sum() > 0, lambda u: u.abs() + 1, lambda u: u.abs() + 2, (x,))
    steps = lambda k, y: (k + 1, (y + target / y) / 2)  # noqa: E731
    return torch.while_loop(lambda k, y: k < 8, steps, (torch.tensor(0), torch.ones_like(target)))[1]


def recurrence(x, reverse=False):
    """A recurrence over the time of (B, T, D), with outputs at each step."""
    decay = torch.sigmoid(x.mean((0, 1)))
    step = lambda h, row: ((h * decay + row).tanh(), h.sum(-1))  # noqa: E731
    h, sums = scan(step, torch.zeros_like(x[:, 0]), x, dim=1, reverse=reverse)
    return h, sums


def of_sizes(x):
    """Numbers that Python computes from the sizes."""
    batch, time = x.shape
    parts = x[:, : time // 2], x[:, time // 3 : 2 * (time // 3)], x[: -(-batch // 8)], x.topk(time // 4 + 1, 1).values
    scales = math.sqrt(time), (batch * time) ** -0.5, math.log(time), 1 / math.sqrt(time), batch / time, 2 / (batch - 1)
    return (*parts, *[x * scale for scale in scales])


def resized(x):
    """By factors that do not divide the sizes."""
    options = {"bilinear": {}, "nearest": {}, "bicubic": {"align_corners": True}}
    return [F.interpolate(x, scale_factor=by, mode=mode, **own) for mode, own in options.items() for by in (0.5, 2.0)]


def made_by_sizes(x):
    rows, columns = x.shape
    x = x + torch.eye(rows, columns) * 2 + torch.linspace(-1, 2, columns) + torch.arange(0, 1, 1 / columns)[:columns]
    return x * torch.tensor([rows, columns]).sum() - torch.tensor(columns), torch.tensor(rows), torch.eye(rows)


def written_at_places_of_sizes(x):
    y, z = x * 2, x + 1
    view = y[:, 1:]
    view *= 2
    y[:, -1], y[-1], y[:, 1:-1] = 0, y[0] + 1, 3
    y.t()[0] += 1
    z[:, : x.shape[1] // 2] = x[:, -(x.shape[1] // 2) :]
    z[-2:, ::2] = 7
    z[:, 0][x[:, 0] > 0] = 5
    z[x.shape[0] // 2, -1] += 1
    return y, view, z, torch.block_diag(x, x)


def attention_with_a_cache(x):
    """One more token; the batch is the first of three dims."""
    new = x[:, :1] * 2
    keys, values = torch.cat([x, new], 1), torch.cat([x + 1, new], 1)
    return F.scaled_dot_product_attention(new, keys, values), keys


def running(x):
    """Of rows, and of columns, which may be of any number."""
    whole = (x * 9).long()
    return [result for axis in (0, 1) for result in (
        x.cumprod(axis), x.logcumsumexp(axis), *x.cummax(axis), *whole.cummin(axis), whole.cumprod(axis)
    )]  # fmt: skip


def diagonals(x):
    square = x @ x.T
    parts = (
        x.diagonal(),
        x.diagonal(1),
        square.diagonal(-1),
        torch.diag_embed(x, -1),
        torch.trace(square),
        torch.diag(x[0]),
    )
    return (*parts, torch.einsum("ii->i", square), x.unfold(1, 2, 2), x.unfold(0, 3, 1).sum(-1))


def by_order(x):
    rows, whole = x.sort(1).values, (x * 3).long()
    places = (
        torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])),
        torch.searchsorted(rows, x[:, :2] + 0.1, right=True),
        torch.searchsorted(torch.tensor([-2, 0, 0, 3]), whole),
    )
    result = torch.isin(whole, torch.tensor([0, 2])), torch.isin(whole, whole[0], invert=True)
    marked = torch.zeros(x.shape[0], 9).scatter_(1, (whole.abs() % 9)[:, :1], 1.0)
    return (*places, *result, marked, *x.kthvalue(2, 1), *x.median(1), *whole.median(1), torch.quantile(x, 0.3, 1))


def picked(x):
    """Elements, rows and columns at masks, and what is computed of how many they are."""
    rows, high = x[x[:, 0] > 0], x[x > 0.2]
    created = torch.zeros(rows.shape[0], 2), torch.arange(high.shape[0]) * 2, high[: high.shape[0] // 2]
    both = torch.cat([high, torch.masked_select(x, x < 0.5).cumsum(0)])
    return (rows, high.sum() / high.numel(), rows.reshape(-1), x[:, x.sum(0) > 0], both, *created)


def places(x):
    where = x > 0
    rows = (x.sum(1) > 0).nonzero().squeeze(1)
    return (
        where.nonzero(),
        torch.argwhere(where).sum(0),
        *torch.where(where),
        x[rows] * 2,
        x[where.nonzero(as_tuple=True)],
    )


def written_at_masks(x):
    y, z = x * 2, x + 1
    y[x[:, 0] > 0] = x[0]
    y[x > 1] = y[x > 1] * 3
    z[:, x[0] > 0] = 0.5
    z[x < 0] += 1
    return y, z, x.masked_scatter(x > 0, x * 3), torch.zeros_like(x).index_put((x > 0,), x[x > 0], accumulate=True)


def repeated_and_counted(x):
    times = (x[:, 0].abs() * 2).long()
    numbers = (x.abs() * 3).long().flatten()
    distinct = torch.unique(numbers, return_inverse=True, return_counts=True)
    counts = torch.bincount(numbers), torch.bincount(numbers, x.flatten().exp(), minlength=5)
    return (
        x.repeat_interleave(times, 0),
        x.T.repeat_interleave(times, 1),
        *distinct,
        torch.unique(x > 0, dim=0),
        *counts,
    )


def bounded_by_sizes(x):
    """Numbers that are bounded, rests, and sums of sizes."""
    rows, columns = x.shape
    parts = x[:, : min(columns, 6)], x[:, -min(columns, 20) :].sum(1), x[: max(rows // 2, 1)], x[:, columns % 3 :]
    wide = F.pad(x, (0, -columns % 4)), F.pad(x, (0, max(0, 8 - columns))), x.new_zeros(min(rows, columns))
    return (*parts, *wide, x * max(columns, 6), torch.arange(rows + columns))


def keys_before(x, keys):
    """Attention of tokens over those before them, and over keys of earlier calls."""
    keys = torch.cat([keys, x], 1)
    own, whole = x.shape[1], keys.shape[1]
    mask = torch.arange(whole)[None] <= torch.arange(own)[:, None] + whole - own
    return F.scaled_dot_product_attention(x, keys, keys, attn_mask=mask)


class BackToItsSize(torch.nn.Module):
    """Images that are halved and doubled, whose sizes are odd at times."""

    def __init__(self):
        super().__init__()
        self.down, self.up = torch.nn.MaxPool2d(2), torch.nn.ConvTranspose2d(3, 3, 2, stride=2)
        self.smaller, self.back = (
            torch.nn.Conv2d(3, 3, 3, stride=2, padding=1),
            torch.nn.ConvTranspose2d(3, 3, 3, stride=2, padding=1),
        )

    def forward(self, x):
        small = self.down(x)
        up = self.up(small)
        high, wide = x.shape[2] - up.shape[2], x.shape[3] - up.shape[3]
        padded = F.pad(up, [wide // 2, wide - wide // 2, high // 2, high - high // 2])
        whole = F.interpolate(small, size=x.shape[-2:], mode="bilinear")
        return padded + self.back(self.smaller(x), output_size=x.shape), whole, F.interpolate(x, size=x.shape[-2:])


def product_of_three(x):
    """Of sizes by which other pairs are the cheapest."""
    weight = torch.arange(96.0).reshape(4, 4, 6).sin()
    return torch.einsum("bte,edf,btd->btf", x.softmax(-1), weight, x * 2)


def frequencies(x):
    """Transforms of real and complex numbers, along dims of any size too."""
    whole, half = torch.fft.fft(x, dim=1, norm="ortho"), torch.fft.rfft(x)
    back = torch.fft.irfft(half * 2, n=x.shape[-1]), torch.fft.ifft2(whole, norm="forward").imag
    window = torch.hann_window(4)
    return (
        whole.real, whole.abs(), *back, torch.fft.fftn(x, dim=(0, 2)).real,
        torch.fft.hfft(half, n=6, norm="ortho"), torch.stft(x[:, 0], 4, 2, window=window, return_complex=True).abs(),
    )  # fmt: skip


def complexes(x):
    """Arithmetic of complex numbers that are made in the model."""
    z, w = torch.complex(x[..., 0], x[..., 1]), torch.view_as_complex(x.contiguous())
    turn = torch.polar(torch.ones(4), torch.arange(4.0))
    products = z * turn, (1 + z) / (w + 2j), z.conj() @ w.mT, z**2 - 3 * w, (x[..., 0] * 1j).exp(), 1 / (z + 3), z * 2.5
    layout = torch.cat([z, w], 1).flip(0)[:, 1:].sum(1), torch.stack([z, w.roll(1, 1)]).mean((0, 2)), z.reshape(-1, 2).T
    picked = z.where(x[..., 0] > 0, w), z[:, torch.tensor([2, 0])], torch.zeros_like(z) + z.imag, -z[..., None]
    functions = z.sqrt(), (z + 4).log(), z.reciprocal(), z.square(), x[..., 0].to(torch.complex64)
    rows = [torch.view_as_real(each) for each in (*products, *layout, *picked, *functions)]
    return (*rows, z.abs(), z.angle(), x.angle(), (z == w), z != w, z.real.isnan())


def of_matrices(x):
    """Solutions and factors of small matrices."""
    square = x @ x.mT + torch.eye(3)
    many, triangle = x[:, :, :2], x[..., :3].tril() + 4 * torch.eye(3)
    solutions = (
        torch.linalg.inv(x[..., :3]),
        torch.linalg.solve(x[..., :3], many),
        torch.linalg.solve(square, x[..., 0]),
    )
    triangles = (
        torch.linalg.solve_triangular(triangle, many, upper=False),
        torch.linalg.solve_triangular(triangle.mT, many, upper=True, unitriangular=True),
        torch.cholesky_solve(many, torch.linalg.cholesky(square)),
    )
    sizes = torch.linalg.det(x[..., :3]), *torch.linalg.slogdet(x[..., :3]), torch.linalg.matrix_exp(x[..., :3])
    factors = *torch.linalg.qr(x), *torch.linalg.qr(x.mT, "complete"), torch.linalg.cholesky(square)
    return (*solutions, *triangles, *sizes, *factors, torch.linalg.inv_ex(x[..., :3] * 0)[1])


def of_any_matrix(x):
    """Of a size that is any."""
    square = x @ x.mT + torch.eye(x.shape[0])
    return torch.linalg.solve(square, x), torch.linalg.cholesky(square), torch.logdet(square), torch.linalg.det(square)


def of_spectra(x):
    """Eigenvalues and singular values, and what they make, whatever the signs of the vectors are."""
    square, low = x @ x.mT, x[..., :2] @ x[..., :2].mT  # the latter of rank 2
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    whole_u, _, whole_vh = torch.linalg.svd(x.mT)
    w, v = torch.linalg.eigh(square)
    upper, _ = torch.linalg.eigh(square.triu(), UPLO="U")
    again = (u * s.unsqueeze(-2)) @ vh, whole_u @ whole_u.mT, whole_vh @ whole_vh.mT, (v * w.unsqueeze(-2)) @ v.mT
    values = s, w, upper, torch.linalg.eigvalsh(low), torch.linalg.svdvals(low), u.abs(), v.abs()
    inverses = (
        torch.linalg.pinv(x), torch.linalg.pinv(low, rtol=1e-3), torch.linalg.pinv(low, hermitian=True, atol=1e-2),
        torch.linalg.pinv(x, atol=0.5, rtol=0.2),
    )  # fmt: skip
    ranks = torch.linalg.matrix_rank(x), torch.linalg.matrix_rank(low, 1e-3), torch.linalg.matrix_rank(low, 1e-3, True)
    return (*again, *values, *inverses, *ranks, torch.linalg.cond(square), torch.linalg.matrix_norm(x, "nuc"))


def of_any_spectrum(x):
    w, v = torch.linalg.eigh(x.mT @ x)
    return torch.linalg.svdvals(x), w, (v * w) @ v.mT, torch.linalg.pinv(x), torch.linalg.matrix_rank(x)


def factors_of_exchanged_rows(x):
    wide, high = torch.linalg.lu(x), torch.linalg.lu(x.mT)
    factors, pivots = torch.linalg.lu_factor(x[..., :3])
    return (
        *wide, *high, factors, pivots, torch.linalg.lu_solve(factors, pivots, x), torch.linalg.lu_factor_ex(x[..., :3] * 0).info,
        *torch.lu_unpack(factors, pivots),
    )  # fmt: skip


def series(x):
    """Sums of series at places of both signs, at 0, at whole ones, and at those that are no numbers."""
    edges = torch.tensor([0.0, -1.0, math.inf, -math.inf, math.nan, 1e-3, 1e10]) + 0 * x[:1, :1]
    places = torch.cat([x.reshape(1, -1) * 3, edges], 1)
    powers = torch.tensor([[3.0], [2.5], [1.0], [0.5], [math.inf]])
    orders = torch.polygamma(1, places), torch.polygamma(2, places)
    return (*orders, torch.special.zeta(powers, places), torch.special.zeta(1 + x.abs() * 4, torch.tensor(1.5)))


def divisors(x):
    first, second = (x * 20).long(), (x.flip(0) * 30).long()
    return (
        torch.gcd(first, second),
        torch.lcm(first, second),
        torch.gcd(first.int(), second.int()),
        torch.gcd(first, torch.tensor(12)),
    )


def windows_of_any_image(x):
    means = (
        F.adaptive_avg_pool2d(x, (3, 2)),
        F.adaptive_avg_pool2d(x, (None, 4)),
        F.interpolate(x, size=(2, 5), mode="area"),
    )
    return (*means, *F.adaptive_max_pool2d(x, (3, 2), return_indices=True), F.adaptive_max_pool1d(x[0], 3))


def at_strides(x):
    rows, columns = x.shape
    windows = (x * 2).as_strided((rows, columns - 2, 3), (columns, 1, 1))
    return windows, x.exp().as_strided((rows, 2), (columns, 1), 1), torch.as_strided(x + 1, (2, 2), (1, columns))[0]


def repeated_constants(x):
    """Masks and places of each example that are made beside ops, again and again along the batch."""
    batch, time = x.shape
    causal = torch.from_numpy(numpy.tile(numpy.tri(time, dtype=bool), (batch, 1, 1)))
    places = torch.from_numpy(numpy.tile(numpy.arange(time, dtype=numpy.float32)[:, None], (batch, 1, 1)))
    return x.unsqueeze(1).masked_fill(~causal, 0.0), x.unsqueeze(2) * places


def complex_numbers_in_front(x):
    z = torch.exp(1j * x) * torch.exp(2j * torch.tensor(0.3))
    return torch.view_as_real(z), torch.view_as_real(1j * torch.tensor(0.3) + x), torch.view_as_real(2j / (x + 9))


def most_frequent(x):
    whole = (x * 2).long()
    runs = torch.unique_consecutive(whole, return_inverse=True, return_counts=True)
    return (*torch.mode(whole, 1), *torch.mode(x.round(), 0, keepdim=True), *torch.mode(x > 0, 1), x.median(), *runs)


class Unpooled(torch.nn.Module):
    """Maxima back at their places, in images of any size."""

    def __init__(self):
        super().__init__()
        self.pool, self.back = torch.nn.MaxPool2d(2, return_indices=True), torch.nn.MaxUnpool2d(2)

    def forward(self, x):
        values, places = self.pool(x)
        return self.back(values * 2, places, output_size=x.shape[-2:]), places


def windows_back(x):
    spectrum = torch.stft(x, 8, 2, window=torch.hann_window(8), return_complex=True)
    return torch.istft(spectrum * 0.5, 8, 2, window=torch.hann_window(8), length=32)


def special(x):
    return torch.lgamma(x * 5), torch.digamma(x * 3 + 0.01), torch.erfinv(x.tanh()), torch.special.ndtri(x.sigmoid())


def suppressed(x):
    """Which rows no earlier row is close to, one after the other: truths and ranges within a loop and a branch."""
    close = torch.cdist(x, x) < 2
    places = torch.arange(x.shape[0])

    def step(kept, place):
        near = close.index_select(0, place.reshape(1))[0] & (places > place)
        is_kept = kept.index_select(0, place.reshape(1))
        return kept & ~torch.where(is_kept, near, torch.zeros_like(near)), is_kept[0]

    kept, order = scan(step, torch.ones(x.shape[0], dtype=torch.bool), places)
    masked = torch.cond(x.sum() > 0, lambda z: z * kept.unsqueeze(1), lambda z: z.masked_fill(close[:, :1], 0.0), (x,))
    halves = torch.while_loop(
        lambda z, k: k < 3, lambda z, k: (z.where(places[:, None] > k, z / 2), k + 1), (x, torch.tensor(0))
    )
    return kept, order, masked, halves[0]


def steps_and_ranges_of_sizes(x):
    """Steps, ranges, filled tensors and what is left of a size that follow from sizes."""
    rows, columns = x.shape
    y, step = x * 2, max(columns // 2, 1)
    y[:, ::2] = 0
    ranges = torch.arange(columns - 1, -1, -1), torch.arange(rows, rows + columns), torch.full((2, columns), rows * 1.0)
    near = F.interpolate(x[None], size=(columns + 7) // 8 * 8), F.interpolate(x[None], size=columns + 3)
    parts = x.split([columns // 3, columns - columns // 3], 1)
    return (x[:, ::step], y, *ranges, *near, *parts)


class Projected(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.LSTM(4, 6, num_layers=2, batch_first=True, bidirectional=True, proj_size=3)

    def forward(self, x):
        output, states = self.layer(x)
        return output, *states


BATCH = ((0, 0),)


def computed_from_sizes(x):
    rows, columns = x.shape
    counts = 3 * rows // 10, -(-rows * 3 // 7), abs(rows - columns), rows * columns // 4, max(rows, columns) // 2
    return (*[x.new_zeros(count) + 1 for count in counts], x.new_zeros(rows * (rows - 1) // 2), x * (rows // 3 % 4))


FUNCTIONS = {
    "writes in place": (written_in_place, [(3, 4)], BATCH),
    "writes into a copy": (written_into_a_copy, [(2, 3)], ()),
    "writes into tensors it makes": (written_into_tensors_it_makes, [(3, 4)], BATCH),
    "single numbers": (picked_by_single_numbers, [(3, 4)], BATCH),
    "scatter_reduce": (reduced_at_indices, [(3, 4)], ()),
    "writes into the input": (written_into_the_input, [(2, 3)], BATCH),
    "writes at indices": (written_at_indices, [(3, 4)], BATCH),
    "index_put": (put_at_indices, [(3, 4)], BATCH),
    "one index array": (lambda x: x[:, torch.tensor([2, 0, 0])], [(3, 4)], BATCH),
    "an index array of two dims": (lambda x: x[:, torch.tensor([[2, 0], [1, -1]])], [(3, 4)], BATCH),
    "two index arrays": (lambda x: x[torch.tensor([0, 1, -1]), torch.tensor([2, 0, 3])], [(3, 4)], BATCH),
    "two index arrays behind a dim": (lambda x: x[:, torch.tensor([0, 1, -1]), torch.tensor([[2], [0]])], [(3, 4, 5)], BATCH),
    "two index arrays apart": (lambda x: x[torch.tensor([0, 1]), :, torch.tensor([2, 3])], [(3, 4, 5)], BATCH),
    "unfold of images": (lambda x: F.unfold(x, (2, 3), padding=1, stride=2), [(2, 3, 5, 6)], BATCH),
    "fold of columns": (lambda x: F.fold(x, (5, 7), (2, 3), stride=(2, 2)), [(2, 18, 6)], BATCH),
    "adaptive max pool of uneven windows": (lambda x: F.adaptive_max_pool2d(x, (2, 3), return_indices=True), [(2, 3, 5, 7)], BATCH),
    "a grid of places for any size": (lambda x: F.interpolate(
        torch.arange(32.0).sin().reshape(1, 2, 4, 4), size=x.shape[1:], mode="bicubic"), [(3, 5, 7)], ((0, 1), (0, 2))),
    "joins with an empty tensor": (lambda x: torch.cat([torch.tensor([]), x * 2], -1), [(3, 4)], BATCH),
    "numbers computed from sizes": (computed_from_sizes, [(3, 7)], ((0, 0), (0, 1))),
    "bits": (lambda x: (x > 0) & ~(x > 1) ^ (x < -1), [(3, 4)], BATCH),
    "shifts of integers": (lambda x: ((x * 9).int() << 2) + ((x * 99).int() >> 3), [(3, 4)], BATCH),
    "divisions of integers": (lambda x: ((x * 9).int() // 4, (x * 9).int() % 4, torch.fmod((x * 9).int(), 4)), [(3, 4)], BATCH),
    "atan2": (torch.atan2, [(3, 4), (3, 4)], ((0, 0), (1, 0))),
    "copysign": (torch.copysign, [(3, 4), (3, 4)], ((0, 0), (1, 0))),
    "hypot": (torch.hypot, [(3, 4), (3, 4)], ((0, 0), (1, 0))),
    "small logarithms": (lambda x: torch.log1p(x * 1e-4) * 1e4, [(3, 4)], BATCH),
    "small exponentials": (lambda x: torch.expm1(x * 1e-4) * 1e4, [(3, 4)], BATCH),
    "a batch's own statistics": (lambda x: F.batch_norm(x, None, None, training=True), [(6, 4)], BATCH),
    "two lines of attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), [(2, 2, 3, 8)], ((0, 0), (0, 2))),
    "cond": (Gate().eval(), [(3, 4)], BATCH),
    "cond in cond": (branches_in_branches, [(3, 4)], BATCH),
    "while_loop": (halved, [(3, 4)], BATCH),
    "while_loop after cond": (by_newton, [(3, 4)], BATCH),
    "scan": (recurrence, [(2, 5, 4)], ((0, 0), (0, 1))),
    "scan in reverse": (lambda x: recurrence(x, True), [(2, 5, 4)], ((0, 0), (0, 1))),
    "map": (lambda x: torch._higher_order_ops.map(lambda row, y: row.cumsum(0) @ y, x, x[0].T), [(2, 5, 4)], ((0, 0),)),
    "cond in the condition of a loop": (lambda x: torch.while_loop(
        lambda y: torch.cond(y.sum() > 4, lambda z: z.max() > 1, lambda z: z.max() > 2, (y,)), lambda y: (y / 2,), (x,))[0], [(3, 4)], BATCH),
    "interpolate by factors": (lambda x: tuple(resized(x)), [(2, 3, 5, 7)], ((0, 0), (0, 2), (0, 3))),
    "tensors that follow from sizes": (made_by_sizes, [(3, 5)], ((0, 0), (0, 1))),
    "writes at places of sizes": (written_at_places_of_sizes, [(4, 6)], ((0, 0), (0, 1))),
    "attention with a cache": (attention_with_a_cache, [(3, 5, 4)], ((0, 0), (0, 1))),
    "running products and extremes": (lambda x: tuple(running(x)), [(3, 5)], ((0, 0), (0, 1))),
    "places in order": (by_order, [(3, 5)], ((0, 0), (0, 1))),
    "joins of several dtypes": (lambda x: (torch.cat([x, x.long()]), torch.stack([x > 0, x.int()])), [(3, 4)], BATCH),
    "attention weights with keys left out": (MaskedHeads().eval(), [(3, 5, 4)], ((0, 0), (0, 1))),
    "diagonals and windows": (diagonals, [(3, 5)], ((0, 0), (0, 1))),
    "covariance": (torch.cov, [(3, 5)], ((0, 1),)),
    "elements at masks": (picked, [(6, 5)], ((0, 0), (0, 1))),
    "elements at masks, of one size": (picked, [(6, 5)], ()),
    "places of elements": (places, [(6, 5)], BATCH),
    "writes at masks": (written_at_masks, [(6, 5)], BATCH),
    "repeats and counts": (repeated_and_counted, [(6, 5)], BATCH),
    "bounds, rests and sums of sizes": (bounded_by_sizes, [(3, 5)], ((0, 0), (0, 1))),
    "product of three": (product_of_three, [(3, 5, 4)], ((0, 0), (0, 1))),
    "keys of earlier calls": (keys_before, [(2, 3, 4), (2, 7, 4)], ((0, 0), (1, 0), (0, 1), (1, 1))),
    "images back to their sizes": (BackToItsSize().eval(), [(2, 3, 9, 12)], ((0, 0), (0, 2), (0, 3))),
    "frequencies": (frequencies, [(2, 6, 5)], ((0, 0), (0, 1))),
    "complex numbers": (complexes, [(3, 4, 2)], BATCH),
    "matrices": (of_matrices, [(2, 3, 5)], BATCH),
    "matrices of any size": (of_any_matrix, [(4, 3)], BATCH),
    "eigenvalues and singular values": (of_spectra, [(2, 3, 5)], BATCH),
    "singular values of any matrix": (of_any_spectrum, [(6, 3)], ((0, 0),)),
    "factors of exchanged rows": (factors_of_exchanged_rows, [(2, 3, 5)], BATCH),
    "series": (series, [(3, 4)], BATCH),
    "divisors": (divisors, [(3, 4)], BATCH),
    "windows of any image": (windows_of_any_image, [(2, 3, 7, 6)], ((0, 0), (0, 2), (0, 3))),
    "strides": (at_strides, [(3, 5)], ((0, 0), (0, 1))),
    "repeated constants": (repeated_constants, [(3, 5)], ((0, 0), (0, 1))),
    "complex numbers in front": (complex_numbers_in_front, [(3, 4)], BATCH),
    "the most frequent": (most_frequent, [(3, 7)], ((0, 0), (0, 1))),
    "unpooled": (Unpooled().eval(), [(2, 3, 6, 9)], ((0, 0), (0, 2), (0, 3))),
    "windows back": (windows_back, [(2, 32)], BATCH),
    "special functions": (special, [(3, 4)], BATCH),
    "truths in loops": (suppressed, [(5, 3)], BATCH),
    "steps and ranges of sizes": (steps_and_ranges_of_sizes, [(3, 5)], ((0, 0), (0, 1))),
    "a short table": (lambda x: x + torch.arange(12.0).sin()[: x.shape[1]], [(3, 5)], ((0, 0), (0, 1))),
    "LSTM with a projection": (Projected().eval(), [(3, 5, 4)], ((0, 0), (0, 1))),
    "numbers of sizes": (of_sizes, [(64, 64)], ((0, 0), (0, 1))),
    "numbers of small sizes": (of_sizes, [(3, 5)], ((0, 0), (0, 1))),
    "bounds of integers": (lambda x: ((x * 9).long().clamp(min=2), (x * 9).int().clamp(max=2), x.clamp(max=0.5)), [(3, 4)], BATCH),
}  # fmt: skip

"""The row programs of softmax, losses, norms and fused activations, by name; the language is that of `row_programs.py`."""

from __future__ import annotations

# Losses of x against t with a parameter p: the loss, and its derivative by x.
LOSSES = {
    "mse": ("(x - t) ** 2", "2 * (x - t)"),
    "l1": ("abs(x - t)", "x > t ? 1 : x < t ? -1 : (x - t) * 0"),
    "smooth_l1": (
        "abs(x - t) < p ? (x - t) * (x - t) * (0.5 / p) : abs(x - t) - 0.5 * p",
        "abs(x - t) < p ? (x - t) / p : x > t ? 1 : x < t ? -1 : (x - t) * 0",
    ),
    "huber": (
        "abs(x - t) < p ? (x - t) * (x - t) * 0.5 : (abs(x - t) - 0.5 * p) * p",
        "abs(x - t) < p ? x - t : x > t ? p : x < t ? -p : (x - t) * 0",
    ),
    "binary_cross_entropy_with_logits": ("max(x, 0) - x * t + log1pexp(-abs(x))", "sigmoid(x) - t"),
    "binary_cross_entropy": (
        "(t - 1) * max(log1p(-x), -100) - t * max(log(x), -100)",
        "(x - t) / max(x - x * x, 1e-12)",
    ),
    "kl_div": ("(t == 0 ? t * 0 : t * log(t)) - t * x", "-t"),
    "kl_div_of_logarithms": ("exp(t) * (t - x)", "-exp(t)"),
}

PROGRAMS = {
    "softmax": """
        row x
        top = max(x)
        e = exp(x - top)
        scale = 1 / sum(e)
        y = e * scale
        write y
    """,
    "softmax_backward": """
        row g, y
        along = sum(g * y)
        gx = y * (g - along)
        write gx
    """,
    "log_softmax": """
        row x
        top = max(x)
        logarithm = log(sum(exp(x - top)))
        y = minus(minus(x, top), logarithm)
        write y
    """,
    "log_softmax_backward": """
        row g, y
        total = sum(g)
        gx = g - exp(y) * total
        write gx
    """,
    "distribution_entropy": """
        row x, target
        vector weight
        top = max(x)
        total = sum(exp(x - top))
        logarithm = log(total)
        loss = sum(minus(logarithm, minus(x, top)) * (target * weight))
        write loss, top, total
    """,
    "distribution_entropy_backward": """
        row x, target
        each g, top, total
        vector weight
        scale = sum(target * weight) / total
        gx = g * (exp(x - top) * scale - target * weight)
        write gx
    """,
    "layer_norm": """
        row x
        vector weight, bias
        number eps
        mean = sum(x) / columns
        square = sum((x - mean) ** 2) / columns + eps
        rstd = square > 3.4028235e38 ? 0 : 1 / sqrt(square)
        y = minus(x, mean) * rstd * weight + bias
        write y, mean, rstd
    """,
    "layer_norm_backward": """
        row g, x
        each mean, rstd
        vector weight
        normal = minus(x, mean) * rstd
        weighted = g * weight
        total = sum(weighted) / columns
        along = sum(weighted * normal) / columns
        gx = rstd * (weighted - total - normal * along)
        gw = column_sum(g * normal)
        gb = column_sum(g)
        write gx, gw, gb
    """,
    "add_layer_norm": """
        row x, residual
        vector weight, bias
        number eps
        total = x + residual
        mean = sum(total) / columns
        square = sum((total - mean) ** 2) / columns + eps
        rstd = square > 3.4028235e38 ? 0 : 1 / sqrt(square)
        y = minus(total, mean) * rstd * weight + bias
        write y, total, mean, rstd
    """,
    "add_layer_norm_backward": """
        row g, more, x
        each mean, rstd
        vector weight
        normal = minus(x, mean) * rstd
        weighted = g * weight
        total = sum(weighted) / columns
        along = sum(weighted * normal) / columns
        gx = rstd * (weighted - total - normal * along) + more
        gw = column_sum(g * normal)
        gb = column_sum(g)
        write gx, gw, gb
    """,
    "rms_norm": """
        row x
        vector weight
        number eps
        square = sum(x * x) / columns + eps
        scale = square > 3.4028235e38 ? 0 : 1 / sqrt(square)
        y = x * scale * weight
        write y, scale
    """,
    "rms_norm_backward": """
        row g, x
        vector weight
        each scale
        weighted = g * weight
        slope = sum(weighted * x) / columns * scale * scale
        gx = scale * (weighted - x * slope)
        gw = column_sum(g * x * scale)
        write gx, gw
    """,
    "variance": """
        row x
        number freedom
        mean = sum(x) / columns
        distance = minus(x, mean)
        rest = sum(distance)
        variance = max(sum(distance ** 2) - rest * (rest / columns), 0) / freedom
        write variance
    """,
    "variance_backward": """
        row x
        each g
        mean = sum(x) / columns
        gx = g * minus(x, mean)
        write gx
    """,
    "bias_relu": """
        row x
        vector bias
        s = x + bias
        y = s <= 0 ? 0 : s
        write y
    """,
    "bias_relu_backward": """
        row g, x
        vector bias
        gx = x + bias <= 0 ? 0 : g
        gb = column_sum(gx)
        write gx, gb
    """,
    "bias_gelu": """
        row x
        vector bias
        s = x + bias
        y = normal_gate(s)
        write y
    """,
    "bias_gelu_backward": """
        row g, x
        vector bias
        s = x + bias
        gx = g * normal_gate_slope(s)
        gb = column_sum(gx)
        write gx, gb
    """,
    "bias_gelu_tanh": """
        row x
        vector bias
        s = x + bias
        y = s * sigmoid(1.5957691216057308 * (s + 0.044715 * s * s * s))
        write y
    """,
    "bias_gelu_tanh_backward": """
        row g, x
        vector bias
        s = x + bias
        rest = sigmoid(-abs(1.5957691216057308 * (s + 0.044715 * s * s * s)))
        slope = 1.5957691216057308 * (1 + 0.134145 * s * s)
        gx = g * ((s > 0 ? 1 - rest : rest) + s * rest * (1 - rest) * slope)
        gb = column_sum(gx)
        write gx, gb
    """,
    "bias_silu": """
        row x
        vector bias
        s = x + bias
        y = s * sigmoid(s)
        write y
    """,
    "bias_silu_backward": """
        row g, x
        vector bias
        s = x + bias
        gate = sigmoid(s)
        gx = g * (gate + s * gate * (1 - gate))
        gb = column_sum(gx)
        write gx, gb
    """,
    "swiglu": """
        row gate, x
        y = gate * sigmoid(gate) * x
        write y
    """,
    "swiglu_backward": """
        row g, gate, x
        s = sigmoid(gate)
        gg = g * x * (s + gate * s * (1 - s))
        gx = g * gate * s
        write gg, gx
    """,
}

for _name, (_loss, _slope) in LOSSES.items():
    PROGRAMS[f"{_name}_loss"] = f"""
        row x, t
        number p
        loss = sum({_loss})
        write loss
    """
    PROGRAMS[f"{_name}_loss_backward"] = f"""
        row x, t
        number p, g
        gx = ({_slope}) * g
        write gx
    """

# Losses of class numbers. A row whose label is ignored counts nothing, whatever it holds. Cross-entropy makes the gradient of `share`
# times each loss with the loss (`_with_gradient`) or later, from `top` and `total` (`_backward`).
_LABELS = """
    row x
    vector weight
    label target
    whole ignored
    skipped = target == ignored
    own = pick(weight, target)
"""
_LOSS = """
    top = max(x)
    e = exp(x - top)
    total = sum(e)
    logarithm = log(total)
    wrong = own * minus(logarithm, minus(pick(x, target), top))
    loss = skipped ? 0 : wrong
"""
_GRADIENT = """
    hit = skipped ? 0 : share * own
    scale = hit / total
    gx = less(skipped ? 0 : e * scale, target, hit)
"""
# A share `smoothing` of each target is spread over all classes; `weights` is the sum of the weights.
_SMOOTH_LOSS = _LOSS.replace(
    "loss = skipped ? 0 : wrong",
    """others = sum(weight * minus(x, top))
    level = minus(weights * logarithm, others)
    loss = skipped ? 0 : (1 - smoothing) * wrong + smoothing / columns * level""",
)
_SMOOTH_GRADIENT = """
    hit = skipped ? 0 : share * (1 - smoothing) * own
    tilt = share * (smoothing / columns)
    scale = (hit + tilt * weights) / total
    gx = less(skipped ? 0 : e * scale - tilt * weight, target, hit)
"""
PROGRAMS["cross_entropy"] = f"{_LABELS}{_LOSS} write loss, top, total"
PROGRAMS["nll"] = f"{_LABELS} loss = skipped ? 0 : -pick(x, target) * own\n write loss"
PROGRAMS["nll_backward"] = (
    f"{_LABELS} each share\n hit = skipped ? 0 : share * own\n gx = less(0, target, hit)\n write gx"
)
for _name, _numbers, _loss, _slope in (
    ("cross_entropy", "", _LOSS, _GRADIENT),
    ("smooth_cross_entropy", "number smoothing, weights", _SMOOTH_LOSS, _SMOOTH_GRADIENT),
):
    PROGRAMS[f"{_name}_with_gradient"] = (
        f"{_LABELS}{_numbers}\n number share\n {_loss}{_slope} write loss, top, total, gx"
    )
    # In plans, whose share is in memory.
    PROGRAMS[f"{_name}_with_gradients"] = (
        f"{_LABELS}{_numbers}\n each share\n {_loss}{_slope} write loss, top, total, gx"
    )
    PROGRAMS[f"{_name}_backward"] = (
        f"{_LABELS}{_numbers}\n each share, top, total\n e = exp(x - top)\n {_slope} write gx"
    )

"""The tasks of attention over a dense batch (`attentions_tasks.dense_tasks`), written by a kernel: a plan has them for any sizes so."""

from dynograd.kernels.build.compiling_numba import chunked

__all__ = ["write_tasks"]


@chunked
def write_tasks(batch, heads, step, queries, keys, parts, tasks, bounds, start, stop):
    """Every head of every batch, dealt out to so many parts; one item, which writes all of it."""
    for _ in range(start, stop):
        each = max(step, 1)
        count = heads // each
        whole = step > 0 or batch * count % parts == 0 or batch * count >= 8 * parts
        splits = 1 if whole else parts
        for task in range(batch * count * splits):
            place = task // splits
            first = place // count * heads + place % count * each
            tasks[task, 0] = tasks[task, 2] = tasks[task, 10] = 0
            tasks[task, 1], tasks[task, 3] = queries, keys
            tasks[task, 4], tasks[task, 5] = place // count, place % count
            tasks[task, 6], tasks[task, 7] = task % splits, splits
            tasks[task, 8], tasks[task, 9] = first * queries * keys, first * queries
        for part in range(parts + 1):
            bounds[part] = batch * count * splits * part // parts

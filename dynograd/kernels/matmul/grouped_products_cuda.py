"""Many matrix products of different sizes, on CudaArrays: one launch, a program for each tile of each product."""

from __future__ import annotations

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, from_numpy
from dynograd.kernels.build.precision import allows_tf32
from dynograd.kernels.layout.copies_cuda import contiguous, zeros
from dynograd.kernels.matmul import grouped_products_triton as kernels
from dynograd.kernels.matmul.product_plans import ProductPlan


def grouped_products(
    a: CudaArray, b: CudaArray, plan: ProductPlan, transposed_a: bool, transposed_b: bool
) -> CudaArray:
    """The vector of all c of a `ProductPlan`; `transposed_a`: what lies there are the transposes (k, m) of the matrices a."""
    device, wide = a.device_index, a.itemsize == 8
    result = (cuda_arrays.empty if plan.covers else zeros)((plan.sizes[2],), a.dtype, device)
    side = 32 if wide or int(plan.table[:, 3:5].max(initial=0)) <= 32 else 64
    tiles = plan.kept(("tiles", side, device), lambda: from_numpy(plan.tiles(side, side), device))
    if len(tiles):
        table = plan.kept(("table", device), lambda: from_numpy(plan.table, device))
        kernels.products(
            (len(tiles),), contiguous(a), contiguous(b), result, table, tiles, TRANSPOSED_A=bool(transposed_a),
            TRANSPOSED_B=bool(transposed_b), PRECISION="tf32" if allows_tf32("matmul") and not wide else "ieee", BM=side, BN=side, BK=16, num_warps=4,
        )  # fmt: skip
    return result

"""Sizes from which another kernel computes on the CPU: the one table of them, each with what was measured or what it bounds.

They count elements unless their name says bytes. Below them a call costs more than the work: NumPy's functions take 0.3 to 1 us each, a
compiled kernel 1 to 3 us with its planning, two threads 9 us more; loading Numba costs a program 0.2 to 0.5 s, once. Times are
those of AMD EPYC processors (Zen 4) with two threads.
"""


# --- NumPy's functions below, a compiled kernel from here on ----------------------------------------------------------------------

# The same by a program that may have loaded no Numba yet: exercises of four numbers stay NumPy's, whose softmax takes 5 us more at any small
# size, and whose loss 18 us: too much for a step with one example of ten classes.
FEW_ROWS = 8
# Rows (softmax, norms, losses) and sums into places, in which NumPy is slow from the start: 10 us and more for its several passes.
COMPILED_ROWS = 256
# Elementwise formulas of several passes or with branches, as a ufunc: it takes half of NumPy's time at 1000 elements.
UFUNC = 512
# What NumPy does in one pass (comparisons, searches, scans, picks): it is done with less before a compiled kernel has been called.
COMPILED_PASS = 2048
# Conversions between float16 and float32: 4.2 us instead of NumPy's 5.9 and 10 at this size, slower at half of it.
CASTS = 1 << 12
# Reductions, which NumPy does in vector code: it is done with less before a compiled kernel has been called.
REDUCTIONS = 1 << 13
# Multiplications of a head of attention. Below, other ops compute it: nobody waits for Numba on a toy. Both take 25 to 30 us at this size
# (a causal mask: 50 and 30), so it is low: a sequence that grows should not first need these kernels in the middle of decoding.
TILED_PRODUCTS = 1 << 11
# Copies and fills, of transposes too: while all is in the cache, NumPy's are done before compiled code pays for its call.
COPIED_BYTES = 1 << 18
# Joins with runs of at least JOINED_RUN bytes: NumPy copies them in the calling thread at the speed of the second-level cache, while
# threads start (a cache of 12 x 128 x 64 and one row: 17 us against 84; 2 x 1 MB: equal; 2 x 4 MB: threads by 12 %).
JOINED_BYTES, JOINED_RUN = 1 << 20, 256
# Writes of a number at a mask: twice as quick as NumPy's from 8 KiB on, but not worth loading Numba for below this (10 to 40 us).
MASKED_BYTES = 1 << 16

# --- compiled loops over large arrays (`loops_cpu`), against NumPy or the ufunc ----------------------------------------------------

# One pass of NumPy's at the speed of memory: a loop gains by threads alone, whose start and the planning cost 9 us.
LOOP_OF_ONE_PASS = 3 << 16
# One exponential or the like: a quarter of that.
LOOP_WITH_EXPONENTIALS = 1 << 14
# Two passes of NumPy's, 0.8 us each at 4096 elements: they pay for planning and calling (3 us) at 16k, more of them sooner.
LOOP_OF_TWO_PASSES = 1 << 14
LOOP_OF_PASSES = 1 << 12
# Exponentials among several passes, at once.
LOOP_OF_PASSES_WITH_EXPONENTIALS = 1 << 9
# Operands that repeat are written out over the common shape from here on: ufuncs are fast over unit strides only.
SPREAD = 1 << 12

# --- the tier of few elements, and large arrays -----------------------------------------------------------------------------------

# Up to here compiled functions take arrays from the objects, on one thread; more is better done by kernels that plan. (Sizes in compiled
# code stand in its own files, of which the cache of kernels takes notice: `objects_numba.MOST`.)
FEW = 1 << 13
# From here on a kernel with a plan of its own pays: elements in parts for two threads (`threads.GRAIN`), or an index looked at first.
LARGE = 1 << 15
# Whole rows copied to places: NumPy copies them as fast as one thread, so they wait until the second pays.
ROW_COPIES = 1 << 17

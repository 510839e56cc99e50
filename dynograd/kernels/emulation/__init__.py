"""The code of GPU kernels run on host memory: what their languages mean, in NumPy."""

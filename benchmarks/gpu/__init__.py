"""`python -m benchmarks gpu`: rows timed on a CUDA device, beside torch eager and torch.compile where they can use it too."""

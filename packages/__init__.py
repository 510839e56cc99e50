"""Programs over PyTorch's packages, run without PyTorch and compared with what they give with it: `make packages`.

Each function that is marked `@program` in `programs/` is one: it makes a model of a package, trains it a few steps, saves, loads, generates,
and returns what it saw by name. Weights and data come from NumPy, since the two libraries' random streams differ.
"""

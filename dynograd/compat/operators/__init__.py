"""Operators that programs register (`dynograd.library`) and that are called by a namespace and a name: `torch.ops.<namespace>.<name>`.

`schemas` says what an operator takes and gives, `registry` holds operators and runs them, `aten` finds ours under PyTorch's inner names.
"""

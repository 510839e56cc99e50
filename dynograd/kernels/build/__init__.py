"""How kernels are compiled, launched, kept on disk and run on threads."""

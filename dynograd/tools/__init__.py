"""Programs for users: compiling kernels ahead of time, porting a program, converting checkpoints."""

"""Plans: a step that has been recorded once is compared with the record, op by op, and computed by bound kernels.

`recording` notes what a step computes, `lowering` says which compiled kernels compute each call of it, `programs` binds and runs them, `walks`
hands the recorded results to the user's program in the next step, `sized` does without a record at sizes between recorded ones, and
`compiling` is what `dynograd.compile` makes. `reporting` says what was recorded, and what computes it; `gpu` has the programs of a GPU.
"""

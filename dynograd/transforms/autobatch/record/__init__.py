"""Recording: calls become buckets of calls of one form, results become tensors that are still to come."""

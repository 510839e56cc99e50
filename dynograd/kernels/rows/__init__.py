"""Row programs: kernels over the rows of arrays, written from short texts, and the fused cells of automatic batching."""

"""A side of `benchmarks.serving`, for `python -m dynograd.serve`."""

import os

from benchmarks.serving import service as service_of

service = service_of(os.environ["SERVING_SIDE"], int(os.environ["SERVING_THREADS"]))

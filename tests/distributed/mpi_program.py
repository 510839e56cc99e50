"""What each process of `test_mpi.py` runs."""

import sys

from dynograd import distributed
from tests.distributed import differentiable_cases, ragged_cases
from tests.distributed.rows import cases, failure

if __name__ == "__main__":
    distributed.init_process_group()
    failures = [text for case in cases(distributed.get_world_size()) if (text := failure(*case))]
    failures += ragged_cases.failures() + differentiable_cases.failures()
    gathered = [None] * distributed.get_world_size()
    distributed.all_gather_object(gathered, failures)
    distributed.destroy_process_group()
    if failures:
        sys.exit("\n".join(failures))
    if distributed.starting.launched().rank == 0:
        print(f"{len(cases(2))} cases")

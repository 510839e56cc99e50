"""Ends with an error that says why, where no GPU can be used."""

import sys

from dynograd import cuda
from dynograd.cuda import driver
from dynograd.utils import programs


def main() -> int:
    if driver.is_emulated():
        print("DYNOGRAD_CUDA=emulated: unset it, the tests are to run on a GPU.", file=sys.stderr)
        return 1
    if not cuda.is_available():
        print(f"No GPU can be used: {driver.reason()}.", file=sys.stderr)
        return 1
    print(f"GPU: {cuda.get_device_name(0)}")
    return 0


if __name__ == "__main__":
    sys.exit(programs.run_alone(main, __doc__))

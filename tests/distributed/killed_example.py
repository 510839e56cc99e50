"""An example, whose rank 1 is killed behind a step of its optimizer when it runs for the first time: STEP FILE ARGUMENTS..."""

import os
import runpy
import signal
import sys

from dynograd.optim.optimizer import register_optimizer_step_post_hook

if __name__ == "__main__":
    last, path, *arguments = sys.argv[1:]
    left = int(last)

    def count(*call):
        global left
        left -= 1
        if left == 0 and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)

    register_optimizer_step_post_hook(count)
    sys.argv = [path, *arguments]
    runpy.run_path(path, run_name="__main__")

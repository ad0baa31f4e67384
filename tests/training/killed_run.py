"""Train on toy data; at the given step kill this process, as the system would."""

import os
import signal
import sys

from toy import toy_data, toy_recipe

from limelight.training import train

output, at = sys.argv[1], int(sys.argv[2])


def kill_process(progress):
    if progress.step >= at:
        os.kill(os.getpid(), signal.SIGKILL)


train(
    toy_data(),
    recipe=toy_recipe(),
    output=output,
    device="cpu",
    progress=kill_process,
    checkpoint_minutes=0.0,
)

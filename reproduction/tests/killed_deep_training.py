"""Train a toy deep model; at the given step kill this process, as the system would."""

import os
import signal
import sys
from pathlib import Path

from deep_toys import TOY

from limelight_reproduction.deep import models
from limelight_reproduction.setting import Setting

data, folder, at = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
models.MODELS["toy"] = TOY


def tick(done, total):
    if done >= at:
        os.kill(os.getpid(), signal.SIGKILL)


models.trained(Setting(data=data, models=folder, tick=tick), "toy")

"""Train a toy deep model; at the given step kill this process, as the system would."""

import os
import signal
import sys
from pathlib import Path

from limelight_reproduction.deep import networks
from limelight_reproduction.setting import Setting

from deep_toys import TOY

data, folder, at = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
networks.PLANS["toy"] = TOY


def tick(done, total):
    if done >= at:
        os.kill(os.getpid(), signal.SIGKILL)


networks.load_or_train(Setting(data=data, models=folder, tick=tick), "toy")

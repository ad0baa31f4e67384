"""``python -m limelight``."""

from limelight.cli import main

main()

"""``python -m limelight``, and the command ``limelight``."""

import sys


def main() -> None:
    """Run one command; Ctrl-C ends it at any time without a traceback."""
    try:
        from limelight.cli import main as run

        run()
    except KeyboardInterrupt:  # before the command line was there to answer
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)
    finally:  # once more, while threads end and modules are taken down
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()

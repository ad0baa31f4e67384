"""``python -m limelight``, and the command ``limelight``."""

import gc
import sys


def main() -> None:
    """Run one command; Ctrl-C ends it at any time without a traceback."""
    # Modules and classes are made by the thousand, and none is garbage: looking for it after every
    # 700 objects took a twentieth of a short command, once in all of it still a thirtieth.
    gc.set_threshold(100_000)
    try:
        from limelight.cli import main as run

        run()
    except KeyboardInterrupt:  # before the command line was there to answer
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)
    finally:  # once more, while threads end and modules are taken down
        if "_duckdb" not in sys.modules:  # which counts what is left of it, and prints it as leaks
            gc.freeze()  # nor at the end, when Python would look through all that is left
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()

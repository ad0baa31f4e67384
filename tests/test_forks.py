"""A process that is forked while another thread explains can explain, too."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys, threading, time
import limelight

kind = sys.argv[1]
if kind == "network":
    from tiny_transformers import tiny

    network, tokenizer = tiny("bert")
    model, method = limelight.wrap(network, tokenizer=tokenizer), "loo"
else:
    model, method = limelight.load(), "lime"
ended = threading.Event()

def explain_until_ended():
    while not ended.is_set():
        explain()

def explain():
    limelight.explain(model, "The plot is predictable, but the acting is superb.", method)

explain()
sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=explain_until_ended, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
hanging = 0
for _ in range(int(sys.argv[2])):
    child = os.fork()
    if not child:
        signal.alarm(60)  # a child that hangs is ended
        explain()
        os._exit(0)
    hanging += os.waitpid(child, 0)[1] != 0
ended.set()
print(hanging)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("kind", ["tables", "network"])
def test_a_forked_process_explains_while_another_thread_does(kind):
    if kind == "network":
        pytest.importorskip("torch")
    program = f"import sys; sys.path[:0] = {sys.path!r}\n" + PROGRAM
    command = [sys.executable, "-W", "ignore", "-c", program, kind, "20"]
    # With several threads of OpenMP, torch itself hangs in a forked process.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ended.stdout == "0\n", ended.stderr

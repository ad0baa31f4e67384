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
for thread in threads:  # torch ends the process with a message where a thread is still inside it
    thread.join()
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
    assert (ended.stdout, ended.stderr) == ("0\n", "")


def run_program(program):
    """Run a program whose fork finds ``lock`` held by another thread; return what it prints."""
    command = [sys.executable, "-W", "ignore", "-c", HOLDING + program]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


HOLDING = """
import os, signal, threading
from limelight import fork_locks

fork_locks._LONGEST_WAIT = 0.05
lock = fork_locks.ForkSafeLock(forked_message="the lock was held.")
other, holding, ending = fork_locks.ForkSafeLock(), threading.Event(), threading.Event()

def hold(wanted=None):
    with lock:
        holding.set()
        if wanted is None:
            ending.wait()
        else:
            with wanted:
                pass

def fork(work):
    child = os.fork()
    if not child:
        signal.alarm(30)
        work()
        os._exit(0)
    return os.waitpid(child, 0)[1]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_does_not_wait_forever_and_a_locked_lock_raises_an_error_in_the_child():
    printed = run_program("""
def work():
    try:
        with lock:
            pass
    except fork_locks.InputError as error:
        print(error, flush=True)

thread = threading.Thread(target=hold)
thread.start(), holding.wait()
assert fork(work) == 0
ending.set(), thread.join()
with lock:
    print("the parent goes on")
""")
    assert printed == "the lock was held.\nthe parent goes on\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_thread_that_forks_inside_a_block_does_not_wait_for_one_that_waits_for_it():
    printed = run_program("""
fork_locks._LONGEST_WAIT = 1e9
with other:
    thread = threading.Thread(target=hold, args=[other])
    thread.start(), holding.wait()
    assert fork(lambda: None) == 0
thread.join()
print("forked")
""")
    assert printed == "forked\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_what_a_signal_handler_raises_during_the_wait_of_a_fork_is_raised_after_it():
    printed = run_program("""
class Limit(Exception):
    pass

def handle(*_):
    raise Limit

signal.signal(signal.SIGUSR1, handle)
sleep = fork_locks.time.sleep

def signal_and_sleep(seconds):
    signal.raise_signal(signal.SIGUSR1)
    sleep(seconds)

fork_locks.time.sleep = signal_and_sleep
thread = threading.Thread(target=hold)
thread.start(), holding.wait()
parent = os.getpid()
try:
    if os.fork() == 0:
        os._exit(0)
except Limit:
    print("raised", os.getpid() == parent)
assert signal.getsignal(signal.SIGUSR1) is handle
ending.set(), thread.join()
""")
    assert printed == "raised True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_thread_that_logs_inside_a_block_does_not_keep_a_fork_waiting():
    printed = run_program("""
import logging

fork_locks._LONGEST_WAIT = 1e9
leaving, taken = threading.Event(), threading.Event()

def log():
    with lock:
        holding.set()
        leaving.wait()
        with logging._lock:
            pass

thread = threading.Thread(target=log)
thread.start(), holding.wait()
sleep = fork_locks.time.sleep

def leave_and_sleep(seconds):
    leaving.set()
    sleep(seconds)

fork_locks.time.sleep = leave_and_sleep
assert fork(lambda: None) == 0
thread.join()
print("forked")
""")
    assert printed == "forked\n"

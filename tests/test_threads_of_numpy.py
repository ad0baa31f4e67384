"""NumPy's threads while limelight computes products of matrices, and afterwards."""

import contextlib
import os
import threading
import warnings

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

import limelight
from limelight import threads
from limelight.threads import limit_blas_threads

TEXT = "The plot is predictable, but the acting is superb and the music is a joy."


def count_threads():
    """Return the number of threads of the linear algebra in NumPy's wheel."""
    controller = ThreadpoolController().select(prefix="libscipy_openblas")
    numbers = {library["num_threads"] for library in controller.info()}
    if not numbers:
        pytest.skip("this NumPy is not from a wheel with OpenBLAS")
    (number,) = numbers
    return number


@pytest.fixture(autouse=True)
def two_threads():
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        yield


def test_the_limit_holds_in_the_block_and_ends_with_it_also_after_an_error():
    assert count_threads() == 2
    with limit_blas_threads():
        assert count_threads() == 1
        with limit_blas_threads():
            assert count_threads() == 1
        assert count_threads() == 1
    assert count_threads() == 2
    with pytest.raises(ZeroDivisionError), limit_blas_threads():
        raise ZeroDivisionError
    assert count_threads() == 2


@contextlib.contextmanager
def limit_in_another_thread():
    """Hold the limit in another thread while the block runs."""
    entered, leave = threading.Event(), threading.Event()

    def hold():
        with limit_blas_threads():
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert entered.wait(30)
    try:
        yield
    finally:
        leave.set()
        thread.join()


def test_blocks_that_overlap_leave_no_limit_behind():
    with contextlib.ExitStack() as first_block:
        first_block.enter_context(limit_blas_threads())
        with limit_in_another_thread():
            first_block.close()  # it began first and ends first
            assert count_threads() == 2
    assert count_threads() == 2
    with limit_blas_threads():
        assert count_threads() == 1


@pytest.mark.parametrize("method", ["lime-sampled", "banzhaf"])
def test_a_function_of_the_user_is_called_with_the_threads_of_the_user(method):
    counts = set()

    def predict(texts):
        counts.add(count_threads())
        sizes = np.array([[len(text) / 50 - 1] for text in texts])
        return np.concatenate([1 / (1 + np.exp(sizes)), 1 / (1 + np.exp(-sizes))], axis=1)

    model = limelight.wrap(predict, classes=["short", "long"])
    limelight.explain(model, TEXT, method, progress=False)
    assert counts == {2}
    assert count_threads() == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_that_is_forked_inside_a_block_limits_its_own_threads_again():
    with limit_in_another_thread():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 warns about forks beside threads
            child = os.fork()
        if not child:
            os._exit(0 if not threads._blas_limit.locked() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert threads._blas_limit.locked()

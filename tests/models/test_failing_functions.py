"""A function that fails on one of our texts is named with that text."""

import numpy as np
import pytest

import limelight
from limelight.errors import InputError

TEXT = "a b c d e f"


def fail_midway(bad, error):
    calls = []

    def function(texts):
        calls.append(len(texts))
        if any(bad(text) for text in texts):
            raise error
        return np.full((len(texts), 2), 0.5)

    return limelight.wrap(function, classes=["x", "y"]), calls


def test_the_text_is_named_and_the_error_kept():
    model, calls = fail_midway(lambda text: text == "a b c d f", KeyError("lost"))
    with pytest.raises(InputError) as error:
        limelight.explain(model, TEXT, "shapley")
    assert str(error.value) == "the function fails on the text 'a b c d f' (KeyError: 'lost')."
    assert isinstance(error.value.__cause__, KeyError)
    assert sum(calls) < 400  # each once more, until it is found


def test_a_long_text_is_shortened():
    model, _ = fail_midway(lambda _: True, ValueError("too long"))
    with pytest.raises(InputError, match=r"'word word .*…' \(ValueError: too long\)\.$") as error:
        limelight.explain(model, "word " * 500, "loo")
    assert len(str(error.value)) < 200


def test_the_message_says_that_texts_fail_only_together():
    def function(texts):
        if len(texts) > 3:
            raise RuntimeError("batch too large")
        return np.full((len(texts), 2), 0.5)

    model = limelight.wrap(function, classes=["x", "y"])
    with pytest.raises(InputError, match="texts together, but on none alone"):
        limelight.explain(model, TEXT, "shapley")


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory")])
def test_memory_that_runs_out_still_halves_the_batch(error):
    calls = []

    def function(texts):
        calls.append(len(texts))
        if len(texts) > 4:
            raise error
        return np.full((len(texts), 2), 0.5)

    assert (
        len(limelight.explain(limelight.wrap(function, classes=["x", "y"]), TEXT, "shapley")) == 6
    )
    assert max(calls) > 4


def test_an_interrupt_passes():
    model, _ = fail_midway(lambda _: True, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        limelight.explain(model, TEXT, "loo")

import numpy as np
import pytest
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import TypeCheckError

from limelight.errors import unknown_name_message
from limelight.theory.attention import head_outputs


def test_shape_annotations_are_enforced_while_tests_run():
    alpha = np.full((2, 3), 1 / 3)
    with pytest.raises(TypeCheckError, match="head_outputs"):  # in each test at the first call
        head_outputs(alpha, np.ones((2, 1)))  # NumPy itself would stretch the axis
    np.testing.assert_allclose(head_outputs(alpha, np.ones((2, 3))), [1, 1])


def test_types_are_enforced_where_no_shape_is_annotated():
    with pytest.raises(BeartypeCallHintViolation, match="unknown_name_message"):
        unknown_name_message(3, "alpha-avgg", ["lime"])


def test_unknown_names_get_a_guess_and_every_choice():
    assert unknown_name_message("method", "alpha-avgg", ["alpha-avg", "lime"]) == (
        "unknown method: 'alpha-avgg'. Did you mean 'alpha-avg'? Choose from: alpha-avg, lime."
    )

import sys

from limelight.errors import nearest


def test_shape_annotations_are_enforced_while_tests_run():
    assert "jaxtyping" in sys.modules
    from limelight.shapes import Float

    assert Float.__module__.startswith("jaxtyping")


def test_unknown_names_get_a_guess_and_every_choice():
    sentence = nearest("method", "alpha-avgg", ["alpha-avg", "lime"])
    assert (
        sentence
        == "no method 'alpha-avgg'. Did you mean 'alpha-avg'? Choose from: alpha-avg, lime."
    )

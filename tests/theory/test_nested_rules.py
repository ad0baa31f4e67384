import numpy as np
import pytest

from limelight.theory.path_quadrature import nested_rules


@pytest.mark.parametrize("n", [2, 3, 8, 16, 17, 64, 256])
def test_all_rules_are_exact_for_the_polynomials_they_promise(n):
    at, (fine, *halves) = nested_rules(n)
    for degree in {0, 1, n // 2, n, 2 * n - 1}:
        assert fine @ at**degree == pytest.approx(1 / (degree + 1), rel=1e-10)
    for half in halves:
        for degree in {0, n // 4, n // 2 - 1}:
            assert half @ at**degree == pytest.approx(1 / (degree + 1), rel=1e-9)


@pytest.mark.parametrize("n", [2, 8, 16, 64, 256])
def test_the_halves_ask_for_no_node_of_their_own(n):
    _, (fine, even, odd) = nested_rules(n)
    assert (fine > 0).all()
    assert (even[1::2] == 0).all()
    assert (odd[::2] == 0).all()
    assert max(np.abs(even).sum(), np.abs(odd).sum()) < 4  # rounding does not grow


def test_one_node_says_nothing_of_its_error():
    assert nested_rules(1)[1].tolist() == [[1.0], [1.0], [0.0]]


@pytest.mark.parametrize("steep", [1.0, 5.0, 20.0, 60.0])
@pytest.mark.parametrize("n", [8, 16, 32])
def test_their_differences_exceed_the_error_of_the_first(n, steep):
    at, rules = nested_rules(n)

    def value(x):
        return 1 / (1 + np.exp(-steep * (x - 0.4)))

    exact = (np.logaddexp(0, 0.6 * steep) - np.logaddexp(0, -0.4 * steep)) / steep
    fine, *halves = rules @ value(at)
    assert abs(fine - exact) <= np.abs(np.array(halves) - fine).max() + 1e-14

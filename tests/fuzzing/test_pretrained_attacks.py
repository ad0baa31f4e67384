"""Damaged Hugging Face folders: exit codes 0 and 2 alone, no traceback, no code of theirs run.

LIMELIGHT_FUZZ=20 runs twenty times as many cases.
"""

import os

import attacks
import pretrained_attacks
import pytest

TIMES = int(os.environ.get("LIMELIGHT_FUZZ", "1"))
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]


def run_cases(cases):
    seen = set()
    for case, code, message in cases:
        assert code in (0, 2), (case, message)
        assert "Traceback" not in message, case
        assert code == 0 or message.startswith("Error: "), (case, message)
        assert code == 0 or len(message) < 1500, case
        seen.add(code)
    return seen


def test_attacks_end_in_an_error_message():
    # Else the attacks attack nothing, or nothing undamaged is left.
    assert run_cases(pretrained_attacks.pretrained_cases(30 * TIMES, seed=0)) == {0, 2}


KINDS = sorted(set(pretrained_attacks.DAMAGES), key=lambda damage: damage.__name__)


@pytest.mark.parametrize("damage", KINDS, ids=lambda damage: damage.__name__)
def test_every_kind_of_damage_is_answered(damage):
    def only(rng, undamaged, place):
        attacks.shutil.copytree(undamaged, place)
        damage(rng, place)
        return damage.__name__

    run_cases(pretrained_attacks.pretrained_cases(3 * TIMES, seed=1, damage=only))


def test_an_undamaged_folder_is_explained():
    def nothing(_rng, undamaged, place):
        attacks.shutil.copytree(undamaged, place)
        return "nothing"

    assert run_cases(pretrained_attacks.pretrained_cases(4, seed=2, damage=nothing)) == {0}


def test_code_that_runs_would_be_seen():
    def runs(_rng, undamaged, place):
        attacks.shutil.copytree(undamaged, place)
        (place / pretrained_attacks.MARK).touch()
        return "runs"

    ((_, code, _),) = pretrained_attacks.pretrained_cases(1, seed=3, damage=runs)
    assert code == -2

"""Seeded attacks: exit codes 0 and 2 alone, never a traceback.

LIMELIGHT_FUZZ=20 runs twenty times as many cases.
"""

import os

import attacks
import pytest

TIMES = int(os.environ.get("LIMELIGHT_FUZZ", "1"))
COUNTS = {"commands": 60, "folders": 60, "results": 150, "answers": 80}
CHOSEN = [
    ["explain", attacks.TEXT, "--model", "a\0b"],
    ["explain", attacks.TEXT, "--output", "a\0b.json"],
    ["explain", attacks.TEXT, "--set", "bandwidth=1e300"],
    ["explain", attacks.TEXT, "--set", "bandwidth=1e-300"],
    ["explain", attacks.TEXT, "--set", "bandwidth=" + "[" * 99_999],
    ["explain", attacks.TEXT, "--target", "9" * 5000],
    ["explain", attacks.TEXT, "--target", "--5"],
    ["explain", attacks.TEXT, "--output", "x.docx"],
    ["explain", "--file", "/dev/zero"],
    ["explain", "--file", "/dev/zero", "--lines"],
    ["evaluate", "--data", "/dev/zero"],
    ["explain", *attacks.TEXT.split()],
    ["explain", "\ud800"],
    ["x"],
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", COUNTS)
def test_attacks_end_in_an_error_message(kind):
    seen = set()
    for case, code, message in attacks.CASES[kind](COUNTS[kind] * TIMES, seed=0):
        assert code in (0, 2), (case, message)
        assert "Traceback" not in message
        assert code == 0 or message.strip()
        seen.add(code)
    assert seen == {0, 2}  # else the attacks attack nothing, or nothing undamaged is left


@pytest.mark.parametrize("case", CHOSEN, ids=range(len(CHOSEN)))
def test_what_once_broke_is_answered(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, message = attacks.ran(case)
    assert code in (0, 2), message
    assert "Traceback" not in message


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("damage", sorted(set(attacks.DAMAGES), key=lambda d: d.__name__))
def test_every_kind_of_damage_is_answered(damage):
    def only(rng, undamaged, place):
        attacks.shutil.copytree(undamaged, place)
        damage(rng, place)
        return damage.__name__

    for case, code, message in attacks.folder_cases(6 * TIMES, seed=1, damage=only):
        assert code in (0, 2), (case, message)
        assert "Traceback" not in message


def test_a_traceback_would_be_seen(monkeypatch):
    monkeypatch.setattr(attacks, "main", lambda _: 1 / 0)
    code, message = attacks.ran(["explain"])
    assert code == -1
    assert "ZeroDivisionError" in message

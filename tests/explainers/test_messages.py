"""Wrong calls of methods, each with its error and what the message says."""

# ruff: noqa: F401 (names for eval)
import numpy as np
import pytest

import limelight
from limelight import DomainError, InputError, compare, explain
from limelight.explainers import METHODS, Anchors, LimeSampled
from limelight.explainers.budget import parse_budget
from messages import exactly, wrong_calls
from shape_checks import no_type_checks

from tiny_models import tiny_model

MODEL = tiny_model(2, outputs=3, scale=0.6)
BACKGROUND = tiny_model(3).with_background(["w1 w2 w2", "w7 unseen"])
FUNCTION = limelight.wrap(lambda texts: [[0.5, 0.5]] * len(texts), classes=["a", "b"])
SHIPPED = limelight.load()
TEXT = "w1 w5 w8"
FORTY_WORDS = " ".join(f"w{i}" for i in range(1, 41))
NINE_WORDS = " ".join(f"w{i}" for i in range(9))
FUNCTIONS = {  # the beginnings of calls
    "explain": "limelight.explain(MODEL, TEXT",
    "explain_classes": "limelight.explain_classes(MODEL, TEXT",
    "compare": "limelight.compare(MODEL, TEXT",
    "judge": "limelight.judge(MODEL, [TEXT]",
}
HUGE = "must be between 0 and 1, not a number of about 5,001 digits"


def refill(method, model=BACKGROUND, **options):
    return explain(model, TEXT, method, replacement="refill", **options)


INPUT_ERRORS = {
    "explain(SHIPPED, TEXT, 'anchors', max_size=1)": "max_size",
    "explain(SHIPPED, TEXT, 'anchors', threshold=0.9, nodes=4)": "nodes limits a proof",
    "explain(SHIPPED, TEXT, 'anchors', budget='99 calls')": (
        "method 'anchors' does not support a budget"
    ),
    "explain(SHIPPED, TEXT, 'lime-sampled', budget='1 call')": (
        r"calls, or use 'lime', which needs no calls\.$"
    ),
    "explain(MODEL, TEXT, 'lime-sampled', replacement='mask')": (
        r"^unknown replacement: 'mask'\. Choose from: auto, unk, delete\.$"
    ),
    "explain(MODEL, 'w1 w2 w3', 'lime', replacement='delete', fit=True)": (
        "^the setting 'fit' of method 'lime' has no effect with this replacement. Leave fit out, "
        "or .*'samples'"
    ),
    "explain(MODEL, TEXT).top(-1)": "at least 0, not -1",
    # not the share that a word of two sentences gets
    "explain(MODEL, 'w1 w2 . w2 w3', 'owen', tolerance=-1)": (
        r"tolerance must be between 0 and 1, not -1\.0\."
    ),
    "explain(MODEL, [TEXT, 'w1', ' '])": exactly(
        "text 2 (counting from 0): the text has no words. Give at least one word."
    ),
    "explain(MODEL, [TEXT] * 40 + [''])": r"^text 40 \(counting from 0\): ",
    "explain(MODEL, ['  '])": "^the text has no words. Give at least one word.$",
    "explain(MODEL, [TEXT, 'w1'], protect=['w1'])": r"^text 1 \(counting from 0\): ",
    # A message about all texts names none.
    "explain(MODEL, [TEXT, TEXT], target='x')": "^unknown class: 'x'.",
    "explain(MODEL, [TEXT, TEXT], features='x')": "^unknown features: 'x'.",
    "compare(MODEL, [TEXT, 'w1', ' '])": exactly(
        "text 2 (counting from 0): the text has no words. Give at least one word."
    ),
    "compare(MODEL, [TEXT] * 40 + [''])": r"^text 40 \(counting from 0\): ",
    "compare(MODEL, ['  '])": "^the text has no words. Give at least one word.$",
    "compare(MODEL, [TEXT, 'w1'], protect=['w1'])": r"^text 1 \(counting from 0\): ",
    "compare(MODEL, [TEXT, TEXT], target='x')": "^unknown class: 'x'.",
    "compare(MODEL, [TEXT, TEXT], features='x')": "^unknown features: 'x'.",
    **{
        f"explain(MODEL, TEXT, 'lime-sampled', samples={samples})": (
            rf"^the setting 'samples' must be a whole number, not {value}\.$"
        )
        for samples, value in (
            ("np.inf", "inf"),
            ("np.nan", "nan"),
            ("1.5", "1.5"),
            ("'many'", "'many'"),
        )
    },
    **{
        f"explain(FUNCTION, 'a b c', 'shapley', budget={budget})": "budget must be a time"
        for budget in ("10**400", "np.nan", "np.inf", "-1", "True", "'9' * 400", "'1e400'")
    },
    **{
        f"parse_budget({value!r})": exactly(
            'budget must be a time (30, "30s", "2min") or a number of model calls ("400 calls"), '
            f"of at least 0, not {value!r}."
        )
        for value in ("", "s", "-3s", "3 days", "1e9s", "2.5 calls", -1, True, [30], "３s")
    },
    "parse_budget(float('inf'))": "of at least 0, not inf.",
    "explain(FUNCTION, 'a b c', 'loo', target=-(10**5000))": HUGE,
    "explain(FUNCTION, 'a b c', 'loo', against=10**5000)": HUGE,
    **{
        f"{call}, {typed}='words')": exactly(
            f"unknown keyword of {name}: '{typed}'. Did you mean '{keyword}'?"
        )
        for name, call in FUNCTIONS.items()
        for typed, keyword in (("featurs", "features"), ("budgt", "budget"))
    },
    # A setting of a method that is similar to no keyword is named as a setting.
    **{f"{call}, bandwith=1)": "unknown setting" for call in FUNCTIONS.values()},
    **{
        f"limelight.{name}({typed}='x')": exactly(
            f"unknown keyword of {name}: '{typed}'. Did you mean '{keyword}'?"
        )
        for name, typed, keyword in (
            ("counterfactual", "featurs", "features"),
            ("game", "replacment", "replacement"),
            ("load", "devic", "device"),
            ("wrap", "clases", "classes"),
        )
    },
    **{
        f"explain(FUNCTION, TEXT, 'shapley', {settings})": "orders must be 1 or 2"
        for settings in ("orders=3", "orders=1, pairs=4", "orders=2, tolerance=0.1")
    },
    **{
        f"explain(FUNCTION, FORTY_WORDS, '{method}', budget=0)": (
            f"the budget of 0s allows 0 after .* Use a budget of {enough} calls"
        )
        for method, enough in (("shapley", 42), ("loo", 43))
    },
    **{
        f"{call}, budget='99 calls', {name}={value})": f"give budget or '{name}', not both"
        for method, name, value in (
            ("shapley", "pairs", 5),
            ("shapley", "tolerance", 0.1),
            ("lime", "samples", 50),
            ("banzhaf", "max_samples", 500_000),
        )
        for call in (
            f"explain(FUNCTION, 'w1 w2 w3', '{method}'",
            f"compare(FUNCTION, 'w1 w2', ['{method}']",
        )
    },
    **{
        f"explain(FUNCTION, TEXT, '{method}', tolerance=0)": (
            r"tolerance must be positive, not 0\.0"
        )
        for method in ("lime", "lime-sampled", "shapley", "banzhaf", "interactions")
    },
    "Anchors(threshold=1.5)": "^threshold must be above 0 and at most 1, not 1.5.$",
    "Anchors(delta=0.0)": "^delta must be between 0 and 1, not 0.0.$",
    "Anchors(batch=0)": "^batch must be at least 1, not 0.$",
    "Anchors(max_size=0)": "^max_size must be at least 1, not 0.$",
    "Anchors(seed=-1)": "^seed must be at least 0, not -1.$",
    "LimeSampled(samples=1)": "^samples must be at least 2, not 1.$",
    "LimeSampled(num_features=0)": "^num_features must be at least 1, not 0.$",
    "LimeSampled(seed=-1)": "^seed must be at least 0, not -1.$",
    "LimeSampled(bandwidth=-0.25)": "^bandwidth must be positive, not -0.25.$",
    "LimeSampled(tolerance=0.0)": "^tolerance must be positive, not 0.0.$",
    "LimeSampled(ridge=-1.0)": "^ridge must be finite and at least 0, not -1.0.$",
    "LimeSampled(max_samples=10)": exactly("max_samples must be at least samples (5000), not 10."),
    "LimeSampled(feature_selection='lasso_path')": exactly(
        "unknown feature_selection: 'lasso_path'. "
        "Choose from: auto, forward_selection, highest_weights, none."
    ),
    "LimeSampled(sizes='importence')": exactly(
        "unknown sizes: 'importence'. Did you mean 'importance'? "
        "Choose from: uniform, balanced, importance."
    ),
    "explain(MODEL, TEXT, 'gxx')": exactly(
        f"unknown method: 'gxx'. Did you mean 'gxi'? Choose from: {', '.join(METHODS)}."
    ),
    "explain(MODEL, TEXT, target='clas 1')": exactly(
        "unknown class: 'clas 1'. Did you mean 'class 1'? "
        "Choose from: class 0, class 1, class 2, predicted."
    ),
    "explain(MODEL, TEXT, target=3)": exactly(
        "the number of a class must be between 0 and 2, not 3. "
        "The classes are class 0, class 1, class 2."
    ),
    "explain(MODEL, TEXT, target='-1')": exactly(
        "the number of a class must be between 0 and 2, not -1. "
        "The classes are class 0, class 1, class 2."
    ),
    "explain(MODEL, TEXT, scale='logits')": exactly(
        "unknown scale: 'logits'. Did you mean 'logit'? Choose from: logit, probability, score."
    ),
    "explain(MODEL, TEXT, 'ig', tolerence=1)": exactly(
        "unknown setting of method 'ig': 'tolerence'. Did you mean 'tolerance'? "
        "Choose from: tolerance."
    ),
    "explain(MODEL, TEXT, 'alpha-avg', x=1)": exactly(
        "the setting 'x' of method 'alpha-avg' has no effect for this model. Leave x out."
    ),
    "explain(MODEL, TEXT, 'lime-sampled', num_features=2.5)": exactly(
        "the setting 'num_features' must be a whole number, not 2.5."
    ),
    "explain(MODEL, TEXT, 'anchors', max_size=1.5)": exactly(
        "the setting 'max_size' must be a whole number, not 1.5."
    ),
    "explain(MODEL, TEXT, 'interactions', tolerance=0)": exactly(
        "tolerance must be positive, not 0.0."
    ),
    "explain(MODEL, TEXT, 'lime', bandwidth=-0.25)": exactly(
        "bandwidth must be positive, not -0.25."
    ),
    "explain(MODEL, TEXT, 'owen', within='sentence')": (
        r"unknown unit of within: 'sentence'\. Did you mean 'sentences'"
    ),
    "explain(MODEL, TEXT, 'owen', within='sentences in paragraphs')": (
        "Use within='paragraphs' or within='sentences'"
    ),
    "refill('shapley', BACKGROUND.with_background(None))": "has no background texts",
    "refill('shapley', scale='probability')": "averages logits",
    "refill('anchors')": "one text per mask",
    "refill('ig')": "'replacement'",
    "refill('lime', fit=True)": "'fit'",
    "limelight.counterfactual(BACKGROUND, TEXT, replacement='refill')": "one text per mask",
    "limelight.save_folder(BACKGROUND, 'folder')": "cannot store the background",
    "MODEL.with_background('w1 w2')": "list of texts",
    "MODEL.with_background(['w1', 2])": "entry 1 is int",
    "MODEL.with_background([' '])": "no words",
    "MODEL.with_background([])": "no words",
    "MODEL.with_background({'w1': 0.0})": "must be positive",
    "MODEL.with_background({'w1': float('inf')})": "must be positive",
    "MODEL.with_background({1: 1.0})": "must be strings",
    "tiny_model(attention='additive', w_a=np.ones((3, 5))).with_background(['w1'])": (
        "additive attention"
    ),
    "limelight.load('module:object', background=['w1'])": "module",
    "explain(SHIPPED, ['good film', None])": exactly(
        "text 1 (counting from 0): a text must be a string, not NoneType."
    ),
    "explain(SHIPPED, b'good film')": exactly(
        "an image (bytes) needs a model that reads images, but this model reads texts."
    ),
    "explain(SHIPPED, {'good film': 1})": exactly(
        "a text must be a string or a list of strings, not dict."
    ),
    "explain(SHIPPED, None)": exactly(
        "a text must be a string or a list of strings, not NoneType."
    ),
    "explain(SHIPPED, 'good film', target=1.0)": exactly(
        "a class must be given by its name or number, not 1.0."
    ),
    "explain(SHIPPED, 'good film', target=True)": exactly(
        "a class must be given by its name or number, not True."
    ),
    "compare(SHIPPED, 'good film', target=['a'])": exactly(
        "a class must be given by its name or number, not ['a']."
    ),
    "explain(SHIPPED, 'good film', features=[0.4, 1.2])": exactly(
        "features must give the (start, end) of every unit, in order, without overlap "
        "and inside the text of 9 characters, not 0.4 after 0."
    ),
    "limelight.game(SHIPPED, ['good film'])": exactly("game needs a single text, not list."),
    "limelight.register('lime')": exactly(
        "a method must be a limelight.explainers.Method, or a class that register_method "
        "decorates, not 'lime'."
    ),
    "SHIPPED.logits(['good film', None])": exactly(
        "text 1 (counting from 0): a text must be a string, not NoneType."
    ),
}
DOMAIN_ERRORS = {
    "explain(MODEL, 'w1 w2 w3 w4 w5 w6 w7 w8', 'lime-sampled', samples=8, ridge=0.0)": (
        r"^8 samples do not determine LIME's scores of 8 features\. Set samples to 18 or more\.$"
    ),
    "explain(MODEL, 'w1 w1 w1', 'lime-sampled')": (
        r"^LIME needs at least 2 features, but this text has 1\. Use features='positions', or give "
        r"a longer text\.$"
    ),
    "explain(MODEL, NINE_WORDS, 'lime-sampled', samples=64, bandwidth=1e-3)": (
        r"^with bandwidth 0\.001, all samples of 9 features have the weight 0\. Use a larger "
        r"bandwidth\.$"
    ),
    "explain(MODEL, [TEXT] * 35 + ['w1', TEXT], 'lime-sampled')": (
        r"^text 35 \(counting from 0\): LIME needs at least 2"
    ),
    "compare(MODEL, [TEXT, 'w1'], methods=['lime-sampled'])": (
        r"^text 1 \(counting from 0\): LIME needs at least 2"
    ),
    "explain(FUNCTION, ' '.join(FORTY_WORDS.split()[:14]), 'lime', bandwidth=0.01)": exactly(
        "1000 samples do not determine LIME's scores of 14 features. Set samples to 2000 or more, "
        "or use a larger bandwidth."
    ),
    "explain(FUNCTION, 'a b c. d e. f g. h a.', 'owen', samples=30)": (
        r"9 features \(13 parts within sentences\) need at least 50 samples, not 30\. "
        "Set samples to 50, or use a budget of 51 calls"
    ),
}
TYPE_ERRORS = {
    f"limelight.{name}(zzz=1)": "zzz" for name in ("counterfactual", "game", "load", "wrap")
}


@wrong_calls({InputError: INPUT_ERRORS, DomainError: DOMAIN_ERRORS, TypeError: TYPE_ERRORS})
def test_a_wrong_call_says_what_is_wrong(call, error, message):
    with no_type_checks(), pytest.raises(error, match=message):
        eval(call)

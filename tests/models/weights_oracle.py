"""The paper's classifier from its weights in 60 digits, and exact methods by their definitions."""

from itertools import combinations, product
from math import comb

import mpmath
import numpy as np

from limelight.models.attention.inputs import padded_ids
from limelight.text import CLS, UNK

DIGITS = 60


def exact_tables(model, model_input):
    """The window of a document, and ℓ and u of its words and of UNK in their places."""
    (ids,) = padded_ids([model_input.encoding.ids], T_max=model.T_max).tolist()
    places = {(value, t) for t, word in enumerate(ids) for value in (word, UNK)}
    return ids, *exact_entries(model, places)


def exact_entries(model, places):
    """{(head, word, t): ℓ} and {(head, class, word, t): u} of words at positions."""
    K, C = model.W_l.shape[:2]
    root = mpmath.sqrt(model.W_q.shape[1])
    queries = _queries(model)
    logit, value = {}, {}
    for word, t in places:
        e = _vector(model, word, t)
        for k in range(K):
            if model.w_a is None:
                logit[k, word, t] = _dot(queries[k], _times(model.W_k[k], e)) / root
            else:
                units = map(mpmath.tanh, _add_projection(model, queries, k, e))
                logit[k, word, t] = _dot(_exact(model.w_a[k]), units)
            outputs = _times(model.W_l[k], _times(model.W_v[k], e))
            for c in range(C):
                value[k, c, word, t] = outputs[c]
    return logit, value


def exact_units(model, model_input, features):
    """What hidden units are given at the text and at UNK, as (K, T, d_h) arrays, and weights."""
    with mpmath.workdps(DIGITS):
        ids, base = _ends(model, model_input, features)
        queries = _queries(model)

        def long_doubles(words):
            rows = [
                [
                    _add_projection(model, queries, k, _vector(model, w, t))
                    for t, w in enumerate(words)
                ]
                for k in range(len(model.W_q))
            ]
            return np.vectorize(_long, otypes=[np.longdouble])(np.array(rows, dtype=object))

        return long_doubles(ids), long_doubles(base), model.w_a


def _queries(model):
    cls = _vector(model, CLS, 0)
    return [_times(W, cls) for W in model.W_q]


def _add_projection(model, queries, k, e):
    return [q + x for q, x in zip(queries[k], _times(model.W_k[k], e), strict=True)]


def _vector(model, word, t):
    d_e, e = model.W_q.shape[2], []
    for i in range(d_e):
        angle = t / mpmath.mpf(model.position_base) ** (mpmath.mpf(i - i % 2) / d_e)
        wave = mpmath.cos(angle) if i % 2 else mpmath.sin(angle)
        e.append(mpmath.mpf(float(model.embedding[word, i])) + model.position_scale * wave)
    return e


def _exact(row):
    return [mpmath.mpf(float(x)) for x in row]


def _times(W, x):
    return [_dot(_exact(row), x) for row in W]


def _dot(x, y):
    return mpmath.fsum(a * b for a, b in zip(x, y, strict=True))


def _long(x):
    return np.longdouble(mpmath.nstr(x, 25))


def exact_game(model, model_input, features, c=-1):
    """{kept: f} of class ``c`` over all sets of kept features, removed ones replaced by UNK."""
    with mpmath.workdps(DIGITS):
        ids, logit, value = exact_tables(model, model_input)
        place = [-1, *features.feature_index.tolist()]
        place += [-1] * (len(ids) - len(place))
        K, C = model.W_l.shape[:2]
        f = {}
        for keep in product((0, 1), repeat=len(features)):
            words = [w if j < 0 or keep[j] else UNK for w, j in zip(ids, place, strict=True)]
            f[keep] = _output(words, logit, value, K, c % C)
        return f


def exact_deletion_game(model, model_input, c=-1):
    """The same where every token is a word, removed ones vanish and later ones move up."""
    tokens = model_input.encoding.ids.tolist()
    K, C = model.W_l.shape[:2]
    with mpmath.workdps(DIGITS):
        places = {(w, t) for w in (CLS, UNK, *tokens) for t in range(model.T_max)}
        logit, value = exact_entries(model, places)
        f = {}
        for keep in product((0, 1), repeat=len(tokens)):
            words = [CLS, *(w for w, stays in zip(tokens, keep, strict=True) if stays)]
            words += [UNK] * (model.T_max - len(words))
            f[keep] = _output(words, logit, value, K, c % C)
        return f


def _output(words, logit, value, K, c):
    heads = (
        _average(
            [logit[k, w, t] for t, w in enumerate(words)],
            [value[k, c, w, t] for t, w in enumerate(words)],
        )
        for k in range(K)
    )
    return mpmath.fsum(heads) / K


def _average(logits, values):
    top = max(logits)
    g = [mpmath.exp(x - top) for x in logits]
    return mpmath.fsum(a * b for a, b in zip(g, values, strict=True)) / mpmath.fsum(g)


def exact_path(model, model_input, features, c=-1):
    """Logits and values of class ``c`` at both ends of the path from UNK, as (K, T) arrays."""
    with mpmath.workdps(DIGITS):
        _, logit, value = exact_tables(model, model_input)
        ids, base = _ends(model, model_input, features)
        K, C = model.W_l.shape[:2]

        def table(words, entry):
            rows = [[entry(k, w, t) for t, w in enumerate(words)] for k in range(K)]
            return np.array([[_long(x) for x in row] for row in rows])

        return [
            table(words, entry)
            for entry in (
                lambda k, w, t: logit[k, w, t],
                lambda k, w, t: value[k, c % C, w, t],
            )
            for words in (ids, base)
        ]


def _ends(model, model_input, features):
    """The window of a document, and the same with UNK for every feature."""
    (ids,) = padded_ids([model_input.encoding.ids], T_max=model.T_max).tolist()
    place = [-1, *features.feature_index.tolist()]
    return ids, [UNK if j >= 0 else w for w, j in zip(ids, place, strict=False)] + ids[len(place) :]


def exact_scores(f, method):
    """Scores of all words from the table of f, by definition."""
    d = len(next(iter(f)))
    with mpmath.workdps(DIGITS):
        if method == "lime":
            return _fit_weights(f, d)
        if method == "loo":
            full = (1,) * d
            return [f[full] - f[_with(full, j, 0)] for j in range(d)]
        if method == "interactions":
            pairs = {pair: _sum_of_pairs(f, pair, d) for pair in combinations(range(d), 2)}
            return [
                mpmath.fsum(abs(x) for pair, x in pairs.items() if j in pair) / (d - 1)
                for j in range(d)
            ]
        return [_mean_change(f, j, d, method) for j in range(d)]


def _with(kept, j, state):
    return (*kept[:j], state, *kept[j + 1 :])


def _mean_change(f, j, d, method):
    terms = []
    for keep in f:
        if keep[j]:
            continue
        weight = mpmath.mpf(1) / 2 ** (d - 1)
        if method == "shapley":
            weight = mpmath.mpf(1) / (d * comb(d - 1, sum(keep)))
        terms.append(weight * (f[_with(keep, j, 1)] - f[keep]))
    return mpmath.fsum(terms)


def _sum_of_pairs(f, pair, d):
    i, j = pair
    terms = []
    for keep in f:
        if keep[i] or keep[j]:
            continue
        value, two = _with(keep, i, 1), _with(keep, j, 1)
        weight = mpmath.mpf(1) / ((d - 1) * comb(d - 2, sum(keep)))
        terms.append(weight * (f[_with(value, j, 1)] - f[value] - f[two] + f[keep]))
    return mpmath.fsum(terms)


def _fit_weights(f, d, bandwidth=0.25):
    """Weighted least squares over all non-empty removals, sizes drawn uniformly."""
    G, r = mpmath.zeros(d + 1), mpmath.zeros(d + 1, 1)
    for keep, value in f.items():
        s = d - sum(keep)
        if not s:
            continue
        far = 1 - mpmath.sqrt(1 - mpmath.mpf(s) / d)
        weight = mpmath.exp(-(far**2) / (2 * mpmath.mpf(bandwidth) ** 2)) / comb(d, s)
        row = [1, *keep]
        for a in range(d + 1):
            r[a] += weight * row[a] * value
            for b in range(d + 1):
                G[a, b] += weight * row[a] * row[b]
    return list(mpmath.lu_solve(G, r))[1:]


def largest_error(scores, exact):
    """max |score − exact| as a float."""
    with mpmath.workdps(DIGITS):
        return max(
            float(abs(mpmath.mpf(x) - y))
            for x, y in zip(np.ravel(scores).tolist(), exact, strict=True)
        )

"""Lemmas D.4 and D.5: probabilities that given words survive, S uniform among sets of size s."""

__all__ = ["kept_given_kept", "kept_probability", "mixed_probability", "removed_given_kept"]

from limelight.errors import DomainError


def _falling(x: int, m: int) -> int:
    out = 1
    for i in range(m):
        out *= max(0, x - i)
    return out


def _checked(n: int, s: int, words: int) -> None:
    if not 0 <= s <= n or words > n:
        raise DomainError(
            f"needs 0 ≤ s ≤ n and at most n words; got s = {s}, n = {n}, {words} words."
        )


def kept_probability(n: int, s: int, *, words: int = 1) -> float:
    """P_s(none of m given words in S) = (n−s)(n−s−1)…/(n(n−1)…), m factors each.

    Lemma D.4, lines 1, 2 and 4.
    """
    _checked(n, s, words)
    return _falling(n - s, words) / _falling(n, words)


def mixed_probability(n: int, s: int, *, kept: int = 1, removed: int = 1) -> float:
    """P_s(given words kept and others removed).

    Lemma D.4, lines 3 and 5, with kept = 1 or 2 and removed = 1.
    """
    _checked(n, s, kept + removed)
    return _falling(n - s, kept) * _falling(s, removed) / _falling(n, kept + removed)


def kept_given_kept(n: int, s: int, *, words: int = 1) -> float:
    """P_s(m other words kept | ℓ kept) = (n−s−1)…/((n−1)…) (Lemma D.5, lines 1 and 3).

    Domain: s < n.
    """
    _checked(n, s, words + 1)
    if s == n:
        raise DomainError(f"no word is kept when all n = {n} are removed; needs s < n.")
    return _falling(n - 1 - s, words) / _falling(n - 1, words)


def removed_given_kept(n: int, s: int) -> float:
    """P_s(a ∈ S | ℓ ∉ S) = s/(n−1) (Lemma D.5, line 2). Domain: s < n."""
    return 1 - kept_given_kept(n, s)

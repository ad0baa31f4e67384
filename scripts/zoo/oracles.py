"""Every method by another road: enumeration, autograd of the weights, matrices of attention."""

__all__ = ["bad_rows", "enumerated", "from_attention", "from_gradients", "other_mixing"]

import itertools
import re

import numpy as np
import torch
from scipy.optimize import linprog

from zoo.by_hand import ByHand, masks_of

Array = np.ndarray


def enumerated(method: str, answers: Array) -> Array | None:
    """Return scores from the answers to all masks, for methods whose definition is short."""
    d = len(answers).bit_length() - 1
    keep = masks_of(d)
    match method:
        case "loo":
            return answers[-1] - answers[[2**d - 1 - (1 << j) for j in range(d)]]
        case "banzhaf":
            return np.array(
                [answers[keep[:, j]].mean() - answers[~keep[:, j]].mean() for j in range(d)]
            )
        case "shapley":
            return _shapley(answers, d)
        case "lime":
            return _lime(answers, keep, d)
    return None


def _shapley(answers: Array, d: int) -> Array:
    """Mean over all orders of what a word adds to those before it."""
    total, orders = np.zeros(d), list(itertools.permutations(range(d)))
    for order in orders:
        had = 0
        for j in order:
            total[j] += answers[had | 1 << j] - answers[had]
            had |= 1 << j
    return total / len(orders)


def _lime(answers: Array, keep: Array, d: int) -> Array:
    """Least squares over all masks but the whole text, sizes uniform, LIME's kernel."""
    kept = keep.sum(axis=1)
    chance = np.array([1 / (d * _choose(d, int(k))) for k in kept]) * (kept < d)
    kernel = np.exp(-(((1 - np.sqrt(kept / d)) / 0.25) ** 2) / 2)
    root = np.sqrt(chance * kernel)[:, None]
    x = np.column_stack([np.ones(len(keep)), keep])
    found, *_ = np.linalg.lstsq(x * root, answers * root[:, 0], rcond=None)
    return found[1:]


def _choose(n: int, k: int) -> int:
    return len(list(itertools.combinations(range(n), k)))


def from_gradients(method: str, hand: ByHand, target: int, mask: int, nodes: int) -> Array | None:
    """Return scores from gradients of the embedding's weights."""
    if method == "ig":
        at, weight = np.polynomial.legendre.leggauss(nodes)
        points = [hand.gradient(target, towards=mask, at=(x + 1) / 2) for x in at]
        table = hand.network.get_input_embeddings()
        with torch.no_grad():
            base = table(torch.tensor([[mask]]))[0, 0].double().numpy()
        mean = np.einsum("n,nte->te", weight / 2, np.array(points))
        return hand.words((mean * (hand.embedded - base)).sum(axis=-1))
    gradient = hand.gradient(target)
    match method:
        case "gxi":
            return hand.words((gradient * hand.embedded).sum(axis=-1))
        case "g-avg":
            return hand.words(gradient.mean(axis=-1))
        case "g-l1":
            return hand.words(np.abs(gradient).sum(axis=-1))
        case "g-l2":
            return hand.words(np.sqrt((gradient**2).sum(axis=-1)))
    return None


def from_attention(method: str, hand: ByHand, target: int) -> Array | None:
    """Return scores from the matrices that the network shows when it computes them itself.

    The positions that are read are those where the outputs depend on the last hidden states.
    """
    hand.network.set_attn_implementation("eager")
    with torch.enable_grad():
        out = hand.call(hand.ids, output_attentions=True, output_hidden_states=True)
        layers, last = [a for a in out.attentions if a is not None], out.hidden_states[-1]
        f = out.logits[0, target]
        slope = torch.autograd.grad(out.logits[0].square().sum(), last, retain_graph=True)[0]
        steps = torch.autograd.grad(f, layers, allow_unused=True)
    reads = slope[0].abs().sum(dim=-1).numpy() > 0
    alpha = np.array([a[0].detach().double().numpy() for a in layers])
    row = alpha[-1][:, reads].mean(axis=1)
    mean = (alpha.mean(axis=1) + np.eye(alpha.shape[-1])) / 2
    match method:
        case "alpha-avg":
            return hand.words(row.mean(axis=0))
        case "alpha-max":
            return hand.words(row.max(axis=0))
        case "alpha-grad":
            product = alpha[-1] * steps[-1][0].double().numpy()
            return hand.words(product[:, reads].sum(axis=(0, 1)))
        case "rollout":
            product = np.linalg.multi_dot([*mean[::-1], np.eye(mean.shape[-1])])
            return hand.words(product[reads].mean(axis=0))
        case "generic-attention":
            spoken = np.array(
                [a * g[0].double().numpy() for a, g in zip(alpha, steps, strict=True)]
            )
            passed = np.eye(alpha.shape[-1]) + np.maximum(spoken, 0).mean(axis=1)
            product = np.linalg.multi_dot([*passed[::-1], np.eye(alpha.shape[-1])])
            return hand.words((product - np.eye(len(product)))[reads].mean(axis=0))
        case "flow":
            flows = [_largest_flow(mean, reads / reads.sum(), t) for t in range(mean.shape[-1])]
            return hand.words(np.array(flows))
    return None


def bad_rows(hand: ByHand) -> str | None:
    """Say what is wrong with the attention that is shown; a learned sink may take a part of it.

    What a decoder beside an encoder attends to is the text moved on by one place.
    """
    if getattr(hand.network.config, "is_encoder_decoder", False):
        return "the attention of a decoder, whose places are not those of the text"
    hand.network.set_attn_implementation("eager")
    with torch.no_grad():
        layers = hand.call(hand.ids, output_attentions=True).attentions
    sums = np.array([a[0].sum(dim=-1).numpy() for a in layers if a is not None])
    sinks = any("sink" in name for name in hand.network.state_dict())
    if sums.max() > 1.001 or (sums.min() < 0.999 and not sinks):
        return f"rows of attention add up to {sums.min():.3g} to {sums.max():.3g}"
    return None


def _largest_flow(layers: Array, reads: Array, sink: int) -> float:
    """Largest flow from the read positions down to ``sink``, as a linear program."""
    L, T, _ = layers.shape
    pipes = [(layer, s, t) for layer in range(L) for s in range(T) for t in range(T)]
    number = {pipe: i for i, pipe in enumerate(pipes)}
    sources = len(pipes)
    capacity = np.append([layers[pipe] for pipe in pipes], reads)
    balance = np.zeros((L * T + T, len(capacity)))  # what enters a node and does not leave it
    for (layer, s, t), i in number.items():
        balance[(layer + 1) * T + s, i] -= 1
        balance[layer * T + t, i] += 1
    for t in range(T):
        balance[L * T + t, sources + t] += 1
    equal = np.delete(balance, range(T), axis=0)
    blocked = balance[[t for t in range(T) if t != sink]]
    conserved = np.vstack([equal, blocked])
    found = linprog(
        -balance[sink],
        A_eq=conserved,
        b_eq=np.zeros(len(conserved)),
        bounds=[(0, c) for c in capacity],
    )
    return float(-found.fun)


# Modules that pass something from one token to another without attention weights.
_OTHER = re.compile(
    r"Mamba|SSM|Recurrent|DeltaNet|LinearAttention|LightningAttention|Fourier|Conv1d|Conv2d|"
    r"SeparableConv|LSH|ConvLayer"
)


def other_mixing(hand: ByHand) -> list[str]:
    """Return the kinds of modules that mix tokens without attention and that the text runs through.

    A tower for images, say, stands by.
    """
    ran: set[str] = set()
    wide = [m for m in hand.network.modules() if getattr(m, "kernel_size", None) != (1,)]
    handles = [
        module.register_forward_hook(lambda m, _given, _out: ran.add(type(m).__name__))
        for module in wide
        if _OTHER.search(type(module).__name__)
    ]
    with torch.no_grad():
        hand.call(hand.ids)
    for handle in handles:
        handle.remove()
    return sorted(ran)

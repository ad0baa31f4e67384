// What every head does with a text, and the gradient by running the model instead of the formula.

import { attentionError } from "./attention_scores.js";
import { headAttention, outputError } from "./text_tables.js";

const STEP = 1e-4; // how far a word is stretched: differences are off by its square, about 1e-8

const weightedSum = (alpha, u) => alpha.reduce((sum, weight, t) => sum + weight * u[t], 0);
const total = (values) => values.reduce((a, b) => a + b, 0);

/**
 * For each head: `attention` of [cls] to every token and to what stands in no text, [cls] itself and
 * the padding; `values` at the tokens; and `output`, the average of values by attention. The mean over
 * heads is the model's output; a skip connection from the mean is the last, and attends to all alike.
 */
export function headOutputs(heads, { end }) {
  return heads.map((head) => {
    const alpha = headAttention(head);
    return {
      attention: [...alpha.slice(1, end)], values: [...head.u.slice(1, end)], cls: alpha[0], padding: total(alpha.slice(end)),
      output: weightedSum(alpha, head.u), attentionBound: attentionError(head), bound: outputError(head, 1),
    };
  });
}

/**
 * Gradient × input of every word without its formula: how the mean output of the heads changes while
 * the word's embeddings grow, by central differences.
 */
export function measureSlopes(heads, { ofPosition, features }) {
  const output = (j, factor) => total(heads.map(({ logit, u, offset, stretchedLogit }) => {
    const moved = (row, at) => row.map((x, t) => (ofPosition[t] === j ? at(t) : x));
    const alpha = headAttention({ logit: moved(logit, (t) => stretchedLogit(t, factor)) });
    return weightedSum(alpha, moved(u, (t) => offset + factor * (u[t] - offset)));
  })) / heads.length;
  return features.map((_, j) => (output(j, 1 + STEP) - output(j, 1 - STEP)) / (2 * STEP));
}

// The tables at the places of one text: logits, values, attention, and the errors of all of them.

import { averageError, storedError } from "./table_rounding.js";

const UNK = 1;

/**
 * For each head: `logit` and `u` at every place of the window as the text stands, `baseLogit` and
 * `baseU` with UNK there; `top`, the largest logit; bounds `logitError` and `valueError` on the errors
 * of all these; the range `low` to `high` of the values. `target` is {output, sign}: u is that output's.
 */
export function textTables(model, reading, target) {
  return Array.from({ length: model.K }, (_, head) => headTables(model, reading, target, head));
}

function headTables(model, { ids }, { output, sign }, head) {
  const { K, C, T_max, wordLogit, wordValue, positionLogit, positionValue, rounding, own } = model;
  const logit = new Float64Array(T_max), u = new Float64Array(T_max);
  const baseLogit = new Float64Array(T_max), baseU = new Float64Array(T_max);
  const valueAt = (row) => (row * C + output) * K + head;
  let top = -Infinity, low = Infinity, high = -Infinity, logitSize = 0, valueSize = 0;
  for (let t = 0; t < T_max; t += 1) {
    const row = ids[t], x = wordLogit[row * K + head], xUnk = wordLogit[UNK * K + head], y = positionLogit[t * K + head];
    const v = wordValue[valueAt(row)], vUnk = wordValue[valueAt(UNK)], w = positionValue[valueAt(t)];
    logit[t] = x + y;
    baseLogit[t] = xUnk + y;
    u[t] = sign * (v + w);
    baseU[t] = sign * (vUnk + w);
    top = Math.max(top, logit[t], baseLogit[t]);
    low = Math.min(low, u[t], baseU[t]);
    high = Math.max(high, u[t], baseU[t]);
    logitSize = Math.max(logitSize, Math.abs(x), Math.abs(xUnk));
    valueSize = Math.max(valueSize, Math.abs(v), Math.abs(vUnk));
  }
  const logitError = storedError(rounding, logitSize) + own.logit[head];
  const valueError = storedError(rounding, valueSize) + own.value[output * K + head];
  return { logit, u, baseLogit, baseU, top, low, high, logitError, valueError, terms: T_max + C };
}

/** How far a head's output may be from what the weights say, whatever is removed. */
export function outputError(head, smallest) {
  return averageError({ ...head, smallest });
}

/** Attention of [cls] to every place of one head, and the least Σ g, which is at least 1 here. */
export function headAttention({ logit }) {
  let top = -Infinity, sum = 0;
  for (const x of logit) top = Math.max(top, x);
  const alpha = logit.map((x) => Math.exp(x - top));
  for (const g of alpha) sum += g;
  return alpha.map((g) => g / sum);
}

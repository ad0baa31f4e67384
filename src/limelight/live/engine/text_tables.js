// The tables at the places of one text: logits, values, attention, and the errors of all of them.

import { hiddenUnitsAt } from "./hidden_units.js";
import { averageError, ROUNDING, storedError } from "./table_rounding.js";

const UNK = 1;

/**
 * For each head: `logit` and `u` at every place of the window as the text stands, `baseLogit` and
 * `baseU` with UNK there; `top`, the largest logit; bounds `logitError` and `valueError` on the errors
 * of all these; the range `low` to `high` of the values. `readLogit`, to `readError`, is the slope of a
 * logit along the embedding: the logit itself, unless hidden units make it; `stretchedLogit(t, factor)`
 * is the logit of the embedding times a factor. `offset` is what of u is read of no embedding.
 * `target` is [{output, sign}, …]: u is the sum of these outputs, each with its sign.
 */
export function textTables(model, reading, target) {
  return Array.from({ length: model.K }, (_, head) => headTables(model, reading, target, head));
}

function headTables(model, { ids }, target, head) {
  const { K, C, T_max, wordLogit, wordValue, positionLogit, positionValue, rounding, tableErrors } = model;
  const [logit, readLogit, u, baseLogit, baseU] = Array.from({ length: 5 }, () => new Float64Array(T_max));
  const values = target.map(({ output, sign }) => ({ sign, at: (row) => (row * C + output) * K + head, tableError: tableErrors.value[output * K + head], offset: model.offset[output * K + head], size: 0 }));
  let top = -Infinity, low = Infinity, high = -Infinity, logitSize = 0, addedSize = 0, unitError = 0, far = 0;
  for (let t = 0; t < T_max; t += 1) {
    const row = ids[t], x = wordLogit[row * K + head], xUnk = wordLogit[UNK * K + head], y = positionLogit[t * K + head];
    const removed = hiddenUnitsAt(model, head, UNK, t), units = row === UNK ? removed : hiddenUnitsAt(model, head, row, t);
    logit[t] = x + y + units.logit;
    readLogit[t] = x + y + units.along;
    baseLogit[t] = xUnk + y + removed.logit;
    let added = 0;
    for (const value of values) {
      const v = wordValue[value.at(row)], vUnk = wordValue[value.at(UNK)], w = positionValue[value.at(t)];
      u[t] += value.sign * (v + w);
      baseU[t] += value.sign * (vUnk + w);
      value.size = Math.max(value.size, Math.abs(v), Math.abs(vUnk));
      added += Math.max(Math.abs(v + w), Math.abs(vUnk + w));
    }
    addedSize = Math.max(addedSize, added);
    top = Math.max(top, logit[t], baseLogit[t]);
    low = Math.min(low, u[t], baseU[t]);
    high = Math.max(high, u[t], baseU[t]);
    logitSize = Math.max(logitSize, Math.abs(x), Math.abs(xUnk));
    unitError = Math.max(unitError, units.error, removed.error);
    far = Math.max(far, units.far);
  }
  const logitError = storedError(rounding, logitSize) + unitError + tableErrors.logit[head];
  // The difference of two outputs may be much smaller than either: their roundings stay.
  const subtracted = values.length > 1 ? 2 * ROUNDING * addedSize : 0;
  const valueError = values.reduce((sum, value) => sum + storedError(rounding, value.size) + value.tableError, subtracted);
  // A unit's slope errs by no more than what it is given, and is multiplied by h − offset.
  const readError = (1 + far) * logitError, offset = values.reduce((sum, value) => sum + value.sign * value.offset, 0);
  const stretchedLogit = (t, factor) => factor * (wordLogit[ids[t] * K + head] + positionLogit[t * K + head]) + hiddenUnitsAt(model, head, ids[t], t, factor).logit;
  return { logit, readLogit, stretchedLogit, u, baseLogit, baseU, top, low, high, logitError, readError, valueError, offset, terms: T_max + C };
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

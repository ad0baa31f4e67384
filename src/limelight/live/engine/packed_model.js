// A model as a page carries it: the tables of its words and positions in base64, and its vocabulary.

function bytes(base64) {
  const letters = atob(base64), out = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i += 1) out[i] = letters.charCodeAt(i);
  return out;
}

// IEEE half precision: one sign bit, five of exponent, ten of fraction.
function halves(buffer) {
  const words = new Uint16Array(buffer), out = new Float64Array(words.length);
  for (let i = 0; i < words.length; i += 1) {
    const exponent = (words[i] >> 10) & 31, fraction = words[i] & 1023;
    const size = exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
    out[i] = words[i] >> 15 ? -size : size;
  }
  return out;
}

const READ = { float16: halves, float32: (buffer) => new Float32Array(buffer), float64: (buffer) => new Float64Array(buffer) };
const numbers = ({ dtype, base64 }) => READ[dtype](bytes(base64).buffer);

/**
 * The model: sizes K, C, T_max; tables wordLogit (V K), wordValue (V C K), positionLogit (T_max K) and
 * positionValue (T_max C K); `rows` from words to rows. `rounding` says what storing did to a number
 * x of the word tables: at most unit |x| + smallest. `tableErrors` are the errors of the tables before that. Of
 * the K heads the first `attended` attend; a skip connection from the mean is the last. `offset` (C K)
 * is in all values of a head. `units` are the hidden units of additive attention, null without: their
 * number per head, `size`, and `weight` and `offset` (K size); tables unitWordInputs and unitPositionInputs.
 */
export function unpackModel(data) {
  const { classes, K, C, T_max, attended, offset, units, rounding, tableErrors } = data;
  const words = data.vocabulary.split("\n"), rows = new Map();
  for (let row = 2; row < words.length; row += 1) rows.set(words[row], row); // [cls] and UNK are no words
  const tables = Object.fromEntries(Object.entries(data.tables).map(([name, packed]) => [name, numbers(packed)]));
  const bounded = (errors) => errors.map((error) => error ?? Infinity);
  return { classes, K, C, T_max, attended, offset, units, rounding, tableErrors: { logit: bounded(tableErrors.logit), value: bounded(tableErrors.value) }, rows, ...tables };
}

// Least squares by Householder reflections, with a small penalty on the size of the answer.
//
// Columns of the matrices here are nearly the same; without the penalty answers of both signs grow
// and rounding with them. Whoever asks judges the answer by its residual, so nothing rests on it.

const PENALTY = 1e-14; // relative to the largest column

/** x minimising |A x − b|² + penalty² |x|²; A is an array of columns. */
export function leastSquares(columns, b) {
  const n = columns.length, rows = b.length, penalty = PENALTY * Math.max(...columns.map(norm));
  const A = columns.map((column, i) => {
    const out = new Float64Array(rows + n);
    out.set(column);
    out[rows + i] = penalty;
    return out;
  });
  const right = new Float64Array(rows + n);
  right.set(b);
  const diagonal = new Float64Array(n);
  for (let i = 0; i < n; i += 1) {
    const v = A[i].slice(i), size = norm(v);
    diagonal[i] = v[0] > 0 ? -size : size;
    v[0] -= diagonal[i];
    const scale = dot(v, v, 0);
    if (scale === 0) continue;
    for (const other of [...A.slice(i + 1), right]) {
      const factor = (2 * dot(v, other, i)) / scale;
      for (let r = 0; r < v.length; r += 1) other[i + r] -= factor * v[r];
    }
  }
  const x = new Float64Array(n);
  for (let i = n - 1; i >= 0; i -= 1) {
    let remainder = right[i];
    for (let j = i + 1; j < n; j += 1) remainder -= A[j][i] * x[j];
    x[i] = remainder / diagonal[i];
  }
  return x;
}

function dot(v, other, from) {
  let total = 0;
  for (let r = 0; r < v.length; r += 1) total += v[r] * other[from + r];
  return total;
}

const norm = (v) => Math.sqrt(dot(v, v, 0));

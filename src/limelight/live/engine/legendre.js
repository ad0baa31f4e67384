// Gauss–Legendre nodes and weights on [0, 1], by Newton's method.

const rules = new Map();

/** {p, w} with M nodes. */
export function gaussLegendre(M) {
  if (!rules.has(M)) rules.set(M, makeRule(M));
  return rules.get(M);
}

function makeRule(M) {
  const p = new Float64Array(M), w = new Float64Array(M);
  for (let i = 0; i < M; i += 1) {
    let x = Math.cos((Math.PI * (i + 0.75)) / (M + 0.5)), slope = 0;
    for (let round = 0; round < 8; round += 1) {
      const { value, derivative } = polynomial(M, x);
      slope = derivative;
      x -= value / derivative;
    }
    slope = polynomial(M, x).derivative;
    p[M - 1 - i] = (1 + x) / 2;
    w[M - 1 - i] = 1 / ((1 - x * x) * slope * slope);
  }
  return { p, w };
}

function polynomial(M, x) {
  let before = 1, value = x;
  for (let n = 2; n <= M; n += 1) [before, value] = [value, ((2 * n - 1) * x * value - (n - 1) * before) / n];
  if (M === 1) return { value: x, derivative: 1 };
  return { value, derivative: (M * (before - x * value)) / (1 - x * x) };
}

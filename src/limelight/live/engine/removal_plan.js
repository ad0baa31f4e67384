// Nodes p that serve LIME, Shapley values and chance together: all that depends on d alone.

import { gaussLegendre } from "./legendre.js";
import { limeDesign } from "./lime_design.js";
import { fitMixture, boundMixture, sizeProbabilities } from "./removal_mixture.js";

const TOLERANCE = 1e-10; // of the weights of sizes, in all
const plans = new Map();
const sumResiduals = (residual, by = null) => residual.reduce((total, off, s) => total + off * (by ? by[s] : 1), 0);

/** {p, shapley, chance, lime}: weights on common nodes, judged; `lime` is null below three words. */
export function removalPlan(d) {
  if (!plans.has(d)) plans.set(d, makePlan(d));
  return plans.get(d);
}

// Each node costs a walk over all words and λ: the fewest that serve, in steps of 4 %. The plain
// weights of Gauss and Legendre integrate over p ~ U(0, 1), which gives every size the same weight;
// LIME's are fitted. Where no number of nodes serves, the last is taken: bounds say what it misses.
function makePlan(d) {
  let M = Math.max(2, Math.min(Math.ceil(d / 2) + 1, Math.floor(3.1 * Math.sqrt(d))));
  for (;;) {
    const plan = withNodes(d, M);
    if (Math.max(plan.shapley.missed, plan.chance.missed, plan.lime?.missed ?? 0) <= TOLERANCE || M >= d + 9) return plan;
    M += 1 + Math.floor(M / 24);
  }
}

function withNodes(d, M) {
  const { p, w } = gaussLegendre(M);
  const ofWords = sizeProbabilities(d, p), ofOthers = sizeProbabilities(d - 1, p);
  const shapley = boundMixture(ofOthers, w, new Float64Array(d).fill(1 / d));
  const chance = boundMixture(ofWords, w.map((weight) => (weight * (d + 1)) / d), new Float64Array(d + 1).fill(1 / d));
  const plan = { p, shapley: { ...shapley, missed: sumResiduals(shapley.residual) }, chance: { ...chance, missed: sumResiduals(chance.residual) }, lime: null };
  if (d > 2) {
    const design = limeDesign(d), lime = fitMixture(ofWords, design.weight, design.amplification);
    plan.lime = { ...lime, missed: sumResiduals(lime.residual, design.amplification) };
  }
  return plan;
}

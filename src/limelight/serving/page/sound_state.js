// A link may be anybody's, or be cut short: what cannot be chosen here is as it was at the start.

const isWord = (one) => typeof one === "string";
const isChange = (one) => Array.isArray(one) && one.length === 3 && isWord(one[0]) && Number.isInteger(one[1]) && one[1] >= 0 && (one[2] === null || isWord(one[2]));

/** `state` with what `usual` says in place of anything that the page of `facts` does not offer. */
export function soundState(state, usual, facts) {
  const { classes, scales, features } = facts.models[0], methods = new Set(facts.models.flatMap((model) => model.methods.map(({ id }) => id)));
  const among = (name, offered) => (offered.includes(state[name]) ? state[name] : usual[name]), every = (name, fits) => (state[name].every(fits) ? state[name] : usual[name]);
  return {
    ...state, target: among("target", ["predicted", ...classes]), against: among("against", classes), scale: among("scale", scales), features: among("features", features),
    methods: every("methods", (id) => methods.has(id)), protect: every("protect", isWord), changes: every("changes", isChange), open: every("open", isWord),
  };
}

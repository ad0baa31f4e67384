// What the page shows, as the part of its address after #: a view is a link.

const NAMES = ["text", "method", "target"];

/** {text, method, target} of an address, as far as it names them. */
export function stateOf(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  return Object.fromEntries(NAMES.filter((name) => given.has(name)).map((name) => [name, given.get(name)]));
}

/** The address of a state; what is null is left out. */
export function addressOf(state) {
  const given = new URLSearchParams();
  for (const name of NAMES) if (state[name] !== null && state[name] !== undefined) given.set(name, state[name]);
  return `#${given}`;
}

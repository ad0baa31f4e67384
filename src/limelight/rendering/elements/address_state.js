// A view is a link: everything that a reader chose stands in the address, after the "#", which a
// browser keeps to itself. What is as it was at the start is left out.

const SEPARATE = 250; // milliseconds: an address that changes with every key is refused by browsers

/**
 * The state in the address, with what `defaults` says where it says nothing. A link may be
 * anybody's, or be cut short: what `fits` refuses, by the same names, is as it was at the start.
 */
export function readAddressState(defaults, fits = {}) {
  const parameters = new URLSearchParams(location.hash.slice(1)), state = { ...defaults };
  for (const [name, usual] of Object.entries(defaults)) {
    const text = parameters.get(name);
    if (text === null) continue;
    const value = typeof usual === "string" || usual === null ? text : parseLike(text, usual);
    state[name] = fits[name]?.(value) ?? true ? value : usual;
  }
  return state;
}

// Numbers and lists stand there as JSON.
function parseLike(value, usual) {
  try {
    const parsedValue = JSON.parse(value);
    return Array.isArray(parsedValue) === Array.isArray(usual) && typeof parsedValue === typeof usual ? parsedValue : usual;
  } catch {
    return usual;
  }
}

let waiting = 0;

/** Write the state into the address, soon. */
export function writeAddressState(state, defaults) {
  clearTimeout(waiting);
  waiting = setTimeout(() => writeAddressStateNow(state, defaults), SEPARATE);
}

/** Write it at once. */
export function writeAddressStateNow(state, defaults) {
  clearTimeout(waiting);
  const parameters = new URLSearchParams();
  for (const [name, usual] of Object.entries(defaults)) {
    const value = state[name];
    if (value === null || JSON.stringify(value) === JSON.stringify(usual)) continue;
    parameters.set(name, typeof value === "string" ? value : JSON.stringify(value));
  }
  const address = `${location.pathname}${location.search}${parameters.size ? `#${parameters}` : ""}`;
  if (address !== location.pathname + location.search + location.hash) history.replaceState(null, "", address);
}

// A view is a link: everything that a reader chose stands in the address, after the "#", which a
// browser keeps to itself. What is as it was at the start is left out.

const SEPARATE = 250; // milliseconds: an address that changes with every key is refused by browsers

/**
 * The state in the address, with what `defaults` says where it says nothing. A link may be
 * anybody's, or be cut short: what `fits` refuses, by the same names, is as it was at the start.
 */
export function readAddressState(defaults, fits = {}) {
  const given = new URLSearchParams(location.hash.slice(1)), state = { ...defaults };
  for (const [name, usual] of Object.entries(defaults)) {
    const said = given.get(name);
    if (said === null) continue;
    const value = typeof usual === "string" || usual === null ? said : parsed(said, usual);
    state[name] = fits[name]?.(value) ?? true ? value : usual;
  }
  return state;
}

// Numbers and lists stand there as JSON.
function parsed(value, usual) {
  try {
    const found = JSON.parse(value);
    return Array.isArray(found) === Array.isArray(usual) && typeof found === typeof usual ? found : usual;
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
  const found = new URLSearchParams();
  for (const [name, usual] of Object.entries(defaults)) {
    const value = state[name];
    if (value === null || JSON.stringify(value) === JSON.stringify(usual)) continue;
    found.set(name, typeof value === "string" ? value : JSON.stringify(value));
  }
  const address = `${location.pathname}${location.search}${found.size ? `#${found}` : ""}`;
  if (address !== location.pathname + location.search + location.hash) history.replaceState(null, "", address);
}

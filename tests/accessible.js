// What a screen reader or weak eyes would stumble over on this page, one sentence each.
() => {
  const found = new Set();
  const called = (node) => `<${node.tagName.toLowerCase()}${node.id ? `#${node.id}` : ""}${node.className && typeof node.className === "string" ? `.${node.className.replaceAll(" ", ".")}` : ""}>`;
  const blame = (node, what) => found.add(`${called(node)} ${what}: ${node.textContent.trim().slice(0, 30)}`);
  const isShown = (node) => node.getClientRects().length > 0 && getComputedStyle(node).visibility !== "hidden";
  const isTold = (node) => isShown(node) && !node.closest("[aria-hidden=true]");

  // Roles: an attribute that a role does not have is not read, or is read as something else.
  const OWN = { BUTTON: "button", SELECT: "combobox", TEXTAREA: "textbox", OPTION: "option", PROGRESS: "progressbar", IMG: "img", TABLE: "table", DIALOG: "dialog" };
  const INPUTS = { checkbox: "checkbox", radio: "radio", range: "slider" };
  const roleOf = (node) => {
    if (node.hasAttribute("role")) return node.getAttribute("role");
    if (node.tagName === "INPUT") return INPUTS[node.type] ?? "textbox";
    if (node.tagName === "A") return node.hasAttribute("href") ? "link" : "generic";
    if (node.tagName === "TR") return node.closest("table").getAttribute("role") === "grid" ? "row of a grid" : "row";
    if (node.tagName === "TH") return node.scope === "row" ? "rowheader" : "columnheader";
    return OWN[node.tagName] ?? "generic";
  };
  const BELONGS = {
    "aria-selected": ["tab", "option", "row of a grid"], "aria-pressed": ["button"], "aria-checked": ["radio", "checkbox"], "aria-sort": ["columnheader"],
    "aria-valuenow": ["slider", "progressbar"], "aria-rowcount": ["table", "grid"], "aria-rowindex": ["row", "row of a grid"],
  };
  const NAMED = ["button", "link", "tab", "radio", "checkbox", "slider", "textbox", "combobox", "region", "dialog", "img", "progressbar", "tablist", "tabpanel", "radiogroup", "grid"];
  const textOf = (ids) => ids.split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join(" ");
  const nameOf = (node) => (textOf(node.getAttribute("aria-labelledby") ?? "") || node.getAttribute("aria-label") || node.getAttribute("alt")
    || [...(node.labels ?? [])].map((label) => label.textContent).join(" ") || (node.matches("input, select, textarea") ? "" : node.textContent)).trim();
  const CHILDREN = { UL: ["LI"], OL: ["LI"], DL: ["DT", "DD", "DIV"] };
  const ids = new Set();
  for (const node of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("body *"))) {
    const role = roleOf(node);
    for (const [attribute, roles] of Object.entries(BELONGS)) if (node.hasAttribute(attribute) && !roles.includes(role)) blame(node, `has ${attribute} as a ${role}`);
    if (NAMED.includes(role) && isTold(node) && !nameOf(node)) blame(node, `is a ${role} without a name`);
    if (role === "generic" && node.hasAttribute("aria-label") && !node.tagName.includes("-") && !["SECTION", "NAV", "FORM", "svg", "UL", "OL"].includes(node.tagName)) blame(node, "has a name but no role");
    for (const reference of ["aria-labelledby", "aria-controls"]) for (const id of (node.getAttribute(reference) ?? "").split(" ").filter(Boolean)) if (!document.getElementById(id)) blame(node, `points at no ${id}`);
    if (node.id && ids.has(node.id)) blame(node, "has the id of another");
    ids.add(node.id);
    if (role === "tab" && !node.closest("[role=tablist]")) blame(node, "is a tab of no list");
    if (node.tabIndex >= 0 && isShown(node) && node.closest("[aria-hidden=true]")) blame(node, "has the focus but is not told");
    if (role === "row" && node.hasAttribute("tabindex")) blame(node, "is a row of a plain table with the focus");
    if (node.tagName === "TH" && isTold(node) && !node.textContent.trim()) blame(node, "heads nothing");
    const allowed = CHILDREN[node.tagName] ?? (node.tagName === "DIV" && node.parentElement.tagName === "DL" ? ["DT", "DD"] : null);
    if (allowed && [...node.children].some((child) => !allowed.includes(child.tagName))) blame(node, "has a child that does not belong there");
    const scrolls = ["auto", "scroll"].includes(getComputedStyle(node).overflowX) && node.scrollWidth > node.clientWidth + 2;
    if (scrolls && isShown(node) && node.tabIndex < 0 && !node.querySelector("a[href], button, input, select, textarea, [tabindex='0']")) blame(node, "scrolls by pointer only");
  }
  if (!document.documentElement.lang || !document.title || !document.querySelector("main, [role=main]")) found.add("no language, title or main part");
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")].filter(isShown).map((node) => Number(node.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1) found.add("not exactly one first heading");
  levels.forEach((level, i) => { if (i && level > levels[i - 1] + 1) found.add(`a heading of level ${level} after one of level ${levels[i - 1]}`); });

  // Contrast: WCAG 2.2, 4.5 for text and 3 for large text.
  const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const painted = (color) => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = color; pen.fillRect(0, 0, 1, 1); const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
  /** @param {number[]} color @param {number[]} below */
  const over = ([r, g, b, a], below) => [r, g, b].map((value, i) => value * a + below[i] * (1 - a));
  const luminance = (rgb) => rgb.map((value) => value / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (one, other) => { const [dark, bright] = [luminance(one), luminance(other)].sort((a, b) => a - b); return (bright + 0.05) / (dark + 0.05); };
  const read = (node, color) => {
    const chain = [];
    for (let parent = node; parent; parent = parent.parentElement) chain.unshift(parent);
    const ground = chain.reduce((below, parent) => over(painted(getComputedStyle(parent).backgroundColor), below), [255, 255, 255]);
    const [r, g, b, a] = painted(color), opacity = chain.reduce((all, parent) => all * Number(getComputedStyle(parent).opacity), 1);
    const needed = parseFloat(getComputedStyle(node).fontSize) >= 24 ? 3 : 4.5, reached = ratio(over([r, g, b, a * opacity], ground), ground);
    if (reached < needed) blame(node, `has a contrast of ${reached.toFixed(1)}`);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = /** @type {Text} */ (walker.nextNode()); text; text = /** @type {Text} */ (walker.nextNode())) {
    const node = text.parentElement;
    if (!text.data.trim() || !isShown(node) || node.closest("script, style, noscript, [disabled]")) continue;
    read(node, getComputedStyle(node)[node instanceof SVGElement ? "fill" : "color"]);
  }
  for (const node of document.querySelectorAll("[placeholder]")) if (isShown(node)) read(node, getComputedStyle(node, "::placeholder").color);
  return [...found].sort();
}

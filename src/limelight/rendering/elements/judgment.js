// The tables of a judgment work without this script. It adds the table of texts and the curves of
// one text. User text is never parsed as markup.

import { readAddressState, writeAddressStateNow } from "./address_state.js";
import { findById, readData, makeSvg, listen, makeElement } from "./nodes.js";
import { typographicMinus, formatNumber } from "./numbers_in_words.js";
import { methodStroke } from "./removal_curve.js";
import { makeTable, sortRows } from "./text_table.js";

const data = readData("limelight-data"), units = data.units;
const formatOutput = (x) => (x === null ? "–" : formatNumber(x, { signed: false }));
const formatShare = (x) => (x === null ? "–" : typographicMinus((Number(x.toFixed(3)) || 0).toFixed(3)));
const makeColumn = (label, value, format) => ({ name: label, label, value, render: (i) => format(value(i)), descending: true });
const fieldColumn = (name, format, label = name) => makeColumn(label, (i) => data.texts[i][name], format);
const COLUMNS = [
  { ...makeColumn("text", (i) => data.texts[i].id, String), descending: false, render: (i) => [makeElement("span", { class: "id" }, String(data.texts[i].id)), makeElement("bdi", {}, data.texts[i].opening)] },
  fieldColumn("words", String, units), fieldColumn("class", String), fieldColumn("output", formatOutput), fieldColumn("chance", formatOutput), fieldColumn("ceiling", formatOutput, data.ceiling),
  ...data.methods.map((name, m) => makeColumn(name, (i) => data.texts[i].shares[m], formatShare)).filter((_, m) => data.has_share[m]),
];
// The address contains the order of the table and the text whose curves are shown.
const DEFAULTS = { sort: 0, descending: 0, text: -1 };
let state = readAddressState(DEFAULTS, { sort: (c) => Boolean(COLUMNS[c]) });

const table = makeElement("limelight-texts");
findById("texts").replaceChildren(table);
table.columns = COLUMNS;
listen(table, "limelight-sort", ({ detail: { column: c } }) => {
  const descending = c === state.sort ? !state.descending : COLUMNS[c].descending;
  changeState({ sort: c, descending: Number(descending) });
  showOrder();
  table.toTop();
});
listen(table, "limelight-text", ({ detail: { position } }) => {
  if (!data.curves[position]) return;
  changeState({ text: data.texts[position].id });
  showCurves(position);
  findById("curves").scrollIntoView({ block: "start" });
});

function changeState(changes) {
  state = { ...state, ...changes };
  writeAddressStateNow(state, DEFAULTS);
}

function showOrder() {
  table.sorted = { column: state.sort, descending: Boolean(state.descending) };
  table.order = sortRows(data.texts.map((_, i) => i), COLUMNS[state.sort].value, Boolean(state.descending));
}

// One curve per method. The reader can hide each of them.
const hiddenMethods = new Set();
let displayed = null;

async function decompress(content) {
  const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}
const cumulativeSums = (differences) => { let total = 0; return differences.map((difference) => (total += difference)); };

async function showCurves(position) {
  table.chosen = position;
  const record = await decompress(data.curves[position]), text = data.texts[position], removed = cumulativeSums(record.removed);
  displayed = {
    words: record.words, removed, total: removed[removed.length - 1],
    curves: record.curves.map((curve) => curve && { order: curve[0], points: cumulativeSums(curve[1]).map((level) => record.low + record.unit * level) }),
  };
  findById("curves").hidden = false;
  findById("curve-title").textContent = `Text ${text.id}: ${text.class}, ${text.words} ${units}`;
  showMethodButtons();
  findById("curve").words = displayed.total;
  showLines();
  findById("curve").at = Math.min(1, displayed.total);
}

function showMethodButtons() {
  findById("curve-methods").replaceChildren(...data.methods.flatMap((name, m) => {
    if (!displayed.curves[m]) return [];
    const key = makeSvg("svg", { viewBox: "0 0 24 8", class: "key", "aria-hidden": "true" },
      makeSvg("line", { x1: 0, x2: 24, y1: 4, y2: 4, "stroke-width": 3, ...methodStroke(m) }));
    const button = makeElement("button", { type: "button", "aria-pressed": String(!hiddenMethods.has(m)) }, key, name);
    button.addEventListener("click", () => {
      if (!hiddenMethods.delete(m)) hiddenMethods.add(m);
      button.setAttribute("aria-pressed", String(!hiddenMethods.has(m)));
      showLines();
    });
    return [button];
  }));
}

function showLines() {
  const { removed, curves, total } = displayed;
  findById("curve").lines = data.methods.flatMap((label, m) => (curves[m] && !hiddenMethods.has(m)
    ? [{ label, kind: "method", hue: m, points: curves[m].points.map((f, k) => [removed[k] / (total || 1), f]) }] : []));
  showRemovedWords(findById("curve").at);
}

// Show the words that each method removes in this step, and the output after it. In long texts a
// step removes several words.
function showRemovedWords(at) {
  const { removed, curves, words } = displayed, i = removed.findIndex((count) => count >= at);
  const count = removed[i], before = i ? removed[i - 1] : 0;
  const heading = count - before > 1 ? `${units} ${before + 1} to ${count}` : `${units.replace(/(?<=ch)es$|s$/, "")} ${count}`;
  const rows = data.methods.flatMap((name, m) => (curves[m] && !hiddenMethods.has(m) ? [[name,
    makeElement("td", { class: "reason" }, i ? curves[m].order.slice(before, count).map((j) => words[j]).join(" ") : "–"), formatOutput(curves[m].points[i])]] : []));
  findById("curve-words").replaceChildren(makeTable(["method", i ? heading : "nothing yet", "output"], rows));
}

showOrder();
findById("not-judged").hidden = !data.not_judged.length;
findById("not-judged").querySelector("ul").replaceChildren(...data.not_judged.map(([id, reason]) => makeElement("li", {}, makeElement("b", {}, String(id)), `: ${reason}`)));
const linked = data.texts.findIndex(({ id }) => id === state.text), first = data.curves.findIndex(Boolean);
if (first >= 0) listen(findById("curve"), "limelight-step", ({ detail: { removed } }) => { if (displayed) showRemovedWords(removed); });
if (data.curves[linked]) { showCurves(linked); table.reveal(linked); } else if (first >= 0) showCurves(first);

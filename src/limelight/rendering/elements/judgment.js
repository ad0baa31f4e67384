// The tables of a judgment read without this script; it adds the texts, and the curves of any of
// them. Nothing that came from a text is ever read as markup.

import { readAddressState, writeAddressStateNow } from "./address_state.js";
import { findById, readData, makeSvg, listen, makeElement } from "./nodes.js";
import { typographicMinus, formatNumber } from "./numbers_in_words.js";
import { methodStroke } from "./removal_curve.js";
import { makeTable, sortRows } from "./text_table.js";

const data = readData("limelight-data"), units = data.units;
const measured = (x) => (x === null ? "–" : formatNumber(x, { signed: false }));
const aligned = (x) => (x === null ? "–" : typographicMinus((Number(x.toFixed(3)) || 0).toFixed(3)));
const column = (label, value, shown) => ({ name: label, label, value, shown: (i) => shown(value(i)), falling: true });
const field = (name, shown, label = name) => column(label, (i) => data.texts[i][name], shown);
const COLUMNS = [
  { ...column("text", (i) => data.texts[i].id, String), falling: false, shown: (i) => [makeElement("span", { class: "id" }, String(data.texts[i].id)), makeElement("bdi", {}, data.texts[i].opening)] },
  field("words", String, units), field("class", String), field("output", measured), field("chance", measured), field("ceiling", measured, data.ceiling),
  ...data.methods.map((name, m) => column(name, (i) => data.texts[i].shares[m], aligned)).filter((_, m) => data.shared[m]),
];
// A view is a link: the order of the table and the text whose curves are shown.
const DEFAULTS = { sort: 0, down: 0, text: -1 };
let state = readAddressState(DEFAULTS, { sort: (c) => Boolean(COLUMNS[c]) });

const table = makeElement("limelight-texts");
findById("texts").replaceChildren(table);
table.columns = COLUMNS;
listen(table, "limelight-sort", ({ detail: { column: c } }) => {
  const down = c === state.sort ? !state.down : COLUMNS[c].falling;
  change({ sort: c, down: Number(down) });
  order();
  table.toTop();
});
listen(table, "limelight-text", ({ detail: { place } }) => {
  if (!data.curves[place]) return;
  change({ text: data.texts[place].id });
  show(place);
  findById("curves").scrollIntoView({ block: "start" });
});

function change(what) {
  state = { ...state, ...what };
  writeAddressStateNow(state, DEFAULTS);
}

function order() {
  table.sorted = { column: state.sort, falling: Boolean(state.down) };
  table.order = sortRows(data.texts.map((_, i) => i), COLUMNS[state.sort].value, Boolean(state.down));
}

// The curves: one line per method, each of which can be switched off.
const off = new Set();
let now = null;

async function unpacked(content) {
  const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}
const summed = (gaps) => { let total = 0; return gaps.map((gap) => (total += gap)); };

async function show(place) {
  table.chosen = place;
  const found = await unpacked(data.curves[place]), text = data.texts[place], removed = summed(found.removed);
  now = {
    words: found.words, removed, all: removed[removed.length - 1],
    curves: found.curves.map((one) => one && { order: one[0], points: summed(one[1]).map((level) => found.low + found.unit * level) }),
  };
  findById("curves").hidden = false;
  findById("curve-title").textContent = `Text ${text.id}: ${text.class}, ${text.words} ${units}`;
  switches();
  findById("curve").words = now.all;
  lines();
  findById("curve").at = Math.min(1, now.all);
}

function switches() {
  findById("curve-methods").replaceChildren(...data.methods.flatMap((name, m) => {
    if (!now.curves[m]) return [];
    const key = makeSvg("svg", { viewBox: "0 0 24 8", class: "key", "aria-hidden": "true" },
      makeSvg("line", { x1: 0, x2: 24, y1: 4, y2: 4, "stroke-width": 3, ...methodStroke(m) }));
    const button = makeElement("button", { type: "button", "aria-pressed": String(!off.has(m)) }, key, name);
    button.addEventListener("click", () => {
      if (!off.delete(m)) off.add(m);
      button.setAttribute("aria-pressed", String(!off.has(m)));
      lines();
    });
    return [button];
  }));
}

function lines() {
  const { removed, curves, all } = now;
  findById("curve").lines = data.methods.flatMap((label, m) => (curves[m] && !off.has(m)
    ? [{ label, kind: "method", hue: m, points: curves[m].points.map((f, k) => [removed[k] / (all || 1), f]) }] : []));
  say(findById("curve").at);
}

// What each method removed in this step, and what is left. Long texts lose several words in one.
function say(at) {
  const { removed, curves, words } = now, i = removed.findIndex((count) => count >= at);
  const count = removed[i], before = i ? removed[i - 1] : 0;
  const what = count - before > 1 ? `${units} ${before + 1} to ${count}` : `${units.replace(/(?<=ch)es$|s$/, "")} ${count}`;
  const rows = data.methods.flatMap((name, m) => (curves[m] && !off.has(m) ? [[name,
    makeElement("td", { class: "reason" }, i ? curves[m].order.slice(before, count).map((j) => words[j]).join(" ") : "–"), measured(curves[m].points[i])]] : []));
  findById("curve-words").replaceChildren(makeTable(["method", i ? what : "nothing yet", "output"], rows));
}

order();
findById("not-judged").hidden = !data.not_judged.length;
findById("not-judged").querySelector("ul").replaceChildren(...data.not_judged.map(([id, reason]) => makeElement("li", {}, makeElement("b", {}, String(id)), `: ${reason}`)));
const wanted = data.texts.findIndex(({ id }) => id === state.text), first = data.curves.findIndex(Boolean);
if (first >= 0) listen(findById("curve"), "limelight-step", ({ detail: { removed } }) => { if (now) say(removed); });
if (data.curves[wanted]) { show(wanted); table.reveal(wanted); } else if (first >= 0) show(first);

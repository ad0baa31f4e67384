// The page reads without this script; it adds the table of texts and the curves of any of them.
// Nothing that came from a text is ever read as markup: textContent only.

import { drawn, made } from "./nodes.js";
import { minus, written } from "./numbers_in_words.js";
import { HUES } from "./shades.js";

const data = JSON.parse(document.getElementById("limelight-data").textContent);
const byId = (id) => document.getElementById(id);
const aligned = (x) => minus(x.toFixed(3));
const measured = (x) => written(x, { signed: false });
const DASHES = ["", "5 3", "1.5 2.5", "8 3 2 3"];
const hue = (m) => HUES[m % HUES.length];
const dash = (m) => DASHES[Math.floor(m / HUES.length) % DASHES.length];

// The table: a page of rows at a time, sorted by any column.
const PAGE = 50;
const judged = data.texts.filter((row) => row.length > 2), lost = data.texts.filter((row) => row.length <= 2);
const shareOf = (row, m) => {
  const [, , , , , chance, ceiling, areas] = row;
  return areas[m] === null || ceiling <= chance ? null : (areas[m] - chance) / (ceiling - chance);
};
const COLUMNS = [
  ["text", (row) => row[0]],
  ["words", (row) => row[2], String],
  ["class", (row) => row[3]],
  ["output", (row) => row[4]],
  ["chance", (row) => row[5]],
  [data.kind === "proven" ? "ceiling" : "best found", (row) => row[6]],
  ...data.methods.map((name, m) => [name, (row) => shareOf(row, m), aligned]).filter((_, m) => data.shared[m]),
];
let sorted = [...judged], by = 0, falling = false, page = 0, chosen = null, asked = null;

function sort(column, down = column === by ? !falling : column > 0) {
  [falling, by] = [down, column];
  const value = COLUMNS[column][1], sign = falling ? -1 : 1;
  const compared = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
  sorted = [...judged].sort((one, other) => {
    const a = value(one), b = value(other);
    if (a === null || b === null) return (a === null) - (b === null); // what is missing comes last
    return sign * compared(a, b) || one[0] - other[0];
  });
  page = 0;
  fill();
  remember();
}

// A view is a link: the order of the table and the text whose curves are shown.
function remember() {
  const found = new URLSearchParams();
  if (by !== 0 || falling) { found.set("sort", by); found.set("down", falling ? 1 : 0); }
  if (asked !== null) found.set("text", asked);
  history.replaceState(null, "", found.size ? `#${found}` : location.pathname);
}

function head() {
  return made("thead", {}, made("tr", {}, ...COLUMNS.map(([name], c) => {
    const order = c !== by ? null : falling ? "descending" : "ascending";
    const button = made("button", { type: "button", class: "plain" }, name + (order === null ? "" : falling ? " ↓" : " ↑"));
    button.addEventListener("click", () => { sort(c); byId("texts").querySelectorAll("thead button")[c].focus(); });
    return made("th", { scope: "col", "aria-sort": order }, button);
  })));
}

function rowOf(text) {
  const own = text[0] === chosen, label = text[1] ? `${text[0]}  ${text[1]}…` : String(text[0]);
  const cells = COLUMNS.slice(1).map(([, value, shown = measured]) => {
    const x = value(text);
    return made("td", {}, x === null ? "–" : typeof x === "string" ? x : shown(x));
  });
  return made("tr", { class: own ? "same" : null }, made("th", { scope: "row" }, opening(text, label, own)), ...cells);
}

// What names a text, and opens its curves where it has some.
function opening(text, label, own) {
  if (!data.curves[text[0]]) return label;
  const button = made("button", { type: "button", class: "plain", "aria-pressed": String(own) }, label);
  button.addEventListener("click", () => { asked = text[0]; remember(); show(text); });
  return button;
}

function fill() {
  const rows = sorted.slice(page * PAGE, (page + 1) * PAGE).map(rowOf);
  const without = (page === 0 ? lost.slice(0, PAGE) : []).map(([number, reason]) => made("tr", {},
    made("th", { scope: "row" }, String(number)), made("td", { colspan: COLUMNS.length - 1, class: "reason" }, reason)));
  byId("texts").replaceChildren(made("table", { class: "numbers" }, head(), made("tbody", {}, ...rows, ...without)));
  turn();
}

function turn() {
  const pages = Math.ceil(sorted.length / PAGE), place = byId("pages");
  place.hidden = pages < 2;
  const button = (name, to) => {
    const node = made("button", { type: "button", disabled: to < 0 || to >= pages }, name);
    node.addEventListener("click", () => { page = to; fill(); byId("texts").scrollIntoView({ block: "nearest" }); });
    return node;
  };
  const first = page * PAGE + 1, last = Math.min(sorted.length, (page + 1) * PAGE);
  place.replaceChildren(button("Back", page - 1), made("span", {}, `${first} to ${last} of ${sorted.length}`), button("On", page + 1));
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

async function show(text, { move = true } = {}) {
  chosen = text[0];
  fill();
  const found = await unpacked(data.curves[text[0]]);
  now = {
    text, words: found.words, removed: summed(found.removed),
    curves: found.curves.map((one) => one && { order: one[0], points: summed(one[1]).map((level) => found.low + found.unit * level) }),
  };
  const step = byId("step");
  step.max = now.removed.length - 1;
  step.value = Math.min(1, step.max);
  byId("curves").hidden = false;
  byId("curve-title").textContent = `Text ${text[0]}: ${text[3]}, ${text[2]} words`;
  switches();
  draw();
  if (move) byId("curves").scrollIntoView({ block: "start" });
}

function switches() {
  byId("curve-methods").replaceChildren(...data.methods.flatMap((name, m) => {
    if (!now.curves[m]) return [];
    const key = drawn("svg", { viewBox: "0 0 24 8", class: "key", "aria-hidden": "true" },
      drawn("line", { x1: 0, x2: 24, y1: 4, y2: 4, stroke: hue(m), "stroke-width": 3, "stroke-dasharray": dash(m) }));
    const button = made("button", { type: "button", "aria-pressed": String(!off.has(m)) }, key, name);
    button.addEventListener("click", () => {
      if (!off.delete(m)) off.add(m);
      button.setAttribute("aria-pressed", String(!off.has(m)));
      draw();
    });
    return [button];
  }));
}

const WIDTH = 760, HEIGHT = 300, LEFT = 52, RIGHT = 12, TOP = 12, BOTTOM = 34;
function draw() {
  const lines = now.curves.map((curve, m) => (curve && !off.has(m) ? { ...curve, m } : null)).filter(Boolean);
  const points = lines.flatMap((line) => line.points);
  const low = Math.min(0, ...points), high = Math.max(0, ...points), span = high - low || 1;
  const all = now.removed[now.removed.length - 1];
  const x = (k) => LEFT + (k / all) * (WIDTH - LEFT - RIGHT), y = (f) => TOP + ((high - f) / span) * (HEIGHT - TOP - BOTTOM);
  const label = (px, py, text, anchor) => drawn("text", { x: px, y: py, "text-anchor": anchor, "font-size": 12, fill: "currentColor" }, text);
  const picture = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "The output as words are removed, one line per method" },
    ...[...new Set([low, 0, high])].flatMap((f) => [
      drawn("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(f), y2: y(f), class: "axis" }),
      label(LEFT - 6, y(f) + 4, measured(f), "end"),
    ]),
    label(LEFT, HEIGHT - 10, "0", "middle"), label(WIDTH - RIGHT, HEIGHT - 10, String(all), "end"),
    label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "words removed", "middle"));
  for (const line of lines) {
    const path = line.points.map((f, i) => `${x(now.removed[i]).toFixed(1)},${y(f).toFixed(1)}`).join(" ");
    picture.append(drawn("polyline", { points: path, fill: "none", stroke: hue(line.m), "stroke-width": 2, "stroke-dasharray": dash(line.m) }));
  }
  const i = Number(byId("step").value), here = x(now.removed[i]);
  picture.append(drawn("line", { x1: here, x2: here, y1: TOP, y2: HEIGHT - BOTTOM, stroke: "currentColor", "stroke-width": 1 }));
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect(), k = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT) * all;
    const steps = now.removed.map((removed, place) => [Math.abs(removed - k), place]);
    byId("step").value = steps.reduce((best, one) => (one[0] < best[0] ? one : best))[1];
    draw();
  });
  byId("curve").replaceChildren(picture);
  say(lines, i);
}

// What each method removed in this step, and what is left.
function say(lines, i) {
  const count = now.removed[i], before = i ? now.removed[i - 1] : 0;
  byId("removed").textContent = `${count} of ${now.removed[now.removed.length - 1]}`;
  const what = count - before > 1 ? `words ${before + 1} to ${count}` : `word ${count}`;
  const heads = ["method", i ? what : "nothing yet", "output"].map((name) => made("th", { scope: "col" }, name));
  const rows = lines.map((line) => made("tr", {}, made("th", { scope: "row" }, data.methods[line.m]),
    made("td", { class: "reason" }, i ? line.order.slice(before, count).map((j) => now.words[j]).join(" ") : "–"),
    made("td", {}, measured(line.points[i]))));
  byId("curve-words").replaceChildren(made("table", { class: "numbers" }, made("thead", {}, made("tr", {}, ...heads)), made("tbody", {}, ...rows)));
}

byId("step")?.addEventListener("input", () => now && draw());
fill();
const link = new URLSearchParams(location.hash.slice(1)), column = Number(link.get("sort")), wanted = link.has("text") ? Number(link.get("text")) : null;
const linked = judged.find((text) => text[0] === wanted && data.curves[text[0]]);
if (linked) asked = wanted;
if (link.has("sort") && COLUMNS[column]) sort(column, link.get("down") === "1");
const first = linked ?? judged.find((text) => data.curves[text[0]]);
if (first) show(first, { move: false });

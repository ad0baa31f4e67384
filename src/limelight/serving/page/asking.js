// Questions to the server. Its answers are lines of JSON: how far it is, then what it found.

import { makeElement } from "../../rendering/elements/nodes.js";

const TAB = crypto.randomUUID?.() ?? String(Math.random()).slice(2); // tells this window from another

export class ServerGone extends Error {}
export class Refused extends Error {}

/**
 * Ask; return what was found, or null if a newer question of the same place took over.
 * `share` hears how much is done; `signal` ends the question.
 * @param {string} path @param {object} question @param {{share?: (done: number) => void, signal?: AbortSignal}} options
 */
export async function asked(path, question, { share = () => {}, signal } = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method: "POST", signal, headers: { "content-type": "application/json" },
      body: JSON.stringify({ tab: TAB, ...question }),
    });
    return await lastLine(answer, share);
  } catch (/** @type {any} */ error) {
    if (error.name === "AbortError") return null;
    if (error instanceof TypeError) throw new ServerGone();
    throw error;
  }
}

async function lastLine(answer, share) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop();
    for (const line of lines.filter(Boolean)) {
      const said = JSON.parse(line);
      if (said.found !== undefined) return said.found;
      if (said.failed !== undefined) throw new Refused(said.failed);
      if (said.superseded) return null;
      share(said.share);
    }
    if (done) throw new ServerGone();
  }
}

const trouble = () => document.getElementById("trouble");

/** Say what went wrong, or with null that nothing does; `again` is offered where it may help. */
export function showTrouble(sentence, again = null) {
  const place = trouble();
  place.hidden = sentence === null;
  place.replaceChildren(sentence ?? "");
  if (sentence === null || again === null) return;
  const button = makeElement("button", { type: "button" }, "Try again");
  button.addEventListener("click", again);
  place.append(" ", button);
}

export const GONE = "The server does not answer. If it was stopped, start it again with “limelight serve”; what you typed is kept.";

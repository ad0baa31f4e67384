// Requests to the server. An answer consists of lines of JSON: its progress, then its result.

import { findById, makeElement } from "../../rendering/elements/nodes.js";

const TAB = crypto.randomUUID?.() ?? String(Math.random()).slice(2); // identifies this window

export class ServerUnreachable extends Error {}
export class RequestError extends Error {}

/**
 * Send a request. Return its result, or null if a newer request of the same panel replaced it.
 * `onProgress` is called with the progress from 0 to 1, and `signal` cancels the request.
 * @param {string} path @param {object} request @param {{onProgress?: (progress: number) => void, signal?: AbortSignal}} options
 */
export async function sendRequest(path, request, { onProgress = () => {}, signal } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method: "POST", signal, headers: { "content-type": "application/json" },
      body: JSON.stringify({ tab: TAB, ...request }),
    });
    return await readResult(response, onProgress);
  } catch (/** @type {any} */ error) {
    if (error.name === "AbortError") return null;
    if (error instanceof TypeError) throw new ServerUnreachable();
    throw error;
  }
}

// Read the lines of an answer up to its result.
async function readResult(response, onProgress) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let unfinishedLine = "";
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (unfinishedLine + (value ?? "")).split("\n");
    unfinishedLine = done ? "" : lines.pop();
    for (const line of lines.filter(Boolean)) {
      const event = JSON.parse(line);
      if (event.result !== undefined) return event.result;
      if (event.error) throw new RequestError(event.error);
      if (event.superseded) return null;
      onProgress(event.progress ?? 0);
    }
    if (done) throw new ServerUnreachable();
  }
}

/** Show an error message, or hide it with null. With `retry` it has a button “Try again”. */
export function showError(message, retry = null) {
  const box = findById("error");
  box.hidden = message === null;
  box.replaceChildren(message ?? "");
  if (message === null || retry === null) return;
  const button = makeElement("button", { type: "button" }, "Try again");
  button.addEventListener("click", retry);
  box.append(" ", button);
}

export const UNREACHABLE = "The server does not answer. If it was stopped, start it again with “limelight serve”. Your text is kept.";

// The state of the page as signals, which effects read, and helpers shared by its parts.

import { batch, effect, signal, untracked } from "./vendor/signals-core.js";

export { batch };

export const $ = (id) => document.getElementById(id);
export const noFilter = () => ({ label: "", folder: "", month: "", where: "" });
export const STEPS = [0, 2, 5, 10, 20]; // of the cut-off: at most 1 in n wrong

// Reading a property in an effect subscribes to it; values are replaced, never changed in place.
export const state = {};
const initial = {
  status: {},           // the last response of /api/status
  view: "",             // search, browse, map or duplicates
  like: [], unlike: [], // examples: items, {upload} or {text}
  side: "raw",          // what the left column shows
  filter: noFilter(),
  columns: {},          // filters by column: name to {kind, values, low, high, contains}
  cutoff: 0,            // at most 1 in n results wrong; 0 shows all
  labels: {},           // label to count
  marks: new Map(),     // "query>item" to true (right) or false (wrong)
  answers: new Map(),   // of suggestions: row to true or false
  selected: new Map(),  // row to item
  hits: [],             // the first results
  cutFor: "",           // the query whose results have a cut-off by its own marks
  last: { item: null, list: null, place: 0 }, // the card that had focus last
  revision: 0,          // counts changes after which the view is loaded again
  lessons: 0,           // lessons that this page has seen the end of
};
for (const [name, value] of Object.entries(initial)) {
  const held = signal(value);
  Object.defineProperty(state, name, { get: () => held.value, set: (next) => { held.value = next; } });
}

// Run `work` now, and again whenever a signal that `read` reads has changed.
export const react = (read, work) => effect(() => {
  const values = read();
  untracked(() => work(values));
});

export const page = { drawn: Promise.resolve() }; // resolved when the present view has been drawn

// Load the present view again.
export async function reload() {
  state.revision += 1;
  await page.drawn;
}

export const update = (status) => { state.status = { ...state.status, ...status }; };

// -- examples and items -------------------------------------------------------------------------------------------

export const pictures = (examples) => examples.filter((example) => example.text === undefined);
export const asking = () => state.like.length + state.unlike.length > 0;

export function refOf({ text, upload, row }) {
  if (text !== undefined) return { text };
  return upload === undefined ? { row } : { upload };
}

export function markKey({ text, upload, row }) {
  if (text !== undefined) return `t${text}`;
  return upload === undefined ? String(row) : `u${upload}`;
}

export const pictureOf = (example, size = "small") => (example.upload === undefined
  ? `/api/items/${example.row}/picture?size=${size}&v=${state.status.boot}` : `/api/uploads/${example.upload}`);

export function nameOf(item) {
  const title = item.text ?? (item.kind === "picture" ? null : item.card?.title);
  if (title ?? item.name) return title ?? item.name;
  if (item.upload === undefined) return `item ${item.row}`;
  return item.upload.startsWith("vector.") ? "your numbers" : "your picture";
}

// -- the document -------------------------------------------------------------------------------------------------

export function say(text, kind = "") {
  const line = $("status");
  line.textContent = text;
  line.title = text;
  line.className = `status ${kind}`;
}

// Run a request; an error is shown in the status line, not thrown.
export async function trying(work) {
  try {
    return await work();
  } catch (error) {
    say(error.message, "wrong");
    return undefined;
  }
}

// An element with properties, and children or text.
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("aria-")) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export function button(text, properties = {}, onClick = null) {
  const element = make("button", { type: "button", ...properties }, text);
  if (onClick) element.addEventListener("click", onClick);
  return element;
}

export const number = (value) => value.toLocaleString("en");
export const plural = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;
export const capital = (text) => text[0].toUpperCase() + text.slice(1);

export function percent(p) { // nothing is certain
  if (p > 0.995) return "> 99 %";
  return p < 0.005 ? "< 1 %" : `${Math.round(100 * p)} %`;
}

// Before the status is known, the page says picture.
export const thing = () => (state.status.pictures === false ? "item" : "picture");
export const aThing = () => (thing() === "item" ? "an item" : "a picture");
export const things = (n) => plural(n, thing());

export function remember(name, value) {
  try { localStorage.setItem(name, value); } catch { /* storage is disabled */ }
}

export function remembered(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

// The state of the page, and helpers shared by its parts.

export const $ = (id) => document.getElementById(id);

export function noFilter() { return { label: "", folder: "", month: "", where: "" }; }

export const STEPS = [0, 2, 5, 10, 20]; // of the cut-off: at most one in so many wrong

export const state = {
  status: {},           // the last response of /api/status
  view: "search",       // search, browse, map or duplicates
  like: [], unlike: [], // examples: items, {upload} or {text}
  side: "raw",          // what the left column shows
  filter: noFilter(),
  columns: {},          // filters by column: name to {kind, values, low, high, contains}
  labels: {},           // label to count
  marks: new Map(),     // "query>item" to true (right) or false (wrong)
  selected: new Map(),  // row to item
  sure: 0,              // at most one in so many results wrong; 0 shows all
};

export const pictures = (examples) => examples.filter((example) => example.text === undefined);
export const refOf = ({ text, upload, row }) => (text !== undefined ? { text } : upload === undefined ? { row } : { upload });
export const markKey = ({ text, upload, row }) => (text !== undefined ? `t${text}` : upload === undefined ? String(row) : `u${upload}`);
export const pictureOf = (example, size = "small") => (example.upload === undefined
  ? `/api/items/${example.row}/picture?size=${size}&v=${state.status.boot}` : `/api/uploads/${example.upload}`);
const titleOf = (item) => item.text ?? (item.kind === "picture" ? null : item.card?.title);
export const nameOf = (item) => titleOf(item) ?? item.name ?? (item.upload === undefined ? `item ${item.row}` : item.upload.startsWith("vector.") ? "your numbers" : "your picture");

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
  const made = Object.assign(document.createElement(tag), properties);
  for (const [name, value] of Object.entries(properties)) if (name.startsWith("aria-")) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export const button = (text, properties = {}) => make("button", { type: "button", ...properties }, text);
export const number = (value) => value.toLocaleString("en");
export const percent = (p) => (p > 0.995 ? "> 99 %" : p < 0.005 ? "< 1 %" : `${Math.round(100 * p)} %`); // nothing is certain
export const plural = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;
export const thing = () => (state.status.pictures === false ? "item" : "picture"); // before the status is known, the page says picture
export const aThing = () => (thing() === "item" ? "an item" : "a picture");
export const things = (n) => plural(n, thing());

export function remember(name, value) {
  try { localStorage.setItem(name, value); } catch { /* storage is disabled */ }
}

export function remembered(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

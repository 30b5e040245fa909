// The address holds the view, the query, the side and the filter: back and forward work, and a link can be shared.

import { call } from "./api.js";
import { STEPS, state, trying } from "./state.js";

const VIEWS = ["search", "browse", "map", "duplicates"];
const keyOf = ({ text, upload, key }) => (text !== undefined ? `text:${encodeURIComponent(text)}` : upload === undefined ? key : `upload:${upload}`);

export function address() {
  const parts = new URLSearchParams();
  if (state.like.length) parts.set("like", state.like.map(keyOf).join(","));
  if (state.unlike.length) parts.set("not", state.unlike.map(keyOf).join(","));
  for (const [name, value] of Object.entries(state.filter)) if (value) parts.set(name, value);
  if (Object.keys(state.columns).length) parts.set("columns", JSON.stringify(state.columns));
  if (state.sure) parts.set("sure", state.sure);
  if (state.side !== "raw") parts.set("side", state.side);
  const text = parts.toString().replaceAll("%2C", ",").replaceAll("%3A", ":").replaceAll("%2F", "/");
  return `#${state.view}${text ? `?${text}` : ""}`;
}

// A new entry of the history, unless nothing changed.
export function push() {
  if (location.hash !== address()) history.pushState(null, "", address());
}

export function replace() {
  history.replaceState(null, "", address());
}

export async function read() {
  const [view, text] = location.hash.slice(1).split("?", 2);
  const parts = new URLSearchParams(text);
  const [like, unlike] = ["like", "not"].map((name) => (parts.get(name) ?? "").split(",").filter(Boolean));
  const known = await items([...like, ...unlike]);
  state.view = VIEWS.includes(view) ? view : "search";
  [state.like, state.unlike] = [like, unlike].map((keys) => keys.map((key) => known.get(key)).filter(Boolean));
  for (const name of Object.keys(state.filter)) state.filter[name] = parts.get(name) ?? "";
  state.columns = columns(parts.get("columns"));
  state.sure = STEPS.includes(Number(parts.get("sure"))) ? Number(parts.get("sure")) : 0;
  state.side = parts.get("side") === "previous" && state.status.previous ? "previous" : "raw";
}

// Filters by column, of an address that anybody may have written.
function columns(text) {
  try {
    return Object.fromEntries(Object.entries(JSON.parse(text ?? "{}")).map(([name, { kind, values, low, high, contains }]) => [name, {
      kind: String(kind), values: (values ?? []).map(String), low: String(low ?? ""), high: String(high ?? ""), contains: String(contains ?? ""),
    }]));
  } catch {
    return {};
  }
}

async function items(keys) {
  const known = new Map(keys.filter((key) => key.startsWith("upload:")).map((key) => [key, { upload: key.slice(7) }]));
  for (const key of keys) if (key.startsWith("text:") && state.status.words) known.set(key, { text: decodeURIComponent(key.slice(5)) });
  const rest = keys.filter((key) => !known.has(key) && !key.startsWith("text:"));
  if (!rest.length) return known;
  const answer = await trying(() => call(`/api/items?limit=64&keys=${encodeURIComponent(rest.join(","))}`));
  for (const item of answer?.items ?? []) known.set(item.key, item);
  return known;
}

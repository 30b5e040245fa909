// The address holds the view, the query, the side and the filter: back and forward work, and a link can be shared.

import { call } from "./api.js";
import { loadMonths } from "./filters.js";
import { batch, noFilter, react, state, STEPS, trying } from "./state.js";

const VIEWS = ["search", "browse", "map", "duplicates"];
let before = ""; // the part of the address whose change is a new entry of the history
let reading = false;

function keyOf({ text, upload, key }) {
  if (text !== undefined) return `text:${encodeURIComponent(text)}`;
  return upload === undefined ? key : `upload:${upload}`;
}

// The address of the state, in two parts; the cut-off and the side alone make no new entry of the history.
function parts() {
  const main = new URLSearchParams();
  if (state.like.length) main.set("like", state.like.map(keyOf).join(","));
  if (state.unlike.length) main.set("not", state.unlike.map(keyOf).join(","));
  for (const [name, value] of Object.entries(state.filter)) if (value) main.set(name, value);
  if (Object.keys(state.columns).length) main.set("columns", JSON.stringify(state.columns));
  const more = new URLSearchParams();
  if (state.cutoff) more.set("sure", state.cutoff);
  if (state.side !== "raw") more.set("side", state.side);
  const [one, two] = [main, more].map((text) => text.toString().replaceAll("%2C", ",").replaceAll("%3A", ":")
    .replaceAll("%2F", "/"));
  return [`#${state.view}?${one}`, two];
}

function write([main, more]) {
  const all = [main, more].filter(Boolean).join(main.endsWith("?") ? "" : "&").replace(/\?$/, "");
  const isNew = main !== before;
  before = main;
  if (reading || !state.view || location.hash === all) return;
  if (isNew) history.pushState(null, "", all);
  else history.replaceState(null, "", all);
}

export async function read() {
  const [view, text] = location.hash.slice(1).split("?", 2);
  const search = new URLSearchParams(text);
  const [like, unlike] = ["like", "not"].map((name) => (search.get(name) ?? "").split(",").filter(Boolean));
  const known = await items([...like, ...unlike]);
  if (search.get("month")) await loadMonths();
  const step = Number(search.get("sure"));
  reading = true;
  batch(() => {
    state.view = VIEWS.includes(view) ? view : "search";
    [state.like, state.unlike] = [like, unlike].map((keys) => keys.map((key) => known.get(key)).filter(Boolean));
    state.filter = Object.fromEntries(Object.keys(noFilter()).map((name) => [name, search.get(name) ?? ""]));
    state.columns = columns(search.get("columns"));
    state.cutoff = STEPS.includes(step) ? step : 0;
    state.side = search.get("side") === "previous" && state.status.previous ? "previous" : "raw";
    state.revision += 1;
  });
  reading = false;
}

// Filters by column, of an address that anybody may have written.
function columns(text) {
  try {
    return Object.fromEntries(Object.entries(JSON.parse(text ?? "{}")).map(([name, parsed]) => [name, {
      kind: String(parsed.kind),
      values: (parsed.values ?? []).map(String),
      low: String(parsed.low ?? ""),
      high: String(parsed.high ?? ""),
      contains: String(parsed.contains ?? ""),
    }]));
  } catch {
    return {};
  }
}

async function items(keys) {
  const known = new Map();
  for (const key of keys) {
    if (key.startsWith("upload:")) known.set(key, { upload: key.slice(7) });
    if (key.startsWith("text:") && state.status.words) known.set(key, { text: decodeURIComponent(key.slice(5)) });
  }
  const rest = keys.filter((key) => !known.has(key) && !key.startsWith("text:"));
  if (!rest.length) return known;
  const path = `/api/items?limit=64&keys=${encodeURIComponent(rest.join(","))}`;
  const answer = await trying(() => call(path));
  for (const item of answer?.items ?? []) known.set(item.key, item);
  return known;
}

export function wireAddress() {
  react(parts, write);
  addEventListener("popstate", read);
}

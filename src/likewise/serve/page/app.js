// Connects the parts of the page: views, address, keys, buttons, and what is drawn when the state changes.

import { call, downloadSelection, follow, introduce } from "./api.js";
import { speakOfItems, wireCards } from "./cards.js";
import { openDuplicates, wireDuplicates } from "./duplicates.js";
import { allMatching, clearFilter, loadMonths, openBrowse, wireFilters } from "./filters.js";
import { clearSelection, select, selectedItems, wireKeys } from "./keys.js";
import { askLabel, refreshLabels, wireLabels } from "./labels.js";
import { openMap, redrawMap, wireMap } from "./map.js";
import { downloadResults, right, show, surprise, wireExamples, wireSearch } from "./search.js";
import {
  $, batch, noFilter, page, plural, react, remember, remembered, say, state, STEPS, things, trying, update,
} from "./state.js";
import { awaitLesson, learn, loadMarks, mark, suggest, undo, wireSuggestions, wireTeach } from "./teach.js";
import { wireViewer } from "./viewer.js";

const SECTIONS = { search: "results", browse: "browse", map: "map", duplicates: "duplicates" };
const DRAW = { search: show, browse: openBrowse, map: openMap, duplicates: () => openDuplicates() };
let shown = "";

// -- views ---------------------------------------------------------------------------------------------------------

function draw() {
  const { view } = state;
  if (!view) return; // nothing is known yet
  for (const [name, section] of Object.entries(SECTIONS)) {
    $(`view-${name}`).setAttribute("aria-pressed", name === view);
    $(section).hidden = name !== view;
  }
  $("query").hidden = view !== "search";
  document.body.dataset.view = view;
  if (view !== shown) scrollTo({ top: 0, behavior: "instant" });
  shown = view;
  page.drawn = Promise.resolve(DRAW[view]());
}

// The present view is drawn again with whatever it shows.
const shownState = () => [state.view, state.like, state.unlike, state.filter, state.columns, state.cutoff, state.side,
  state.revision];

function home(event) {
  event.preventDefault();
  $("ask-input").value = "";
  batch(() => Object.assign(state, { view: "search", like: [], unlike: [], filter: noFilter(), columns: {} }));
}

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  remember("theme", document.documentElement.dataset.theme);
  redrawMap();
}

// On a narrow screen one of the two columns is seen at a time.
function column(name) {
  $("columns").dataset.shown = name;
  for (const side of ["left", "right"]) $(`show-${side}`).setAttribute("aria-pressed", side === name);
  dispatchEvent(new Event("resize"));
}

// -- keys and buttons ----------------------------------------------------------------------------------------------

const go = (view) => () => { if (state.view !== view) state.view = view; };

const KEYS = {
  u: undo,
  t: learn,
  g: suggest,
  m: () => { state.view = state.view === "map" ? "search" : "map"; },
  b: go("browse"),
  d: go("duplicates"),
  s: go("search"),
  "?": () => $("help").showModal(),
  "/": () => $(state.status.words && state.view === "search" ? "words" : "filter").focus(),
  escape: clearSelection,
};

const CLICKS = {
  theme, undo, learn, surprise,
  "help-open": () => $("help").showModal(),
  "clear-filter": clearFilter,
  "results-all": () => select(right.shown()),
  "browse-all": async () => select(await allMatching()),
  "results-csv": () => downloadResults("csv"),
  "results-zip": () => downloadResults("zip"),
  "selected-label": () => askLabel(selectedItems()),
  "selected-right": () => mark(selectedItems(), true).then(clearSelection),
  "selected-wrong": () => mark(selectedItems(), false).then(clearSelection),
  "selected-csv": () => downloadSelection("csv"),
  "selected-zip": () => downloadSelection("zip"),
  "selected-clear": clearSelection,
  "show-left": () => column("left"),
  "show-right": () => column("right"),
};

function pressed(event) {
  const isTyped = event.target.closest("input:not([type=checkbox]), select, dialog");
  const work = KEYS[event.key.toLowerCase()];
  if (!work || isTyped || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  work();
}

function wire() {
  for (const view of Object.keys(SECTIONS)) $(`view-${view}`).addEventListener("click", go(view));
  for (const [id, work] of Object.entries(CLICKS)) $(id).addEventListener("click", () => work());
  document.querySelector(".brand").addEventListener("click", home);
  addEventListener("keydown", pressed);
  for (const part of [wireAddress, wireCards, wireDuplicates, wireExamples, wireFilters, wireKeys, wireLabels, wireMap,
    wireSearch, wireSuggestions, wireTeach, wireViewer]) part();
  react(shownState, draw);
  column("right");
  $("facets-box").open = !matchMedia("(max-width: 900px)").matches;
}

// -- the address: view, query, side and filter, so that back and forward work and a link can be shared -------------

const VIEWS = ["search", "browse", "map", "duplicates"];
let lastEntry = ""; // the part of the address whose change is a new entry of the history
let reading = false;

function keyOf({ text, upload, key }) {
  if (text !== undefined) return `text:${encodeURIComponent(text)}`;
  return upload === undefined ? key : `upload:${upload}`;
}

// The address of the state, in two parts; the cut-off and the side alone make no new entry of the history.
function addressParts() {
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

function writeAddress([main, more]) {
  const all = [main, more].filter(Boolean).join(main.endsWith("?") ? "" : "&").replace(/\?$/, "");
  const isNew = main !== lastEntry;
  lastEntry = main;
  if (reading || !state.view || location.hash === all) return;
  if (isNew) history.pushState(null, "", all);
  else history.replaceState(null, "", all);
}

async function readAddress() {
  const [view, text] = location.hash.slice(1).split("?", 2);
  const search = new URLSearchParams(text);
  const [like, unlike] = ["like", "not"].map((name) => (search.get(name) ?? "").split(",").filter(Boolean));
  const examples = await examplesOf([...like, ...unlike]);
  if (search.get("month")) await loadMonths();
  const step = Number(search.get("sure"));
  reading = true;
  batch(() => {
    state.view = VIEWS.includes(view) ? view : "search";
    [state.like, state.unlike] = [like, unlike].map((keys) => keys.map((key) => examples.get(key)).filter(Boolean));
    state.filter = Object.fromEntries(Object.keys(noFilter()).map((name) => [name, search.get(name) ?? ""]));
    state.columns = columnsOf(search.get("columns"));
    state.cutoff = STEPS.includes(step) ? step : 0;
    state.side = search.get("side") === "previous" && state.status.previous ? "previous" : "raw";
    state.revision += 1;
  });
  reading = false;
}

// Filters by column, of an address that anybody may have written.
function columnsOf(text) {
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

async function examplesOf(keys) {
  const examples = new Map();
  for (const key of keys) {
    if (key.startsWith("upload:")) examples.set(key, { upload: key.slice(7) });
    if (key.startsWith("text:") && state.status.words) examples.set(key, { text: decodeURIComponent(key.slice(5)) });
  }
  const rest = keys.filter((key) => !examples.has(key) && !key.startsWith("text:"));
  if (!rest.length) return examples;
  const path = `/api/items?limit=64&keys=${encodeURIComponent(rest.join(","))}`;
  const answer = await trying(() => call(path));
  for (const item of answer?.items ?? []) examples.set(item.key, item);
  return examples;
}

function wireAddress() {
  react(addressParts, writeAddress);
  addEventListener("popstate", readAddress);
}

// -- start ---------------------------------------------------------------------------------------------------------

function describe(status) {
  const labels = status.labels ? ` · ${plural(status.labels, "label")}` : "";
  $("about").textContent = `${status.name} · ${things(status.items)}${labels}`;
  $("about").title = `${status.model}, ${status.features} features`;
  $("results-zip").hidden = $("selected-zip").hidden = !status.pictures;
  $("logout").hidden = !status.login;
  const missing = "about files that are not here: likewise check says which, and places them.";
  if (status.parked) say(`${plural(status.parked, "step")} ${missing}`);
  $("missing").hidden = !status.missing;
  if (status.missing) {
    $("missing-root").textContent = status.missing.root;
    $("missing-hint").textContent = status.missing.hint;
  }
  $("where-field").hidden = !status.columns.length;
  $("drop").hidden = $("file").disabled = !status.uploads;
  $("where").placeholder = `a condition on ${status.columns.join(", ")}`;
  document.body.classList.toggle("brief", !status.texts);
  if (!status.pictures) { document.body.classList.add("texts"); speakOfItems(); }
  $("ask").hidden = status.uploads || status.words; // the box for words takes ids and numbers too
}

async function start() {
  const chosen = remembered("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
  introduce();
  wire();
  const [status] = await Promise.all([trying(() => call("/api/status")), loadMarks(), refreshLabels()]);
  if (!status) return;
  update(status);
  describe(status);
  await readAddress();
  await page.drawn;
  follow();
  if (status.learning.state === "running") await awaitLesson();
  else if (status.feedback.pending) {
    say(`${plural(status.feedback.pending, "earlier mark")}: press Keep to search by them everywhere.`);
  }
}

start();

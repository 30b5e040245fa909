// Connects the parts of the page: views, keys, buttons, and what is drawn when the state changes.

import { read, wireAddress } from "./address.js";
import { call, downloadSelection } from "./api.js";
import { wireCards } from "./cards.js";
import { openDuplicates, wireDuplicates } from "./duplicates.js";
import { follow, introduce } from "./events.js";
import { surprise, wireExamples } from "./examples.js";
import { allMatching, clearFilter, openBrowse, wireFilters } from "./filters.js";
import { clearSelection, select, selectedItems, wireKeys } from "./keys.js";
import { askLabel, refreshLabels, wireLabels } from "./labels.js";
import { openMap, redrawMap, wireMap } from "./map.js";
import { downloadResults, right, show, wireSearch } from "./search.js";
import {
  $, batch, noFilter, page, plural, react, remember, remembered, say, state, things, trying, update,
} from "./state.js";
import { suggest, wireSuggestions } from "./suggestions.js";
import { awaitLesson, learn, loadMarks, mark, undo, wireTeach } from "./teach.js";
import { speakOfItems } from "./thumbnails.js";
import { wireViewer } from "./viewer.js";

const SECTIONS = { search: "results", browse: "browse", map: "map", duplicates: "duplicates" };
const DRAW = { search: show, browse: openBrowse, map: openMap, duplicates: () => openDuplicates() };
let shown = "";

// -- views --------------------------------------------------------------------------------------------------------

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

// -- keys and buttons ---------------------------------------------------------------------------------------------

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

// -- start --------------------------------------------------------------------------------------------------------

function describe(status) {
  const labels = status.labels ? ` · ${plural(status.labels, "label")}` : "";
  $("about").textContent = `${status.name} · ${things(status.items)}${labels}`;
  $("about").title = `${status.model}, ${status.features} features`;
  $("results-zip").hidden = $("selected-zip").hidden = !status.pictures;
  $("logout").hidden = !status.login;
  if (status.parked) say(`${plural(status.parked, "step")} about files that are not here: likewise check says which.`);
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
  await read();
  await page.drawn;
  follow();
  if (status.learning.state === "running") await awaitLesson();
  else if (status.feedback.pending) {
    say(`${plural(status.feedback.pending, "earlier mark")}: press Learn to apply them.`);
  }
}

start();

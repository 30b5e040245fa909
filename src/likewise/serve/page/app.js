// Connects the parts of the page.

import { push, read, replace } from "./address.js";
import { call } from "./api.js";
import { openApply, wireApply } from "./apply.js";
import { allMatching, openBrowse } from "./browse.js";
import { openDuplicates, wireDuplicates } from "./duplicates.js";
import { exportResults, exportSelection } from "./exports.js";
import { changed as filterChanged, clearFilter, loadFacets, tokens, typed, typedCondition } from "./filters.js";
import { actions, listen } from "./keys.js";
import { askLabel, hint, refreshLabels, tray } from "./labels.js";
import { follow, introduce } from "./live.js";
import { openMap, refreshMap, relabelMap, startMap } from "./map.js";
import { whatNext, wireNext } from "./next.js";
import { askFor, include, pasted, right, searchBy, show, surprise, uploadAll } from "./search.js";
import { clearSelection, pick, range, select, selectedItems, selection, showSelection } from "./selection.js";
import { onSure } from "./sure.js";
import { learn, loadMarks, mark, onChange, showStatus, undo, watch } from "./teach.js";
import { $, noFilter, plural, remember, remembered, say, state, things, trying } from "./state.js";
import { open, wireViewer } from "./viewer.js";
import { wireWords } from "./words.js";
import { speakOfItems } from "./faces.js";

const VIEWS = ["search", "browse", "map", "duplicates"];

Object.assign(actions, {
  open,
  search: (item) => { go("search", false); return searchBy(item).then(toTop); },
  add: (item) => { go("search", false); return include(item); },
  not: (item) => { go("search", false); return include(item, false); },
  right: (item) => (item.answer ? item.answer(true) : mark([item], true)),
  wrong: (item) => (item.answer ? item.answer(false) : mark([item], false)),
  name: (item) => askLabel(state.selected.has(item.row) ? selectedItems() : [item]),
  pick,
  range,
});

function toTop() {
  scrollTo({ top: 0, behavior: "instant" });
  if (document.activeElement === document.body) right.focus(0, false);
}

// -- views --------------------------------------------------------------------------------------------------------

function go(name, draw = true) {
  const before = state.view;
  state.view = name;
  for (const view of VIEWS) {
    $(`view-${view}`).setAttribute("aria-pressed", view === name);
    $({ search: "results", browse: "browse", map: "map", duplicates: "duplicates" }[view]).hidden = view !== name;
  }
  $("query").hidden = name !== "search";
  document.body.dataset.view = name;
  showSelection();
  if (draw && before !== name) push();
  if (before !== name) scrollTo({ top: 0, behavior: "instant" });
  return draw ? redraw() : undefined;
}

// Draw the present view again, with what has changed.
async function redraw() {
  tokens();
  if (state.view === "search") await show();
  else if (state.view === "browse") await openBrowse();
  else if (state.view === "map") await (relabelMap(), openMap());
  else await openDuplicates();
}

async function fromAddress() {
  await read();
  $("filter").value = state.filter.label;
  $("where").value = state.filter.where;
  $("side").value = state.side;
  if (state.filter.month) await loadFacets();
  const { view } = state;
  state.view = "";
  await go(view, false);
  await redraw();
}

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  remember("theme", document.documentElement.dataset.theme);
  refreshMap();
}

// Suggestions are for the query, so they stand above its results.
function next() {
  if (state.view !== "search") go("search");
  return whatNext();
}

// -- uploaded pictures --------------------------------------------------------------------------------------------

function acceptPictures() {
  const take = (files) => { go("search", false); return uploadAll(files); };
  $("file").addEventListener("change", (event) => { take(event.target.files); event.target.value = ""; });
  addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files].filter((file) => file.type.startsWith("image/"));
    if (files.length) { event.preventDefault(); take(files); return; }
    const text = event.clipboardData.getData("text/plain");
    if (event.target.closest?.("input, textarea, dialog") || !pasted(text)) return;
    event.preventDefault();
    go("search", false);
    askFor(text);
  });
  addEventListener("dragover", (event) => {
    const ours = event.dataTransfer.types.includes("text/x-likewise-row");
    if (event.dataTransfer.types.includes("Files") || (ours && event.target.closest?.("#query"))) {
      event.preventDefault();
      $("drop").classList.add("over");
    }
  });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) $("drop").classList.remove("over"); });
  addEventListener("drop", (event) => {
    $("drop").classList.remove("over");
    if (event.dataTransfer.files.length) { event.preventDefault(); take(event.dataTransfer.files); }
    else if (event.target.closest?.("#query") && actions.dragged) { event.preventDefault(); include(actions.dragged); }
  });
}

// -- keys and buttons ---------------------------------------------------------------------------------------------

const KEYS = {
  u: undo, t: learn, g: next, m: () => go(state.view === "map" ? "search" : "map"), b: () => go("browse"), d: () => go("duplicates"), s: () => go("search"),
  "?": () => $("help").showModal(), "/": () => $(state.status.words && state.view === "search" ? "words" : "filter").focus(), escape: () => { if (state.selected.size) clearSelection(); },
};

const CLICKS = {
  theme, undo, learn, surprise, "next-open": next,
  "apply-open": () => openApply(),
  "sure-label": () => openApply(true),
  "help-open": () => $("help").showModal(),
  "clear-filter": clearFilter,
  "results-all": () => select(right.shown()),
  "browse-all": async () => select(await trying(allMatching) ?? []),
  "results-csv": () => exportResults("csv", right.reached),
  "results-zip": () => exportResults("zip", right.reached),
  "selected-label": () => askLabel(selectedItems()),
  "selected-right": () => mark(selectedItems(), true).then(clearSelection),
  "selected-wrong": () => mark(selectedItems(), false).then(clearSelection),
  "selected-csv": () => exportSelection("csv"),
  "selected-zip": () => exportSelection("zip"),
  "selected-clear": clearSelection,
  "show-left": () => column("left"),
  "show-right": () => column("right"),
};

// On a narrow screen one of the two columns is seen at a time.
function column(name) {
  $("columns").dataset.shown = name;
  for (const side of ["left", "right"]) $(`show-${side}`).setAttribute("aria-pressed", side === name);
  dispatchEvent(new Event("resize"));
}

function wire() {
  for (const grid of ["start-grid", "grid-left", "grid-right", "browse-grid", "next-grid"]) listen($(grid));
  $("grid-left").dataset.next = "grid-right";
  $("grid-right").dataset.previous = "grid-left";
  for (const view of VIEWS) $(`view-${view}`).addEventListener("click", () => go(view));
  for (const [id, work] of Object.entries(CLICKS)) $(id).addEventListener("click", () => work());
  $("side").addEventListener("change", (event) => { state.side = event.target.value; replace(); show(); });
  $("filter").addEventListener("change", typed);
  $("where").addEventListener("change", typedCondition);
  $("ask").addEventListener("submit", (event) => { event.preventDefault(); if ($("ask-input").value.trim()) askFor($("ask-input").value); });
  filterChanged.addEventListener("filter", () => { push(); redraw(); });
  $("results").addEventListener("searched", (event) => { tray(event.detail.hits); showSelection(); });
  for (const event of ["focusin", "click"]) addEventListener(event, hint);
  selection.addEventListener("change", hint);
  document.addEventListener("learned", refreshMap);
  document.querySelector(".brand").addEventListener("click", home);
  addEventListener("popstate", fromAddress);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), select, dialog")) return;
    const work = KEYS[event.key.toLowerCase()];
    if (work) { event.preventDefault(); work(); }
  });
  onChange(redraw);
  onSure(() => { replace(); show(); });
  wireNext();
  wireWords(() => { for (const grid of ["grid-left", "grid-right"]) $(grid).grid.reached = 0; return show(); }, pasted, askFor);
  wireApply();
  wireViewer(actions);
  wireDuplicates();
  startMap();
  column("right");
  $("facets-box").open = !matchMedia("(max-width: 900px)").matches;
}

function home(event) {
  event.preventDefault();
  Object.assign(state, { like: [], unlike: [], filter: noFilter(), columns: {} });
  $("filter").value = $("where").value = $("ask-input").value = "";
  go("search", false);
  push();
  redraw();
}

function about(status) {
  const labels = status.labels ? ` · ${plural(status.labels, "label")}` : "";
  $("about").textContent = `${status.name} · ${things(status.items)}${labels}`;
  $("about").title = `${status.model}, ${status.features} features`;
  $("results-zip").hidden = $("selected-zip").hidden = !status.pictures;
  $("logout").hidden = !status.login;
  $("missing").hidden = !status.missing;
  if (status.missing) {
    $("missing-root").textContent = status.missing.root;
    $("missing-hint").textContent = status.missing.hint;
  }
  $("where-field").hidden = !status.columns.length;
  $("drop").hidden = false;
  $("where").placeholder = `a condition on ${status.columns.join(", ")}`;
  document.body.classList.toggle("brief", !status.texts);
  if (!status.pictures) { document.body.classList.add("texts"); speakOfItems(); }
  $("ask").hidden = status.uploads || status.words; // the box for words takes ids and numbers too
  if (!status.uploads) $("drop").hidden = $("file").disabled = true;
}

async function start() {
  const kept = remembered("theme");
  if (kept) document.documentElement.dataset.theme = kept;
  introduce();
  wire();
  acceptPictures();
  const [status] = await Promise.all([trying(() => call("/api/status")), loadMarks(), refreshLabels()]);
  if (!status) return;
  showStatus(status);
  about(status);
  await fromAddress();
  follow();
  if (status.learning.state === "running") await watch();
  else if (status.feedback.pending) say(`${plural(status.feedback.pending, "earlier mark")}: press Learn to apply them.`);
}

start();

// Connects the parts of the page.

import { call } from "./api.js";
import { actions, listen } from "./cards.js";
import { openMap, refreshMap } from "./map.js";
import { fromAddress, include, searchBy, show, uploadAll } from "./search.js";
import { askLabel, learn, loadMarks, mark, refreshLabels, showStatus, tray, undo, watch } from "./teach.js";
import { $, number, plural, say, state, trying } from "./state.js";

Object.assign(actions, {
  search: (item, together) => { view("search"); return together ? include(item) : searchBy(item).then(toTop); },
  add: (item, not) => include(item, !not),
  not: (item) => include(item, false),
  right: (item) => mark(item, true),
  wrong: (item) => mark(item, false),
  name: (item) => askLabel(item),
});

function toTop() {
  scrollTo({ top: 0, behavior: "instant" });
  if (document.activeElement === document.body) $("grid-right").querySelector(".pic")?.focus({ preventScroll: true });
}

function view(name) {
  const map = name === "map";
  $("map").hidden = !map;
  $("results").hidden = $("query").hidden = map;
  $("view-map").setAttribute("aria-pressed", map);
  $("view-search").setAttribute("aria-pressed", !map);
  if (map) openMap();
}

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  try { localStorage.setItem("theme", document.documentElement.dataset.theme); } catch { /* storage is disabled */ }
  refreshMap();
}

// -- uploaded pictures ---------------------------------------------------------------------------------------------

function acceptPictures() {
  $("file").addEventListener("change", (event) => { uploadAll(event.target.files); event.target.value = ""; });
  addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files].filter((file) => file.type.startsWith("image/"));
    if (files.length) { event.preventDefault(); view("search"); uploadAll(files); }
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
    if (event.dataTransfer.files.length) { event.preventDefault(); view("search"); uploadAll(event.dataTransfer.files); }
    else if (event.target.closest?.("#query") && actions.dragged) { event.preventDefault(); include(actions.dragged); }
  });
}

// -- keys and buttons ---------------------------------------------------------------------------------------------

const KEYS = {
  u: undo, t: learn, m: () => view($("map").hidden ? "map" : "search"), "?": () => $("help").showModal(),
  "/": () => $("filter").focus(),
};

function wire() {
  for (const grid of ["start-grid", "grid-left", "grid-right"]) listen($(grid));
  $("grid-left").dataset.next = "grid-right";
  $("grid-right").dataset.previous = "grid-left";
  $("view-search").addEventListener("click", () => view("search"));
  $("view-map").addEventListener("click", () => view("map"));
  $("theme").addEventListener("click", theme);
  $("help-open").addEventListener("click", () => $("help").showModal());
  $("undo").addEventListener("click", undo);
  $("learn").addEventListener("click", learn);
  $("surprise").addEventListener("click", surprise);
  $("more").addEventListener("click", () => { state.k = Math.min(192, state.k * 2); show(); });
  $("side").addEventListener("change", (event) => { state.side = event.target.value; show(); });
  $("filter").addEventListener("change", filtered);
  $("results").addEventListener("searched", (event) => tray([...event.detail.right.hits, ...event.detail.left.hits]));
  document.addEventListener("learned", refreshMap);
  document.querySelector(".brand").addEventListener("click", (event) => { event.preventDefault(); view("search"); history.pushState(null, "", "#"); fromAddress(); });
  addEventListener("popstate", fromAddress);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, dialog")) return;
    const work = KEYS[event.key.toLowerCase()];
    if (work) { event.preventDefault(); work(); }
  });
}

async function surprise() {
  const seed = Math.floor(Math.random() * 2 ** 31);
  const some = await trying(() => call(`/api/items?limit=1&shuffle=${seed}`));
  if (some?.items.length) await actions.search(some.items[0]);
}

function filtered(event) {
  const name = event.target.value.trim();
  if (name && !(name in state.labels)) {
    say(`No item has the label ${name}.`, "wrong");
    return;
  }
  state.filter = name;
  show();
}

async function start() {
  try { const kept = localStorage.getItem("theme"); if (kept) document.documentElement.dataset.theme = kept; } catch { /* storage is disabled */ }
  wire();
  acceptPictures();
  const status = await trying(() => call("/api/status"));
  if (!status) return;
  showStatus(status);
  const things = status.pictures ? "picture" : "item";
  const labels = status.labels ? ` · ${plural(status.labels, "label")}` : "";
  $("about").textContent = `${status.name} · ${plural(status.items, things)}${labels} · ${status.model} ${number(status.features)} → ${number(status.width)}`;
  if (!status.uploads) {
    $("drop").classList.add("off");
    $("file").disabled = true;
    $("drop").querySelector("b").textContent = "Click any item to search by it";
    $("drop-hint").textContent = "This index was built from numbers, so pictures cannot be uploaded.";
  }
  await Promise.all([loadMarks(), refreshLabels()]);
  await fromAddress();
  if (status.learning.state === "running") await watch();
  else if (status.feedback.pending) say(`${plural(status.feedback.pending, "earlier mark")}: press Learn to apply them.`);
}

start();

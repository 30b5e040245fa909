// The filter: label, folder and month or year, shared by search, browse and surprise.

import { call, query } from "./api.js";
import { columnFacets, columnTokens, conditions, onColumns } from "./columns.js";
import { $, button, make, noFilter, number, say, state, trying } from "./state.js";

const FEW = 14; // entries of a facet shown at first
const open = new Set(); // facets shown in full
let months = [];

export const changed = new EventTarget(); // "filter" when somebody chose another one

// The filter as the server takes it; a year stands for its months.
export function filters() {
  const { label, folder, month } = state.filter;
  const wanted = month.length === 4 ? months.filter((name) => name.startsWith(month)) : [month];
  return { labels: label ? [label] : [], folders: folder ? [folder] : [], months: month ? wanted : [], where: conditions() };
}

export const filtered = () => Object.values(state.filter).some(Boolean) || Object.keys(state.columns).length > 0;
onColumns(() => changed.dispatchEvent(new Event("filter")));

export async function loadFacets() {
  if (state.filter.month && !months.length) await loadMonths();
  const found = await trying(() => call(`/api/facets?${query({}, filters())}`));
  if (found) draw(found);
}

async function loadMonths() {
  const all = await trying(() => call("/api/facets"));
  months = Object.keys(all?.months ?? {});
}

export function choose(name, value) {
  state.filter[name] = state.filter[name] === value ? "" : value;
  if (name === "label") $("filter").value = state.filter.label;
  if (name === "where") $("where").value = state.filter.where;
  changed.dispatchEvent(new Event("filter"));
}

export function clearFilter() {
  Object.assign(state, { filter: noFilter(), columns: {} });
  $("filter").value = $("where").value = "";
  changed.dispatchEvent(new Event("filter"));
}

function draw(found) {
  if (!state.filter.month) months = Object.keys(found.months);
  const parts = [facet("folder", "Folders", named(found.folders)), facet("month", "Dates", dates(found.months)),
    facet("label", "Labels", named(found.labels).sort((a, b) => b[2] - a[2])), ...columnFacets(found.columns, loadFacets)].filter(Boolean);
  const focus = document.activeElement?.closest?.("#facets") ? document.activeElement.dataset : null;
  $("facets").replaceChildren(...parts);
  $("facets-box").hidden = parts.length === 0;
  if (focus) [...$("facets").querySelectorAll("[data-name]")].find(({ dataset }) => dataset.name === focus.name && dataset.value === focus.value)?.focus();
}

const named = (counts) => Object.entries(counts).map(([name, count]) => [name, name === "." ? "(top folder)" : name, count]);

// Years, newest first; the months of the chosen year below it.
function dates(counts) {
  const years = new Map();
  for (const [month, count] of Object.entries(counts)) years.set(month.slice(0, 4), (years.get(month.slice(0, 4)) ?? 0) + count);
  return [...years].sort((a, b) => b[0] - a[0]).flatMap(([year, count]) => [[year, year, count],
    ...(state.filter.month.startsWith(year) ? Object.entries(counts).filter(([month]) => month.startsWith(year)).map(([month, some]) => [month, spelled(month), some]) : [])]);
}

const spelled = (month) => new Date(`${month}-15`).toLocaleDateString("en", { month: "long", year: "numeric" });

// Nothing to choose from: no facet.
function facet(name, title, entries) {
  if (entries.length < 2 && !state.filter[name]) return null;
  const shown = open.has(name) ? entries : entries.filter(([value], place) => place < FEW || value === state.filter[name]);
  const list = make("ul", {}, ...shown.map(([value, text, count]) => make("li", {}, entry(name, value, text, count))));
  const box = make("section", { className: "facet" }, make("h2", {}, title), list);
  if (shown.length < entries.length) {
    const more = button(`All ${number(entries.length)}`, { className: "quiet small" });
    more.addEventListener("click", () => { open.add(name); loadFacets(); });
    box.append(more);
  }
  return box;
}

function entry(name, value, text, count) {
  const pressed = state.filter[name] === value || (value.length === 4 && name === "month" && state.filter.month.startsWith(value));
  const made = button("", { className: value.length > 4 && name === "month" ? "entry inner" : "entry", "aria-pressed": String(pressed) });
  Object.assign(made.dataset, { name, value });
  made.append(make("span", { textContent: text, title: text }), make("span", { className: "n", textContent: number(count) }));
  made.addEventListener("click", () => choose(name, value));
  return made;
}

// The filter in force, each part with a button to take it off.
export function tokens() {
  const words = { where: (value) => value, label: (value) => value, folder: (value) => (value === "." ? "top folder" : value), month: (value) => (value.length > 4 ? spelled(value) : value) };
  const own = Object.entries(state.filter).filter(([, value]) => value).map(([name, value]) => [words[name](value), () => choose(name, value)]);
  const parts = [...own, ...columnTokens()].map(([text, off]) => {
    const made = button(`${text} ×`, { className: "token", "aria-label": `Take off the filter ${text}` });
    made.addEventListener("click", off);
    return made;
  });
  $("tokens").replaceChildren(...parts);
  $("tokens").hidden = parts.length === 0;
}

export function typed(event) {
  const name = event.target.value.trim();
  if (name && !(name in state.labels)) {
    say(`No item has the label ${name}.`, "wrong");
    return;
  }
  state.filter.label = name;
  changed.dispatchEvent(new Event("filter"));
}

export function typedCondition(event) {
  state.filter.where = event.target.value.trim();
  changed.dispatchEvent(new Event("filter"));
}

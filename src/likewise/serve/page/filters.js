// The filter, shared by search and browse: label, folder, month, columns, a condition; and all that passes it.

import { call, query } from "./api.js";
import { card } from "./cards.js";
import {
  $, aThing, batch, button, make, noFilter, number, react, say, state, things, trying,
} from "./state.js";
import { VirtualGrid } from "./virtual.js";

const FEW = 14; // entries of a facet shown at first,
const FEW_VALUES = 10; // and of a column
const MOST = 5000; // items that one request can name
const open = new Set(); // facets shown in full
let months = [];

// The filter as the server takes it; a year is sent as its months.
export function filters() {
  const { label, folder, month } = state.filter;
  const wanted = month.length === 4 ? months.filter((name) => name.startsWith(month)) : [month];
  return {
    labels: label ? [label] : [], folders: folder ? [folder] : [], months: month ? wanted : [], where: conditions(),
  };
}

export const filtered = () => Object.values(state.filter).some(Boolean) || Object.keys(state.columns).length > 0;

function choose(name, value) {
  state.filter = { ...state.filter, [name]: state.filter[name] === value ? "" : value };
}

export function clearFilter() {
  batch(() => Object.assign(state, { filter: noFilter(), columns: {} }));
}

// -- columns ------------------------------------------------------------------------------------------------------

const literal = (kind, value) => (kind === "number" || kind === "boolean" ? String(value) : JSON.stringify(value));

// The conditions in force, as the server takes them.
function conditions() {
  const parts = Object.entries(state.columns).flatMap(([name, { kind, values, low, high, contains }]) => [
    values?.length ? `\`${name}\` in [${values.map((value) => literal(kind, value)).join(", ")}]` : "",
    low ? `\`${name}\` >= ${literal(kind, low)}` : "",
    high ? `\`${name}\` <= ${literal(kind, high)}` : "",
    contains ? `\`${name}\` contains ${JSON.stringify(contains)}` : "",
  ]);
  return [...parts, state.filter.where].filter(Boolean);
}

function toggle(name, kind, value) {
  const values = state.columns[name]?.values ?? [];
  const rest = values.filter((other) => other !== value);
  set(name, kind, "values", rest.length < values.length ? rest : [...values, value]);
}

function set(name, kind, part, value) {
  const column = { ...state.columns[name], kind, [part]: value };
  const { [name]: _, ...others } = state.columns;
  const empty = !column.values?.length && !column.low && !column.high && !column.contains;
  state.columns = empty ? others : { ...others, [name]: column };
}

// -- the filter in force, each part with a button to take it off --------------------------------------------------

const TEXTS = {
  where: (value) => value,
  label: (value) => value,
  folder: (value) => (value === "." ? "top folder" : value),
  month: (value) => (value.length > 4 ? monthName(value) : value),
};

function columnTokens([name, { kind, values = [], low, high, contains }]) {
  return [
    ...values.map((value) => [`${name}: ${value}`, () => toggle(name, kind, value)]),
    ...(low ? [[`${name} ≥ ${low}`, () => set(name, kind, "low", "")]] : []),
    ...(high ? [[`${name} ≤ ${high}`, () => set(name, kind, "high", "")]] : []),
    ...(contains ? [[`${name} contains ${contains}`, () => set(name, kind, "contains", "")]] : []),
  ];
}

function drawTokens() {
  const chosen = Object.entries(state.filter).filter(([, value]) => value);
  const parts = [...chosen.map(([name, value]) => [TEXTS[name](value), () => choose(name, value)]),
    ...Object.entries(state.columns).flatMap(columnTokens)];
  $("tokens").replaceChildren(...parts.map(([text, off]) => (
    button(`${text} ×`, { className: "token", "aria-label": `Take off the filter ${text}` }, off))));
  $("tokens").hidden = parts.length === 0;
  $("filter").value = state.filter.label;
  $("where").value = state.filter.where;
}

// -- facets -------------------------------------------------------------------------------------------------------

export async function loadMonths() {
  if (months.length) return;
  const all = await trying(() => call("/api/facets"));
  months = Object.keys(all?.months ?? {});
}

async function loadFacets() {
  const facets = await trying(() => call(`/api/facets?${query({}, filters())}`));
  if (facets) drawFacets(facets);
}

function drawFacets(facets) {
  if (!state.filter.month) months = Object.keys(facets.months);
  const labels = named(facets.labels).sort((a, b) => b[2] - a[2]);
  const parts = [facet("folder", "Folders", named(facets.folders)), facet("month", "Dates", dates(facets.months)),
    facet("label", "Labels", labels), ...facets.columns.map(columnFacet)].filter(Boolean);
  const focus = document.activeElement?.closest?.("#facets") ? document.activeElement.dataset : null;
  $("facets").replaceChildren(...parts);
  $("facets-box").hidden = parts.length === 0;
  if (!focus) return;
  [...$("facets").querySelectorAll("[data-name]")]
    .find(({ dataset }) => dataset.name === focus.name && dataset.value === focus.value)?.focus();
}

const named = (counts) => Object.entries(counts).map(([name, count]) => (
  [name, name === "." ? "(top folder)" : name, count]));
const monthName = (month) => new Date(`${month}-15`).toLocaleDateString("en", { month: "long", year: "numeric" });

// Years, newest first; the months of the chosen year below it.
function dates(counts) {
  const years = new Map();
  for (const [month, count] of Object.entries(counts)) {
    const year = month.slice(0, 4);
    years.set(year, (years.get(year) ?? 0) + count);
  }
  const monthsOf = (year) => Object.entries(counts).filter(([month]) => month.startsWith(year))
    .map(([month, count]) => [month, monthName(month), count]);
  return [...years].sort((a, b) => b[0] - a[0]).flatMap(([year, count]) => (
    [[year, year, count], ...(state.filter.month.startsWith(year) ? monthsOf(year) : [])]));
}

// A list of values with their counts; nothing where there is nothing to choose from.
function section(key, title, entries, few, isChosen, entryOf) {
  if (entries.length < 2 && !entries.some(isChosen)) return null;
  const shown = open.has(key) ? entries : entries.filter((one, place) => place < few || isChosen(one));
  const box = make("section", { className: "facet" }, make("h2", {}, title),
    make("ul", {}, ...shown.map((one) => make("li", {}, entryOf(one)))));
  if (shown.length < entries.length) {
    const all = () => { open.add(key); loadFacets(); };
    box.append(button(`All ${number(entries.length)}`, { className: "quiet small" }, all));
  }
  return box;
}

function facet(name, title, entries) {
  const isChosen = ([value]) => value === state.filter[name];
  const isPressed = (value) => state.filter[name] === value
    || (name === "month" && value.length === 4 && state.filter.month.startsWith(value));
  const entryOf = ([value, text, count]) => entry({ name, value }, text, count, isPressed(value),
    name === "month" && value.length > 4, () => choose(name, value));
  return section(name, title, entries, FEW, isChosen, entryOf);
}

function entry(dataset, text, count, pressed, inner, onClick) {
  const element = button("", { className: inner ? "entry inner" : "entry", "aria-pressed": String(pressed) }, onClick);
  Object.assign(element.dataset, dataset);
  element.append(make("span", { textContent: text, title: text }),
    make("span", { className: "n", textContent: number(count) }));
  return element;
}

// One section for each column that can be chosen from.
function columnFacet(column) {
  if (column.counts) return columnValues(column);
  const parts = column.kind === "text" ? [input(column, "contains", "contains")] : range(column);
  return parts && make("section", { className: "facet" }, make("h2", {}, column.name), ...parts);
}

function columnValues({ name, kind, counts }) {
  const chosen = state.columns[name]?.values ?? [];
  const entries = Object.entries(counts).sort((a, b) => b[1] - a[1]);
  const isChosen = ([value]) => chosen.includes(value);
  return section(`column ${name}`, name, entries, FEW_VALUES, isChosen, ([value, count]) => (
    entry({ name: `column ${name}`, value }, value, count, isChosen([value]), false, () => toggle(name, kind, value))));
}

function short(value) {
  const options = { notation: "compact", maximumFractionDigits: 1 };
  return typeof value === "number" ? value.toLocaleString("en", options) : value;
}

function range(column) {
  if (column.low === null || column.low === column.high) return null;
  return [make("div", { className: "range" }, input(column, "low", `from ${short(column.low)}`),
    input(column, "high", `to ${short(column.high)}`))];
}

function input({ name, kind }, part, hint) {
  const element = make("input", {
    type: { number: "number", date: "date" }[kind] ?? "search", step: "any", placeholder: hint,
    title: `${name}, ${hint}`, value: state.columns[name]?.[part] ?? "", autocomplete: "off", spellcheck: false,
    "aria-label": `${name}, ${hint}`,
  });
  Object.assign(element.dataset, { name: `column ${name}`, value: part });
  element.addEventListener("change", () => set(name, kind, part, element.value.trim()));
  return element;
}

// -- browse: everything that passes, with facets ------------------------------------------------------------------

const browseGrid = new VirtualGrid($("browse-grid"), (offset, limit) => (
  trying(() => call(`/api/items?${query({ offset, limit }, filters())}`))), card);

export async function openBrowse() {
  const [first] = await Promise.all([browseGrid.reload(), loadFacets()]);
  if (!first) return;
  const { total } = first;
  $("browse-title").textContent = filtered() ? `${things(total)} of ${number(state.status.items)}` : things(total);
  $("browse-none").hidden = total > 0;
  $("browse-all").hidden = total === 0;
  $("clear-filter").hidden = !filtered();
  say(total ? `Space opens ${aThing()}, Enter searches by it, X selects it.` : "");
}

// All that pass the filter, as many as one request can name.
export async function allMatching() {
  const items = [];
  while (items.length < Math.min(browseGrid.total, MOST)) {
    const path = `/api/items?${query({ offset: items.length, limit: 200 }, filters())}`;
    const answer = await trying(() => call(path));
    if (!answer?.items.length) break;
    items.push(...answer.items);
  }
  return items.slice(0, MOST);
}

export function wireFilters() {
  $("filter").addEventListener("change", (event) => {
    const label = event.target.value.trim();
    if (label && !(label in state.labels)) say(`No item has the label ${label}.`, "wrong");
    else state.filter = { ...state.filter, label };
  });
  $("where").addEventListener("change", (event) => {
    state.filter = { ...state.filter, where: event.target.value.trim() };
  });
  react(() => [state.filter, state.columns], drawTokens);
}

// Filters by the columns of the items: some of a few values, a range of numbers or dates, or words that a text contains.

import { button, make, number, state } from "./state.js";

const short = (value) => (typeof value === "number" ? value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 }) : value);

const FEW = 10;
const open = new Set(); // columns shown in full

const quoted = (name) => `\`${name}\``;
const literal = (kind, value) => (kind === "number" || kind === "boolean" ? String(value) : JSON.stringify(value));

// The conditions in force, as the server takes them.
export function conditions() {
  const parts = Object.entries(state.columns).flatMap(([name, { kind, values, low, high, contains }]) => [
    values?.length ? `${quoted(name)} in [${values.map((value) => literal(kind, value)).join(", ")}]` : "",
    low ? `${quoted(name)} >= ${literal(kind, low)}` : "",
    high ? `${quoted(name)} <= ${literal(kind, high)}` : "",
    contains ? `${quoted(name)} contains ${JSON.stringify(contains)}` : "",
  ]);
  return [...parts, state.filter.where].filter(Boolean);
}

// What each condition says in words, and the filter without it.
export function columnTokens() {
  return Object.entries(state.columns).flatMap(([name, chosen]) => [
    ...(chosen.values ?? []).map((value) => [`${name}: ${value}`, () => toggle(name, chosen.kind, value)]),
    ...["low", "high"].filter((end) => chosen[end]).map((end) => [`${name} ${end === "low" ? "≥" : "≤"} ${chosen[end]}`, () => set(name, chosen.kind, end, "")]),
    ...(chosen.contains ? [[`${name} contains ${chosen.contains}`, () => set(name, chosen.kind, "contains", "")]] : []),
  ]);
}

let changed = () => {};
export function onColumns(work) { changed = work; }

export function toggle(name, kind, value) {
  const values = state.columns[name]?.values ?? [];
  const rest = values.filter((other) => other !== value);
  set(name, kind, "values", rest.length < values.length ? rest : [...values, value]);
}

function set(name, kind, part, value) {
  const now = { ...state.columns[name], kind, [part]: value };
  const { [name]: _, ...others } = state.columns;
  const empty = !now.values?.length && !now.low && !now.high && !now.contains;
  state.columns = empty ? others : { ...others, [name]: now };
  changed();
}

// One section for each column that can be chosen from.
export function columnFacets(columns, again) {
  return columns.map((column) => {
    const parts = column.counts ? listed(column, again) : column.kind === "text" ? [input(column, "contains", "contains")] : range(column);
    return parts && make("section", { className: "facet" }, make("h2", {}, column.name), ...parts);
  }).filter(Boolean);
}

function listed({ name, kind, counts }, again) {
  const chosen = state.columns[name]?.values ?? [];
  const entries = Object.entries(counts).sort((a, b) => b[1] - a[1]);
  if (entries.length < 2 && !chosen.length) return null;
  const few = open.has(name) ? entries : entries.filter(([value], place) => place < FEW || chosen.includes(value));
  const parts = [make("ul", {}, ...few.map(([value, count]) => make("li", {}, entry(name, kind, value, count, chosen.includes(value)))))];
  if (few.length < entries.length) {
    const more = button(`All ${number(entries.length)}`, { className: "quiet small" });
    more.addEventListener("click", () => { open.add(name); again(); });
    parts.push(more);
  }
  return parts;
}

function entry(name, kind, value, count, pressed) {
  const made = button("", { className: "entry", "aria-pressed": String(pressed) });
  Object.assign(made.dataset, { name: `column ${name}`, value });
  made.append(make("span", { textContent: value, title: value }), make("span", { className: "n", textContent: number(count) }));
  made.addEventListener("click", () => toggle(name, kind, value));
  return made;
}

function range(column) {
  if (column.low === null || column.low === column.high) return null;
  return [make("div", { className: "range" }, input(column, "low", `from ${short(column.low)}`), input(column, "high", `to ${short(column.high)}`))];
}

function input({ name, kind }, part, hint) {
  const made = make("input", {
    type: kind === "number" ? "number" : kind === "date" ? "date" : "search", step: "any", placeholder: hint, title: `${name}, ${hint}`,
    value: state.columns[name]?.[part] ?? "", autocomplete: "off", spellcheck: false, "aria-label": `${name}, ${hint}`,
  });
  Object.assign(made.dataset, { name: `column ${name}`, value: part });
  made.addEventListener("change", () => set(name, kind, part, made.value.trim()));
  return made;
}

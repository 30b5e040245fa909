// The query and its results: one column, or two where there is a before and an after.

import { push } from "./address.js";
import { call, query, upload } from "./api.js";
import { card } from "./cards.js";
import { chips } from "./chips.js";
import { filtered, filters } from "./filters.js";
import { $, make, nameOf, number, markKey, pictures, refOf, say, state, things, trying } from "./state.js";
import { cutOff, hideSure, showSure } from "./sure.js";
import { VirtualGrid } from "./virtual.js";
import { showWords } from "./words.js";

let turn = 0; // responses to an older query are dropped
const found = { left: null, right: null };

export const left = new VirtualGrid($("grid-left"), (offset, k) => ask("left", state.side, offset, k), card);
export const right = new VirtualGrid($("grid-right"), (offset, k) => ask("right", "learned", offset, k), (item, place) => markNew(card(item, place)));
export const startGrid = new VirtualGrid($("start-grid"), (offset, limit) => (
  trying(() => call(`/api/items?${query({ offset, limit, shuffle: 1 }, filters())}`))), card);

export const asking = () => state.like.length + state.unlike.length > 0;

export function searchBy(example) {
  state.like = [example];
  state.unlike = [];
  return anew();
}

export function include(example, wanted = true) {
  remove(example);
  const list = wanted ? state.like : state.unlike;
  if (list.length >= 16) return say("A query has at most 16 examples.", "wrong");
  list.push(example);
  return anew();
}

export function exclude(example) {
  remove(example);
  return anew();
}

function remove(example) {
  for (const name of ["like", "unlike"]) state[name] = state[name].filter((other) => markKey(other) !== markKey(example));
}

function anew() {
  push();
  for (const grid of [left, right]) grid.reached = 0;
  return show();
}

// Both columns only where the learned ranking differs from the raw one.
export const comparing = () => Boolean(state.status.compare) && pictures([...state.like, ...state.unlike]).length > 0;

export async function show() {
  const mine = ++turn;
  chips(include, exclude);
  showWords();
  $("columns").hidden = !asking();
  $("start").hidden = asking();
  if (!asking()) hideSure();
  $("filter-field").hidden = Object.keys(state.labels).length === 0;
  document.title = asking() ? `${nameOf(state.like[0] ?? state.unlike[0])} · likewise` : "likewise";
  if (!asking()) return begin();
  $("columns").classList.toggle("no-query", pictures(state.like).length === 0);
  $("columns").classList.toggle("single", !comparing());
  for (const grid of [left, right]) grid.list.classList.add("waiting");
  const got = await Promise.all([comparing() ? left.reload() : null, right.reload()]);
  if (mine !== turn || !got[1]) return undefined;
  draw();
  return got;
}

async function ask(name, side, offset, k) {
  const answer = await trying(() => call("/api/search", {
    like: state.like.map(refOf), unlike: state.unlike.map(refOf), k, offset, side, ...filters(), ...(name === "right" ? cutOff() : {}),
  }));
  if (!answer) return null;
  if (offset === 0) found[name] = answer;
  return { total: answer.total, items: answer.hits };
}

function draw() {
  const { right: after, left: before } = found;
  for (const grid of [left, right]) grid.list.classList.remove("waiting");
  for (const made of right.cards.values()) if (made.item) markNew(made);
  $("title-right").textContent = comparing() ? "Learned" : pictures(state.like).length ? "Most similar" : "What fits best";
  if (comparing()) precision($("ap-left"), before);
  precision($("ap-right"), comparing() || after.average_precision !== null ? after : { average_precision: null });
  $("legend").hidden = after.label === null;
  const among = filtered() ? " in this filter" : "";
  say(showSure(after) ?? `${things(after.total)}${among} ranked in ${after.milliseconds.toFixed(1)} ms`);
  $("results").dispatchEvent(new CustomEvent("searched", { detail: { hits: after.hits } }));
}

// An arrow for what the learned side shows among its first and the other side does not.
function markNew(made) {
  const first = found.left && comparing() ? found.left.hits : null;
  const isNew = first !== null && made.item.score !== undefined && !first.some((hit) => hit.row === made.item.row);
  made.classList.toggle("moved", isNew && first.length < found.left.total && (made.place ?? 0) < first.length);
  return made;
}

function precision(output, { average_precision: value, by_heart: heart }) {
  output.replaceChildren();
  if (value === null) return;
  output.title = heart ? "The model learned from this item and its label: how it ranks says nothing about new ones"
    : "Average precision of this query over all items";
  output.append(...(heart ? ["a training item"] : ["AP", make("b", { textContent: value.toFixed(3) })]));
}

export async function begin() {
  const some = await startGrid.reload();
  if (!some) return;
  const none = some.total === 0;
  $("start").querySelector("h2").textContent = none ? "Nothing passes this filter" : "Start with any of these";
  say(filtered() ? `${things(some.total)} of ${number(state.status.items)} pass the filter.` : `Ready: ${things(some.total)}.`);
}

// What the left and right columns found first, for exports and the picture view.
export const results = () => found;

export async function uploadAll(files) {
  const pictures = [...files].slice(0, 8);
  if (!pictures.length) return;
  if (!state.status.uploads) {
    say("This index was built from numbers, not pictures: choose an item instead.", "wrong");
    return;
  }
  say(pictures.length > 1 ? `Uploading ${pictures.length} pictures…` : "Uploading your picture…", "busy");
  const uploaded = [];
  for (const file of pictures) {
    const done = await trying(() => upload(file));
    if (done) uploaded.push({ upload: done.upload });
  }
  if (!uploaded.length) return;
  state.like = uploaded;
  state.unlike = [];
  await anew();
}

// What somebody typed or pasted: numbers, or the id of an item.
export async function askFor(text) {
  const numbers = pasted(text);
  if (numbers) {
    const kept = await trying(() => call("/api/vectors", { vector: numbers }));
    return kept && searchBy({ upload: kept.upload });
  }
  const some = await trying(() => call(`/api/items?${query({ id: text.trim() })}`));
  return some?.items.length ? searchBy(some.items[0]) : undefined;
}

// Two or more numbers, as a list or with commas, semicolons or blanks between them; null for anything else.
export function pasted(text) {
  const parts = text.trim().replace(/^\[|\]$/g, "").split(/[\s,;]+/).filter(Boolean).map((word) => word.replace("−", "-"));
  return parts.length > 1 && parts.every((word) => /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(word)) ? parts.map(Number) : null;
}

export async function surprise() {
  const shuffle = Math.floor(Math.random() * 2 ** 31);
  const some = await trying(() => call(`/api/items?${query({ limit: 1, shuffle }, filters())}`));
  if (some?.items.length) await searchBy(some.items[0]);
  else if (some) say("Nothing passes this filter.", "wrong");
}

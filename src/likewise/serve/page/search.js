// The query (examples, words, ids, numbers, uploaded pictures), and its results in one column, or before and after.

import { call, download, query, upload } from "./api.js";
import { card, thumbnail } from "./cards.js";
import { filtered, filters } from "./filters.js";
import { draggedItem } from "./keys.js";
import {
  $, asking, batch, button, make, markKey, nameOf, number, page, pictures, react, refOf, say, state, STEPS, thing,
  things, trying,
} from "./state.js";
import { VirtualGrid } from "./virtual.js";

const UNWANTED = /(?:^|\s)[-−](?:"([^"]+)"|(\S+))/gu; // -car, -"red car"
let turn = 0; // responses to an older query are dropped
let waiting = 0;
const results = { left: null, right: null };

const left = new VirtualGrid($("grid-left"), (offset, k) => ask("left", state.side, offset, k), card);
export const right = new VirtualGrid($("grid-right"), (offset, k) => ask("right", "learned", offset, k),
  (item, place) => markNew(card(item, place)));
const startGrid = new VirtualGrid($("start-grid"), (offset, limit) => (
  trying(() => call(`/api/items?${query({ offset, limit, shuffle: 1 }, filters())}`))), card);

// -- the query -----------------------------------------------------------------------------------------------------

export async function searchBy(...examples) {
  batch(() => Object.assign(state, { view: "search", like: examples, unlike: [] }));
  await page.drawn;
}

export async function include(example, wanted = true) {
  const rest = without(example);
  const name = wanted ? "like" : "unlike";
  if (rest[name].length >= 16) { say("A query has at most 16 examples.", "wrong"); return; }
  rest[name].push(example);
  batch(() => Object.assign(state, { view: "search", ...rest }));
  await page.drawn;
}

const exclude = (example) => batch(() => Object.assign(state, without(example)));

const without = (example) => Object.fromEntries(["like", "unlike"].map((name) => (
  [name, state[name].filter((other) => markKey(other) !== markKey(example))])));

export const body = () => ({ like: state.like.map(refOf), unlike: state.unlike.map(refOf), ...filters() });

// -- results -------------------------------------------------------------------------------------------------------

// Both columns only where the learned ranking differs from the raw one.
const comparing = () => Boolean(state.status.compare) && pictures([...state.like, ...state.unlike]).length > 0;

export async function show() {
  const mine = ++turn;
  $("columns").hidden = !asking();
  $("start").hidden = asking();
  document.title = asking() ? `${nameOf(state.like[0] ?? state.unlike[0])} · likewise` : "likewise";
  if (!asking()) {
    for (const grid of [left, right]) grid.clear();
    state.hits = [];
    await begin();
    return;
  }
  $("columns").classList.toggle("no-query", pictures(state.like).length === 0);
  $("columns").classList.toggle("single", !comparing());
  for (const grid of [left, right]) grid.list.classList.add("waiting");
  const [, first] = await Promise.all([comparing() ? left.reload() : null, right.reload()]);
  if (mine === turn && first) draw();
}

async function ask(name, side, offset, k) {
  const cut = name === "right" && isCut() ? { at_most_wrong: 1 / state.cutoff } : {};
  const answer = await trying(() => call("/api/search", { ...body(), k, offset, side, precision: true, ...cut }));
  if (!answer) return null;
  if (offset === 0) results[name] = answer;
  return { total: answer.total, items: answer.hits };
}

function draw() {
  const { right: after, left: before } = results;
  for (const grid of [left, right]) grid.list.classList.remove("waiting");
  for (const element of right.cards.values()) if (element.item) markNew(element);
  const single = pictures(state.like).length ? "Most similar" : "What fits best";
  $("title-right").textContent = comparing() ? "Learned" : single;
  if (comparing()) precision($("ap-left"), before);
  precision($("ap-right"), after);
  $("legend").hidden = after.label === null;
  const among = filtered() ? " in this filter" : "";
  say(drawCutoff(after) ?? `${things(after.total)}${among} ranked in ${after.milliseconds.toFixed(1)} ms`);
  state.cutFor = after.calibrated ? JSON.stringify(body()) : "";
  state.hits = after.hits;
}

// An arrow for what the learned side shows among its first and the other side does not.
function markNew(element) {
  const first = results.left && comparing() ? results.left.hits : null;
  const { item, place = 0 } = element;
  const isNew = first !== null && item.score !== undefined && !first.some((hit) => hit.row === item.row);
  element.classList.toggle("moved", isNew && first.length < results.left.total && place < first.length);
  return element;
}

function precision(output, { average_precision: value, learned_from_query: isTrained }) {
  output.replaceChildren();
  if (value === null) return;
  output.title = isTrained ? "The model learned from this item and its label: how it ranks says nothing about new ones"
    : "Average precision of this query over all items";
  output.append(...(isTrained ? ["a training item"] : ["AP", make("b", { textContent: value.toFixed(3) })]));
}

async function begin() {
  const first = await startGrid.reload();
  if (!first) return;
  const heading = first.total === 0 ? "Nothing passes this filter" : "Start with any of these";
  $("start").querySelector("h2").textContent = heading;
  const passing = `${things(first.total)} of ${number(state.status.items)} pass the filter.`;
  say(filtered() ? passing : `Ready: ${things(first.total)}.`);
}

export const downloadResults = (kind) => download(kind, { ...body(), side: "learned", k: Math.max(1, right.reached) });

// -- the cut-off ---------------------------------------------------------------------------------------------------

// Words have no cut-off: what their scores mean was not measured.
const canCut = () => (state.status.calibrated || state.cutFor === JSON.stringify(body())) && state.like.length > 0
  && [...state.like, ...state.unlike].every((example) => example.text === undefined);
const isCut = () => state.cutoff > 0 && canCut();

// Show the results' certainty; returns what the status line says of it, undefined without a cut-off.
function drawCutoff(answer) {
  const text = isCut() ? counted(answer) : undefined;
  const several = state.like.length > 1;
  $("sure-found").textContent = text ?? "";
  $("sure-label").hidden = !isCut() || answer.total === 0;
  const examples = state.like.filter((example) => example.upload === undefined).length;
  $("sure-label").textContent = `Label these ${number(answer.total + examples)}…`;
  $("unknown").hidden = !(answer.novelty > 1);
  $("unknown").textContent = `${several ? `These ${thing()}s are` : `This ${thing()} is`} unlike anything the model `
    + `learned from: how likely ${several ? "their" : "its"} results match cannot be relied on.`;
  return text;
}

function counted({ total, about_wrong: wrong }) {
  if (total === 0) return `Nothing is sure enough at 1 in ${state.cutoff}.`;
  return `${things(total)}, about ${number(Math.round(wrong))} wrong`;
}

function drawSlider(step) {
  const words = step ? `At most 1 in ${step} wrong` : "All results, however sure";
  $("sure-slider").value = Math.max(0, STEPS.indexOf(step));
  $("sure-slider").setAttribute("aria-valuetext", words);
  $("sure-value").textContent = words;
}

export function wireSearch() {
  $("sure-slider").addEventListener("input", () => {
    const step = STEPS[Number($("sure-slider").value)];
    drawSlider(step);
    clearTimeout(waiting);
    waiting = setTimeout(() => { state.cutoff = step; }, 120);
  });
  $("side").addEventListener("change", (event) => { state.side = event.target.value; });
  react(() => state.cutoff, drawSlider);
  react(() => state.side, (side) => { $("side").value = side; });
  react(() => [state.like, state.unlike], () => { left.reached = right.reached = 0; });
  react(() => [state.like, state.unlike, state.status.calibrated, state.cutFor], () => {
    $("sure").hidden = !canCut();
    if (!canCut()) $("unknown").hidden = true;
  });
}

// -- the examples of the query -------------------------------------------------------------------------------------

function drawExamples([like, unlike]) {
  const elements = [...like.map((one) => element(one, true)), ...unlike.map((one) => element(one, false))];
  $("chips").replaceChildren(...elements);
  $("chips").hidden = elements.length === 0;
}

function element(example, wanted) {
  const name = nameOf(example);
  const isWords = example.text !== undefined;
  const image = isWords ? make("span", { className: "said", title: name }, `“${name}”`)
    : Object.assign(thumbnail(example, 92, `${wanted ? "Like" : "Not like"}: ${name}`), { title: name });
  const hint = wanted ? `Like ${name}; press for not like` : `Not like ${name}; press for like`;
  const sign = button(wanted ? "like" : "not like", { className: "sign", "aria-label": hint },
    () => include(example, !wanted));
  const remove = button("×", { className: "remove", "aria-label": `Remove ${name}` }, () => exclude(example));
  return make("li", { className: `chip${wanted ? "" : " not"}${isWords ? " words" : ""}` }, image, sign, remove);
}

// -- words and numbers ---------------------------------------------------------------------------------------------

// Wanted words first, then those with a minus.
function parsed(text) {
  const unwanted = [...text.matchAll(UNWANTED)].map(([, quoted, word]) => quoted ?? word);
  const wanted = text.replace(UNWANTED, " ").replace(/\s+/gu, " ").trim();
  return { like: wanted ? [{ text: wanted }] : [], unlike: unwanted.map((word) => ({ text: word })) };
}

function written() {
  const words = (list) => list.filter((example) => example.text !== undefined).map(({ text }) => text);
  const minus = (text) => (/\s/u.test(text) ? `-"${text}"` : `-${text}`);
  return [...words(state.like), ...words(state.unlike).map(minus)].join(" ");
}

function drawWords() {
  $("words-form").hidden = !state.status.words;
  if (document.activeElement !== $("words")) $("words").value = written();
}

// What was typed takes the place of earlier words, and is added to the pictures of the query.
function searchByWords() {
  if (vectorIn($("words").value)) { searchByTyped($("words").value); return; }
  const words = parsed($("words").value);
  if (!words.like.length && !words.unlike.length && !written()) { say("Type some words first.", "wrong"); return; }
  batch(() => {
    for (const name of ["like", "unlike"]) state[name] = [...pictures(state[name]), ...words[name]].slice(0, 16);
  });
}

// What somebody typed or pasted: numbers, or the id of an item.
async function searchByTyped(text) {
  const vector = vectorIn(text);
  if (vector) {
    const answer = await trying(() => call("/api/vectors", { vector }));
    if (answer) await searchBy({ upload: answer.upload });
    return;
  }
  const answer = await trying(() => call(`/api/items?${query({ id: text.trim() })}`));
  if (answer?.items.length) await searchBy(answer.items[0]);
}

// Two or more numbers, as a list or with commas, semicolons or blanks between them; null for anything else.
function vectorIn(text) {
  const parts = text.trim().replace(/^\[|\]$/g, "").split(/[\s,;]+/).filter(Boolean)
    .map((word) => word.replace("−", "-"));
  const isNumber = (word) => /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(word);
  return parts.length > 1 && parts.every(isNumber) ? parts.map(Number) : null;
}

// -- uploaded pictures ---------------------------------------------------------------------------------------------

async function uploadAll(files) {
  const images = [...files].slice(0, 8);
  if (!images.length) return;
  state.view = "search";
  if (!state.status.uploads) {
    say("This index was built from numbers, not pictures: choose an item instead.", "wrong");
    return;
  }
  say(images.length > 1 ? `Uploading ${images.length} pictures…` : "Uploading your picture…", "busy");
  const examples = [];
  for (const file of images) {
    const done = await trying(() => upload(file));
    if (done) examples.push({ upload: done.upload });
  }
  if (examples.length) await searchBy(...examples);
}

function pasted(event) {
  const files = [...event.clipboardData.files].filter((file) => file.type.startsWith("image/"));
  if (files.length) { event.preventDefault(); uploadAll(files); return; }
  const text = event.clipboardData.getData("text/plain");
  if (event.target.closest?.("input, textarea, dialog") || !vectorIn(text)) return;
  event.preventDefault();
  searchByTyped(text);
}

function draggedOver(event) {
  const { types } = event.dataTransfer;
  const isCard = types.includes("text/x-likewise-row") && event.target.closest?.("#query");
  if (!types.includes("Files") && !isCard) return;
  event.preventDefault();
  $("drop").classList.add("over");
}

function dropped(event) {
  $("drop").classList.remove("over");
  if (event.dataTransfer.files.length) {
    event.preventDefault();
    uploadAll(event.dataTransfer.files);
  } else if (event.target.closest?.("#query") && draggedItem()) {
    event.preventDefault();
    include(draggedItem());
  }
}

export async function surprise() {
  const shuffle = Math.floor(Math.random() * 2 ** 31);
  const answer = await trying(() => call(`/api/items?${query({ limit: 1, shuffle }, filters())}`));
  if (answer?.items.length) await searchBy(answer.items[0]);
  else if (answer) say("Nothing passes this filter.", "wrong");
}

export function wireExamples() {
  react(() => [state.like, state.unlike], drawExamples);
  react(() => [state.status.words, state.like, state.unlike], drawWords);
  // The encoder takes seconds to load: the server does so while words are typed, not while the first page is shown.
  const load = () => call("/api/search", { like: [{ text: "a picture" }], k: 1 }).catch(() => {});
  $("words").addEventListener("focus", load, { once: true });
  $("words-form").addEventListener("submit", (event) => { event.preventDefault(); searchByWords(); });
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    if ($("ask-input").value.trim()) searchByTyped($("ask-input").value);
  });
  $("file").addEventListener("change", (event) => { uploadAll(event.target.files); event.target.value = ""; });
  addEventListener("paste", pasted);
  addEventListener("dragover", draggedOver);
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) $("drop").classList.remove("over"); });
  addEventListener("drop", dropped);
}

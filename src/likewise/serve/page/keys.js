// What clicks, keys and drags on the cards of a grid do, and the selection of several cards.

import { isSuggestion } from "./cards.js";
import { askLabel } from "./labels.js";
import { include, right, searchBy } from "./search.js";
import { $, number, pictures, react, say, state, things } from "./state.js";
import { answerSuggestion, mark } from "./teach.js";
import { open } from "./viewer.js";

const MOST = 5000; // what one request can name
const KEYS = { a: "add", n: "not", r: "right", w: "wrong", l: "name", x: "pick", enter: "search", " ": "open" };
const BUTTONS = { right: "right", wrong: "wrong", add: "add", name: "name", find: "search" };
let anchor = null; // the last card picked, where a range begins
let dragged = null;

export const draggedItem = () => dragged;

export const actions = {
  open,
  search: (item) => searchBy(item).then(toTop),
  add: (item) => include(item),
  not: (item) => include(item, false),
  right: (item) => (isSuggestion(item) ? answerSuggestion(item, true) : mark([item], true)),
  wrong: (item) => (isSuggestion(item) ? answerSuggestion(item, false) : mark([item], false)),
  name: (item) => askLabel(state.selected.has(item.row) ? selectedItems() : [item]),
  pick,
};

function toTop() {
  scrollTo({ top: 0, behavior: "instant" });
  if (document.activeElement === document.body) right.focus(0, false);
}

// -- selection ----------------------------------------------------------------------------------------------------

export const selectedItems = () => [...state.selected.values()];

function pick(item, card) {
  anchor = card ? { list: card.parentElement, place: card.place } : null;
  if (!state.selected.has(item.row)) { select([item]); return; }
  const selected = new Map(state.selected);
  selected.delete(item.row);
  state.selected = selected;
}

// All cards from the last one picked to this one.
async function range(card) {
  const list = card.parentElement;
  const from = anchor?.list === list ? anchor.place : card.place;
  const first = Math.min(card.place, from);
  const places = [...Array(Math.abs(card.place - from) + 1).keys()].map((step) => first + step);
  const items = await Promise.all(places.slice(0, MOST).map((place) => list.grid.item(place)));
  anchor = { list, place: card.place };
  select(items);
}

export function select(items) {
  const selected = new Map(state.selected);
  for (const item of items.filter(Boolean)) {
    if (selected.size >= MOST && !selected.has(item.row)) {
      say(`At most ${number(MOST)} can be selected at once.`, "wrong");
      break;
    }
    selected.set(item.row, item);
  }
  state.selected = selected;
}

export function clearSelection() {
  anchor = null;
  if (state.selected.size) state.selected = new Map();
}

function showSelection() {
  const n = state.selected.size;
  $("selection").hidden = n === 0;
  document.body.classList.toggle("selecting", n > 0);
  $("selected-count").textContent = `${things(n)} selected`;
  const isQuery = pictures(state.like).length > 0 && state.view === "search";
  $("selected-right").hidden = $("selected-wrong").hidden = !isQuery;
}

// -- events of a grid ---------------------------------------------------------------------------------------------

export function listen(list) {
  list.addEventListener("click", clicked);
  list.addEventListener("keydown", pressed);
  list.addEventListener("keyup", (event) => {
    if (event.key === " " && event.target.matches(".pic")) event.preventDefault();
  });
  list.addEventListener("focusin", focused);
  drags(list);
}

function clicked(event) {
  const card = event.target.closest(".card");
  if (!card?.item) return;
  if (event.target.matches(".pick")) {
    if (event.shiftKey) range(card);
    else pick(card.item, card);
    return;
  }
  const button = event.target.closest("button");
  if (!button) return;
  const named = Object.keys(BUTTONS).find((kind) => button.classList.contains(kind));
  if (named) actions[BUTTONS[named]](card.item, card);
  else onPicture(event, card);
}

function onPicture(event, card) {
  const selecting = state.selected.size > 0;
  if (event.ctrlKey || event.metaKey) pick(card.item, card);
  else if (event.shiftKey && selecting) range(card);
  else if (event.shiftKey) include(card.item);
  else if (selecting) pick(card.item, card);
  else open(card.item, card);
}

function pressed(event) {
  const card = event.target.closest(".card");
  if (!card?.item || event.ctrlKey || event.metaKey || event.altKey) return;
  const key = event.key.toLowerCase();
  if (key in KEYS && (event.target.matches(".pic") || (key.length === 1 && key !== " "))) {
    event.preventDefault();
    event.stopPropagation();
    actions[KEYS[key]](card.item, card);
  } else if (/^(Arrow|Home$|End$)/.test(event.key)) walk(event.currentTarget, card, event);
}

function focused(event) {
  const card = event.target.closest(".card");
  if (!card?.item) return;
  const list = event.currentTarget;
  state.last = { item: card.item, list, place: card.place };
  if (!event.target.matches(".pic")) return;
  list.querySelectorAll(".pic[tabindex='0']").forEach((pic) => { pic.tabIndex = -1; });
  event.target.tabIndex = 0;
}

function walk(list, card, event) {
  const { grid } = list;
  const wide = grid.columns();
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -wide, ArrowDown: wide, Home: -Infinity, End: Infinity };
  const here = card.place;
  event.preventDefault();
  event.stopPropagation();
  // Beyond the edge of a row, focus moves to the other column, if there is one.
  let across;
  if (event.key === "ArrowRight" && (here + 1) % wide === 0) across = list.dataset.next;
  if (event.key === "ArrowLeft" && here % wide === 0) across = list.dataset.previous;
  if (across && $(across).offsetParent) {
    const other = $(across).grid;
    const place = Math.floor(here / wide) * wide + (event.key === "ArrowRight" ? 0 : wide - 1);
    other.focus(Math.min(other.total - 1, place));
  } else grid.focus(Math.max(0, Math.min(grid.total - 1, here + steps[event.key])));
}

// Focus the card that had it last, as after a dialog.
export function focusLast() {
  const { list, item, place } = state.last;
  if (!list?.isConnected || !item) return;
  const card = [...list.children].find((one) => one.item?.row === item.row);
  list.grid.focus(card?.place ?? place, false);
}

function drags(list) {
  list.addEventListener("dragstart", (event) => {
    const card = event.target.closest(".card");
    if (!card?.item) return;
    event.dataTransfer.setData("text/x-likewise-row", String(card.item.row));
    event.dataTransfer.effectAllowed = "copyLink";
    dragged = card.item;
    card.classList.add("dragging");
    document.body.classList.add("dragging");
  });
  list.addEventListener("dragend", () => {
    document.body.classList.remove("dragging");
    list.querySelectorAll(".dragging").forEach((card) => card.classList.remove("dragging"));
  });
}

export function wireKeys() {
  for (const grid of ["start-grid", "grid-left", "grid-right", "browse-grid", "next-grid"]) listen($(grid));
  $("grid-left").dataset.next = "grid-right";
  $("grid-right").dataset.previous = "grid-left";
  react(() => [state.selected, state.like, state.view, state.status.pictures], showSelection);
}

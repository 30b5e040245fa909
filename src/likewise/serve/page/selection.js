// Several pictures at once: pick, range, all shown, lasso; and the bar that says what can be done with them.

import { refreshCards } from "./cards.js";
import { $, number, pictures, say, state, things } from "./state.js";

const MOST = 5000; // what one request can name
let anchor = null; // the last card picked, where a range begins

export const selection = new EventTarget(); // "change"

export function pick(item, card) {
  if (state.selected.has(item.row)) state.selected.delete(item.row);
  else add([item]);
  anchor = card ? { list: card.parentElement, place: card.place } : null;
  changed();
}

// All cards from the last one picked to this one.
export async function range(card) {
  const list = card.parentElement;
  const from = anchor?.list === list ? anchor.place : card.place;
  const places = [...Array(Math.abs(card.place - from) + 1).keys()].map((step) => Math.min(card.place, from) + step);
  add(await Promise.all(places.slice(0, MOST).map((place) => list.grid.item(place))));
  anchor = { list, place: card.place };
  changed();
}

export function select(items) {
  add(items);
  changed();
}

function add(items) {
  for (const item of items) {
    if (!item) continue;
    if (state.selected.size >= MOST) return say(`At most ${number(MOST)} can be selected at once.`, "wrong");
    state.selected.set(item.row, item);
  }
  return undefined;
}

export function clearSelection() {
  state.selected.clear();
  anchor = null;
  changed();
}

function changed() {
  showSelection();
  refreshCards();
  selection.dispatchEvent(new Event("change"));
}

export function showSelection() {
  const n = state.selected.size;
  $("selection").hidden = n === 0;
  document.body.classList.toggle("selecting", n > 0);
  $("selected-count").textContent = `${things(n)} selected`;
  const query = pictures(state.like).length > 0 && state.view === "search";
  $("selected-right").hidden = $("selected-wrong").hidden = !query;
}

export const selectedItems = () => [...state.selected.values()];

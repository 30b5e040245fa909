// What clicks, keys and drags on the cards of a grid do.

import { $, state } from "./state.js";

export const actions = {}; // set by app.js: open, search, add, not, right, wrong, name, pick, range
const KEYS = { a: "add", n: "not", r: "right", w: "wrong", l: "name", x: "pick", enter: "search", " ": "open" };
const BUTTONS = { right: "right", wrong: "wrong", add: "add", name: "name", find: "search" };
export const last = { item: null, list: null }; // the card that had focus last

export function listen(list) {
  list.addEventListener("click", clicked);
  list.addEventListener("keydown", pressed);
  list.addEventListener("keyup", (event) => { if (event.key === " " && event.target.matches(".pic")) event.preventDefault(); });
  list.addEventListener("focusin", focused);
  drags(list);
}

function clicked(event) {
  const card = event.target.closest(".card");
  if (!card?.item) return;
  if (event.target.matches(".pick")) {
    if (event.shiftKey) actions.range(card);
    else actions.pick(card.item, card);
    return;
  }
  const button = event.target.closest("button");
  if (!button) return;
  const named = Object.keys(BUTTONS).find((kind) => button.classList.contains(kind));
  if (named) actions[BUTTONS[named]](card.item, card);
  else onPicture(event, card);
}

function onPicture(event, card) {
  if (event.ctrlKey || event.metaKey) actions.pick(card.item, card);
  else if (event.shiftKey) (state.selected.size ? actions.range(card) : actions.add(card.item));
  else if (state.selected.size) actions.pick(card.item, card);
  else actions.open(card.item, card);
}

function pressed(event) {
  const card = event.target.closest(".card");
  if (!card?.item || event.ctrlKey || event.metaKey || event.altKey) return;
  const key = event.key.toLowerCase();
  if (key in KEYS && (event.target.matches(".pic") || key.length === 1 && key !== " ")) {
    event.preventDefault();
    event.stopPropagation();
    actions[KEYS[key]](card.item, card);
  } else if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") walk(event.currentTarget, card, event);
}

function focused(event) {
  const card = event.target.closest(".card");
  if (!card?.item) return;
  const list = event.currentTarget;
  Object.assign(last, { item: card.item, list, place: card.place });
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
  const across = event.key === "ArrowRight" && (here + 1) % wide === 0 ? list.dataset.next
    : event.key === "ArrowLeft" && here % wide === 0 ? list.dataset.previous : undefined;
  if (across && $(across).offsetParent) {
    const other = $(across).grid;
    const place = Math.floor(here / wide) * wide + (event.key === "ArrowRight" ? 0 : wide - 1);
    other.focus(Math.min(other.total - 1, place));
  } else grid.focus(Math.max(0, Math.min(grid.total - 1, here + steps[event.key])));
}

// Focus the card that had it last, as after a dialog.
export function focusLast() {
  const { list, item, place } = last;
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
    actions.dragged = card.item;
    card.classList.add("dragging");
    document.body.classList.add("dragging");
  });
  list.addEventListener("dragend", () => {
    document.body.classList.remove("dragging");
    list.querySelectorAll(".dragging").forEach((card) => card.classList.remove("dragging"));
  });
}

// Pictures in a grid: frames, marks, keyboard navigation, dragging.

import { $, keyOf, pictureOf, state } from "./state.js";

const template = $("card");

// The actions on a card; set by app.js.
export const actions = {};

export function fill(grid, items, framed = true) {
  grid.replaceChildren(...items.map((item, place) => made(item, place, framed)));
  grid.classList.remove("waiting");
  const first = grid.querySelector(".pic");
  if (first) first.tabIndex = 0;
}

function made(item, place, framed) {
  const card = template.content.firstElementChild.cloneNode(true);
  const picture = card.querySelector(".pic");
  card.item = item;
  card.dataset.row = item.row;
  picture.tabIndex = -1;
  picture.setAttribute("aria-label", spoken(item, place));
  picture.firstElementChild.src = pictureOf(item);
  card.querySelector(".label").textContent = item.label ?? String(item.id);
  card.querySelector(".label").title = item.label ?? String(item.id);
  if (item.score !== undefined) card.querySelector(".score").textContent = item.score.toFixed(3);
  if (framed && item.relevant !== null && item.relevant !== undefined) card.classList.add(item.relevant ? "hit" : "miss");
  for (const name of ["right", "wrong", "add", "name"]) {
    const button = card.querySelector(`.${name}`);
    button.setAttribute("aria-label", `${button.title}: ${item.label ?? item.id}`);
  }
  showMark(card);
  return card;
}

function spoken(item, place) {
  const parts = [`Picture ${place + 1}`, item.label ?? `item ${item.id}`];
  if (item.score !== undefined) parts.push(`similarity ${item.score.toFixed(3)}`);
  if (item.relevant === true) parts.push("same label as the query");
  if (item.relevant === false) parts.push("different label");
  return parts.join(", ");
}

export function markOf(row) {
  for (const example of state.like) {
    const mark = state.marks.get(`${keyOf(example)}>${row}`);
    if (mark !== undefined) return mark;
  }
  return undefined;
}

function showMark(card) {
  const mark = markOf(card.item.row);
  card.classList.toggle("right", mark === true);
  card.classList.toggle("wrong", mark === false);
  card.querySelector(".right").setAttribute("aria-pressed", mark === true);
  card.querySelector(".wrong").setAttribute("aria-pressed", mark === false);
}

export function showMarks() {
  document.querySelectorAll(".results .card").forEach(showMark);
}

const KEYS = { a: "add", n: "not", r: "right", w: "wrong", l: "name" };

export function listen(grid) {
  grid.addEventListener("click", (event) => {
    const card = event.target.closest(".card");
    const button = event.target.closest("button");
    if (!card || !button) return;
    const name = ["right", "wrong", "add", "name"].find((kind) => button.classList.contains(kind)) ?? "search";
    actions[name](card.item, event.shiftKey);
  });
  grid.addEventListener("keydown", (event) => {
    const card = event.target.closest(".card");
    if (!card || event.ctrlKey || event.metaKey || event.altKey) return;
    const name = KEYS[event.key.toLowerCase()];
    if (name) {
      event.preventDefault();
      event.stopPropagation();
      actions[name](card.item);
    } else if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") {
      walk(grid, card, event);
    }
  });
  grid.addEventListener("focusin", (event) => {
    if (!event.target.classList.contains("pic")) return;
    grid.querySelectorAll(".pic[tabindex='0']").forEach((pic) => { pic.tabIndex = -1; });
    event.target.tabIndex = 0;
  });
  drags(grid);
}

function walk(grid, card, event) {
  const cards = [...grid.children];
  const wide = getComputedStyle(grid).gridTemplateColumns.split(" ").length;
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -wide, ArrowDown: wide, Home: -Infinity, End: Infinity };
  const here = cards.indexOf(card);
  let there = here + steps[event.key];
  // Beyond the edge of a row, focus moves to the other column, if there is one.
  const across = event.key === "ArrowRight" && (here + 1) % wide === 0 ? grid.dataset.next
    : event.key === "ArrowLeft" && here % wide === 0 ? grid.dataset.previous : undefined;
  event.preventDefault();
  if (across) {
    const other = [...$(across).children];
    const row = Math.floor(here / wide);
    const target = other[Math.min(other.length - 1, row * wide + (event.key === "ArrowRight" ? 0 : wide - 1))];
    target?.querySelector(".pic").focus();
    return;
  }
  there = Math.max(0, Math.min(cards.length - 1, there));
  cards[there].querySelector(".pic").focus();
}

function drags(grid) {
  grid.addEventListener("dragstart", (event) => {
    const card = event.target.closest(".card");
    if (!card) return;
    event.dataTransfer.setData("text/x-likewise-row", String(card.item.row));
    event.dataTransfer.effectAllowed = "copyLink";
    actions.dragged = card.item;
    card.classList.add("dragging");
    document.body.classList.add("dragging");
  });
  grid.addEventListener("dragend", () => {
    document.body.classList.remove("dragging");
    grid.querySelectorAll(".dragging").forEach((card) => card.classList.remove("dragging"));
  });
}

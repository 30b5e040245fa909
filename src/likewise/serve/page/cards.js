// One picture in a grid: caption, frame, marks, selection.

import { $, markKey, nameOf, percent, pictureOf, state } from "./state.js";
import { face, isPicture, link, player, words } from "./faces.js";

const template = $("card");
const BUTTONS = ["right", "wrong", "add", "name", "find"];
const late = new Set(); // images that wait until scrolling pauses
let pause = 0;
let scrolled = -Infinity;
addEventListener("scroll", () => { scrolled = performance.now(); }, { passive: true });
const scrolling = () => performance.now() - scrolled < 150;

export function card(item, place) {
  const made = template.content.firstElementChild.cloneNode(true);
  made.item = item;
  made.dataset.row = item.row;
  const picture = made.querySelector(".pic");
  picture.tabIndex = -1;
  picture.setAttribute("aria-label", spoken(item, place));
  if (isPicture(item)) image(picture.firstElementChild, pictureOf(item));
  else worded(made, item);
  caption(made, item);
  for (const name of BUTTONS) {
    const button = made.querySelector(`.${name}`);
    button.setAttribute("aria-label", `${button.title}: ${nameOf(item)}`);
  }
  made.querySelector(".pick").setAttribute("aria-label", `Select ${nameOf(item)}`);
  refresh(made);
  return made;
}

// What is no picture stands in its place: words, sound or film.
function worded(made, item) {
  made.classList.add("worded");
  made.querySelector(".pic").replaceChildren(...words(item));
  const plays = player(item);
  made.classList.toggle("media", plays !== null);
  if (plays) made.querySelector(".frame").append(plays);
  const leads = link(item);
  if (leads) made.querySelector(".caption").append(leads);
}

function caption(made, item) {
  const [name, label, score] = ["file", "label", "score"].map((part) => made.querySelector(`.caption .${part}`));
  name.textContent = isPicture(item) ? nameOf(item) : item.card?.title === item.name ? "" : item.name ?? ""; // the title stands above
  name.title = item.folder && item.folder !== "." ? `${item.folder}/${nameOf(item)}` : nameOf(item);
  label.textContent = item.label ?? "";
  if (item.by_name) Object.assign(score, { textContent: "by name", title: "The words are in its label, file or folder name" });
  else if (item.score !== undefined) score.textContent = item.probability ? `${item.score.toFixed(2)} · ${percent(item.probability)}` : item.score.toFixed(3);
}

// While scrolling fast, pictures that have left again are not asked for.
function image(element, source) {
  element.dataset.src = source;
  element.onerror = () => again(element);
  late.add(element);
  clearTimeout(pause);
  pause = setTimeout(showLate, scrolling() ? 120 : 0);
}

function showLate() {
  for (const element of late) if (element.isConnected) element.src = element.dataset.src;
  late.clear();
}

// A request that was one too many is sent again, twice at most.
function again(element) {
  if (!element.hasAttribute("src")) return;
  const times = Number(element.dataset.times ?? 0) + 1;
  element.dataset.times = times;
  if (times <= 2) setTimeout(() => { if (element.isConnected) element.src = `${element.dataset.src}&again=${times}`; }, 900 * times);
}

function spoken(item, place) {
  const parts = [`${place + 1}: ${nameOf(item)}`];
  if (item.card?.text) parts.push(item.card.text.slice(0, 160));
  if (item.label) parts.push(item.label);
  if (item.score !== undefined) parts.push(`similarity ${item.score.toFixed(3)}`);
  if (item.by_name) parts.push("matched by name");
  if (item.probability) parts.push(`matches with ${percent(item.probability)}`);
  if (item.relevant === true) parts.push("same label as the query");
  return parts.join(", ");
}

// The mark of an item for the present query: true, false or undefined.
export function markOf(row) {
  for (const example of state.like) {
    const mark = state.marks.get(`${markKey(example)}>${row}`);
    if (mark !== undefined) return mark;
  }
  return undefined;
}

function refresh(made) {
  const { item } = made;
  const framed = made.item.score !== undefined;
  const mark = item.answer ? item.said : framed ? markOf(item.row) : undefined; // a suggestion knows its own
  made.classList.toggle("right", mark === true);
  made.classList.toggle("wrong", mark === false);
  made.classList.toggle("hit", mark === true || (framed && mark === undefined && item.relevant === true));
  made.querySelector(".marks .right").setAttribute("aria-pressed", mark === true);
  made.querySelector(".marks .wrong").setAttribute("aria-pressed", mark === false);
  const selected = state.selected.has(item.row);
  made.classList.toggle("selected", selected);
  made.querySelector(".pick").checked = selected;
}

export function refreshCards() {
  document.querySelectorAll(".card").forEach((made) => { if (made.item) refresh(made); });
}

// A short list without scrolling of its own.
export function fill(list, items) {
  const get = (place) => Promise.resolve(items[place]);
  list.replaceChildren(...items.map((item, place) => Object.assign(card(item, place), { place })));
  list.grid = {
    total: items.length, item: get, shown: () => items, columns: () => getComputedStyle(list).gridTemplateColumns.split(" ").length,
    focus: (place) => list.children[place]?.querySelector(".pic").focus(),
  };
  list.querySelector(".pic")?.setAttribute("tabindex", "0");
}

export const thumb = (item, size = 64) => face(item, size);

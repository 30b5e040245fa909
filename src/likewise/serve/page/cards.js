// How an item looks: a card in a grid with caption, marks and selection; a small picture; words, sound and film.

import { $, make, markKey, nameOf, number, percent, pictureOf, react, state } from "./state.js";

const BUTTONS = ["right", "wrong", "add", "name", "find"];
const late = new Set(); // images that wait until scrolling pauses
let pause = 0;
let scrolled = -Infinity;

export function card(item, place) {
  const element = $("card").content.firstElementChild.cloneNode(true);
  element.item = item;
  element.dataset.row = item.row;
  const picture = element.querySelector(".pic");
  picture.tabIndex = -1;
  picture.setAttribute("aria-label", spoken(item, place));
  if (isPicture(item)) image(picture.firstElementChild, pictureOf(item));
  else worded(element, item);
  caption(element, item);
  for (const name of BUTTONS) {
    const button = element.querySelector(`.${name}`);
    button.setAttribute("aria-label", `${button.title}: ${nameOf(item)}`);
  }
  element.querySelector(".pick").setAttribute("aria-label", `Select ${nameOf(item)}`);
  refresh(element);
  return element;
}

// Words, sound or film in place of a picture.
function worded(element, item) {
  element.classList.add("worded");
  element.querySelector(".pic").replaceChildren(...words(item));
  const plays = player(item);
  element.classList.toggle("media", plays !== null);
  if (plays) element.querySelector(".frame").append(plays);
  const leads = link(item);
  if (leads) element.querySelector(".caption").append(leads);
}

function caption(element, item) {
  const [name, label, score] = ["file", "label", "score"].map((part) => element.querySelector(`.caption .${part}`));
  const other = item.card?.title === item.name ? "" : item.name ?? ""; // the title is on the card already
  name.textContent = isPicture(item) ? nameOf(item) : other;
  name.title = item.folder && item.folder !== "." ? `${item.folder}/${nameOf(item)}` : nameOf(item);
  label.textContent = item.label ?? "";
  if (item.by_name) {
    Object.assign(score, { textContent: "by name", title: "The words are in its label, file or folder name" });
  } else if (item.score !== undefined) {
    score.textContent = item.probability ? `${item.score.toFixed(2)} · ${percent(item.probability)}`
      : item.score.toFixed(3);
  }
}

// While scrolling fast, pictures that have left again are not requested.
function image(element, source) {
  element.dataset.src = source;
  element.onerror = () => retry(element);
  late.add(element);
  clearTimeout(pause);
  pause = setTimeout(showLate, performance.now() - scrolled < 150 ? 120 : 0);
}

function showLate() {
  for (const element of late) if (element.isConnected) element.src = element.dataset.src;
  late.clear();
}

// A request that failed is sent again, twice at most.
function retry(element) {
  if (!element.hasAttribute("src")) return;
  const times = Number(element.dataset.times ?? 0) + 1;
  element.dataset.times = times;
  if (times > 2) return;
  setTimeout(() => { if (element.isConnected) element.src = `${element.dataset.src}&again=${times}`; }, 900 * times);
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

// The mark of a row for the present query: true, false or undefined.
export function markOf(row) {
  for (const example of state.like) {
    const mark = state.marks.get(`${markKey(example)}>${row}`);
    if (mark !== undefined) return mark;
  }
  return undefined;
}

// Whether an item is a suggestion for a query or a label; its mark is the answer to that.
export const isSuggestion = (item) => item.reason !== undefined
  && (item.of_label !== null || item.of_row !== null || item.of_upload !== null);

export function markShown(item) {
  if (isSuggestion(item)) return state.answers.get(item.row);
  return item.score === undefined ? undefined : markOf(item.row);
}

function refresh(element) {
  const { item } = element;
  const mark = markShown(item);
  element.classList.toggle("right", mark === true);
  element.classList.toggle("wrong", mark === false);
  element.classList.toggle("hit", mark ?? (item.score !== undefined && item.relevant === true));
  element.querySelector(".marks .right").setAttribute("aria-pressed", mark === true);
  element.querySelector(".marks .wrong").setAttribute("aria-pressed", mark === false);
  const selected = state.selected.has(item.row);
  element.classList.toggle("selected", selected);
  element.querySelector(".pick").checked = selected;
}

// A short list without scrolling of its own.
export function fill(list, items) {
  list.replaceChildren(...items.map((item, place) => Object.assign(card(item, place), { place })));
  list.grid = {
    total: items.length,
    item: (place) => Promise.resolve(items[place]),
    shown: () => items,
    columns: () => getComputedStyle(list).gridTemplateColumns.split(" ").length,
    focus: (place) => list.children[place]?.querySelector(".pic").focus(),
  };
  list.querySelector(".pic")?.setAttribute("tabindex", "0");
}

export function wireCards() {
  addEventListener("scroll", () => { scrolled = performance.now(); }, { passive: true });
  react(() => [state.marks, state.answers, state.selected, state.like], () => {
    for (const element of document.querySelectorAll(".card")) if (element.item) refresh(element);
  });
}

// -- without a card: small pictures, words, sound and film ---------------------------------------------------------

export function isPicture(example) {
  if (example.upload !== undefined) return !example.upload.startsWith("vector.");
  return (example.kind ?? (state.status.pictures ? "picture" : "item")) === "picture";
}

// A small picture of an example, or its name on a plain ground.
export function thumbnail(example, size, alt = nameOf(example)) {
  if (isPicture(example)) {
    return make("img", { src: pictureOf(example), alt, width: size, height: size, loading: "lazy" });
  }
  const element = make("span", { className: "face", title: nameOf(example) }, nameOf(example));
  if (size) element.style.width = element.style.height = `${size}px`;
  return element;
}

export const textOf = (value) => (typeof value === "number" ? number(value) : String(value));

// What is on a card instead of a picture.
export function words(item) {
  const card = item.card ?? {};
  const parts = [make("span", { className: "words-title" }, nameOf(item))];
  if (card.text) parts.push(make("span", { className: "words-text" }, card.text));
  if (card.fields?.length) parts.push(make("span", { className: "words-fields" }, ...card.fields.map(field)));
  return parts;
}

const field = ([name, value]) => make("span", { title: `${name}: ${textOf(value)}` },
  make("span", { className: "muted" }, `${name} `), textOf(value));

// Sound and film, by the browser's own controls.
export function player(item) {
  if (item.kind !== "audio" && item.kind !== "video") return null;
  const preload = item.kind === "video" ? "metadata" : "none";
  const src = `/api/items/${item.row}/media`;
  return make(item.kind, { className: "player", controls: true, preload, src, "aria-label": nameOf(item) });
}

// A link to the web; addresses that are not http or https are never made a link.
export function link(item) {
  const url = item.card?.url;
  if (!url || !/^https?:\/\//i.test(url)) return null;
  const text = url.replace(/^https?:\/\/(www\.)?/i, "").replace(/\/$/, "");
  return make("a", { className: "url", href: url, target: "_blank", rel: "noopener noreferrer", title: url }, text);
}

// A page without pictures speaks of items.
export function speakOfItems() {
  const items = (text) => text.replace(/\ba picture\b/g, "an item")
    .replace(/\b([Pp])icture(s?)\b/g, (_, p, s) => `${p === "P" ? "Item" : "item"}${s}`);
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    if (node.nodeType === Node.TEXT_NODE) node.data = items(node.data);
    else {
      for (const name of ["aria-label", "title", "placeholder"]) {
        if (node.hasAttribute(name)) node.setAttribute(name, items(node.getAttribute(name)));
      }
    }
  }
}

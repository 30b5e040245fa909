// Items that are not pictures: their words, sound or film, and how they look where a picture would be.

import { call } from "./api.js";
import { make, nameOf, number, pictureOf, state } from "./state.js";

export const isPicture = (example) => (example.upload === undefined
  ? (example.kind ?? (state.status.pictures ? "picture" : "item")) === "picture" : !example.upload.startsWith("vector."));

// A small picture of an example, or its name on a plain ground.
export function face(example, size, alt = nameOf(example)) {
  if (isPicture(example)) return make("img", { src: pictureOf(example), alt, width: size, height: size, loading: "lazy" });
  const made = make("span", { className: "face", title: nameOf(example) }, nameOf(example));
  if (size) made.style.width = made.style.height = `${size}px`;
  return made;
}

export const shown = (value) => (typeof value === "number" ? number(value) : String(value));

// What stands on a card instead of a picture.
export function words(item) {
  const card = item.card ?? {};
  const parts = [make("span", { className: "words-title" }, nameOf(item))];
  if (card.text) parts.push(make("span", { className: "words-text" }, card.text));
  if (card.fields?.length) parts.push(fields(card.fields));
  return parts;
}

function fields(pairs) {
  return make("span", { className: "words-fields" }, ...pairs.map(([name, value]) => (
    make("span", { title: `${name}: ${shown(value)}` }, make("span", { className: "muted" }, `${name} `), shown(value)))));
}

// Sound and film, by the browser's own controls.
export function player(item) {
  if (item.kind !== "audio" && item.kind !== "video") return null;
  return make(item.kind, {
    className: "player", controls: true, preload: item.kind === "video" ? "metadata" : "none", src: `/api/items/${item.row}/media`, "aria-label": nameOf(item),
  });
}

// An address of the web; the server sends no other, and neither is any other made a link here.
export function link(item) {
  const url = item.card?.url;
  if (!url || !/^https?:\/\//i.test(url)) return null;
  return make("a", { className: "url", href: url, target: "_blank", rel: "noopener noreferrer", title: url }, url.replace(/^https?:\/\/(www\.)?/i, "").replace(/\/$/, ""));
}

// The whole of an item: all of its text, and every column.
export const whole = (item) => call(`/api/items/${item.row}`);

// A page without pictures speaks of items.
export function speakOfItems() {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    if (node.nodeType === Node.TEXT_NODE) node.data = items(node.data);
    else for (const name of ["aria-label", "title", "placeholder"]) if (node.hasAttribute(name)) node.setAttribute(name, items(node.getAttribute(name)));
  }
}

const items = (text) => text.replace(/\ba picture\b/g, "an item").replace(/\b([Pp])icture(s?)\b/g, (_, p, s) => `${p === "P" ? "Item" : "item"}${s}`);

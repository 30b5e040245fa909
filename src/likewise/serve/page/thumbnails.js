// How an item looks: a small picture, or words, sound and film where it has none.

import { make, nameOf, number, pictureOf, state } from "./state.js";

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

// What is searched by: the examples of the query, words, ids, numbers, uploaded pictures.

import { call, query, upload } from "./api.js";
import { filters } from "./filters.js";
import { draggedItem } from "./keys.js";
import { exclude, include, searchBy } from "./search.js";
import { $, batch, button, make, nameOf, pictures, react, say, state, trying } from "./state.js";
import { thumbnail } from "./thumbnails.js";

const UNWANTED = /(?:^|\s)[-−](?:"([^"]+)"|(\S+))/gu; // -car, -"red car"

// -- examples -----------------------------------------------------------------------------------------------------

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

// -- words and numbers --------------------------------------------------------------------------------------------

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

// -- uploaded pictures --------------------------------------------------------------------------------------------

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

// The box for words, or for the numbers of a vector: what is typed takes the place of earlier words, and stands beside the pictures of the query.

import { push } from "./address.js";
import { call } from "./api.js";
import { pictures, $, say, state } from "./state.js";

const UNWANTED = /(?:^|\s)[-−](?:"([^"]+)"|(\S+))/gu; // -car, -"red car"

// Wanted words first, then those with a minus.
export function parsed(text) {
  const unwanted = [...text.matchAll(UNWANTED)].map(([, quoted, word]) => quoted ?? word);
  const wanted = text.replace(UNWANTED, " ").replace(/\s+/gu, " ").trim();
  return { like: wanted ? [{ text: wanted }] : [], unlike: unwanted.map((word) => ({ text: word })) };
}

export function written() {
  const words = (list) => list.filter((example) => example.text !== undefined).map(({ text }) => text);
  return [...words(state.like), ...words(state.unlike).map((text) => (/\s/u.test(text) ? `-"${text}"` : `-${text}`))].join(" ");
}

export function showWords() {
  $("words-form").hidden = !state.status.words;
  if (document.activeElement !== $("words")) $("words").value = written();
}

export function wireWords(show, pasted, askFor) {
  // The encoder takes seconds to read: the server does so while words are typed, not while the first page is shown.
  $("words").addEventListener("focus", () => call("/api/search", { like: [{ text: "a picture" }], k: 1 }).catch(() => {}), { once: true });
  $("words-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (pasted($("words").value)) { askFor($("words").value); return; }
    const found = parsed($("words").value);
    if (!found.like.length && !found.unlike.length && !written()) { say("Type some words first.", "wrong"); return; }
    for (const name of ["like", "unlike"]) state[name] = [...pictures(state[name]), ...found[name]].slice(0, 16);
    push();
    show();
  });
}

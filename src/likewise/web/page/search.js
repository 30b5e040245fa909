// The query and its results on both sides.

import { call, upload } from "./api.js";
import { fill } from "./cards.js";
import { $, keyOf, number, pictureOf, plural, refOf, say, state, trying } from "./state.js";

let turn = 0; // responses to an older query are dropped

export function searchBy(example) {
  state.like = [example];
  state.unlike = [];
  state.k = 24;
  return changed();
}

export function include(example, wanted = true) {
  for (const list of [state.like, state.unlike]) {
    const place = list.findIndex((other) => keyOf(other) === keyOf(example));
    if (place >= 0) list.splice(place, 1);
  }
  const list = wanted ? state.like : state.unlike;
  if (list.length >= 16) return say("A query has at most 16 examples.", "wrong");
  list.push(example);
  return changed();
}

// The query is part of the address: back and forward work, and a search can be shared.
function changed() {
  const parts = [...state.like.map((e) => `+${keyOf(e)}`), ...state.unlike.map((e) => `-${keyOf(e)}`)];
  const hash = parts.length ? `#${parts.join(",")}` : "#";
  if (location.hash === hash || (hash === "#" && !location.hash)) return show();
  history.pushState(null, "", hash);
  return show();
}

export async function fromAddress() {
  const parts = location.hash.slice(1).split(",").filter(Boolean);
  state.like = [];
  state.unlike = [];
  for (const part of parts) {
    const name = part.slice(1);
    const list = part.startsWith("-") ? state.unlike : state.like;
    if (/^\d+$/.test(name)) {
      const item = await trying(() => call(`/api/items/${name}`));
      if (item) list.push(item);
    } else if (name.startsWith("u")) list.push({ upload: name.slice(1) });
  }
  return show();
}

export async function show() {
  const mine = ++turn;
  chips();
  const asking = state.like.length + state.unlike.length > 0;
  $("columns").hidden = !asking;
  $("start").hidden = asking;
  document.title = asking ? `${state.like[0]?.label ?? "picture"} · likewise` : "likewise";
  if (!asking) return begin();
  $("columns").classList.toggle("no-query", state.like.length === 0);
  for (const grid of ["grid-left", "grid-right"]) $(grid).classList.add("waiting");
  const found = await trying(() => Promise.all([ask(state.side), ask("learned")]));
  if (!found || mine !== turn) return undefined;
  draw(...found);
  return found;
}

function ask(side) {
  const labels = state.filter ? [state.filter] : [];
  return call("/api/search", { like: state.like.map(refOf), unlike: state.unlike.map(refOf), k: state.k, side, labels });
}

function draw(left, right) {
  fill($("grid-left"), left.hits);
  fill($("grid-right"), right.hits);
  precision($("ap-left"), left);
  precision($("ap-right"), right);
  $("version").textContent = right.version ? `after ${plural(right.version, "lesson")}` : "";
  $("legend").hidden = right.label === null;
  $("more").hidden = right.hits.length < state.k || state.k >= 192;
  markNew(left.hits, right.hits);
  const among = state.filter ? ` labelled ${state.filter}` : "";
  say(`${number(state.status.items)} items${among} ranked in ${right.milliseconds.toFixed(1)} ms`);
  $("results").dispatchEvent(new CustomEvent("searched", { detail: { left, right } }));
}

// Marks what the learned side shows and the other does not.
function markNew(left, right) {
  const before = new Set(left.map((hit) => hit.row));
  const cards = $("grid-right").children;
  right.forEach((hit, place) => cards[place].classList.toggle("moved", !before.has(hit.row)));
}

function precision(output, found) {
  const value = found.average_precision;
  output.replaceChildren();
  if (value === null) return;
  if (found.by_heart) {
    output.title = "The model learned from this item and its label: how it ranks says nothing about new ones";
    output.append("a training item");
    return;
  }
  const figure = document.createElement("b");
  figure.textContent = value.toFixed(3);
  output.title = "Average precision of this query over all items";
  output.append("AP", figure);
}

export async function begin(seed = 1) {
  const label = state.filter && state.labels[state.filter] ? `&label=${encodeURIComponent(state.filter)}` : "";
  const some = await trying(() => call(`/api/items?limit=48&shuffle=${seed}${label}`));
  if (!some) return;
  fill($("start-grid"), some.items, false);
  $("start").classList.add("no-query");
  say(`Ready: ${number(state.status.items)} items.`);
}

function chips() {
  const all = [...state.like.map((e) => [e, true]), ...state.unlike.map((e) => [e, false])];
  $("chips").replaceChildren(...all.map(([example, wanted]) => chip(example, wanted)));
  $("drop-hint").hidden = all.length > 2;
}

function chip(example, wanted) {
  const name = example.label ?? (example.upload === undefined ? `item ${example.id ?? example.row}` : "your picture");
  const entry = document.createElement("li");
  entry.className = wanted ? "chip" : "chip not";
  const image = new Image(92, 92);
  image.src = pictureOf(example);
  image.alt = `${wanted ? "Like" : "Not like"}: ${name}`;
  const sign = button(wanted ? "like" : "not like", wanted ? `Not like this: ${name}` : `Like this: ${name}`, "sign");
  sign.addEventListener("click", () => include(example, !wanted));
  const gone = button("×", `Remove ${name}`, "remove");
  gone.addEventListener("click", () => remove(example));
  entry.append(image, sign, gone);
  return entry;
}

function button(text, label, kind) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = kind;
  made.textContent = text;
  made.setAttribute("aria-label", label);
  return made;
}

function remove(example) {
  state.like = state.like.filter((other) => other !== example);
  state.unlike = state.unlike.filter((other) => other !== example);
  return changed();
}

export async function uploadAll(files) {
  const pictures = [...files].slice(0, 8);
  if (!pictures.length) return;
  if (!state.status.uploads) {
    say("This index was built from numbers, not pictures: click an item instead.", "wrong");
    return;
  }
  say(pictures.length > 1 ? `Uploading ${pictures.length} pictures…` : "Uploading your picture…", "busy");
  const uploaded = [];
  for (const file of pictures) {
    const done = await trying(() => upload(file));
    if (done) uploaded.push({ upload: done.upload });
  }
  if (!uploaded.length) return;
  state.like = uploaded;
  state.unlike = [];
  state.k = 24;
  await changed();
}

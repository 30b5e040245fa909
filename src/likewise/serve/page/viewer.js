// The picture view: large, with its name and what can be done with it; arrows and swipes lead to the next.

import { call } from "./api.js";
import { isPicture, isSuggestion, link, markOf, markShown, player, textOf } from "./cards.js";
import { actions } from "./keys.js";
import { $, make, nameOf, percent, pictureOf, pictures, react, say, state, trying } from "./state.js";

const dialog = $("viewer");
let list = null;
let place = 0;
let item = null;
let down = null;

export function open(first, card) {
  list = card?.parentElement ?? null;
  place = card?.place ?? 0;
  if (!dialog.open) dialog.showModal();
  draw(first);
  dialog.focus(); // not a button, which Space and Enter would press
}

function draw(next) {
  item = next;
  const pictured = isPicture(item);
  $("viewer-image").hidden = $("viewer-open").hidden = !pictured;
  $("viewer-words").hidden = pictured;
  if (pictured) $("viewer-image").src = pictureOf(item, "large");
  $("viewer-image").alt = nameOf(item);
  describe(item);
  const path = `/api/items/${item.row}`; // with its whole text and every column
  if (item.card) trying(() => call(path)).then((whole) => { if (whole && item === next) describe(whole); });
  $("viewer-title").textContent = nameOf(item);
  fact("folder", item.folder === "." ? null : item.folder);
  fact("date", item.date && dateOf(item));
  const likely = item.probability ? ` · matches with ${percent(item.probability)}` : "";
  fact("score", item.score === undefined ? null : `${item.score.toFixed(3)}${likely}`);
  $("viewer-open").href = pictureOf(item, "large");
  $("viewer-copy").hidden = item.folder === null || item.folder === undefined;
  refresh();
  preload();
}

function dateOf({ date }) {
  const options = { day: "numeric", month: "long", year: "numeric" };
  return new Date(`${date}T12:00`).toLocaleDateString("en", options);
}

// The text and the columns, as many as are known yet; a player that is there goes on playing.
function describe({ card }) {
  const box = $("viewer-words");
  const before = box.row === item.row ? box.querySelector(".player") : null;
  const plays = before ?? player(item);
  const text = card?.text ? [make("p", { className: "text" }, card.text)] : [];
  box.replaceChildren(make("h3", {}, nameOf(item)), ...(plays ? [plays] : []), ...text);
  box.row = item.row;
  const field = ([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, textOf(value)));
  $("viewer-fields").replaceChildren(...(card?.fields ?? []).map(field));
  $("viewer-fields").hidden = !card?.fields?.length;
  const leads = link({ card });
  $("viewer-link").replaceChildren(...(leads ? [leads] : []));
  $("viewer-link").hidden = !leads;
}

function fact(name, text) {
  $(`viewer-${name}`).textContent = text ?? "";
  $(`viewer-${name}`).parentElement.hidden = !text;
}

// Show the mark and the label as they are now.
function refresh() {
  if (!item) return;
  fact("label", item.label);
  const mark = isSuggestion(item) ? markShown(item) : markOf(item.row);
  const isResult = pictures(state.like).length > 0 && item.score !== undefined;
  $("viewer-marks").hidden = !isSuggestion(item) && !isResult;
  $("viewer-right").setAttribute("aria-pressed", mark === true);
  $("viewer-wrong").setAttribute("aria-pressed", mark === false);
  dialog.dataset.mark = { true: "right", false: "wrong" }[mark] ?? "";
  $("viewer-previous").disabled = !list?.grid || place === 0;
  $("viewer-next").disabled = !list?.grid || place >= list.grid.total - 1;
  if (document.activeElement?.disabled) dialog.focus();
}

// Have the next picture ready.
async function preload() {
  const other = await list?.grid?.item(place + 1);
  if (other && isPicture(other)) new Image().src = pictureOf(other, "large");
}

async function go(by) {
  const other = await list?.grid?.item(place + by);
  if (!other || !dialog.open) return;
  place += by;
  draw(other);
}

async function copy() {
  const parts = [state.status.root, item.folder === "." ? null : item.folder, nameOf(item)];
  await trying(async () => {
    await navigator.clipboard.writeText(parts.filter(Boolean).join("/"));
    say("The path was copied.");
    $("viewer-copy").textContent = "Copied";
    setTimeout(() => { $("viewer-copy").textContent = "Copy path"; }, 1500);
  });
}

const WORKS = {
  right: () => actions.right(item),
  wrong: () => actions.wrong(item),
  name: () => actions.name(item),
  find: () => { dialog.close(); actions.search(item); },
  add: () => { dialog.close(); actions.add(item); },
  previous: () => go(-1),
  next: () => go(1),
  close: () => dialog.close(),
  copy,
};
const KEYS = {
  arrowleft: "previous", arrowright: "next", " ": "close", enter: "find", r: "right", w: "wrong", l: "name", a: "add",
};

function pressed(event) {
  const name = KEYS[event.key.toLowerCase()];
  const isForButton = event.target.closest("button, a") && [" ", "Enter"].includes(event.key);
  if (!name || isForButton || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  event.stopPropagation();
  WORKS[name]();
}

function closed() {
  if (list?.isConnected) list.grid?.focus(place);
  $("viewer-image").removeAttribute("src");
  $("viewer-words").replaceChildren();
}

function swipes() {
  const board = $("viewer-board");
  board.addEventListener("pointerdown", (event) => {
    down = event.pointerType === "mouse" ? null : [event.clientX, event.clientY];
  });
  board.addEventListener("pointerup", (event) => {
    if (!down) return;
    const [x, y] = [event.clientX - down[0], event.clientY - down[1]];
    down = null;
    if (Math.abs(x) > 50 && Math.abs(x) > 2 * Math.abs(y)) go(x < 0 ? 1 : -1);
  });
}

export function wireViewer() {
  for (const [name, work] of Object.entries(WORKS)) $(`viewer-${name}`).addEventListener("click", work);
  dialog.addEventListener("keydown", pressed);
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", closed);
  react(() => [state.marks, state.answers, state.labels, state.like], refresh);
  swipes();
}

// The picture view: large, with its name and what can be done with it; arrows and swipes lead to the next.

import { markOf } from "./cards.js";
import { isPicture, link, player, shown as shownValue, whole } from "./faces.js";
import { $, make, nameOf, percent, pictureOf, pictures, say, state, trying } from "./state.js";

const dialog = $("viewer");
let list = null;
let place = 0;
let item = null;
let down = null;

export const shown = () => (dialog.open ? item : null);

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
  $("viewer-image").hidden = !pictured;
  $("viewer-words").hidden = pictured;
  if (pictured) $("viewer-image").src = pictureOf(item, "large");
  $("viewer-image").alt = nameOf(item);
  $("viewer-open").hidden = !pictured;
  described(item, item);
  if (item.card) trying(() => whole(item)).then((full) => { if (full && item === next) described(item, full); });
  $("viewer-title").textContent = nameOf(item);
  fact("folder", item.folder === "." ? null : item.folder);
  fact("date", item.date && new Date(`${item.date}T12:00`).toLocaleDateString("en", { day: "numeric", month: "long", year: "numeric" }));
  fact("label", item.label);
  fact("score", item.score === undefined ? null : `${item.score.toFixed(3)}${item.probability ? ` · matches with ${percent(item.probability)}` : ""}`);
  $("viewer-open").href = pictureOf(item, "large");
  $("viewer-copy").hidden = item.folder === null || item.folder === undefined;
  refreshViewer();
  step(1);
}

// The text and every column, as far as they are known yet.
function described(one, { card }) {
  const plays = one.kind === $("viewer-words").querySelector(".player")?.localName && one.row === $("viewer-words").row ? $("viewer-words").querySelector(".player") : player(one);
  const text = card?.text ? [make("p", { className: "text" }, card.text)] : [];
  $("viewer-words").replaceChildren(make("h3", {}, nameOf(one)), ...(plays ? [plays] : []), ...text);
  $("viewer-words").row = one.row;
  $("viewer-fields").replaceChildren(...(card?.fields ?? []).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, shownValue(value)))));
  $("viewer-fields").hidden = !card?.fields?.length;
  const leads = link({ card });
  $("viewer-link").replaceChildren(...(leads ? [leads] : []));
  $("viewer-link").hidden = !leads;
}

function fact(name, text) {
  $(`viewer-${name}`).textContent = text ?? "";
  $(`viewer-${name}`).parentElement.hidden = !text;
}

// Show the marks as they are now, and the label if it was changed.
export function refreshViewer(label) {
  if (!item) return;
  if (label !== undefined) { item.label = label; fact("label", label); }
  const mark = item.answer ? item.said : markOf(item.row);
  $("viewer-marks").hidden = !item.answer && (pictures(state.like).length === 0 || item.score === undefined);
  $("viewer-right").setAttribute("aria-pressed", mark === true);
  $("viewer-wrong").setAttribute("aria-pressed", mark === false);
  dialog.dataset.mark = mark === undefined ? "" : mark ? "right" : "wrong";
  $("viewer-previous").disabled = !list?.grid || place === 0;
  $("viewer-next").disabled = !list?.grid || place >= list.grid.total - 1;
  if (document.activeElement?.disabled) dialog.focus();
}

// Have the next picture ready.
async function step(by) {
  const other = await list?.grid?.item(place + by);
  if (other && isPicture(other)) new Image().src = pictureOf(other, "large");
}

export async function go(by) {
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

export function wireViewer(actions) {
  const works = { right: actions.right, wrong: actions.wrong, name: actions.name, find: (one) => { dialog.close(); actions.search(one); }, add: (one) => { dialog.close(); actions.add(one); } };
  for (const [name, work] of Object.entries(works)) $(`viewer-${name}`).addEventListener("click", () => work(item));
  $("viewer-previous").addEventListener("click", () => go(-1));
  $("viewer-next").addEventListener("click", () => go(1));
  $("viewer-copy").addEventListener("click", copy);
  $("viewer-close").addEventListener("click", () => dialog.close());
  const keys = { arrowleft: () => go(-1), arrowright: () => go(1), " ": () => dialog.close(), enter: () => works.find(item), r: () => works.right(item), w: () => works.wrong(item), l: () => works.name(item), a: () => works.add(item) };
  dialog.addEventListener("keydown", (event) => {
    const work = keys[event.key.toLowerCase()];
    const own = event.target.closest("button, a") && [" ", "Enter"].includes(event.key);
    if (!work || own || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    work();
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => { if (list?.isConnected) list.grid?.focus(place); $("viewer-image").removeAttribute("src"); $("viewer-words").replaceChildren(); });
  swipes();
}

function swipes() {
  const board = $("viewer-board");
  board.addEventListener("pointerdown", (event) => { down = event.pointerType === "mouse" ? null : [event.clientX, event.clientY]; });
  board.addEventListener("pointerup", (event) => {
    if (!down) return;
    const [x, y] = [event.clientX - down[0], event.clientY - down[1]];
    down = null;
    if (Math.abs(x) > 50 && Math.abs(x) > 2 * Math.abs(y)) go(x < 0 ? 1 : -1);
  });
}

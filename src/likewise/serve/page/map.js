// The map: one point per item, by the learned or the raw similarity; click one to see its neighbours.

import { call } from "./api.js";
import { fill } from "./cards.js";
import { actions, listen } from "./keys.js";
import { wireMap } from "./lasso.js";
import { board, canvas, names, plan, resize } from "./mapview.js";
import { selection } from "./selection.js";
import { $, button, make, nameOf, number, pictureOf, say, state, aThing, trying } from "./state.js";
import { isPicture, words } from "./faces.js";

let side = "learned";

export async function openMap() {
  $("map-sides").hidden = !state.status.compare;
  if (!state.status.compare) side = "learned";
  showSide();
  if (!board.map) say("Drawing the map…", "busy");
  resize();
  await load();
  if (board.map) say(`Drag to move, scroll or pinch to zoom, click ${aThing()} to see its neighbours.`);
}

export async function refreshMap() {
  if (board.map && !$("map").hidden) await load();
  else if (board.map) board.map.stale = true;
  plan();
}

// After labels were given: their colours and names.
export async function relabelMap() {
  if (board.map) board.map.stale = true;
  if (!$("map").hidden) await load();
}

const current = (map) => map.side === side && !map.stale && map.method === "neighbours" && (side === "raw" || map.version === state.status.version);

async function load() {
  if (board.map && current(board.map)) return plan();
  const got = await trying(() => call(`/api/map?side=${side}`));
  if (!got || got.side !== side) return undefined;
  got.rows = got.x.map((_, place) => place);
  got.place = new Map(got.rows.map((row, place) => [row, place]));
  got.names ??= names(got);
  Object.assign(got, { cache: new Map(), waiting: new Set(), pointsOf: "" });
  got.order = got.codes.map((_, place) => place).sort((a, b) => got.codes[a] - got.codes[b]);
  board.map = got;
  note();
  plan();
  if (got.method === "quick" || (side === "learned" && got.version !== state.status.version)) setTimeout(follow, 700);
  return undefined;
}

// The neighbourhoods take some seconds to compute: poll until they are there.
async function follow() {
  const status = await trying(() => call("/api/status"));
  if (!status || $("map").hidden) return;
  if (status.maps[side].state === "running") setTimeout(follow, 700);
  else if (status.maps[side].state === "done") { board.map.stale = true; load(); }
}

function note() {
  const what = board.map.method === "quick" ? "first sketch; neighbourhoods are being computed…" : "similar ones lie together";
  const tiled = board.map.tiles === null ? "" : " · zoom in to see each";
  $("map-note").textContent = `${number(board.map.total)} points · ${what}${tiled}`;
}

function showSide() {
  for (const name of ["raw", "learned"]) $(`map-${name}`).setAttribute("aria-pressed", name === side);
}

async function choose(row) {
  board.chosen = row;
  const work = () => Promise.all([call(`/api/items/${row}`), call(`/api/search?row=${row}&k=12&side=${side}`)]);
  const [item, answer] = await trying(work) ?? [];
  if (!item || board.chosen !== row) return;
  board.near = answer.hits.map((hit) => hit.row);
  panel(item, answer.hits);
  plan();
}

function panel(item, hits) {
  const picture = button("", { className: "chosen", "aria-label": `Open ${nameOf(item)}` });
  if (isPicture(item)) picture.append(make("img", { src: pictureOf(item, "large"), alt: "" }));
  else { picture.classList.add("worded"); picture.append(...words(item).slice(1)); }
  picture.addEventListener("click", () => actions.open(item, null));
  const go = button("Search by this", { className: "primary" });
  go.addEventListener("click", () => actions.search(item));
  const grid = make("ul", { className: "grid" });
  fill(grid, hits.map(({ score, relevant, ...plain }) => plain));
  listen(grid);
  grid.addEventListener("click", (event) => {
    const card = event.target.closest(".card");
    if (card) { event.stopImmediatePropagation(); choose(card.item.row); }
  }, { capture: true });
  const lines = [make("h2", {}, nameOf(item)), ...(item.label ? [make("p", { className: "muted" }, item.label)] : [])];
  $("map-side").replaceChildren(picture, ...lines, go, grid);
}

export function startMap() {
  wireMap(choose);
  for (const name of ["raw", "learned"]) {
    $(`map-${name}`).addEventListener("click", () => { side = name; showSide(); load(); });
  }
  selection.addEventListener("change", plan);
  new ResizeObserver(() => { resize(); plan(); }).observe(canvas);
}

// The map: one point per item, by the learned or the raw similarity; click one to see its neighbours.

import { call } from "./api.js";
import { fill } from "./cards.js";
import { actions, listen } from "./keys.js";
import { wireInput } from "./map_input.js";
import { board, canvas, names, plan, resize } from "./mapview.js";
import { $, aThing, button, make, nameOf, number, pictureOf, react, say, state, trying } from "./state.js";
import { isPicture, words } from "./thumbnails.js";

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

export const redrawMap = plan;

// Whether the map on the board is the one that the server would send.
const isCurrent = (map) => map.side === side && !map.stale && map.method === "neighbours"
  && (side === "raw" || map.version === state.status.version);

async function load() {
  if (board.map && isCurrent(board.map)) { plan(); return; }
  const map = await trying(() => call(`/api/map?side=${side}`));
  if (!map || map.side !== side) return;
  map.rows = map.x.map((_, place) => place);
  map.place = new Map(map.rows.map((row, place) => [row, place]));
  map.names ??= names(map);
  Object.assign(map, { cache: new Map(), waiting: new Set(), pointsOf: "" });
  map.order = map.codes.map((_, place) => place).sort((a, b) => map.codes[a] - map.codes[b]);
  board.map = map;
  note();
  plan();
  const isOld = side === "learned" && map.version !== state.status.version;
  if (map.method === "quick" || isOld) setTimeout(follow, 700);
}

// The neighbourhoods take some seconds to compute: ask until they are there.
async function follow() {
  const status = await trying(() => call("/api/status"));
  if (!status || $("map").hidden) return;
  if (status.maps[side].state === "running") setTimeout(follow, 700);
  else if (status.maps[side].state === "done") { board.map.stale = true; load(); }
}

function note() {
  const what = board.map.method === "quick" ? "first sketch; neighbourhoods are being computed…"
    : "similar ones lie together";
  const tiled = board.map.tiles === null ? "" : " · zoom in to see each";
  $("map-note").textContent = `${number(board.map.total)} points · ${what}${tiled}`;
}

function showSide() {
  for (const name of ["raw", "learned"]) $(`map-${name}`).setAttribute("aria-pressed", name === side);
}

export async function choose(row) {
  board.chosen = row;
  const work = () => Promise.all([call(`/api/items/${row}`), call(`/api/search?row=${row}&k=12&side=${side}`)]);
  const [item, answer] = await trying(work) ?? [];
  if (!item || board.chosen !== row) return;
  board.near = answer.hits.map((hit) => hit.row);
  panel(item, answer.hits);
  plan();
}

function panel(item, hits) {
  const picture = button("", { className: "chosen", "aria-label": `Open ${nameOf(item)}` },
    () => actions.open(item, null));
  if (isPicture(item)) picture.append(make("img", { src: pictureOf(item, "large"), alt: "" }));
  else { picture.classList.add("worded"); picture.append(...words(item).slice(1)); }
  const search = button("Search by this", { className: "primary" }, () => actions.search(item));
  const grid = make("ul", { className: "grid" });
  fill(grid, hits.map(({ score, relevant, ...plain }) => plain));
  listen(grid);
  grid.addEventListener("click", (event) => {
    const card = event.target.closest(".card");
    if (card) { event.stopImmediatePropagation(); choose(card.item.row); }
  }, { capture: true });
  const lines = [make("h2", {}, nameOf(item)), ...(item.label ? [make("p", { className: "muted" }, item.label)] : [])];
  $("map-side").replaceChildren(picture, ...lines, search, grid);
}

export function wireMap() {
  wireInput();
  for (const name of ["raw", "learned"]) {
    $(`map-${name}`).addEventListener("click", () => { side = name; showSide(); load(); });
  }
  react(() => state.selected, plan);
  // Labels have colours and names on the map, and a lesson moves its points.
  react(() => [state.labels, state.lessons], () => {
    if (board.map) board.map.stale = true;
    if (!$("map").hidden && state.view === "map") load();
  });
  new ResizeObserver(() => { resize(); plan(); }).observe(canvas);
}

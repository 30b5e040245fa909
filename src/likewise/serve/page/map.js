// The map: one point per item, by the learned or the raw similarity; fingers, mouse and keys move it and pick items.

import { call } from "./api.js";
import { fill, isPicture, words } from "./cards.js";
import { actions, listen, select } from "./keys.js";
import { at, board, canvas, move, names, nearest, plan, resize, showAll, view, zoom } from "./mapview.js";
import { $, aThing, button, make, nameOf, number, pictureOf, plural, react, say, state, trying } from "./state.js";

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

// -- fingers, mouse and keys: move, zoom, look, pick, and draw around points to select them ------------------------

const fingers = new Map();
let moved = 0;
let resting = 0;

const isLassoing = () => $("lasso").getAttribute("aria-pressed") === "true";

function setLasso(on) {
  $("lasso").setAttribute("aria-pressed", on);
  canvas.classList.toggle("lassoing", on);
  if (on) say("Draw around points to select them.");
}

function down(event) {
  canvas.setPointerCapture(event.pointerId);
  const here = [event.offsetX, event.offsetY];
  fingers.set(event.pointerId, here);
  moved = 0;
  board.lasso = isLassoing() && fingers.size === 1 ? [here] : null;
}

function moving(event) {
  const before = fingers.get(event.pointerId);
  if (!board.map) return;
  if (!before) { peek(event); return; }
  const now = [event.offsetX, event.offsetY];
  const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
  moved += Math.abs(dx) + Math.abs(dy);
  if (fingers.size === 2) {
    const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
    const far = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]);
    board.lasso = null;
    zoom(far(now) / Math.max(1, far(before)), other[0], other[1]);
  } else if (board.lasso) { board.lasso.push(now); plan(); } else move(dx, dy);
  fingers.set(event.pointerId, now);
  $("peek").hidden = true;
}

function up(event) {
  fingers.delete(event.pointerId);
  if (!board.map) return;
  if (board.lasso && moved > 6) { enclosed(); return; }
  board.lasso = null;
  if (moved > 6) return;
  const place = nearest(event.offsetX, event.offsetY, 30);
  if (place !== null) choose(board.map.rows[place]);
  else if (board.map.tiles !== null) zoom(2, event.offsetX, event.offsetY);
}

// Select every point inside the line; the lasso is put away afterwards. Of tiles the server knows the points.
async function enclosed() {
  const line = board.lasso;
  const v = view();
  const { map } = board;
  const body = { side: map.side, line: onMap(line, v) };
  const answer = map.tiles === null ? null : await trying(() => call("/api/map/lasso", body));
  const rows = answer?.rows ?? map.rows.filter((_, place) => isInside(line, ...at(place, v)));
  board.lasso = null;
  setLasso(false);
  select(rows.map((row) => ({ row })));
  const isPart = answer && answer.total > rows.length;
  const count = isPart ? `The first ${number(rows.length)} of ${plural(answer.total, "point")}`
    : plural(rows.length, "point");
  say(rows.length ? `${count} inside: label them below.` : "There is nothing inside.");
  plan();
}

// A line in the coordinates of the map; of a long one, every so many points.
function onMap(line, v) {
  const step = Math.ceil(line.length / 500);
  const place = (pixel, start) => (
    Math.max(-65535, Math.min(131070, Math.round(((pixel - start) / v.size) * 65535))));
  return line.filter((_, i) => i % step === 0).map(([x, y]) => [place(x, v.left), 65535 - place(y, v.top)]);
}

// Whether a ray to the right crosses the line an odd number of times.
function isInside(line, x, y) {
  let odd = false;
  for (let i = 0, j = line.length - 1; i < line.length; j = i, i += 1) {
    const [[xi, yi], [xj, yj]] = [line[i], line[j]];
    if ((yi > y) !== (yj > y) && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) odd = !odd;
  }
  return odd;
}

function pressed(event) {
  const { width, height } = canvas.getBoundingClientRect();
  const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
  if (event.key in steps) move(...steps[event.key]);
  else if (event.key === "+" || event.key === "=") zoom(1.4, width / 2, height / 2);
  else if (event.key === "-") zoom(1 / 1.4, width / 2, height / 2);
  else if (event.key === "Enter" && board.map?.x.length) {
    choose(board.map.rows[nearest(width / 2, height / 2, Infinity)]);
  } else return;
  event.preventDefault();
}

function peek(event) {
  const place = isLassoing() ? null : nearest(event.offsetX, event.offsetY, 12);
  const figure = $("peek");
  figure.hidden = place === null || event.pointerType === "touch";
  canvas.classList.toggle("pointing", place !== null);
  if (place === null) return;
  const { rows, codes, labels } = board.map;
  const row = rows[place];
  if (figure.dataset.row !== String(row)) {
    figure.dataset.row = row;
    $("peek-label").textContent = codes[place] < 0 ? "" : labels[codes[place]];
    if (state.status.pictures) $("peek-image").src = pictureOf({ row });
    else showName(row, $("peek-label").textContent);
  }
  const box = canvas.getBoundingClientRect();
  figure.style.left = `${Math.min(event.offsetX + 16, box.width - 142)}px`;
  figure.style.top = `${Math.min(event.offsetY + 16, box.height - 176)}px`;
}

// An item without a picture shows its title, once the pointer rests.
function showName(row, label) {
  clearTimeout(resting);
  resting = setTimeout(async () => {
    const item = await call(`/api/items/${row}`).catch(() => null);
    if (!item || $("peek").dataset.row !== String(row)) return;
    $("peek-label").textContent = [nameOf(item), label].filter(Boolean).join(" · ");
  }, 120);
}

function wireInput() {
  canvas.addEventListener("pointerdown", down);
  canvas.addEventListener("pointermove", moving);
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", (event) => { fingers.delete(event.pointerId); board.lasso = null; });
  canvas.addEventListener("pointerleave", () => { $("peek").hidden = true; });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * 0.0016), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("keydown", pressed);
  $("lasso").addEventListener("click", () => setLasso(!isLassoing()));
  for (const [id, times] of [["zoom-in", 1.6], ["zoom-out", 1 / 1.6]]) {
    $(id).addEventListener("click", () => { const v = view(); zoom(times, v.width / 2, v.height / 2); });
  }
  $("zoom-all").addEventListener("click", showAll);
}

// The map: one point per item; drag, zoom, click to explore. Zoomed in, points become pictures.

import { call } from "./api.js";
import { actions, fill, listen } from "./cards.js";
import { $, number, pictureOf, say, state, trying } from "./state.js";

const canvas = $("canvas");
const pen = canvas.getContext("2d");
const eye = { x: 0.5, y: 0.5, scale: 1 }; // centre and zoom of the view
const pictures = new Map();
const CLOSE = 170; // up to this many visible points are shown as pictures
let map = null;
let chosen = null;
let near = [];
let planned = false;

export async function openMap() {
  if (!map) say("Drawing the map…", "busy");
  resize();
  await load();
  if (map) say("Drag to move, scroll or pinch to zoom, click a picture to see its neighbours.");
}

export async function refreshMap() {
  if (map && !$("map").hidden) await load();
  else if (map) map.stale = true;
  plan();
}

async function load() {
  if (map && !map.stale && map.method === "neighbours" && map.version === state.status.version) return plan();
  const got = await trying(() => call("/api/map"));
  if (!got) return undefined;
  map = got;
  map.rows ??= map.x.map((_, place) => place);
  map.place = new Map(map.rows.map((row, place) => [row, place]));
  map.names = names();
  map.order = map.codes.map((_, place) => place).sort((a, b) => map.codes[a] - map.codes[b]);
  note();
  plan();
  if (map.method === "quick" || map.version !== state.status.version) setTimeout(follow, 700);
  return undefined;
}

// The neighbourhoods take some seconds to compute: poll until they are there.
async function follow() {
  const status = await trying(() => call("/api/status"));
  if (!status) return;
  if (status.map.state === "running") setTimeout(follow, 700);
  else if (status.map.state === "done") { map.stale = true; load(); }
}

function note() {
  const what = map.method === "quick" ? "first sketch; neighbourhoods are being computed…" : "similar items lie together";
  $("map-note").textContent = `${number(map.x.length)} points · ${what}`;
}

// -- drawing ------------------------------------------------------------------------------------------------------

function plan() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => { planned = false; draw(); });
}

function resize() {
  const box = canvas.getBoundingClientRect();
  canvas.width = Math.round(box.width * devicePixelRatio);
  canvas.height = Math.round(box.height * devicePixelRatio);
}

function view() {
  const box = canvas.getBoundingClientRect();
  const size = Math.min(box.width, box.height) * 0.94 * eye.scale;
  return { size, left: box.width / 2 - eye.x * size, top: box.height / 2 - eye.y * size, width: box.width, height: box.height };
}

const at = (place, v) => [v.left + (map.x[place] / 65535) * v.size, v.top + (1 - map.y[place] / 65535) * v.size];

function colour(code) {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  return code < 0 ? "#8a93a3" : `hsl(${(code * 137.508) % 360} 58% ${dark ? 64 : 46}%)`;
}

function draw() {
  if (!map || $("map").hidden) return;
  const v = view();
  pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  pen.clearRect(0, 0, v.width, v.height);
  const seen = points(v);
  const close = seen.length <= CLOSE;
  if (close) seen.forEach((place) => thumbnail(place, v));
  rings(v);
  if (!close) words(v);
}

function points(v) {
  const seen = [];
  const radius = Math.min(6, 1.6 + Math.log2(Math.max(1, eye.scale)) * 0.8);
  let last = null;
  pen.globalAlpha = 0.8;
  for (const place of map.order) {
    const [x, y] = at(place, v);
    if (x < -20 || y < -20 || x > v.width + 20 || y > v.height + 20) continue;
    seen.push(place);
    if (map.codes[place] !== last) {
      last = map.codes[place];
      pen.fillStyle = colour(last);
    }
    if (radius < 2.2) pen.fillRect(x - radius, y - radius, 2 * radius, 2 * radius);
    else { pen.beginPath(); pen.arc(x, y, radius, 0, 7); pen.fill(); }
  }
  pen.globalAlpha = 1;
  return seen;
}

// The name of each label is drawn at the median of its items.
function names() {
  const groups = new Map();
  map.codes.forEach((code, place) => {
    if (code >= 0) (groups.get(code) ?? groups.set(code, []).get(code)).push(place);
  });
  const middle = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
  return [...groups].map(([code, places]) => ({
    text: map.labels[code], count: places.length, x: middle(places.map((p) => map.x[p])), y: middle(places.map((p) => map.y[p])),
  })).sort((a, b) => b.count - a.count);
}

// Draw the names that fit without overlap, largest groups first.
function words(v) {
  const style = getComputedStyle(document.body);
  const taken = [];
  pen.font = `600 12px ${style.fontFamily}`;
  pen.textAlign = "center";
  pen.lineJoin = "round";
  pen.lineWidth = 4;
  pen.strokeStyle = getComputedStyle($("map").querySelector(".board")).backgroundColor;
  pen.fillStyle = style.color;
  for (const name of map.names) {
    const [x, y] = [v.left + (name.x / 65535) * v.size, v.top + (1 - name.y / 65535) * v.size - 11];
    const half = pen.measureText(name.text).width / 2 + 5;
    if (x < 0 || y < 0 || x > v.width || y > v.height) continue;
    if (taken.some((t) => Math.abs(t.x - x) < t.half + half && Math.abs(t.y - y) < 16)) continue;
    taken.push({ x, y, half });
    pen.strokeText(name.text, x, y);
    pen.fillText(name.text, x, y);
  }
}

function thumbnail(place, v) {
  const row = map.rows[place];
  let image = pictures.get(row);
  if (!image) {
    image = new Image();
    image.onload = plan;
    image.src = pictureOf({ row });
    pictures.set(row, image);
    if (pictures.size > 600) pictures.delete(pictures.keys().next().value);
  }
  if (!image.complete || !image.naturalWidth) return;
  const [x, y] = at(place, v);
  const side = Math.min(image.naturalWidth, image.naturalHeight);
  pen.fillStyle = colour(map.codes[place]);
  pen.fillRect(x - 25, y - 25, 50, 50);
  pen.drawImage(image, (image.naturalWidth - side) / 2, (image.naturalHeight - side) / 2, side, side, x - 23, y - 23, 46, 46);
}

function rings(v) {
  if (chosen === null || !map.place.has(chosen)) return;
  const centre = at(map.place.get(chosen), v);
  pen.lineWidth = 1.5;
  pen.strokeStyle = getComputedStyle($("map-note")).color;
  pen.globalAlpha = 0.5;
  for (const row of near.filter((other) => map.place.has(other))) {
    pen.beginPath();
    pen.moveTo(...centre);
    pen.lineTo(...at(map.place.get(row), v));
    pen.stroke();
  }
  pen.globalAlpha = 1;
  pen.lineWidth = 3;
  pen.strokeStyle = "#2fb457";
  pen.beginPath();
  pen.arc(...centre, 9, 0, 7);
  pen.stroke();
}

// -- moving -------------------------------------------------------------------------------------------------------

function zoom(times, x, y) {
  const before = view();
  const u = [(x - before.left) / before.size, (y - before.top) / before.size];
  eye.scale = Math.max(0.8, Math.min(120, eye.scale * times));
  const after = view();
  eye.x += u[0] - (x - after.left) / after.size;
  eye.y += u[1] - (y - after.top) / after.size;
  plan();
}

function move(dx, dy) {
  const { size } = view();
  eye.x = Math.max(-0.2, Math.min(1.2, eye.x - dx / size));
  eye.y = Math.max(-0.2, Math.min(1.2, eye.y - dy / size));
  plan();
}

function nearest(x, y, within) {
  const v = view();
  let best = null;
  let least = within * within;
  for (let place = 0; place < map.x.length; place += 1) {
    const [px, py] = at(place, v);
    const far = (px - x) ** 2 + (py - y) ** 2;
    if (far < least) [best, least] = [place, far];
  }
  return best;
}

const fingers = new Map();
let moved = 0;

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
  moved = 0;
});
canvas.addEventListener("pointermove", (event) => {
  const before = fingers.get(event.pointerId);
  if (!map) return;
  if (!before) { peek(event); return; }
  const now = [event.offsetX, event.offsetY];
  const [dx, dy] = [now[0] - before[0], now[1] - before[1]];
  moved += Math.abs(dx) + Math.abs(dy);
  if (fingers.size === 2) {
    const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
    const far = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]);
    zoom(far(now) / Math.max(1, far(before)), other[0], other[1]);
  } else move(dx, dy);
  fingers.set(event.pointerId, now);
  $("peek").hidden = true;
});
canvas.addEventListener("pointerup", (event) => {
  fingers.delete(event.pointerId);
  if (!map || moved > 6) return;
  const place = nearest(event.offsetX, event.offsetY, 30);
  if (place !== null) choose(map.rows[place]);
});
canvas.addEventListener("pointercancel", (event) => fingers.delete(event.pointerId));
canvas.addEventListener("pointerleave", () => { $("peek").hidden = true; });
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.exp(-event.deltaY * 0.0016), event.offsetX, event.offsetY);
}, { passive: false });
canvas.addEventListener("keydown", (event) => {
  const box = canvas.getBoundingClientRect();
  const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
  if (event.key in steps) move(...steps[event.key]);
  else if (event.key === "+" || event.key === "=") zoom(1.4, box.width / 2, box.height / 2);
  else if (event.key === "-") zoom(1 / 1.4, box.width / 2, box.height / 2);
  else if (event.key === "Enter" && map) choose(map.rows[nearest(box.width / 2, box.height / 2, Infinity)]);
  else return;
  event.preventDefault();
});

function peek(event) {
  const place = nearest(event.offsetX, event.offsetY, 12);
  const figure = $("peek");
  figure.hidden = place === null || event.pointerType === "touch";
  canvas.style.cursor = place === null ? "grab" : "pointer";
  if (place === null) return;
  const row = map.rows[place];
  if (figure.dataset.row !== String(row)) {
    figure.dataset.row = row;
    $("peek-image").src = pictureOf({ row });
    $("peek-label").textContent = map.codes[place] < 0 ? `item ${row}` : map.labels[map.codes[place]];
  }
  const box = canvas.getBoundingClientRect();
  figure.style.left = `${Math.min(event.offsetX + 16, box.width - 142)}px`;
  figure.style.top = `${Math.min(event.offsetY + 16, box.height - 176)}px`;
}

async function choose(row) {
  chosen = row;
  const [item, answer] = await trying(() => Promise.all([call(`/api/items/${row}`), call(`/api/search?row=${row}&k=12`)])) ?? [];
  if (!item || chosen !== row) return;
  near = answer.hits.map((hit) => hit.row);
  side(item, answer.hits);
  plan();
}

function side(item, hits) {
  const image = new Image();
  image.src = pictureOf(item, "large");
  image.alt = item.label ?? `item ${item.id}`;
  const title = document.createElement("h2");
  title.textContent = item.label ?? `item ${item.id}`;
  const go = document.createElement("button");
  go.type = "button";
  go.className = "primary";
  go.textContent = "Search by this";
  go.addEventListener("click", () => actions.search(item));
  const grid = document.createElement("ul");
  grid.className = "grid";
  fill(grid, hits);
  listen(grid);
  grid.addEventListener("click", (event) => {
    const card = event.target.closest(".card");
    if (card) { event.stopImmediatePropagation(); choose(card.item.row); }
  }, { capture: true });
  $("map-side").replaceChildren(image, title, go, grid);
}

for (const [id, times] of [["zoom-in", 1.6], ["zoom-out", 1 / 1.6]]) {
  $(id).addEventListener("click", () => { const v = view(); zoom(times, v.width / 2, v.height / 2); });
}
$("zoom-all").addEventListener("click", () => { Object.assign(eye, { x: 0.5, y: 0.5, scale: 1 }); plan(); });
new ResizeObserver(() => { resize(); plan(); }).observe(canvas);

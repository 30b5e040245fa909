// Drawing the map: points, names that do not collide, pictures when few are in view, the lasso.

import { call } from "./api.js";
import { $, pictureOf, state } from "./state.js";

export const canvas = $("canvas");
const pen = canvas.getContext("2d");
const eye = { x: 0.5, y: 0.5, scale: 1 }; // centre and zoom of the view
const pictures = new Map();
const CLOSE = 170; // up to this many points in view are shown as pictures
const CELLS = 64; // of a tile on either side
const DEEPEST = 8;
const AT_ONCE = 6; // tiles requested at a time
const WIDE = 480; // pixels of a tile before four smaller ones take its place
const SMALL = 300; // a map of no more than this is shown as pictures at once
export const board = { map: null, chosen: null, near: [], lasso: null };
let planned = false;

export function plan() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => { planned = false; draw(); });
}

export function resize() {
  const box = canvas.getBoundingClientRect();
  canvas.width = Math.round(box.width * devicePixelRatio);
  canvas.height = Math.round(box.height * devicePixelRatio);
}

export function view() {
  const box = canvas.getBoundingClientRect();
  const size = Math.min(box.width, box.height) * 0.92 * eye.scale;
  const { width, height } = box;
  return { size, left: width / 2 - eye.x * size, top: height / 2 - eye.y * size, width, height };
}

const onCanvas = (x, y, v) => [v.left + (x / 65535) * v.size, v.top + (1 - y / 65535) * v.size];
export const at = (place, v) => onCanvas(board.map.x[place], board.map.y[place], v);

function colour(code) {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  return code < 0 ? "#8a93a3" : `hsl(${(code * 137.508) % 360} 58% ${dark ? 64 : 46}%)`;
}

function draw() {
  if (!board.map || $("map").hidden) return;
  const v = view();
  pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  pen.clearRect(0, 0, v.width, v.height);
  const all = board.map.tiles === null || layTiles(board.map, v);
  const seen = points(v);
  const close = state.status.pictures && all && (seen.length <= CLOSE || board.map.x.length <= SMALL);
  const room = Math.sqrt((v.width * v.height) / Math.max(1, seen.length));
  const side = close ? Math.max(26, Math.min(64, 0.55 * room)) : 0;
  if (close) seen.forEach((place) => thumbnail(place, v, side));
  chosenOnes(seen, v, side);
  rings(v);
  if (!close) words(v);
  path();
}

function points(v) {
  const { map } = board;
  const seen = [];
  const many = Math.max(1.6, Math.min(4, 60 / Math.sqrt(map.x.length)));
  const radius = Math.min(6, many + Math.log2(Math.max(1, eye.scale)) * 0.8);
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

// The name of each label belongs to the median of its items.
export function names(map) {
  const groups = new Map();
  map.codes.forEach((code, place) => {
    if (code >= 0) (groups.get(code) ?? groups.set(code, []).get(code)).push(place);
  });
  const middle = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
  return [...groups].map(([code, places]) => ({
    text: map.labels[code],
    count: places.length,
    x: middle(places.map((p) => map.x[p])),
    y: middle(places.map((p) => map.y[p])),
  })).sort((a, b) => b.count - a.count);
}

// Draw the names that fit inside the board without overlap, largest groups first.
function words(v) {
  const style = getComputedStyle(document.body);
  const taken = [...document.querySelectorAll(".board > :is(.map-tools, .zoom, .map-note)")].map((box) => ({
    x: box.offsetLeft + box.offsetWidth / 2,
    y: box.offsetTop + box.offsetHeight / 2,
    half: box.offsetWidth / 2,
    tall: box.offsetHeight / 2,
  }));
  const font = `600 12px ${style.fontFamily}`;
  Object.assign(pen, { font, textAlign: "center", textBaseline: "middle", lineJoin: "round", lineWidth: 4 });
  pen.strokeStyle = getComputedStyle($("map").querySelector(".board")).backgroundColor;
  pen.fillStyle = style.color;
  for (const name of board.map.names) {
    const half = pen.measureText(name.text).width / 2 + 6;
    const [px, y] = onCanvas(name.x, name.y, v);
    if (px < 0 || y < 10 || px > v.width || y > v.height - 10) continue;
    const x = Math.max(half, Math.min(v.width - half, px));
    if (taken.some((t) => Math.abs(t.x - x) < t.half + half && Math.abs(t.y - y) < t.tall + 10)) continue;
    taken.push({ x, y, half, tall: 10 });
    pen.strokeText(name.text, x, y);
    pen.fillText(name.text, x, y);
  }
}

function thumbnail(place, v, size) {
  const row = board.map.rows[place];
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
  const half = size / 2;
  pen.fillStyle = colour(board.map.codes[place]);
  if (board.map.codes[place] >= 0) pen.fillRect(x - half - 2, y - half - 2, size + 4, size + 4);
  const [left, top] = [(image.naturalWidth - side) / 2, (image.naturalHeight - side) / 2];
  pen.drawImage(image, left, top, side, side, x - half, y - half, size, size);
}

function chosenOnes(seen, v, side) {
  if (!state.selected.size) return;
  pen.strokeStyle = pen.fillStyle = "#2f6bff";
  pen.lineWidth = 2.5;
  for (const place of seen) {
    if (!state.selected.has(board.map.rows[place])) continue;
    const [x, y] = at(place, v);
    pen.beginPath();
    if (side) pen.rect(x - side / 2 - 2, y - side / 2 - 2, side + 4, side + 4);
    else pen.arc(x, y, 3.5, 0, 7);
    if (side) pen.stroke();
    else pen.fill();
  }
}

function rings(v) {
  const { map, chosen, near } = board;
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

function path() {
  if (!board.lasso?.length) return;
  pen.beginPath();
  board.lasso.forEach(([x, y]) => pen.lineTo(x, y));
  pen.closePath();
  pen.fillStyle = "rgb(47 107 255 / .14)";
  pen.fill();
  pen.lineWidth = 2;
  pen.strokeStyle = "#2f6bff";
  pen.stroke();
}

export function zoom(times, x, y) {
  const before = view();
  const u = [(x - before.left) / before.size, (y - before.top) / before.size];
  eye.scale = Math.max(0.8, Math.min(120, eye.scale * times));
  const after = view();
  eye.x += u[0] - (x - after.left) / after.size;
  eye.y += u[1] - (y - after.top) / after.size;
  plan();
}

export function move(dx, dy) {
  const { size } = view();
  eye.x = Math.max(-0.2, Math.min(1.2, eye.x - dx / size));
  eye.y = Math.max(-0.2, Math.min(1.2, eye.y - dy / size));
  plan();
}

export function showAll() {
  Object.assign(eye, { x: 0.5, y: 0.5, scale: 1 });
  plan();
}

export function nearest(x, y, within) {
  const v = view();
  let best = null;
  let least = within * within;
  for (let place = 0; place < board.map.x.length; place += 1) {
    const [px, py] = at(place, v);
    const far = (px - x) ** 2 + (py - y) ** 2;
    if (far < least) [best, least] = [place, far];
  }
  return best;
}

// -- tiles of very many items: how many lie where, and points where a tile has few --------------------------------

// Draw the tiles in view and take over their points; returns whether all of them are points.
function layTiles(map, v) {
  const level = Math.max(0, Math.min(DEEPEST, Math.ceil(Math.log2(v.size / WIDE))));
  const shown = inView(v, level).map((at) => ({ at, tile: map.cache.get(at.join("/")) }));
  const known = shown.map((one) => ({ ...one, ...(one.tile ? { from: one.at } : above(map, one.at)) }))
    .filter((one) => one.tile);
  const counted = known.filter(({ tile }) => !tile.points);
  const densest = ({ tile, from }) => dense(tile.counts.reduce((a, b) => Math.max(a, b), 0), from);
  const most = counted.reduce((so, one) => Math.max(so, densest(one)), 0);
  for (const one of counted) cells(one, v, most);
  takePoints(map, known.filter(({ tile }) => tile.points).map(({ tile }) => tile.points));
  for (const { at } of shown.filter(({ tile }) => tile === undefined)) fetchTile(map, at);
  return shown.length > 0 && shown.every(({ tile }) => tile?.points);
}

// Items per area: cells of two levels may be in view at once.
const dense = (count, [level]) => count * 4 ** level;

function inView(v, level) {
  const n = 2 ** level;
  const place = (pixel, start) => Math.max(0, Math.min(n - 1, Math.floor(((pixel - start) / v.size) * n)));
  const tiles = [];
  for (let x = place(0, v.left); x <= place(v.width, v.left); x += 1) {
    for (let row = place(0, v.top); row <= place(v.height, v.top); row += 1) tiles.push([level, x, n - 1 - row]);
  }
  return tiles;
}

// Until a tile is there, the part of a larger one that it will replace.
function above(map, [level, x, y]) {
  for (let up = 1; up <= level; up += 1) {
    const from = [level - up, x >> up, y >> up];
    const tile = map.cache.get(from.join("/"));
    if (tile) return { tile, from };
  }
  return {};
}

function square(v, [level, x, y]) {
  const side = v.size / 2 ** level;
  return [v.left + x * side, v.top + v.size - (y + 1) * side, side];
}

function cells({ at: place, from, tile }, v, most) {
  const [left, top, side] = square(v, from);
  const [x, y, wide] = square(v, place);
  pen.save();
  pen.beginPath();
  pen.rect(x, y, wide, wide);
  pen.clip();
  const size = side / CELLS;
  tile.cells.forEach((cell, i) => {
    pen.globalAlpha = 0.15 + 0.85 * (dense(tile.counts[i], from) / most) ** 0.5;
    pen.fillStyle = colour(tile.codes[i]);
    const [column, row] = [cell % CELLS, Math.floor(cell / CELLS)];
    pen.fillRect(left + column * size, top + side - (row + 1) * size, size + 0.6, size + 0.6);
  });
  pen.restore();
}

// The points in view are those of the map, to be clicked and peeked at.
function takePoints(map, parts) {
  const key = parts.map((part) => part.rows[0]).join();
  if (key === map.pointsOf) return;
  map.pointsOf = key;
  for (const name of ["x", "y", "rows", "codes"]) map[name] = parts.flatMap((part) => part[name]);
  map.place = new Map(map.rows.map((row, place) => [row, place]));
  map.order = map.codes.map((_, place) => place).sort((a, b) => map.codes[a] - map.codes[b]);
}

async function fetchTile(map, [z, x, y]) {
  const key = [z, x, y].join("/");
  if (map.waiting.has(key) || map.waiting.size >= AT_ONCE) return;
  map.waiting.add(key);
  const tile = await call(`/api/map/tile?side=${map.side}&z=${z}&x=${x}&y=${y}&v=${map.tiles}`).catch(() => null);
  map.waiting.delete(key);
  if (tile) map.cache.set(key, tile);
  if (tile) plan();
}

// A map of very many items: tiles that say how many lie where, and points where a tile has few.

import { call } from "./api.js";

const CELLS = 64; // of a tile on either side
const DEEPEST = 8;
const AT_ONCE = 6; // tiles asked for at a time
const WIDE = 480; // pixels of a tile before four smaller ones take its place

// Draw the tiles in view and take over their points; returns whether all of them are points.
export function layTiles(map, v, pen, colour, redraw) {
  const level = Math.max(0, Math.min(DEEPEST, Math.ceil(Math.log2(v.size / WIDE))));
  const shown = inView(v, level).map((at) => ({ at, tile: map.cache.get(at.join("/")) }));
  const known = shown.map((one) => ({ ...one, ...(one.tile ? { from: one.at } : above(map, one.at)) })).filter((one) => one.tile);
  const most = known.reduce((so, { tile, from }) => Math.max(so, tile.points ? 0 : dense(tile.counts.reduce((a, b) => Math.max(a, b), 0), from)), 0);
  for (const one of known) if (!one.tile.points) cells(one, v, pen, colour, most);
  points(map, known.filter(({ tile }) => tile.points).map(({ tile }) => tile.points));
  for (const { at } of shown.filter(({ tile }) => tile === undefined)) fetchTile(map, at, redraw);
  return shown.length > 0 && shown.every(({ tile }) => tile?.points);
}

// Items per area: cells of two levels may be in view at once.
const dense = (count, [level]) => count * 4 ** level;

function inView(v, level) {
  const n = 2 ** level;
  const place = (pixel, start) => Math.max(0, Math.min(n - 1, Math.floor(((pixel - start) / v.size) * n)));
  const found = [];
  for (let x = place(0, v.left); x <= place(v.width, v.left); x += 1) {
    for (let row = place(0, v.top); row <= place(v.height, v.top); row += 1) found.push([level, x, n - 1 - row]);
  }
  return found;
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

function cells({ at, from, tile }, v, pen, colour, most) {
  const [left, top, side] = square(v, from);
  const [x, y, wide] = square(v, at);
  pen.save();
  pen.beginPath();
  pen.rect(x, y, wide, wide);
  pen.clip();
  const size = side / CELLS;
  tile.cells.forEach((cell, i) => {
    pen.globalAlpha = 0.15 + 0.85 * (dense(tile.counts[i], from) / most) ** 0.5;
    pen.fillStyle = colour(tile.codes[i]);
    pen.fillRect(left + (cell % CELLS) * size, top + side - (Math.floor(cell / CELLS) + 1) * size, size + 0.6, size + 0.6);
  });
  pen.restore();
}

// The points in view are those of the map, to be clicked and peeked at.
function points(map, parts) {
  const key = parts.map((part) => part.rows[0]).join();
  if (key === map.pointsOf) return;
  map.pointsOf = key;
  for (const name of ["x", "y", "rows", "codes"]) map[name] = parts.flatMap((part) => part[name]);
  map.place = new Map(map.rows.map((row, place) => [row, place]));
  map.order = map.codes.map((_, place) => place).sort((a, b) => map.codes[a] - map.codes[b]);
}

async function fetchTile(map, [z, x, y], redraw) {
  const key = [z, x, y].join("/");
  if (map.waiting.has(key) || map.waiting.size >= AT_ONCE) return;
  map.waiting.add(key);
  const tile = await call(`/api/map/tile?side=${map.side}&z=${z}&x=${x}&y=${y}&v=${map.tiles}`).catch(() => null);
  map.waiting.delete(key);
  if (tile) map.cache.set(key, tile);
  if (tile) redraw();
}

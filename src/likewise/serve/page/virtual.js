// A grid of any number of cards, of which only those near the window are in the document.

import { $ } from "./state.js";

const PAGE = 60;
const GAP = 14;
const MOST = 100000; // cards of a list: browsers lay nothing out beyond some 17 million pixels
const grids = new Set();

export class VirtualGrid {
  // `load(offset, limit)` gives {total, items}; `make(item, place)` gives a card.
  constructor(list, load, make) {
    const [pages, items, cards] = [new Map(), new Map(), new Map()];
    Object.assign(this, { list, load, make, pages, items, cards, total: 0, turn: 0, reached: 0 });
    list.classList.add("virtual");
    list.grid = this;
    grids.add(this);
    new ResizeObserver(() => this.render()).observe(list);
  }

  // Load the first page; the old cards stay until it is there. A card with focus keeps it.
  async reload() {
    const turn = ++this.turn;
    const focus = this.focused();
    this.pages.clear();
    const wanted = focus ? Math.floor(focus.place / PAGE) : 0;
    const first = await this.page(0, turn);
    if (wanted) await this.page(wanted, turn);
    if (!first || turn !== this.turn) return null;
    this.total = Math.min(first.total, MOST);
    this.redraw(focus);
    return first;
  }

  page(at, turn = this.turn) {
    if (!this.pages.has(at)) this.pages.set(at, this.fetch(at, turn));
    return this.pages.get(at);
  }

  async fetch(at, turn) {
    const answer = await this.load(at * PAGE, PAGE);
    if (turn !== this.turn) return null;
    if (!answer) { this.pages.delete(at); return null; }
    if (at === 0) this.items.clear();
    answer.items.forEach((item, place) => this.items.set(at * PAGE + place, item));
    return answer;
  }

  redraw(focus = this.focused()) {
    for (const card of this.cards.values()) card.remove();
    this.cards.clear();
    this.render();
    if (focus) this.refocus(focus);
  }

  refocus({ row, place }) {
    const same = [...this.items].find(([, item]) => item.row === row);
    const there = same ? same[0] : Math.min(place, this.total - 1);
    if (there >= 0) this.focus(there, !same || Math.abs(there - place) > 3 * this.columns());
  }

  // The item at a place, loaded if need be.
  async item(place) {
    if (place < 0 || place >= this.total) return undefined;
    if (!this.items.has(place)) await this.page(Math.floor(place / PAGE));
    return this.items.get(place);
  }

  focused() {
    const card = document.activeElement?.closest?.(".card");
    return card && card.parentElement === this.list && card.item ? { row: card.item.row, place: card.place } : null;
  }

  focus(place, scroll = true) {
    if (scroll) this.reveal(place);
    this.render(place);
    this.cards.get(place)?.querySelector(".pic")?.focus({ preventScroll: true });
  }

  // Scroll so that the card is between the bars at the top and at the bottom.
  reveal(place) {
    const { height } = this.measures();
    const top = this.list.getBoundingClientRect().top + Math.floor(place / this.columns()) * height;
    const [low, high] = [document.querySelector(".top").offsetHeight + 12, innerHeight - $("teach").offsetHeight - 12];
    if (top < low) scrollBy({ top: top - low, behavior: "instant" });
    else if (top + height > high) scrollBy({ top: Math.min(top + height - high, top - low), behavior: "instant" });
  }

  columns() { return this.measures().columns; }

  measures() {
    const style = getComputedStyle(this.list);
    const [tile, caption, tall, least] = ["tile", "caption", "tall", "least"]
      .map((name) => parseFloat(style.getPropertyValue(`--${name}`)));
    const width = this.list.clientWidth;
    const columns = Math.max(least || 2, Math.floor((width + GAP) / (tile + GAP)));
    const side = (width - GAP * (columns - 1)) / columns;
    return { columns, side, height: (tall || side) + caption + GAP };
  }

  // Draw the cards within a screen of the window, and the one with focus.
  render(extra = this.focused()?.place) {
    if (!this.list.clientWidth) return;
    const m = this.measures();
    const top = this.list.getBoundingClientRect().top;
    const from = Math.max(0, Math.floor((-top - innerHeight) / m.height) * m.columns);
    const to = Math.min(this.total, Math.ceil((2 * innerHeight - top) / m.height) * m.columns);
    this.list.style.height = `${Math.max(0, Math.ceil(this.total / m.columns) * m.height - GAP)}px`;
    this.reached = Math.min(this.total, Math.max(this.reached, Math.ceil((innerHeight - top) / m.height) * m.columns));
    this.keep((place) => (place >= from && place < to) || place === extra);
    for (let place = from; place < to; place += 1) this.put(place, m);
    if (extra !== undefined && extra < this.total) this.put(extra, m);
    if (!this.list.querySelector(".pic[tabindex='0']")) this.list.querySelector(".pic")?.setAttribute("tabindex", "0");
    for (let at = Math.floor(from / PAGE); at * PAGE < to; at += 1) this.need(at);
  }

  need(at) {
    if (!this.pages.has(at)) this.page(at).then((answer) => { if (answer) this.render(); });
  }

  keep(wanted) {
    for (const [place, card] of this.cards) {
      if (wanted(place)) continue;
      card.remove();
      card.querySelector("img")?.removeAttribute("src"); // a picture that has left need not be loaded
      this.cards.delete(place);
    }
  }

  put(place, m) {
    const item = this.items.get(place);
    let card = this.cards.get(place);
    if (!card || (item && card.item !== item)) {
      card?.remove();
      card = item ? this.make(item, place) : blank();
      card.place = place;
      card.setAttribute("aria-posinset", place + 1);
      card.setAttribute("aria-setsize", this.total);
      this.cards.set(place, card);
      this.list.insertBefore(card, [...this.list.children].find((other) => other.place > place) ?? null);
    }
    card.style.width = `${m.side}px`;
    const [column, row] = [place % m.columns, Math.floor(place / m.columns)];
    card.style.transform = `translate(${column * (m.side + GAP)}px, ${row * m.height}px)`;
  }

  clear() {
    this.turn += 1;
    this.total = this.reached = 0;
    this.pages.clear();
    this.items.clear();
    this.redraw(null);
  }

  // What has been in the window so far.
  shown() {
    return [...Array(this.reached).keys()].map((place) => this.items.get(place)).filter(Boolean);
  }
}

function blank() {
  const card = document.createElement("li");
  card.className = "card blank";
  card.append(Object.assign(document.createElement("div"), { className: "tile" }));
  return card;
}

let planned = false;
function renderAll() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => { planned = false; for (const grid of grids) grid.render(); });
}
addEventListener("scroll", renderAll, { passive: true });
addEventListener("resize", renderAll);

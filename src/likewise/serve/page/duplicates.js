// Near-duplicates: groups above a threshold, the best of each first, and what was said not to be the same.

import { call } from "./api.js";
import { fill } from "./cards.js";
import { listen } from "./keys.js";
import { $, button, make, number, nameOf, plural, say, state, things, trying, update } from "./state.js";

const PAGE = 30;
let turn = 0;
let groups = 0; // shown so far
let total = 0;
let waiting = 0;

const threshold = () => (Number($("threshold").value) / 1000).toFixed(3);

export async function openDuplicates(limit = PAGE) {
  const mine = ++turn;
  $("threshold-value").textContent = threshold();
  $("duplicates-csv").href = `/api/duplicates.csv?threshold=${threshold()}`;
  const answer = await ready(mine, Math.min(100, limit));
  if (!answer || mine !== turn) return;
  $("groups").replaceChildren();
  groups = 0;
  add(answer);
}

// The first comparison of all pairs takes a while in a large gallery.
async function ready(mine, limit) {
  for (;;) {
    const answer = await trying(() => call(`/api/duplicates?threshold=${threshold()}&limit=${limit}`));
    if (!answer || mine !== turn || state.view !== "duplicates") return null;
    if (answer.state === "failed") { say(answer.error, "wrong"); return null; }
    if (answer.state === "ready") return answer;
    $("duplicates-found").textContent = `Comparing all pairs… ${Math.round(100 * answer.progress)} %`;
    await new Promise((wake) => { setTimeout(wake, 500); });
  }
}

function add(answer) {
  total = answer.total;
  summarise(answer);
  groups += answer.groups.length;
  $("groups").append(...answer.groups.map(group));
  $("groups-more").hidden = groups >= total;
}

function summarise(answer) {
  const counts = `${plural(answer.total, "group")} · ${things(answer.n_extra)} beyond the best of each`;
  const nothing = "Nothing is this similar. Lower the threshold to see more.";
  $("duplicates-found").textContent = answer.total === 0 ? nothing : counts;
  $("threshold").min = Math.ceil(answer.lowest * 1000);
  $("duplicates-csv").hidden = answer.total === 0;
  say(answer.total ? `${plural(answer.total, "group")} of near-duplicates.` : "No near-duplicates at this threshold.");
}

function group(items) {
  const list = make("ul", { className: "grid" });
  fill(list, items);
  listen(list);
  const best = make("span", { className: "best", title: "Most pixels, then the largest file" }, "best");
  [...list.children].forEach((card, place) => card.append(place === 0 ? best : apart(card.item, items)));
  const none = button(items.length > 2 ? "None of these are the same" : "Not the same", { className: "quiet small" },
    () => keepApart(items.map((item) => item.row), box));
  const head = make("div", { className: "group-head" },
    make("span", { className: "muted" }, `${number(items.length)} alike`), none);
  const name = `${items.length} near-duplicates of ${nameOf(items[0])}`;
  const box = make("section", { className: "group", "aria-label": name }, head, list);
  return box;
}

function apart(item, items) {
  if (items.length < 3) return "";
  const name = `Not the same as the best: ${nameOf(item)}`;
  const element = button("Not the same", { className: "apart small", "aria-label": name }, (event) => {
    event.stopPropagation();
    keepApart([items[0].row, item.row], element.closest(".group"));
  });
  return element;
}

// One step, which Undo takes back; the groups are then drawn again where they are.
async function keepApart(items, box) {
  const answer = await trying(() => call("/api/distinct", { items }));
  if (!answer) return;
  update(answer);
  const [place, height] = [[...$("groups").children].indexOf(box), scrollY];
  await openDuplicates(Math.max(PAGE, groups));
  scrollTo({ top: height, behavior: "instant" });
  const boxes = $("groups").children;
  boxes[Math.min(place, boxes.length - 1)]?.querySelector(".pic").focus({ preventScroll: true });
  say("Remembered: not the same.");
}

async function more() {
  const [mine, offset] = [turn, groups];
  const path = `/api/duplicates?threshold=${threshold()}&offset=${offset}&limit=${PAGE}`;
  const answer = await trying(() => call(path));
  if (answer && mine === turn && offset === groups) add(answer);
}

export function wireDuplicates() {
  $("threshold").addEventListener("input", () => {
    $("threshold-value").textContent = threshold();
    clearTimeout(waiting);
    waiting = setTimeout(() => openDuplicates(), 200);
  });
  $("groups-more").addEventListener("click", more);
  new IntersectionObserver((seen) => {
    if (seen.some((one) => one.isIntersecting) && groups && groups < total) more();
  }, { rootMargin: "600px" }).observe($("groups-more"));
}

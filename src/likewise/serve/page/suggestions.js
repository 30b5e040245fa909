// What to mark next: ten items whose marks would teach most.

import { call, query } from "./api.js";
import { fill, isSuggestion } from "./cards.js";
import { refreshLabels } from "./labels.js";
import { $, nameOf, pictures, plural, react, say, state, things, trying, update } from "./state.js";
import { setMarks } from "./teach.js";

let shown = ""; // the query or label that suggestions are for
let turn = 0;

// The query, or else the label that is filtered by; without either, all that was taught.
function concept() {
  const [example] = pictures(state.like);
  if (example) return example.upload === undefined ? { row: example.row } : { upload: example.upload };
  return state.filter.label ? { label: state.filter.label } : {};
}

// Suggestions are for the query, so they are above its results.
export async function suggest() {
  const mine = ++turn;
  state.view = "search";
  shown = JSON.stringify(concept());
  say("Comparing…", "busy");
  const answer = await trying(() => call(`/api/suggestions?${query(concept())}`));
  if (!answer || mine !== turn) return;
  draw(answer.suggestions);
  if (!answer.suggestions.length) { say("There is nothing left to mark."); return; }
  say(`${things(answer.suggestions.length)} to mark next.`);
  scrollTo({ top: 0, behavior: "instant" });
  $("next-grid").grid.focus(0);
}

function draw(suggestions) {
  const isFor = suggestions.some(isSuggestion); // otherwise nothing was taught yet
  state.answers = new Map();
  $("next").hidden = suggestions.length === 0;
  $("next-grid").classList.toggle("start", !isFor);
  $("next-title").textContent = isFor ? "What to mark next" : "Search by one of these to begin";
  fill($("next-grid"), suggestions);
  for (const card of $("next-grid").children) caption(card);
}

function caption(card) {
  const { item } = card;
  const reason = card.querySelector(".caption .label");
  reason.textContent = reason.title = item.reason;
  const picture = card.querySelector(".pic");
  picture.setAttribute("aria-label", `${picture.getAttribute("aria-label")}, ${item.reason}`);
  if (item.of_label === null) return;
  for (const [name, text] of [["right", item.of_label], ["wrong", `Not ${item.of_label}`]]) {
    const button = card.querySelector(`.marks .${name}`);
    button.title = `${text} (${name[0].toUpperCase()})`;
    button.setAttribute("aria-label", `${text}: ${nameOf(item)}`);
  }
}

// A mark for the query, or the label itself; the same again takes it off.
export async function answer(item, right) {
  const value = state.answers.get(item.row) === right ? null : right;
  const isLabel = item.of_label !== null && right;
  const example = item.of_upload === null ? { row: item.of_row } : { upload: item.of_upload };
  const body = { query: [example], items: [item.row], right: value };
  const labelled = { items: [item.row], label: value ? item.of_label : null };
  const status = await trying(() => (isLabel ? call("/api/labels", labelled) : call("/api/marks", body)));
  if (!status) return;
  const answers = new Map(state.answers);
  if (value === null) answers.delete(item.row);
  else answers.set(item.row, value);
  state.answers = answers;
  if (item.of_row !== null && !isLabel) setMarks([`${item.of_row}>${item.row}`], value);
  update(status);
  if (isLabel) await refreshLabels();
  const left = $("next-grid").grid.total - answers.size;
  const rest = left ? `${plural(left, "suggestion")} left.` : "Press Learn, or ask for others.";
  say(value === null ? "Taken off." : `Saved. ${rest}`);
}

function close() {
  turn += 1;
  const inside = $("next").contains(document.activeElement);
  $("next").hidden = true;
  if (inside) $("next-open").focus();
}

export function wireSuggestions() {
  $("next-open").addEventListener("click", suggest);
  $("next-more").addEventListener("click", suggest);
  $("next-close").addEventListener("click", close);
  react(() => state.hits, () => { if (shown !== JSON.stringify(concept())) close(); });
  react(() => state.lessons, () => { if (!$("next").hidden) suggest(); });
}

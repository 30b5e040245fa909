// What to mark next: ten items whose marks would teach most, and what more marks will bring.

import { call, query } from "./api.js";
import { fill, refreshCards } from "./cards.js";
import { refreshLabels } from "./labels.js";
import { showStatus } from "./teach.js";
import { $, nameOf, pictures, plural, say, state, things, trying } from "./state.js";

let shown = ""; // the concept that suggestions are for
let turn = 0;

// The query, or else the label that is filtered by; without either, all that was taught.
function concept() {
  const [example] = pictures(state.like);
  if (example) return example.upload === undefined ? { row: example.row } : { upload: example.upload };
  return state.filter.label ? { label: state.filter.label } : {};
}

export async function whatNext() {
  const mine = ++turn;
  shown = JSON.stringify(concept());
  say("Comparing…", "busy");
  const answer = await trying(() => call(`/api/suggestions?${query(concept())}`));
  if (!answer || mine !== turn) return;
  draw(answer);
  if (!answer.suggestions.length) { say("There is nothing left to mark."); return; }
  say(`${things(answer.suggestions.length)} to mark next.`);
  scrollTo({ top: 0, behavior: "instant" });
  $("next-grid").grid.focus(0);
}

function draw({ suggestions, outlook }) {
  for (const item of suggestions) if (hasConcept(item)) item.answer = (right) => answerTo(item, right);
  $("next").hidden = suggestions.length === 0;
  $("next-grid").classList.toggle("start", !suggestions.some(hasConcept)); // nothing to mark for yet
  $("next-title").textContent = suggestions.some(hasConcept) ? "What to mark next" : "Search by one of these to begin";
  fill($("next-grid"), suggestions);
  [...$("next-grid").children].forEach(caption);
  $("next-outlook").textContent = outlookLine(outlook);
  $("next-outlook").title = outlook ? `In percentage points, of pairs of a right and a wrong mark that are in order when left out: ${outlook.now.toFixed(0)} % now` : "";
}

const hasConcept = (item) => item.of_label !== null || item.of_row !== null || item.of_upload !== null;

function caption(made) {
  const { item } = made;
  const reason = made.querySelector(".caption .label");
  reason.textContent = reason.title = item.reason;
  const picture = made.querySelector(".pic");
  picture.setAttribute("aria-label", `${picture.getAttribute("aria-label")}, ${item.reason}`);
  if (item.of_label === null) return;
  for (const [name, text] of [["right", item.of_label], ["wrong", `Not ${item.of_label}`]]) {
    const made_ = made.querySelector(`.marks .${name}`);
    made_.title = `${text} (${name[0].toUpperCase()})`;
    made_.setAttribute("aria-label", `${text}: ${nameOf(item)}`);
  }
}

function outlookLine(outlook) {
  if (!Object.keys(concept()).length) return "";
  if (!outlook) return "4 right and 4 wrong marks tell what more would bring.";
  const sign = (value) => `${value < 0 ? "−" : ""}${Math.abs(value).toFixed(1)}`;
  return `${outlook.more} more marks: about ${outlook.gain < 0 ? "" : "+"}${sign(outlook.gain)} (${sign(outlook.low)} to ${sign(outlook.high)})`;
}

// A mark for the query, or the label itself; the same again takes it off.
async function answerTo(item, right) {
  const value = item.said === right ? null : right;
  const answer = await trying(() => (item.of_label !== null && right ? giveLabel(item, value) : giveMark(item, value)));
  if (!answer) return;
  item.said = value ?? undefined;
  if (item.of_row !== null && !(item.of_label !== null && right)) remember(`${item.of_row}>${item.row}`, value);
  refreshCards();
  showStatus(answer);
  if (item.of_label !== null && right) await refreshLabels();
  const left = [...$("next-grid").children].filter((made) => made.item.said === undefined).length;
  say(value === null ? "Taken off." : `Saved. ${left ? `${plural(left, "suggestion")} left.` : "Press Learn, or ask for others."}`);
}

const giveLabel = (item, value) => call("/api/labels", { items: [item.row], label: value ? item.of_label : null });
const giveMark = (item, value) => call("/api/marks", {
  query: [item.of_upload === null ? { row: item.of_row } : { upload: item.of_upload }], items: [item.row], right: value,
});

function remember(key, value) {
  if (value === null) state.marks.delete(key);
  else state.marks.set(key, value);
}

function close() {
  turn += 1;
  const inside = $("next").contains(document.activeElement);
  $("next").hidden = true;
  if (inside) $("next-open").focus();
}

export function wireNext() {
  $("next-more").addEventListener("click", whatNext);
  $("next-close").addEventListener("click", close);
  $("results").addEventListener("searched", () => { if (shown !== JSON.stringify(concept())) close(); });
  document.addEventListener("learned", () => { if (!$("next").hidden) whatNext(); });
}

// Teaching: marks, labels, lessons, undo, the card of the last lesson, and what to mark next.

import { call, query } from "./api.js";
import { fill, isSuggestion, markOf, thumbnail } from "./cards.js";
import { clearSelection, focusLast } from "./keys.js";
import { refreshLabels } from "./labels.js";
import {
  $, aThing, batch, button, capital, make, markKey, nameOf, number, page, pictures, plural, react, refOf, reload,
  remember, remembered, say, state, thing, things, trying, update,
} from "./state.js";

const STUCK = 10; // wrong marks without a right one
const UNHEARD = 1000; // ms after which the server is asked again: events may not come through a proxy
let watching = false;
let turning = false; // advice is being asked for
let wake = () => {}; // ends the wait for a lesson

const isRunning = () => state.status.learning?.state === "running";
const nameAll = (items) => (items.length === 1 ? `${nameOf(items[0])} is` : `${things(items.length)} are`);

// Mark items right or wrong for the query; the same mark again takes it off.
export async function mark(items, right) {
  const examples = pictures(state.like);
  if (!examples.length) {
    const words = `Words are taught by labels: give these ${thing()}s one.`;
    say(state.like.length ? words : `Search by ${aThing()} first: a mark belongs to a query.`, "wrong");
    return;
  }
  const value = items.every((item) => markOf(item.row) === right) ? null : right;
  const body = { query: examples.map(refOf), items: items.map((item) => item.row), right: value };
  const answer = await trying(() => call("/api/marks", body));
  if (!answer) return;
  setMarks(examples.flatMap((example) => items.map((item) => `${markKey(example)}>${item.row}`)), value);
  update(answer);
  await rerank();
  const verdict = `Saved: ${nameAll(items)} ${value ? "right" : "wrong"} for this query.`;
  const sentence = value === null ? "Taken off." : verdict;
  say(sentence);
  await advise(sentence, examples);
}

// Results follow the marks at once: right ones first, wrong ones last; the focus stays on its picture.
async function rerank() {
  const isInside = state.last.list?.contains(document.activeElement);
  await reload();
  if (isInside) focusLast();
}

// What the marks say so far: what to expect of the others, and what to do next.
async function advise(sentence, examples) {
  if (turning) return;
  turning = true;
  const card = await trying(() => call(`/api/card?${query(examples.flatMap((one) => Object.entries(refOf(one))))}`));
  turning = false;
  const stuck = card && card.right <= 1 && card.wrong >= STUCK;
  $("next-open").textContent = stuck ? "Show me something else" : "What next?";
  if (card) say(`${sentence} ${card.right} right, ${card.wrong} wrong. ${expectation(card)}${capital(card.next)}.`);
}

function expectation({ expected, of }) {
  if (!expected) return "";
  const [low, high] = [expected.low, expected.high].map((share) => Math.round(100 * share));
  return `${low} to ${high} % of the first ${of} others are right. `;
}

function setMarks(keys, value) {
  const marks = new Map(state.marks);
  for (const key of keys) {
    if (value === null) marks.delete(key);
    else marks.set(key, value);
  }
  state.marks = marks;
}

export async function label(items, name) {
  const answer = await trying(() => call("/api/labels", { items: items.map((item) => item.row), label: name }));
  if (!answer) return;
  const rows = new Set(items.map((item) => item.row));
  for (const example of [...state.like, ...items]) if (rows.has(example.row)) example.label = name;
  update(answer);
  clearSelection();
  await refreshLabels();
  await reload();
  focusLast();
  say(name === null ? `Saved: ${nameAll(items)} without a label.` : `Saved: ${nameAll(items)} labelled ${name}.`);
}

export async function undo() {
  if ($("undo").disabled) return;
  const answer = await trying(() => call("/api/undo", {}));
  if (!answer) return;
  update(answer);
  update(await trying(() => call("/api/status")) ?? {});
  await everything();
  say(`Undone: ${answer.undone}.`);
}

// Load all marks, labels and results again, as after an undo or a change by somebody else.
export async function everything() {
  await Promise.all([loadMarks(), refreshLabels()]);
  for (const example of pictures([...state.like, ...state.unlike])) {
    if (example.upload === undefined) {
      Object.assign(example, await trying(() => call(`/api/items/${example.row}`)));
    }
  }
  await reload();
}

export async function loadMarks() {
  const entries = await trying(() => call("/api/feedback"));
  if (!entries) return;
  const marks = new Map();
  for (const { kind, queries, uploads, items, right } of entries) {
    if (kind !== "mark") continue;
    queries.forEach((row, place) => {
      const key = row === null ? `u${uploads[place]}` : String(row);
      for (const item of items) {
        if (right === null) marks.delete(`${key}>${item}`);
        else marks.set(`${key}>${item}`, right);
      }
    });
  }
  state.marks = marks;
}

// -- lessons -------------------------------------------------------------------------------------------------------

export async function learn() {
  if ($("learn").disabled) return;
  const answer = await trying(() => call("/api/learn", {}));
  if (!answer) return;
  update(answer);
  say("Keeping… you can go on searching.", "busy");
  await awaitLesson();
}

export async function awaitLesson() {
  if (watching) return;
  watching = true;
  try {
    await finished();
  } finally {
    watching = false;
  }
}

async function finished() {
  do {
    if (isRunning()) await new Promise((done) => { wake = done; setTimeout(done, UNHEARD); });
    const status = await trying(() => call("/api/status")); // events have a part of it
    if (!status) return;
    update(status);
  } while (isRunning());
  const { learning, lesson, previous } = state.status;
  if (learning.state === "failed") { say(learning.error, "wrong"); return; }
  batch(() => {
    if (previous) state.side = "previous";
    state.revision += 1;
  });
  await page.drawn;
  if (lesson) say(`Kept in ${lesson.seconds.toFixed(2)} s.`);
  state.lessons += 1;
}

function drawStatus(status) {
  const { feedback, undo: step, previous, taught, lesson } = status;
  if (!feedback) return;
  if (status.problem) say(status.problem, "wrong");
  $("undo").disabled = step === null || isRunning();
  $("undo").title = step === null ? "" : `Undo: ${step}`;
  $("learn").disabled = feedback.pending === 0 || isRunning();
  const all = feedback.total ? `${plural(feedback.total, "mark")}, all learned` : "";
  $("count").textContent = feedback.pending ? `${feedback.pending} to learn from` : all;
  $("export").hidden = feedback.total === 0;
  $("save-model").hidden = !taught;
  $("side").querySelector("[value=previous]").disabled = !previous;
  if (!previous && state.side === "previous") state.side = "raw";
  drawLesson(lesson);
  if (!isRunning()) wake();
}

// -- the card of the last lesson: what to expect of each concept ---------------------------------------------------

function drawLesson(lesson) {
  const closed = `${state.status.boot}/${lesson?.number}`;
  $("lesson").hidden = !lesson || remembered("lesson-closed") === closed;
  if ($("lesson").hidden) return;
  const close = () => { remember("lesson-closed", closed); $("lesson").hidden = true; };
  $("lesson").replaceChildren(lessonHead(lesson), ...concepts(lesson),
    button("×", { className: "quiet lesson-close", "aria-label": "Hide the lesson" }, close));
}

function lessonHead({ marks, labels, who, number: n, seconds }) {
  const steps = [marks ? plural(marks, "mark") : "", labels ? plural(labels, "label") : ""].filter(Boolean);
  const text = `${steps.join(" and ")}, ${seconds.toFixed(2)} s${who ? ` · ${who}` : ""}`;
  return make("div", { className: "lesson-head" }, make("h2", {}, `Lesson ${n}`),
    make("p", { className: "muted" }, text));
}

// What to expect of each concept, and marks that contradict the others.
function concepts({ concepts: all }) {
  const list = make("ul", { className: "concepts" }, ...all.slice(0, 4).map((concept) => {
    const doubtful = concept.doubtful.map((row) => thumbnail({ row }, 44));
    const words = ` ${expectation(concept)}${capital(concept.next)}. `;
    return make("li", {}, make("b", {}, concept.name), words, ...doubtful);
  }));
  return all.length ? [list] : [];
}

export const wireTeach = () => react(() => state.status, drawStatus);

// -- what to mark next: ten items whose marks would teach most -----------------------------------------------------

let askedFor = ""; // the query or label that suggestions are for
let asked = 0;

// The query, or else the label that is filtered by; without either, all that was taught.
function concept() {
  const [example] = pictures(state.like);
  if (example) return example.upload === undefined ? { row: example.row } : { upload: example.upload };
  return state.filter.label ? { label: state.filter.label } : {};
}

// Suggestions are for the query, so they are above its results.
export async function suggest() {
  const mine = ++asked;
  state.view = "search";
  askedFor = JSON.stringify(concept());
  say("Comparing…", "busy");
  const answer = await trying(() => call(`/api/suggestions?${query(concept())}`));
  if (!answer || mine !== asked) return;
  drawSuggestions(answer.suggestions);
  if (!answer.suggestions.length) { say("There is nothing left to mark."); return; }
  say(`${things(answer.suggestions.length)} to mark next.`);
  scrollTo({ top: 0, behavior: "instant" });
  $("next-grid").grid.focus(0);
}

// Pictures that came after the last lesson and fit a label: a mark gives it, or keeps it away.
export async function showNew(name) {
  asked += 1;
  state.view = "search";
  const answer = await trying(() => call(`/api/suggestions?${query({ label: name, new: true, n: 50 })}`));
  if (!answer) return;
  askedFor = JSON.stringify(concept());
  drawSuggestions(answer.suggestions, `New in ${name}`);
  $("next-grid").grid.focus(0);
}

function drawSuggestions(suggestions, title = "What to mark next") {
  const isFor = suggestions.some(isSuggestion); // otherwise nothing was taught yet
  state.answers = new Map();
  $("next").hidden = suggestions.length === 0;
  $("next-grid").classList.toggle("start", !isFor);
  $("next-title").textContent = isFor ? title : "Search by one of these to begin";
  fill($("next-grid"), suggestions);
  for (const card of $("next-grid").children) captionSuggestion(card);
}

function captionSuggestion(card) {
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
export async function answerSuggestion(item, right) {
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
  const rest = left ? `${plural(left, "suggestion")} left.` : "Press Keep, or ask for others.";
  say(value === null ? "Taken off." : `Saved. ${rest}`);
}

function closeSuggestions() {
  asked += 1;
  const inside = $("next").contains(document.activeElement);
  $("next").hidden = true;
  if (inside) $("next-open").focus();
}

export function wireSuggestions() {
  $("next-open").addEventListener("click", suggest);
  $("next-more").addEventListener("click", suggest);
  $("next-close").addEventListener("click", closeSuggestions);
  react(() => state.hits, () => { if (askedFor !== JSON.stringify(concept())) closeSuggestions(); });
  react(() => state.lessons, () => { if (!$("next").hidden) suggest(); });
}

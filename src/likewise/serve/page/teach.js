// Teaching: marks, labels, lessons, undo.

import { call } from "./api.js";
import { markOf, refreshCards } from "./cards.js";
import { focusLast } from "./keys.js";
import { onLabel, refreshLabels } from "./labels.js";
import { showLesson } from "./lesson.js";
import { clearSelection } from "./selection.js";
import { $, markKey, nameOf, pictures, plural, refOf, say, state, aThing, thing, things, trying } from "./state.js";
import { refreshViewer } from "./viewer.js";

let redraw = null; // set by app.js: draws the present view again
let watching = false;
let wake = () => {}; // ends the wait for a lesson
const UNHEARD = 1000; // ms after which the server is asked all the same: events may not come through a proxy

export function onChange(work) { redraw = work; }

export function showStatus(status) {
  Object.assign(state.status, status);
  const { feedback, undo: step, learning, previous, taught } = state.status;
  const running = learning.state === "running";
  $("undo").disabled = step === null || running;
  $("undo").title = step === null ? "" : `Undo: ${step}`;
  $("learn").disabled = feedback.pending === 0 || running;
  $("count").textContent = feedback.pending ? `${feedback.pending} to learn from` : feedback.total ? `${plural(feedback.total, "mark")}, all learned` : "";
  $("export").hidden = feedback.total === 0;
  $("save-model").hidden = !taught;
  $("side").querySelector("[value=previous]").disabled = !previous;
  if (!previous && state.side === "previous") state.side = "raw";
  $("side").value = state.side;
  showLesson(state.status.lesson);
}

// What the server says by itself.
export function heard(status) {
  showStatus(status);
  if (state.status.learning.state !== "running") wake();
}

// Mark items right or wrong for the query; the same mark again takes it off.
export async function mark(items, right) {
  const examples = pictures(state.like);
  if (!examples.length) return say(state.like.length ? `Words are taught by labels: give these ${thing()}s one.` : `Search by ${aThing()} first: a mark belongs to a query.`, "wrong");
  const value = items.every((item) => markOf(item.row) === right) ? null : right;
  const body = { query: examples.map(refOf), items: items.map((item) => item.row), right: value };
  const answer = await trying(() => call("/api/marks", body));
  if (!answer) return undefined;
  for (const example of examples) for (const item of items) setMark(`${markKey(example)}>${item.row}`, value);
  refreshCards();
  refreshViewer();
  showStatus(answer);
  const what = items.length === 1 ? `${nameOf(items[0])} is` : `${things(items.length)} are`;
  return say(value === null ? "Taken off." : `Saved: ${what} ${value ? "right" : "wrong"} for this query.`);
}

function setMark(key, value) {
  if (value === null) state.marks.delete(key);
  else state.marks.set(key, value);
}

export async function label(items, name) {
  const answer = await trying(() => call("/api/labels", { items: items.map((item) => item.row), label: name }));
  if (!answer) return;
  const rows = new Set(items.map((item) => item.row));
  for (const example of [...state.like, ...items]) if (rows.has(example.row)) example.label = name;
  showStatus(answer);
  if (state.selected.size) clearSelection();
  refreshViewer(items.length === 1 ? name : undefined);
  await refreshLabels();
  await redraw();
  focusLast();
  const what = items.length === 1 ? `${nameOf(items[0])} is` : `${things(items.length)} are`;
  say(name === null ? `Saved: ${what} without a label.` : `Saved: ${what} labelled ${name}.`);
}

export async function undo() {
  if ($("undo").disabled) return;
  const answer = await trying(() => call("/api/undo", {}));
  if (!answer) return;
  showStatus(answer);
  showStatus(await trying(() => call("/api/status")) ?? {});
  await everything();
  say(`Undone: ${answer.undone}.`);
}

// All marks, labels and results anew, as after an undo or a change by somebody else.
export async function everything() {
  await Promise.all([loadMarks(), refreshLabels()]);
  await refreshExamples();
  await redraw();
  refreshViewer();
}

export async function learn() {
  if ($("learn").disabled) return;
  const answer = await trying(() => call("/api/learn", {}));
  if (!answer) return;
  showStatus(answer);
  say("Learning… you can keep searching.", "busy");
  await watch();
}

export async function watch() {
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
    if (state.status.learning.state === "running") await new Promise((done) => { wake = done; setTimeout(done, UNHEARD); });
    const status = await trying(() => call("/api/status")); // events tell a part of it
    if (!status) return;
    showStatus(status);
  } while (state.status.learning.state === "running");
  const { learning, lesson: done, previous } = state.status;
  if (learning.state === "failed") { say(learning.error, "wrong"); return; }
  if (previous) state.side = $("side").value = "previous";
  await redraw();
  if (done) say(`Learned in ${done.seconds.toFixed(2)} s.`);
  document.dispatchEvent(new CustomEvent("learned"));
}

export async function loadMarks() {
  const entries = await trying(() => call("/api/feedback"));
  if (!entries) return;
  state.marks.clear();
  for (const entry of entries) if (entry.kind === "mark") takeEntry(entry);
  refreshCards();
}

function takeEntry({ queries, uploads, items, right }) {
  queries.forEach((row, place) => {
    const key = row === null ? `u${uploads[place]}` : String(row);
    for (const item of items) setMark(`${key}>${item}`, right);
  });
}

async function refreshExamples() {
  for (const example of pictures([...state.like, ...state.unlike])) {
    if (example.upload === undefined) Object.assign(example, await trying(() => call(`/api/items/${example.row}`)));
  }
}

onLabel(label);

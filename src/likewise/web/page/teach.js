// Teaching: marks, labels, lessons, undo.

import { call } from "./api.js";
import { actions, markOf, showMarks } from "./cards.js";
import { show } from "./search.js";
import { $, keyOf, pictureOf, plural, refOf, say, state, trying } from "./state.js";

export function showStatus(status) {
  Object.assign(state.status, status);
  const { feedback, undo, learning, previous } = state.status;
  $("undo").disabled = undo === null || learning.state === "running";
  $("undo").title = undo === null ? "" : `Undo: ${undo}`;
  $("learn").disabled = feedback.pending === 0 || learning.state === "running";
  $("count").textContent = feedback.pending ? `${feedback.pending} to learn from` : feedback.total ? `${plural(feedback.total, "mark")}, all learned` : "";
  $("side").querySelector("[value=previous]").disabled = !previous;
  if (!previous && state.side === "previous") {
    state.side = $("side").value = "raw";
  }
  lesson(state.status.lesson);
}

export async function mark(item, right) {
  if (!state.like.length) return say("Search by a picture first: a mark belongs to a query.", "wrong");
  if (markOf(item.row) === right) return say("Already marked; Undo takes it back.");
  const answer = await trying(() => call("/api/marks", { query: state.like.map(refOf), item: item.row, right }));
  if (!answer) return undefined;
  for (const example of state.like) state.marks.set(`${keyOf(example)}>${item.row}`, right);
  showMarks();
  showStatus(answer);
  return say(`Saved: ${item.label ?? item.id} is ${right ? "right" : "wrong"} for this query.`);
}

export async function label(item, name) {
  const answer = await trying(() => call("/api/labels", { item: item.row, label: name }));
  if (!answer) return;
  showStatus(answer);
  await refreshLabels();
  for (const example of state.like) if (example.row === item.row) example.label = name;
  await show();
  say(`Saved: this picture is labelled ${name}.`);
}

export function askLabel(item) {
  const dialog = $("label-dialog");
  const back = document.activeElement;
  $("label-picture").src = pictureOf(item);
  $("label-input").value = item.label ?? "";
  dialog.returnValue = "cancel";
  dialog.onclose = () => {
    back?.focus();
    const name = $("label-input").value.trim();
    if (dialog.returnValue === "save" && name && name !== item.label) label(item, name);
  };
  dialog.showModal();
  $("label-input").select();
}

$("label-cancel").addEventListener("click", () => $("label-dialog").close("cancel"));

export async function undo() {
  if ($("undo").disabled) return;
  const answer = await trying(() => call("/api/undo", {}));
  if (!answer) return;
  await loadMarks();
  showStatus(answer);
  await refreshLabels();
  await refreshExamples();
  await show();
  say(`Undone: ${answer.undone}.`);
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
  for (;;) {
    const status = await trying(() => call("/api/status"));
    if (!status) return;
    showStatus(status);
    if (status.learning.state !== "running") break;
    await new Promise((wake) => { setTimeout(wake, 200); });
  }
  const { learning, lesson: done } = state.status;
  if (learning.state === "failed") {
    say(learning.error, "wrong");
    return;
  }
  state.side = $("side").value = "previous";
  await show();
  if (done) say(`Learned in ${done.seconds.toFixed(2)} s. Left: the ranking before this lesson; right: after it.`);
  document.dispatchEvent(new CustomEvent("learned"));
}

function lesson(done) {
  const box = $("lesson");
  box.hidden = !done;
  if (!done) return;
  const title = document.createElement("h2");
  title.textContent = `Lesson ${done.number}`;
  const words = document.createElement("span");
  words.className = "muted";
  words.textContent = `${plural(done.marks, "mark or label", "marks and labels")}, ${done.seconds.toFixed(2)} s`;
  box.replaceChildren(title, words);
  if (done.before === null || done.after === null) return;
  box.append(figures(done));
}

function figures(done) {
  const box = document.createElement("div");
  box.className = "figures";
  const change = Math.round(1000 * (done.after - done.before)) / 1000;
  const parts = [["muted", done.held_out ? `mAP on ${plural(done.held_out, "held-out item")}` : "mAP on held-out items"], ["old", done.before.toFixed(3), "b"], ["muted", "→"], ["new", done.after.toFixed(3), "b"],
    [change > 0 ? "gain up" : "gain", `${change > 0 ? "+" : change < 0 ? "−" : "±"}${Math.abs(change).toFixed(3)}`]];
  for (const [kind, text, tag] of parts) {
    const part = document.createElement(tag ?? "span");
    part.className = kind;
    part.textContent = text;
    box.append(part);
  }
  return box;
}

export async function loadMarks() {
  const entries = await trying(() => call("/api/feedback"));
  if (!entries) return;
  state.marks.clear();
  for (const entry of entries) {
    if (entry.kind === "mark") state.marks.set(`${entry.query === null ? `u${entry.upload}` : entry.query}>${entry.item}`, entry.right);
  }
}

async function refreshExamples() {
  for (const example of [...state.like, ...state.unlike]) {
    if (example.upload === undefined) Object.assign(example, await call(`/api/items/${example.row}`));
  }
}

export async function refreshLabels() {
  const labels = await trying(() => call("/api/labels"));
  if (!labels) return;
  state.labels = labels;
  $("label-names").replaceChildren(...Object.keys(labels).map((name) => new Option(`${labels[name]}`, name)));
  tray();
}

// Labels to drop on: those of the results first, then the most frequent.
export function tray(seen = []) {
  const near = [...new Set(seen.map((hit) => hit.label).filter(Boolean))];
  const rest = Object.keys(state.labels).filter((name) => !near.includes(name)).sort((a, b) => state.labels[b] - state.labels[a]);
  const names = [...near, ...rest].slice(0, 24);
  $("tray-labels").replaceChildren(...names.map((name) => target(name)), target("New label…", true));
  $("tray").hidden = !state.status.items;
}

function target(name, fresh = false) {
  const entry = document.createElement("li");
  entry.textContent = name;
  entry.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("text/x-likewise-row")) return;
    event.preventDefault();
    entry.classList.add("over");
  });
  entry.addEventListener("dragleave", () => entry.classList.remove("over"));
  entry.addEventListener("drop", (event) => {
    event.preventDefault();
    entry.classList.remove("over");
    const item = actions.dragged;
    if (!item) return;
    if (fresh) askLabel(item);
    else label(item, name);
  });
  return entry;
}

// A label, or the results above the cut-off, applied to the library: a preview, then labels, a list, or keywords.

import { call } from "./api.js";
import { filters } from "./filters.js";
import { focusLast, last } from "./keys.js";
import { everything, showStatus } from "./teach.js";
import { $, button, make, nameOf, number, percent, plural, refOf, say, state, things, trying } from "./state.js";
import { face } from "./faces.js";

const dialog = $("apply");
const DEFAULT = 10;
let turn = 0;
let ofQuery = false; // a set grown from a query, not a label
let preview = null;
const out = new Set(); // rows taken out
let busy = false;

export async function openApply(query = false) {
  ofQuery = query;
  $("apply-title").textContent = query ? "Name these results" : "Apply a label";
  $("apply-label-field").hidden = query;
  $("apply-name-field").hidden = !query;
  $("apply-sure-field").hidden = !state.status.calibrated;
  $("apply-done").hidden = true;
  $("apply-name").value = "";
  choices();
  dialog.showModal();
  (query ? $("apply-name") : $("apply-label")).focus();
  await look();
}

function choices() {
  const names = Object.keys(state.labels).sort((a, b) => state.labels[b] - state.labels[a]);
  $("apply-label").replaceChildren(...names.map((name) => new Option(`${name} (${number(state.labels[name])})`, name)));
  const wanted = [state.filter.label, last.item?.label].find((name) => name in state.labels);
  if (wanted) $("apply-label").value = wanted;
  const steps = [20, 10, 5, 2].map((step) => new Option(`${ofQuery ? "" : "and others, "}at most 1 in ${step} wrong`, step));
  $("apply-sure").replaceChildren(...(ofQuery ? [] : [new Option("only those that have it", 0)]), ...steps);
  $("apply-sure").value = state.status.calibrated ? state.sure || DEFAULT : 0;
}

const label = () => (ofQuery ? $("apply-name").value.trim() : $("apply-label").value);

// The preview at the cut-off; what was taken out before is in again.
async function look() {
  const mine = ++turn;
  const step = Number($("apply-sure").value);
  const what = ofQuery ? { like: state.like.map(refOf), unlike: state.unlike.map(refOf), ...filters() } : { label: label() };
  const answer = await trying(() => call("/api/concepts", { ...what, at_most_wrong: step ? 1 / step : null }));
  if (mine !== turn) return;
  preview = answer ?? null;
  out.clear();
  if (answer) draw();
  else $("apply-found").textContent = $("status").textContent;
}

function draw() {
  $("apply-found").textContent = sentence();
  $("apply-unsure").replaceChildren(...preview.least_sure.map(unsure));
  $("apply-keywords").hidden = !preview.writes;
  $("apply-save").hidden = preview.items === preview.known && !ofQuery;
  $("apply-undo").hidden = !preview.written;
  if (preview.written) $("apply-done").hidden = false;
  if (preview.written && !busy) $("apply-progress").textContent = `Keywords ${label()} were written before.`;
  link();
}

function sentence() {
  const { items, known, about_wrong: wrong, least_sure: least } = preview;
  if (wrong === null) return state.status.calibrated ? `${things(items)} with this label.`
    : `${things(items)} with this label. Which others belong to it cannot be told yet: that takes 8 right and 8 wrong marks and a lesson.`;
  const fresh = items - known;
  if (!fresh) return `${things(items)}, and nothing else is sure enough at 1 in ${$("apply-sure").value}.`;
  return `${things(items)}, about ${number(Math.round(wrong))} wrong: ${number(fresh)} are new. Look at the least sure ${least.length}, and take out what does not belong:`;
}

function unsure(item) {
  const made = button("", { className: "take", "aria-pressed": "false", "aria-label": `Take out ${nameOf(item)}, ${percent(item.probability)}` });
  made.append(face(item, 84, ""), make("span", {}, percent(item.probability)));
  made.addEventListener("click", () => {
    if (!out.delete(item.row)) out.add(item.row);
    made.setAttribute("aria-pressed", String(out.has(item.row)));
    link();
  });
  return make("li", {}, made);
}

function link() {
  const parts = new URLSearchParams({ label: label() });
  for (const row of out) parts.append("without", row);
  $("apply-csv").href = `/api/concepts/${preview.concept}.csv?${parts}`;
}

// What a step names; a set without a name asks for it.
function chosen() {
  if (!preview) return null;
  if (!label()) {
    tell("The set needs a name.");
    $("apply-name").focus();
    return null;
  }
  return { concept: preview.concept, label: label(), without: [...out] };
}

function tell(text) {
  $("apply-done").hidden = false;
  $("apply-progress").textContent = text;
  $("apply-done").scrollIntoView({ block: "nearest" });
}

async function attempt(path, body) {
  try {
    return await call(path, body);
  } catch (error) {
    tell(error.message);
    return null;
  }
}

async function save() {
  const body = chosen();
  const answer = body && await attempt("/api/concepts/labels", body);
  if (!answer) return;
  dialog.close();
  showStatus(answer);
  await everything();
  const rest = answer.kept ? `; ${number(answer.kept)} keep the label they have` : "";
  say(`Saved: ${things(answer.labelled)} ${answer.labelled === 1 ? "is" : "are"} labelled ${body.label}${rest}.`);
}

async function keywords() {
  const body = chosen();
  if (!body || busy || !await attempt("/api/concepts/keywords", body)) return;
  const done = await finished("Writing keywords");
  if (!done) return;
  const parts = [`${number(done.created)} new`, `${number(done.changed)} changed`, ...(done.already ? [`${number(done.already)} had it already`] : []), ...left(done)];
  $("apply-undo").hidden = done.created + done.changed === 0 && $("apply-undo").hidden;
  tell(`Keyword ${body.label}: sidecars: ${parts.join(", ")}. The pictures were not touched.`);
}

async function takeBack() {
  const name = label();
  if (busy || !await attempt("/api/concepts/keywords/undo", { label: name })) return;
  const done = await finished("Taking keywords back");
  if (!done) return;
  $("apply-keywords").focus(); // Undo goes
  $("apply-undo").hidden = true;
  const parts = [`${plural(done.deleted, "sidecar")} deleted`, `${number(done.restored)} as before`, ...(done.edited ? [`${number(done.edited)} with others' changes kept`] : []), ...left(done)];
  tell(`Taken back: ${parts.join(", ")}.`);
}

const left = (done) => Object.entries(done.skipped).map(([kind, count]) => `${number(count)} left alone, ${kind}`);

// Follows the job to its end; null if it failed.
async function finished(what) {
  busy = true;
  try {
    for (;;) {
      const now = await attempt("/api/concepts/keywords");
      if (!now) return null;
      Object.assign($("apply-bar"), { hidden: now.state !== "running", max: Math.max(1, now.total), value: now.done });
      if (now.state === "failed") { tell(now.error); return null; }
      if (now.state !== "running") return now.outcome;
      tell(`${what}… ${number(now.done)} of ${number(now.total)}`);
      await new Promise((wake) => { setTimeout(wake, 150); });
    }
  } finally {
    busy = false;
  }
}

function closed() {
  turn += 1;
  if (document.activeElement === document.body) { if (last.list?.isConnected && last.item) focusLast(); else $("main").focus(); }
}

export function wireApply() {
  $("apply-label").addEventListener("change", () => { $("apply-done").hidden = true; look(); });
  $("apply-sure").addEventListener("change", look);
  $("apply-name").addEventListener("input", () => { if (preview) link(); });
  $("apply-csv").addEventListener("click", (event) => { if (!chosen()) event.preventDefault(); });
  $("apply-save").addEventListener("click", save);
  $("apply-keywords").addEventListener("click", keywords);
  $("apply-undo").addEventListener("click", takeBack);
  $("apply-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", closed);
}

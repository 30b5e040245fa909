// Labels: the dialog that asks for one, the tray of buttons, and a label applied to the whole library.

import { call } from "./api.js";
import { thumbnail } from "./cards.js";
import { draggedItem, focusLast, selectedItems } from "./keys.js";
import { body } from "./search.js";
import {
  $, aThing, button, make, nameOf, number, percent, plural, react, say, state, thing, things, trying, update,
} from "./state.js";
import { everything, label, showNew } from "./teach.js";

export async function refreshLabels() {
  const labels = await trying(() => call("/api/labels"));
  if (labels) state.labels = labels;
}

// -- the dialog that asks for a label -----------------------------------------------------------------------------

export function askLabel(items) {
  if (!items.length) return;
  const dialog = $("label-dialog");
  const common = new Set(items.map((item) => item.label ?? ""));
  $("label-title").textContent = items.length === 1 ? `Label this ${thing()}` : `Label ${things(items.length)}`;
  $("label-pictures").replaceChildren(...items.slice(0, 5).map((item) => thumbnail(item, 72, "")));
  $("label-input").value = common.size === 1 ? [...common][0] : "";
  $("label-none").hidden = !items.some((item) => item.label);
  dialog.returnValue = "cancel";
  dialog.onclose = () => {
    const name = $("label-input").value.trim();
    const isSame = common.size === 1 && common.has(name);
    if (dialog.returnValue === "none") label(items, null);
    else if (dialog.returnValue === "save" && name && !isSame) label(items, name);
  };
  dialog.showModal();
  $("label-input").select();
}

// -- the tray -----------------------------------------------------------------------------------------------------

// The items that a button of the tray labels: the selection, or the one that had focus last.
function targets() {
  if (state.selected.size) return selectedItems();
  const { item, list } = state.last;
  return item && list?.isConnected ? [item] : [];
}

// "New label" first, then the labels of the results, then the most frequent.
function drawTray([labels, hits]) {
  const near = [...new Set(hits.map((hit) => hit.label).filter((name) => name in labels))];
  const rest = byCount(labels).filter((name) => !near.includes(name));
  const names = [...near, ...rest].slice(0, 24);
  const elements = [target("New label…", true), ...names.map((name) => target(name))];
  $("tray-labels").replaceChildren(...elements.map((element) => make("li", {}, element)));
}

const byCount = (labels) => Object.keys(labels).sort((a, b) => labels[b] - labels[a]);

function target(name, fresh = false) {
  const element = button(name, { className: fresh ? "chip-label fresh" : "chip-label" },
    () => give(targets(), name, fresh));
  element.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("text/x-likewise-row")) return;
    event.preventDefault();
    element.classList.add("over");
  });
  element.addEventListener("dragleave", () => element.classList.remove("over"));
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    element.classList.remove("over");
    const item = draggedItem();
    if (item) give(state.selected.has(item.row) ? selectedItems() : [item], name, fresh);
  });
  return element;
}

async function give(items, name, fresh) {
  if (!items.length) $("tray-hint").textContent = "First choose what to label";
  else if (fresh) askLabel(items);
  else await label(items, name);
}

function drawHint() {
  const [one] = targets();
  const what = state.selected.size ? things(state.selected.size) : one ? nameOf(one) : aThing();
  $("tray-hint").textContent = `Label ${what}:`;
}

function drawNames(labels) {
  const names = Object.keys(labels);
  document.body.classList.toggle("unlabelled", names.length === 0);
  $("label-names").replaceChildren(...names.map((name) => new Option(`${labels[name]}`, name)));
  $("apply-open").hidden = $("filter-field").hidden = names.length === 0;
}

// -- a label, or the results above the cut-off, applied to the library: a preview, then labels, a list or keywords -

const dialog = $("apply");
const DEFAULT = 10;
const excluded = new Set(); // rows taken out
let turn = 0;
let ofQuery = false; // a set grown from a query, not a label
let preview = null;
let busy = false;

async function openApply(query, name = null) {
  ofQuery = query;
  $("apply-title").textContent = query ? "Name these results" : "Apply a label";
  $("apply-label-field").hidden = query;
  $("apply-name-field").hidden = !query;
  $("apply-sure-field").hidden = !state.status.calibrated && !name;
  $("apply-done").hidden = true;
  $("apply-name").value = "";
  choices(name);
  dialog.showModal();
  (query ? $("apply-name") : $("apply-label")).focus();
  await look();
}

function choices(name) {
  const counted = (name) => new Option(`${name} (${number(state.labels[name])})`, name);
  $("apply-label").replaceChildren(...byCount(state.labels).map(counted));
  const wanted = [name, state.filter.label, state.last.item?.label].find((name) => name in state.labels);
  if (wanted) $("apply-label").value = wanted;
  const step = (n) => new Option(`${ofQuery ? "" : "and others, "}at most 1 in ${n} wrong`, n);
  const only = ofQuery ? [] : [new Option("only those that have it", 0)];
  $("apply-sure").replaceChildren(...only, ...[20, 10, 5, 2].map(step));
  $("apply-sure").value = state.status.calibrated || name ? state.cutoff || DEFAULT : 0;
}

const nameOfSet = () => (ofQuery ? $("apply-name").value.trim() : $("apply-label").value);

// The preview at the cut-off; what was taken out before is in again.
async function look() {
  const mine = ++turn;
  const step = Number($("apply-sure").value);
  const what = ofQuery ? body() : { label: nameOfSet() };
  const answer = await trying(() => call("/api/concepts", { ...what, at_most_wrong: step ? 1 / step : null }));
  if (mine !== turn) return;
  preview = answer ?? null;
  excluded.clear();
  if (answer) drawPreview();
  else $("apply-found").textContent = $("status").textContent;
}

function drawPreview() {
  $("apply-found").textContent = sentence();
  $("apply-unsure").replaceChildren(...preview.least_sure.map(unsure));
  $("apply-keywords").hidden = !preview.writes;
  $("apply-save").hidden = preview.items === preview.known && !ofQuery;
  $("apply-undo").hidden = !preview.written;
  if (preview.written) $("apply-done").hidden = false;
  if (preview.written && !busy) $("apply-progress").textContent = `Keywords ${nameOfSet()} were written before.`;
  link();
}

function sentence() {
  const { items, known, about_wrong: wrong, least_sure: least } = preview;
  if (wrong === null) {
    const cannot = "Which others belong to it is not known yet: mark 8 right and 8 wrong, then press Keep.";
    return `${things(items)} with this label.${state.status.calibrated ? "" : ` ${cannot}`}`;
  }
  const fresh = items - known;
  if (!fresh) return `${things(items)}, and nothing else is sure enough at 1 in ${$("apply-sure").value}.`;
  return `${things(items)}, about ${number(Math.round(wrong))} wrong: ${number(fresh)} are new. `
    + `Look at the least sure ${least.length}, and take out what does not belong:`;
}

function unsure(item) {
  const name = `Take out ${nameOf(item)}, ${percent(item.probability)}`;
  const element = button("", { className: "take", "aria-pressed": "false", "aria-label": name }, () => {
    if (!excluded.delete(item.row)) excluded.add(item.row);
    element.setAttribute("aria-pressed", String(excluded.has(item.row)));
    link();
  });
  element.append(thumbnail(item, 84, ""), make("span", {}, percent(item.probability)));
  return make("li", {}, element);
}

function link() {
  const parts = new URLSearchParams({ label: nameOfSet() });
  for (const row of excluded) parts.append("without", row);
  $("apply-csv").href = `/api/concepts/${preview.concept}.csv?${parts}`;
}

// The set that a step is about; one without a name asks for it.
function chosen() {
  if (!preview) return null;
  if (!nameOfSet()) {
    report("The set needs a name.");
    $("apply-name").focus();
    return null;
  }
  return { concept: preview.concept, label: nameOfSet(), without: [...excluded] };
}

function report(text) {
  $("apply-done").hidden = false;
  $("apply-progress").textContent = text;
  $("apply-done").scrollIntoView({ block: "nearest" });
}

async function attempt(path, content) {
  try {
    return await call(path, content);
  } catch (error) {
    report(error.message);
    return null;
  }
}

async function save() {
  const set = chosen();
  const answer = set && await attempt("/api/concepts/labels", set);
  if (!answer) return;
  dialog.close();
  update(answer);
  await everything();
  const rest = answer.kept ? `; ${number(answer.kept)} keep the label they have` : "";
  say(`Saved: ${things(answer.labelled)} ${answer.labelled === 1 ? "is" : "are"} labelled ${set.label}${rest}.`);
}

async function keywords() {
  const set = chosen();
  if (!set || busy || !await attempt("/api/concepts/keywords", set)) return;
  const done = await finished("Writing keywords");
  if (!done) return;
  const parts = [`${number(done.created)} new`, `${number(done.changed)} changed`,
    ...(done.already ? [`${number(done.already)} had it already`] : []), ...skipped(done)];
  $("apply-undo").hidden = done.created + done.changed === 0 && $("apply-undo").hidden;
  report(`Keyword ${set.label}: sidecars: ${parts.join(", ")}. The pictures were not touched.`);
}

async function undoKeywords() {
  if (busy || !await attempt("/api/concepts/keywords/undo", { label: nameOfSet() })) return;
  const done = await finished("Taking keywords back");
  if (!done) return;
  $("apply-keywords").focus(); // Undo goes
  $("apply-undo").hidden = true;
  const parts = [`${plural(done.deleted, "sidecar")} deleted`, `${number(done.restored)} as before`,
    ...(done.edited ? [`${number(done.edited)} with others' changes kept`] : []), ...skipped(done)];
  report(`Taken back: ${parts.join(", ")}.`);
}

// Labels with a cut-off: how many others fit, and how many of these are new.
async function drawSearches() {
  const searches = await trying(() => call("/api/searches")) ?? [];
  $("searches").replaceChildren(...searches.filter((search) => search.fitting).flatMap(({ label: name, ...counts }) => {
    const fit = button(`${name}: ${number(counts.fitting)} more`, { className: "small" }, () => openApply(false, name));
    const fresh = button(`new in ${name} (${number(counts.new)})`, { className: "small primary" }, () => showNew(name));
    return [fit, ...(counts.new ? [fresh] : [])].map((element) => make("li", {}, element));
  }));
}

const skipped = (done) => Object.entries(done.skipped)
  .map(([kind, count]) => `${number(count)} left alone, ${kind}`);

// Follows the job to its end; null if it failed.
async function finished(what) {
  busy = true;
  try {
    for (;;) {
      const job = await attempt("/api/concepts/keywords");
      if (!job) return null;
      const running = job.state === "running";
      Object.assign($("apply-bar"), { hidden: !running, max: Math.max(1, job.total), value: job.done });
      if (job.state === "failed") { report(job.error); return null; }
      if (!running) return job.outcome;
      report(`${what}… ${number(job.done)} of ${number(job.total)}`);
      await new Promise((wake) => { setTimeout(wake, 150); });
    }
  } finally {
    busy = false;
  }
}

function closed() {
  turn += 1;
  if (document.activeElement !== document.body) return;
  if (state.last.list?.isConnected && state.last.item) focusLast();
  else $("main").focus();
}

export function wireLabels() {
  $("label-cancel").addEventListener("click", () => $("label-dialog").close("cancel"));
  $("label-none").addEventListener("click", () => $("label-dialog").close("none"));
  react(() => state.labels, drawNames);
  react(() => [state.labels, state.lessons], drawSearches);
  react(() => [state.labels, state.hits], drawTray);
  react(() => [state.selected, state.last, state.status.pictures], drawHint);
  $("apply-open").addEventListener("click", () => openApply(false));
  $("sure-label").addEventListener("click", () => openApply(true));
  $("apply-label").addEventListener("change", () => { $("apply-done").hidden = true; look(); });
  $("apply-sure").addEventListener("change", look);
  $("apply-name").addEventListener("input", () => { if (preview) link(); });
  $("apply-csv").addEventListener("click", (event) => { if (!chosen()) event.preventDefault(); });
  $("apply-save").addEventListener("click", save);
  $("apply-keywords").addEventListener("click", keywords);
  $("apply-undo").addEventListener("click", undoKeywords);
  $("apply-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", closed);
}

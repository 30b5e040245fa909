// Labels: the dialog that asks for one, and the tray of buttons.

import { call } from "./api.js";
import { actions, focusLast, last } from "./keys.js";
import { selectedItems } from "./selection.js";
import { $, button, make, nameOf, state, aThing, thing, things, trying } from "./state.js";
import { face } from "./faces.js";

let give = null; // set by teach.js: (items, label) => Promise

export function onLabel(work) { give = work; }

export function askLabel(items) {
  if (!items.length) return;
  const dialog = $("label-dialog");
  const one = items.length === 1 ? items[0] : null;
  const common = new Set(items.map((item) => item.label ?? ""));
  $("label-title").textContent = one ? `Label this ${thing()}` : `Label ${things(items.length)}`;
  $("label-pictures").replaceChildren(...items.slice(0, 5).map((item) => face(item, 72, "")));
  $("label-input").value = common.size === 1 ? [...common][0] : "";
  $("label-none").hidden = !items.some((item) => item.label);
  dialog.returnValue = "cancel";
  dialog.onclose = () => {
    const name = $("label-input").value.trim();
    if (dialog.returnValue === "none") give(items, null);
    else if (dialog.returnValue === "save" && name && !(common.size === 1 && common.has(name))) give(items, name);
  };
  dialog.showModal();
  $("label-input").select();
}

// What a label button labels: the selection, or the picture that had focus last.
function targets() {
  if (state.selected.size) return selectedItems();
  return last.item && last.list?.isConnected ? [last.item] : [];
}

export async function refreshLabels() {
  const labels = await trying(() => call("/api/labels"));
  if (!labels) return;
  state.labels = labels;
  document.body.classList.toggle("unlabelled", Object.keys(labels).length === 0);
  $("label-names").replaceChildren(...Object.keys(labels).map((name) => new Option(`${labels[name]}`, name)));
  $("apply-open").hidden = Object.keys(labels).length === 0;
  tray();
}

// "New label" first, then the labels of the results, then the most frequent.
let near = [];
export function tray(hits) {
  if (hits) near = [...new Set(hits.map((hit) => hit.label).filter(Boolean))].filter((name) => name in state.labels);
  const rest = Object.keys(state.labels).filter((name) => !near.includes(name)).sort((a, b) => state.labels[b] - state.labels[a]);
  const names = [...near.filter((name) => name in state.labels), ...rest].slice(0, 24);
  const entries = [target("New label…", true), ...names.map((name) => target(name))];
  $("tray-labels").replaceChildren(...entries.map((entry) => make("li", {}, entry)));
}

function target(name, fresh = false) {
  const made = button(name, { className: fresh ? "chip-label fresh" : "chip-label" });
  made.addEventListener("click", () => apply(targets(), name, fresh));
  made.addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("text/x-likewise-row")) return;
    event.preventDefault();
    made.classList.add("over");
  });
  made.addEventListener("dragleave", () => made.classList.remove("over"));
  made.addEventListener("drop", (event) => {
    event.preventDefault();
    made.classList.remove("over");
    const item = actions.dragged;
    if (item) apply(state.selected.has(item.row) ? selectedItems() : [item], name, fresh);
  });
  return made;
}

async function apply(items, name, fresh) {
  if (!items.length) {
    $("tray-hint").textContent = `First choose what to label`;
    return;
  }
  if (fresh) { askLabel(items); return; }
  await give(items, name);
  focusLast();
}

export function hint() {
  const [one] = targets();
  const what = state.selected.size ? things(state.selected.size) : one ? nameOf(one) : "";
  $("tray-hint").textContent = what ? `Label ${what}:` : `Label ${aThing()}:`;
}

$("label-cancel").addEventListener("click", () => $("label-dialog").close("cancel"));
$("label-none").addEventListener("click", () => $("label-dialog").close("none"));

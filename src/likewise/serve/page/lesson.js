// The card of the last lesson: what moved, what it agrees with, what is still wrong.

import { thumb } from "./cards.js";
import { $, button, make, number, plural, remember, remembered, state } from "./state.js";

export function showLesson(done) {
  const box = $("lesson");
  const closed = remembered("lesson-closed") === `${state.status.boot}/${done?.number}`;
  box.hidden = !done || closed;
  if (box.hidden) return;
  box.replaceChildren(head(done), facts(done), ...(still(done) ?? []), ...note(done), close(done));
}

function head(done) {
  const given = [done.marks ? plural(done.marks, "mark") : "", done.labels ? plural(done.labels, "label") : ""].filter(Boolean).join(" and ");
  const who = done.who ? ` · ${done.who}` : "";
  return make("div", { className: "lesson-head" }, make("h2", {}, `Lesson ${done.number}`),
    make("p", { className: "muted" }, `${given}, ${done.seconds.toFixed(2)} s${who}`));
}

function facts(done) {
  const list = make("dl", { className: "facts" });
  if (done.moved) {
    fact(list, number(done.moved.items), done.moved.queries > 1 ? `results moved in ${number(done.moved.queries)} queries` : "results moved");
  }
  if (done.agrees) fact(list, `${number(done.agrees.count)} of ${number(done.agrees.of)}`, `${done.labels ? "statements" : "marks"} agreed with when left out`);
  if (done.mAP) fact(list, `${done.mAP.before.toFixed(3)} → ${done.mAP.after.toFixed(3)}`, `mAP on ${plural(done.mAP.items, "item")} never learned from`);
  return list;
}

function fact(list, value, words) {
  list.append(make("div", {}, make("dt", {}, words), make("dd", {}, value)));
}

// Marked wrong, and still among the first.
function still(done) {
  if (!done.still_wrong?.length) return null;
  const items = [...new Set(done.still_wrong.map((one) => one.item))].slice(0, 6);
  const list = make("ul", { className: "thumbs" }, ...items.map((row) => make("li", {}, thumb({ row }, 44))));
  return [make("div", { className: "still" }, make("p", { className: "muted" }, `${plural(done.still_wrong.length, "wrong one")} still on top`), list)];
}

function note(done) {
  if (!done.note) return [];
  return [make("p", { className: "muted lesson-note" }, `${done.note[0].toUpperCase()}${done.note.slice(1).replace(/\.$/, "")}.`)];
}

function close(done) {
  const made = button("×", { className: "quiet lesson-close", "aria-label": "Hide the lesson" });
  made.addEventListener("click", () => { remember("lesson-closed", `${state.status.boot}/${done.number}`); $("lesson").hidden = true; });
  return made;
}

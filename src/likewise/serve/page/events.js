// What others do on the same index, as it happens; and the name under which one teaches.

import { me } from "./api.js";
import { awaitLesson, everything } from "./teach.js";
import { $, plural, remember, remembered, say, state, update } from "./state.js";

const CALM = ["Amber", "Brisk", "Calm", "Clever", "Gentle", "Golden", "Happy", "Lucky", "Quiet", "Swift", "Sunny",
  "Wise"];
const ANIMALS = ["Badger", "Crane", "Dolphin", "Finch", "Fox", "Hare", "Heron", "Lynx", "Otter", "Owl", "Seal", "Swan"];
const pickOne = (list) => list[Math.floor(Math.random() * list.length)];
let planned = 0;

export function introduce() {
  me.name = remembered("who") ?? `${pickOne(CALM)} ${pickOne(ANIMALS)}`;
  remember("who", me.name);
  $("who").value = me.name;
  $("who").addEventListener("change", () => {
    me.name = $("who").value.trim().slice(0, 60) || me.name;
    remember("who", me.name);
  });
}

export function follow() {
  const events = new EventSource(`/api/events?who=${encodeURIComponent(me.name)}`);
  const on = (name, work) => events.addEventListener(name, (event) => work(JSON.parse(event.data)));
  on("status", update);
  on("feedback", (entry) => { if (entry.who !== me.name) reloadSoon(sentence(entry)); });
  on("learned", (lesson) => {
    if (lesson.who === me.name) return;
    say(`${lesson.who || "Somebody"} pressed Learn.`);
    awaitLesson();
  });
  on("reloaded", () => location.reload()); // a new version of the index: rows have other numbers
  addEventListener("pagehide", () => events.close());
}

// Several changes at once are drawn once.
function reloadSoon(text) {
  clearTimeout(planned);
  planned = setTimeout(async () => { await everything(); say(text); }, 150);
}

function sentence(entry) {
  const who = entry.who || "Somebody";
  if (entry.undone) return `${who} took back a step.`;
  const what = plural(entry.items.length, state.status.pictures ? "picture" : "item");
  if (entry.kind === "mark") return `${who} marked ${what} ${entry.right ? "right" : "wrong"}.`;
  return entry.label === null ? `${who} took the label off ${what}.` : `${who} labelled ${what} ${entry.label}.`;
}

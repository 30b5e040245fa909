// The server: requests, downloads, events of what others do on the same index, and the name of who teaches.

import { $, capital, make, plural, remember, remembered, say, state, things, trying, update } from "./state.js";
import { awaitLesson, everything } from "./teach.js";

class RefusedError extends Error {}

const me = { name: "" }; // who teaches; sent with every change

export async function call(path, body, options = {}) {
  const who = { "X-Likewise-Who": encodeURIComponent(me.name) };
  if (state.status.index_version) who["X-Likewise-Version"] = state.status.index_version; // row numbers are of it
  const json = { "Content-Type": "application/json", ...who };
  const request = body === undefined ? { headers: who, ...options }
    : { method: "POST", headers: json, body: JSON.stringify(body), ...options };
  let answer;
  try {
    answer = await fetch(path, request);
  } catch {
    throw new RefusedError("The server does not respond.");
  }
  if (!answer.ok) throw new RefusedError(await sentence(answer));
  return answer.json();
}

export function upload(file) {
  const type = file.type.startsWith("image/") ? file.type : "application/octet-stream";
  return call("/api/uploads", undefined, { method: "POST", body: file, headers: { "Content-Type": type } });
}

// Parameters of an address, with those of the filters.
export function query(parts, filters = {}) {
  const all = new URLSearchParams(parts);
  for (const [name, values] of Object.entries(filters)) {
    for (const value of values) all.append(name === "where" ? name : name.slice(0, -1), value);
  }
  return all.toString();
}

async function sentence(answer) {
  if (answer.status === 401) return "The token is no longer valid: reload the page.";
  try {
    const { detail } = await answer.json();
    return typeof detail === "string" ? capital(detail) : "The request was not understood.";
  } catch {
    return `The server responded with ${answer.status}.`;
  }
}

// Results or items as CSV, or their pictures as ZIP.
export async function download(kind, body) {
  const prepared = await trying(() => call("/api/exports", body));
  if (!prepared) return;
  if (kind === "zip" && !prepared.pictures) {
    say("There are no picture files to put into a ZIP.", "wrong");
    return;
  }
  const link = make("a", { href: `/api/exports/${prepared.export}.${kind}`, download: "" });
  document.body.append(link);
  link.click();
  link.remove();
  const zipped = prepared.note ?? `${things(prepared.pictures)} in the ZIP.`;
  say(kind === "zip" ? zipped : `${things(prepared.items)} in the CSV.`);
}

export const downloadSelection = (kind) => download(kind, { items: [...state.selected.keys()] });

// -- who teaches, and what others do on the same index -------------------------------------------------------------

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
  on("feedback", (entry) => { if (entry.who !== me.name) reloadSoon(stepOf(entry)); });
  on("learned", (lesson) => {
    if (lesson.who === me.name) return;
    say(`${lesson.who || "Somebody"} pressed Keep.`);
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

function stepOf(entry) {
  const who = entry.who || "Somebody";
  if (entry.undone) return `${who} took back a step.`;
  const what = plural(entry.items.length, state.status.pictures ? "picture" : "item");
  if (entry.kind === "mark") return `${who} marked ${what} ${entry.right ? "right" : "wrong"}.`;
  return entry.label === null ? `${who} took the label off ${what}.` : `${who} labelled ${what} ${entry.label}.`;
}

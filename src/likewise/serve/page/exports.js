// Downloads: the results or the selection as CSV, or the pictures as ZIP.

import { call } from "./api.js";
import { filters } from "./filters.js";
import { selectedItems } from "./selection.js";
import { make, refOf, say, state, things, trying } from "./state.js";

export async function exportResults(kind, shown) {
  const body = { like: state.like.map(refOf), unlike: state.unlike.map(refOf), side: "learned", k: Math.max(1, shown), ...filters() };
  await download(kind, body);
}

export async function exportSelection(kind) {
  await download(kind, { items: selectedItems().map((item) => item.row) });
}

async function download(kind, body) {
  const made = await trying(() => call("/api/exports", body));
  if (!made) return;
  if (kind === "zip" && !made.pictures) { say("There are no picture files to put into a ZIP.", "wrong"); return; }
  const link = make("a", { href: `/api/exports/${made.export}.${kind}`, download: "" });
  document.body.append(link);
  link.click();
  link.remove();
  say(kind === "zip" ? made.note ?? `${things(made.pictures)} in the ZIP.` : `${things(made.items)} in the CSV.`);
}

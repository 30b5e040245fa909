// Requests to the server: JSON in, JSON out, errors as sentences; and downloads.

import { capital, make, say, state, things, trying } from "./state.js";

class RefusedError extends Error {}

export const me = { name: "" }; // who teaches; sent with every change

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

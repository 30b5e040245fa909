// Requests to the server: JSON in, JSON out, errors as sentences.

export class Refused extends Error {}

export const me = { name: "" }; // who teaches; sent along with every change

export async function call(path, body, options = {}) {
  const who = { "X-Likewise-Who": encodeURIComponent(me.name) };
  const request = body === undefined ? { headers: who, ...options }
    : { method: "POST", headers: { "Content-Type": "application/json", ...who }, body: JSON.stringify(body), ...options };
  let answer;
  try {
    answer = await fetch(path, request);
  } catch {
    throw new Refused("The server does not respond.");
  }
  if (!answer.ok) throw new Refused(await sentence(answer));
  return answer.json();
}

export function upload(file) {
  return call("/api/uploads", undefined, {
    method: "POST", body: file, headers: { "Content-Type": file.type.startsWith("image/") ? file.type : "application/octet-stream" },
  });
}

// Parameters of an address, with those of the filters.
export function query(parts, filters = {}) {
  const all = new URLSearchParams(parts);
  for (const [name, values] of Object.entries(filters)) for (const value of values) all.append(name === "where" ? name : name.slice(0, -1), value);
  return all.toString();
}

async function sentence(answer) {
  if (answer.status === 401) return "The token is no longer valid: reload the page.";
  try {
    const { detail } = await answer.json();
    return typeof detail === "string" ? detail[0].toUpperCase() + detail.slice(1) : "The request was not understood.";
  } catch {
    return `The server responded with ${answer.status}.`;
  }
}

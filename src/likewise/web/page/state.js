// The state of the page, and helpers shared by its parts.

export const $ = (id) => document.getElementById(id);

export const state = {
  status: {},          // the last response of /api/status
  like: [], unlike: [], // examples: {row, label} or {upload}
  k: 24,
  side: "raw",
  filter: "",
  labels: {},          // label to count
  marks: new Map(),    // "query>item" to true (right) or false (wrong)
};

export const refOf = (example) => (example.upload === undefined ? { row: example.row } : { upload: example.upload });
export const keyOf = (example) => (example.upload === undefined ? String(example.row) : `u${example.upload}`);
export const pictureOf = (example, size = "small") => (example.upload === undefined
  ? `/api/items/${example.row}/picture?size=${size}&v=${state.status.boot}` : `/api/uploads/${example.upload}`);

export function say(text, kind = "") {
  const line = $("status");
  line.textContent = text;
  line.className = `status ${kind}`;
}

// Run a request; an error is shown in the status line, not thrown.
export async function trying(work) {
  try {
    return await work();
  } catch (error) {
    say(error.message, "wrong");
    return undefined;
  }
}

export const number = (value) => value.toLocaleString("en");
export const plural = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

// The examples of the query.

import { $, button, make, nameOf, state } from "./state.js";
import { face } from "./faces.js";

export function chips(include, exclude) {
  const all = [...state.like.map((e) => [e, true]), ...state.unlike.map((e) => [e, false])];
  $("chips").replaceChildren(...all.map(([example, wanted]) => chip(example, wanted, include, exclude)));
  $("chips").hidden = all.length === 0;
}

function chip(example, wanted, include, exclude) {
  const name = nameOf(example);
  const image = example.text !== undefined ? make("span", { className: "said", title: name }, `“${name}”`)
    : Object.assign(face(example, 92, `${wanted ? "Like" : "Not like"}: ${name}`), { title: name });
  const sign = button(wanted ? "like" : "not like", { className: "sign", "aria-label": wanted ? `Like ${name}; press for not like` : `Not like ${name}; press for like` });
  sign.addEventListener("click", () => include(example, !wanted));
  const gone = button("×", { className: "remove", "aria-label": `Remove ${name}` });
  gone.addEventListener("click", () => exclude(example));
  return make("li", { className: `chip${wanted ? "" : " not"}${example.text === undefined ? "" : " words"}` }, image, sign, gone);
}

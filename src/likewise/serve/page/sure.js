// How sure the results are: the slider of the cut-off, and a query unlike anything known.

import { $, STEPS, number, state, thing, things } from "./state.js";

const words = (step) => (step ? `At most 1 in ${step} wrong` : "All results, however sure");
let waiting = 0;

// What a search request says of the cut-off; nothing where there is none.
export const cutOff = () => (on() ? { at_most_wrong: 1 / state.sure } : {});

// Words have no cut-off: what their scores mean was not measured.
const possible = () => state.status.calibrated && state.like.length > 0 && [...state.like, ...state.unlike].every((example) => example.text === undefined);
const on = () => state.sure > 0 && possible();

export function hideSure() {
  $("sure").hidden = $("unknown").hidden = true;
}

// Shows the slider and returns what the status line says of the results; undefined without a cut-off.
export function showSure(answer) {
  $("sure").hidden = !possible();
  draw();
  unknown(answer.novelty);
  const text = on() ? found(answer) : undefined;
  $("sure-found").textContent = text ?? "";
  $("sure-label").hidden = !on() || answer.total === 0;
  $("sure-label").textContent = `Label these ${number(answer.total + examples())}…`;
  return text;
}

const examples = () => state.like.filter((example) => example.upload === undefined).length;

function found({ total, about_wrong: wrong }) {
  if (total === 0) return `Nothing is sure enough at 1 in ${state.sure}.`;
  return `${things(total)}, about ${number(Math.round(wrong))} wrong`;
}

function unknown(novelty) {
  const what = state.like.length > 1 ? `These ${thing()}s are` : `This ${thing()} is`;
  $("unknown").hidden = !(novelty > 1);
  $("unknown").textContent = `${what} unlike anything the model learned from: how likely ${state.like.length > 1 ? "their" : "its"} results match cannot be relied on.`;
}

function draw() {
  const slider = $("sure-slider");
  slider.value = Math.max(0, STEPS.indexOf(state.sure));
  slider.setAttribute("aria-valuetext", words(state.sure));
  $("sure-value").textContent = words(state.sure);
}

export function onSure(work) {
  $("sure-slider").addEventListener("input", () => {
    state.sure = STEPS[Number($("sure-slider").value)];
    draw();
    clearTimeout(waiting);
    waiting = setTimeout(work, 120);
  });
}

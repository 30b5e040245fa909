// Everything there is: endless scroll, with facets.

import { call, query } from "./api.js";
import { card } from "./cards.js";
import { filtered, filters, loadFacets } from "./filters.js";
import { $, number, say, state, aThing, things, trying } from "./state.js";
import { VirtualGrid } from "./virtual.js";

const MOST = 5000;

export const browseGrid = new VirtualGrid($("browse-grid"), (offset, limit) => (
  trying(() => call(`/api/items?${query({ offset, limit }, filters())}`))), card);

export async function openBrowse() {
  const [first] = await Promise.all([browseGrid.reload(), loadFacets()]);
  if (!first) return;
  const { total } = first;
  $("browse-title").textContent = filtered() ? `${things(total)} of ${number(state.status.items)}` : things(total);
  $("browse-none").hidden = total > 0;
  $("browse-all").hidden = total === 0;
  $("clear-filter").hidden = !filtered();
  say(total ? `Space opens ${aThing()}, Enter searches by it, X selects it.` : "");
}

// All that pass the filter, as far as one request can name them.
export async function allMatching() {
  const items = [];
  while (items.length < Math.min(browseGrid.total, MOST)) {
    const answer = await call(`/api/items?${query({ offset: items.length, limit: 200 }, filters())}`);
    if (!answer.items.length) break;
    items.push(...answer.items);
  }
  return items.slice(0, MOST);
}

// All that the page has: the library of the server, if it has an index, and the pictures of this browser. Lists of either are the same to
// the grid and to the review: {length, at(i), indexOf(picture), has(picture), need(from, to), load(from, to), update(), hidden, stale}.
import {rulesOf} from './filters.js';
import * as index from './library.js';
import * as store from './pictures.js';
import {queryOf, unsureOf} from './query.js';

const SOON = 400, PATIENCE = 3000; // milliseconds to wait for what follows from a lesson

export const hasIndex = () => index.library.state !== null;
const ELSEWHERE = ['here', 'left', 'failed', 'duplicates']; // these are no lists of the index
export const isFound = filter => hasIndex() && !ELSEWHERE.includes(filter.kind);

// For the index: the text of a filter depends on what was learned, unless it is about places and times.
const FOLLOWING = ['all', 'folder', 'waiting'];

export function openList(filter, order, unsure = false) {
  const list = !isFound(filter) ? new store.Listing(rulesOf(filter), order)
    : new index.Found(queryOf(filter, order, !unsure), {follows: FOLLOWING.includes(filter.kind) && ['date', 'name'].includes(order), hiding: unsure ? null : unsureOf(filter)});
  return Object.assign(list, {filter, order, unsure});
}

// How many pictures are what. settled: false while suggestions still change.
export const tally = () => hasIndex() ? index.tally() : {...store.tally(), settled: true};

let watched = () => []; // pictures of the index whose tags are on the screen
export function watch(function_) {
  watched = function_;
}

const pause = time => new Promise(done => setTimeout(done, time));

// The server has learned something. What is on the screen first, then the numbers, as far as they come soon.
export async function refresh() {
  await store.refresh();
  if (!hasIndex()) return;
  const end = performance.now() + PATIENCE;
  await index.refreshPictures(watched());
  await index.readState();
  while (index.isBusy() && performance.now() < end) {
    await pause(SOON);
    await index.readState();
  }
}

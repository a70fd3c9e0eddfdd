// The library of a server that has an index: the server looks at it by itself and finds pictures in it, and the page fetches what comes
// into view. A list can have a million pictures; of these the page keeps the parts that were seen last.
import {changed, create, known, learn} from './picture.js';
import {get, post} from './server.js';

const PART = 200;       // pictures in one request
const MOST = 1000;      // the most that one request can have
const KEPT = 50;        // parts of a list
const FLING = 80;       // milliseconds that something has to be in view before it is fetched
const MISSING = 404;

export const library = {state: null}; // null: this server has no index

export async function readState() {
  try {
    const state = await get('/v1/library/state');
    if (JSON.stringify(state) === JSON.stringify(library.state)) return;
    library.state = state.index ? state : null;
    changed();
  } catch (problem) {
    if (problem.status !== MISSING) throw problem;
  }
}

// The server has not counted yet; it soon will. Its numbers can also be those from before the last lesson.
export const isCounting = () => library.state !== null && library.state.ready === false;
export const isBusy = () => library.state !== null && (isCounting() || library.state.edition < known.edition || library.state.to_look > 0 || library.state.waiting > 0 || library.state.scored < library.state.done);

// In the words of filters.js; numbers that are not known yet are null.
export function tally() {
  const {tags = {}} = library.state, numbers = ['pictures', 'said', 'tagged', 'untagged', 'waiting', 'failed', 'other', 'unsure'];
  const [pictures, said, tagged, untagged, waiting, failed, other, unsure] = numbers.map(name => isCounting() ? null : library.state[name]);
  return {all: pictures, taught: said, tagged, untagged, waiting, failed, unsure, other, settled: !isBusy(),
          tags: new Map([...known.classes.map(one => [one.name, {taught: 0, suggested: 0}]), ...Object.entries(tags).map(([tag, n]) => [tag, {taught: n.said, suggested: n.suggested}])])};
}

// --- pictures -------------------------------------------------------------------------------------------------------------------------

// A picture is one object for as long as somebody holds on to it.
const byId = new Map();
const forgotten = new FinalizationRegistry(id => byId.get(id)?.deref() || byId.delete(id));

export function pictureOf(about) {
  let picture = byId.get(about.id)?.deref();
  if (!picture) {
    picture = create({id: about.id, order: `index-${about.id}`, path: about.path});
    byId.set(about.id, new WeakRef(picture));
    forgotten.register(picture, about.id);
  }
  if (about.state === 'done') learn(picture, about);
  else if (about.state) Object.assign(picture, {state: about.state === 'waiting' ? 'waiting' : 'failed', error: about.error ?? '', ...(!picture.pending && {taught: about.taught ?? null})});
  return picture;
}

// Their tags as they are now.
export async function refreshPictures(pictures) {
  const wanted = [...new Set(pictures)].filter(picture => picture.id !== null && picture.state === 'done');
  for (let from = 0; from < wanted.length; from += MOST) {
    const part = wanted.slice(from, from + MOST), answer = await post('/v1/tag', {pictures: part.map(({id}) => ({id}))});
    part.forEach((picture, i) => answer.pictures[i] && !answer.pictures[i].error && learn(picture, answer.pictures[i]));
    changed();
  }
}

// Every tag of one picture.
export async function allTags(picture) {
  const [answer] = (await post('/v1/tag', {pictures: [{id: picture.id}], all: true}, {patient: false})).pictures;
  return answer?.tags ?? [];
}

// --- lists ----------------------------------------------------------------------------------------------------------------------------

const address = (query, first, count) => `/v1/find?${new URLSearchParams({...Object.fromEntries(Object.entries(query).filter(([, value]) => value)), first, count})}`;
export const countOf = async query => (await get(address(query, 0, 0))).total;

export class Found {
  // query: {where, word, like, sort}; follows: its order does not depend on what was learned, so that it can be brought up to date in place.
  constructor(query, {follows = false, hiding = null} = {}) {
    Object.assign(this, {query, follows, parts: new Map(), length: 0, problem: null, edition: known.edition, change: library.state?.change ?? 0, partial: isBusy(), hidden: 0, unsure: false, wanted: null});
    this.ready = this.begin(hiding);
  }

  // hiding: what is left out of this list, to say how much it is.
  async begin(hiding) {
    try {
      await this.fetch(0);
      if (hiding) countOf(hiding).then(n => { this.hidden = n; changed(); }, () => {});
    } catch (problem) {
      this.problem = problem;
    }
  }

  async fetch(n) {
    const part = {pictures: this.parts.get(n)?.pictures ?? null, stopping: new AbortController(), old: false};
    this.parts.set(n, part);
    try {
      const answer = await get(address(this.query, n * PART, PART), {signal: part.stopping.signal});
      part.pictures = answer.pictures.map(pictureOf);
      this.problem = null;
      this.length = answer.total;
    } catch (problem) {
      if (this.parts.get(n) === part) this.parts.delete(n);
      if (problem.name === 'AbortError') return;
      throw problem;
    } finally {
      part.stopping = null;
    }
    this.forget();
    changed();
  }

  // Parts far from what is seen.
  forget() {
    const {first, last} = this.seen ?? {first: 0, last: 0}, far = n => Math.min(Math.abs(n - first), Math.abs(n - last));
    if (this.parts.size <= KEPT) return;
    for (const n of [...this.parts.keys()].sort((a, b) => far(b) - far(a)).slice(0, this.parts.size - KEPT)) this.parts.delete(n);
  }

  // These are in view. What was asked for and has been scrolled past is not waited for.
  need(from, to) {
    const first = Math.floor(from / PART), last = Math.floor(Math.max(from, to - 1) / PART);
    this.seen = {first, last};
    for (const [n, part] of this.parts) {
      if (part.stopping && !part.pictures && (n < first - 1 || n > last + 1)) {
        part.stopping.abort();
        this.parts.delete(n);
      }
    }
    const missing = () => {
      const out = [];
      for (let n = this.seen.first; n <= this.seen.last && n * PART < this.length; n++) if (!this.parts.has(n) || this.parts.get(n).old) out.push(n);
      return out;
    };
    if (!missing().length || this.wanted) return;
    this.wanted = setTimeout(() => {
      this.wanted = null;
      for (const n of missing()) this.fetch(n).catch(problem => { this.problem = problem; changed(); });
    }, FLING);
  }

  // The index has changed. A list that follows is fetched again where it is in view.
  update() {
    if (!this.follows || !library.state || library.state.change === this.change) return;
    this.change = library.state.change;
    for (const part of this.parts.values()) part.old = true;
    if (!this.length) this.fetch(0).catch(problem => { this.problem = problem; changed(); }); // nothing is in view that would be asked for
  }

  // What was learned, or looked at, since the list was opened may belong elsewhere in it.
  get stale() {
    if (this.follows || !library.state) return false;
    return this.edition !== known.edition || this.change !== library.state.change || this.partial && !isBusy();
  }

  at(index) {
    return this.parts.get(Math.floor(index / PART))?.pictures?.[index % PART];
  }

  indexOf(picture) {
    for (const [n, part] of this.parts) {
      const at = part.pictures ? part.pictures.indexOf(picture) : -1;
      if (at >= 0) return n * PART + at;
    }
    return -1;
  }

  has() {
    return true;
  }

  hold() {}

  async load(from, to) {
    const found = [], end = Math.min(to, this.length);
    for (let at = from; at < end; at = from + found.length) {
      const answer = await get(address(this.query, at, Math.min(MOST, end - at)));
      if (!answer.pictures.length) break;
      found.push(...answer.pictures.map(pictureOf));
    }
    return found;
  }

  // Those that the page has.
  here() {
    return [...this.parts.values()].flatMap(part => part.pictures ?? []);
  }
}

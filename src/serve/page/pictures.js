// The pictures of this page: files that were dropped on it, and those of a server's library that has no index. The server is asked for
// their tags, a few at a time, those on the screen first.
import {changed, confirmed, create, doubt, isDone, isNear, isUnsure, known, learn, learnClasses, standing, suggested} from './picture.js';
import {get, post, send} from './server.js';
import * as memory from './keep.js';

const UPLOADS = 4;      // files on their way at a time
const TOGETHER = 16;    // library pictures in one request
const SCORED = 1000;    // keys in one request

export const pictures = [];
let visible = () => []; // the pictures on the screen, which go first
let running = 0, nextOrder = 0, cursor = 0, epoch = 0;

export function showFirst(function_) {
  visible = function_;
}

// Two tabs remember their pictures in the same place, so orders follow the clock.
function add(path, file) {
  nextOrder = Math.max(nextOrder + 1, 1000 * Date.now());
  const picture = create({order: nextOrder, path, file});
  pictures.push(picture);
  return picture;
}

const identity = (path, file) => `${path}\n${file.size}\n${file.lastModified}`;

// Files that are on the page already are left out. Says how many were added, and how many will not survive a reload.
export async function addFiles(files) {
  const here = new Set(pictures.filter(picture => picture.file).map(picture => identity(picture.path, picture.file)));
  const fresh = files.filter(({path, file}) => !here.has(identity(path, file)) && here.add(identity(path, file)));
  const added = fresh.map(({path, file}) => add(path, file));
  changed();
  pump();
  let kept = 0;
  for (const picture of added) kept += await memory.keep(picture.order, picture.path, picture.file);
  return {added: added.length, kept};
}

export function addLibrary(paths) {
  const here = new Set(pictures.filter(picture => !picture.file).map(picture => picture.path));
  for (const path of paths) if (!here.has(path)) add(path, null);
  changed();
  pump();
}

// Pictures of earlier visits. Those that the server still knows by their keys need not be sent.
export async function restore() {
  const entries = await memory.restore();
  const restored = entries.map(entry => Object.assign(add(entry.path, entry.file), {order: entry.order, key: entry.key}));
  const recognised = restored.filter(picture => picture.key);
  for (const picture of recognised) picture.state = 'sent';
  changed();
  await scoreAll(recognised);
  pump();
}

export function remove(gone) {
  epoch++;
  const out = new Set(gone);
  const left = pictures.filter(picture => !out.has(picture));
  pictures.length = 0;
  pictures.push(...left);
  cursor = 0;
  memory.forget(gone.filter(picture => picture.file).map(picture => picture.order));
  changed();
}

function learnOf(picture, answer) {
  const {key} = picture;
  learn(picture, answer);
  if (picture.file && picture.key !== key) memory.keepKey(picture.order, picture.key);
}

function takeWaiting(wanted, most) {
  const taken = visible().filter(picture => picture.state === 'waiting' && wanted(picture)).slice(0, most);
  while (cursor < pictures.length && pictures[cursor].state !== 'waiting') cursor++;
  for (let i = cursor; i < pictures.length && taken.length < most; i++) {
    if (pictures[i].state === 'waiting' && wanted(pictures[i]) && !taken.includes(pictures[i])) taken.push(pictures[i]);
  }
  for (const picture of taken) picture.state = 'sent';
  return taken;
}

async function tagFile(picture) {
  const type = picture.file.type.startsWith('image/') ? picture.file.type : 'image/jpeg';
  const answer = await send('POST', `/v1/tag?name=${encodeURIComponent(picture.path)}`, {body: picture.file, type});
  return (await answer.json()).pictures;
}

const tagLibrary = async taken => (await post('/v1/tag', {pictures: taken.map(picture => ({path: picture.path}))})).pictures;

function pump() {
  while (running < UPLOADS) {
    let taken = takeWaiting(picture => picture.file, 1);
    const many = taken.length === 0;
    if (many) taken = takeWaiting(picture => !picture.file && picture.id === null, TOGETHER);
    if (!taken.length) break;
    running++;
    tag(taken, many).finally(() => {
      running--;
      changed();
      pump();
    });
  }
}

async function tag(taken, many) {
  try {
    const answers = await (many ? tagLibrary(taken) : tagFile(taken[0]));
    taken.forEach((picture, i) => learnOf(picture, answers[i] ?? {error: 'The server said nothing about this picture.'}));
  } catch (problem) {
    for (const picture of taken) Object.assign(picture, {state: 'failed', error: problem.message, hint: problem.hint});
  }
}

export function again(picture) {
  Object.assign(picture, {state: 'waiting', error: ''});
  cursor = 0;
  changed();
  pump();
}

export const progress = () => ({total: pictures.length, done: pictures.filter(picture => picture.state === 'done' || picture.state === 'failed').length});

// Asks for the tags of pictures that the server has seen; those that it no longer knows are sent again.
async function scoreAll(all) {
  for (let from = 0; from < all.length; from += SCORED) {
    const now = epoch, part = all.slice(from, from + SCORED);
    const answer = await post('/v1/score', {keys: [...new Set(part.map(picture => picture.key))]});
    if (now !== epoch) return;
    const byKey = new Map(answer.pictures.map(one => [one.key, one])), missing = new Set(answer.missing);
    for (const picture of part) {
      const one = byKey.get(picture.key);
      if (one) learnOf(picture, one);
      else if (missing.has(picture.key)) picture.state = 'waiting';
    }
    changed();
  }
  cursor = 0;
  pump();
}

// The server has learned something: its classes, then the tags of all pictures, those on the screen first. One round at a time; lessons
// that arrive meanwhile start another.
let round = null, again_ = false;
export function refresh() {
  again_ = true;
  round ??= (async () => {
    try {
      while (again_) {
        again_ = false;
        await readClasses();
        const first = new Set(visible());
        const seen = pictures.filter(picture => picture.key && picture.state !== 'waiting');
        await scoreAll([...seen.filter(picture => first.has(picture)), ...seen.filter(picture => !first.has(picture))]);
      }
    } finally {
      round = null;
    }
  })();
  return round;
}

export async function readClasses() {
  learnClasses(await get('/v1/classes'));
}

// How many pictures of the page are what, and for every tag: how many were taught with it, and how many others it is suggested for.
export function tally() {
  const tags = new Map(known.classes.map(one => [one.name, {taught: 0, suggested: 0}]));
  const at = name => tags.get(name) ?? tags.set(name, {taught: 0, suggested: 0}).get(name);
  const sums = {all: pictures.length, taught: 0, tagged: 0, untagged: 0, waiting: 0, failed: 0, unsure: 0};
  for (const picture of pictures) {
    sums[standing(picture)]++;
    sums.unsure += isUnsure(picture);
    for (const name of confirmed(picture)) at(name).taught++;
    for (const {tag} of suggested(picture)) at(tag).suggested++;
  }
  return {...sums, tags};
}

const byName = (a, b) => a.path.localeCompare(b.path, 'en', {numeric: true});
const score = (picture, tag) => confirmed(picture).includes(tag) ? 1e9 : picture.tags.find(one => one.tag === tag)?.score ?? -1e9;
const doubtful = (picture, tag) => suggested(picture).some(one => one.tag === tag && isNear(one));

// The pictures that a filter takes, in an order. Nothing moves under the pointer while the page learns: a picture that was judged here
// stays until the list is opened again, and so does the order by score or by doubt.
export class Listing {
  // rules: {takes(picture), tag}; order: 'added', 'name', 'score' or 'unsure'.
  constructor(rules, order) {
    const rank = {score: picture => score(picture, rules.tag), unsure: doubt}[order];
    Object.assign(this, {rules, order, rank, items: [], places: new Map(), ranks: new Map(), held: new Set(), unsure: false, hidden: 0, edition: known.edition});
    this.update();
  }

  takes(picture) {
    const {takes, tag} = this.rules;
    if (this.held.has(picture)) return true;
    if (!takes(picture)) return false;
    if (tag === undefined || this.unsure || this.ranks.has(picture) || !doubtful(picture, tag)) return true;
    this.hidden++;
    return false;
  }

  rankOf(picture) {
    if (!this.ranks.has(picture)) this.ranks.set(picture, this.rank?.(picture) ?? 0);
    return this.ranks.get(picture);
  }

  get problem() {
    return null;
  }

  here() {
    return this.items;
  }

  update() {
    this.hidden = 0;
    this.items = pictures.filter(picture => this.takes(picture));
    for (const picture of this.items) if (isDone(picture)) this.rankOf(picture);
    if (this.order === 'name') this.items.sort(byName);
    else if (this.rank) this.items.sort((a, b) => (this.ranks.get(b) ?? 0) - (this.ranks.get(a) ?? 0));
    this.places = new Map(this.items.map((picture, i) => [picture, i]));
  }

  hold(picture) {
    this.held.add(picture);
  }

  get stale() {
    return Boolean(this.rank) && this.edition !== known.edition;
  }

  get length() {
    return this.items.length;
  }

  at(index) {
    return this.items[index];
  }

  indexOf(picture) {
    return this.places.get(picture) ?? -1;
  }

  has(picture) {
    return this.places.has(picture);
  }

  need() {}

  async load(from, to) {
    return this.items.slice(from, to);
  }
}

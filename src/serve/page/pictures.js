// The pictures on the page and what the server says of them. A picture is
//   {order, path, name, file | null (in the library), key, state: 'waiting' | 'sent' | 'done' | 'failed', tags, uncertain, taught, error}
// and stays the same object, so that views can hold on to it. Everything that changes ends in one 'change' event per frame.
import {base64, get, post, send} from './server.js';
import * as memory from './keep.js';

const UPLOADS = 4;      // files on their way at a time
const TOGETHER = 16;    // library pictures in one request
const SCORED = 1000;    // keys in one request
const NOT_SURE = 0.7;   // from here on a picture counts as not sure: a score is within 0.04 of its threshold

export const events = new EventTarget();
export const pictures = [];
export const known = {classes: [], edition: -1};
let visible = () => []; // the pictures on the screen, which go first
let running = 0, nextOrder = 0, cursor = 0, epoch = 0;
let planned = false;

// A person may have judged all tags of a picture, some, or none; the tagger speaks for the others.
export const isTaught = picture => picture.taught !== null;
export const isSettled = picture => isTaught(picture) && !picture.taught.only;
export const isDone = picture => picture.state === 'done';
const isOpenTag = ({taught}, tag) => !taught || taught.only && !taught.tags.includes(tag) && !taught.not.includes(tag);
export const confirmed = picture => picture.taught ? picture.taught.tags : [];
export const suggested = picture => picture.tags.filter(({tag, predicted}) => predicted && isOpenTag(picture, tag));
export const shown = picture => [...confirmed(picture), ...suggested(picture).map(({tag}) => tag)];
export const isNone = picture => isDone(picture) && shown(picture).length === 0;

// As the server says; of a picture that was judged in part, the other tags count, by the same rule.
export function doubt(picture) {
  if (!isDone(picture) || isSettled(picture)) return 0;
  if (!isTaught(picture)) return picture.uncertain;
  const distances = picture.tags.filter(({tag}) => isOpenTag(picture, tag)).map(({score, threshold}) => Math.abs(score - threshold));
  return distances.length ? 1 / (1 + 10 * Math.min(...distances)) : 0;
}
export const isUnsure = picture => doubt(picture) >= NOT_SURE;

export function showFirst(function_) {
  visible = function_;
}

export function changed() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    events.dispatchEvent(new Event('change'));
  });
}

// Two tabs remember their pictures in the same place, so orders follow the clock.
function add(path, file) {
  nextOrder = Math.max(nextOrder + 1, 1000 * Date.now());
  const picture = {order: nextOrder, path, name: path.split('/').pop(), file, key: null, state: 'waiting', tags: [], uncertain: 0,
                   taught: null, pending: 0, error: '', news: null};
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

// What the server said of one picture.
function learnOf(picture, answer) {
  if (answer.error) {
    Object.assign(picture, {state: 'failed', error: answer.error});
    return;
  }
  const before = picture.state === 'done' ? new Set(shown(picture)) : null;
  const isNew = picture.key !== answer.key;
  Object.assign(picture, {state: 'done', key: answer.key, tags: answer.tags, uncertain: answer.uncertain ?? 0});
  if (!picture.pending) picture.taught = answer.taught ?? null; // otherwise what was just said counts
  if (before) {
    const news = shown(picture).filter(tag => !before.has(tag));
    if (news.length) picture.news = {tags: new Set(news), edition: known.edition};
  }
  if (isNew && picture.file) memory.keepKey(picture.order, picture.key);
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
    if (many) taken = takeWaiting(picture => !picture.file, TOGETHER);
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

// From the answer of any request that tells them.
export function learnClasses({classes, edition}) {
  known.classes = classes;
  known.edition = edition;
  changed();
}

// How the server can find a picture: by its key, or if it does not know it any more, by its bytes or its path.
export async function reference(picture, whole = false) {
  if (picture.key && !whole) return {key: picture.key, name: picture.path};
  return picture.file ? {image: await base64(picture.file), name: picture.path} : {path: picture.path};
}

// For every tag: how many pictures of the page were taught with it, and how many others it is suggested for.
export function tally() {
  const tags = new Map(known.classes.map(one => [one.name, {taught: 0, suggested: 0}]));
  const at = name => tags.get(name) ?? tags.set(name, {taught: 0, suggested: 0}).get(name);
  let unsure = 0, none = 0, taught = 0, failed = 0;
  for (const picture of pictures) {
    unsure += isUnsure(picture);
    none += isNone(picture);
    taught += isTaught(picture);
    failed += picture.state === 'failed';
    for (const name of confirmed(picture)) at(name).taught++;
    for (const {tag} of suggested(picture)) at(tag).suggested++;
  }
  return {tags, unsure, none, taught, failed, all: pictures.length};
}

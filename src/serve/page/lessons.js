// Teaching and taking back. Lessons leave one after the other, in the order they were given; the page shows at once what was said, and
// corrects itself when the server has answered. Tags that are accepted or rejected one after the other become one lesson.
import {changed, confirmed, isDenied, isTaught, judged, known, learnClasses} from './picture.js';
import {refresh, tally} from './collection.js';
import {base64, get, post} from './server.js';
import {count, list, number} from './words.js';

export const events = new EventTarget(); // 'line': what changed; 'refused': a lesson or a part of it
const CONFLICT = 409, GONE = 410, MISSING = 404;
const SOON = 1000; // milliseconds after which nothing more comes
let last = Promise.resolve();
let open = 0;

export const pending = () => open + (verdicts ? 1 : 0);

function emit(name, detail) {
  events.dispatchEvent(new CustomEvent(name, {detail}));
}

function enqueue(work) {
  sendVerdicts();
  open++;
  const result = last.then(work).finally(() => {
    open--;
    changed();
  });
  last = result.catch(() => {});
  return result;
}

// --- giving -------------------------------------------------------------------------------------------------------------------------

// judgement: {tags, not, only}. Without a tag the picture shows none of the tags known so far.
export function teach(pictures, {tags, not = [], only = false}) {
  sendVerdicts();
  teachEach(pictures.map(picture => ({picture, before: picture.taught, judgement: {tags: [...tags], not: [...not], only}})));
}

// The pictures keep what was said of them before, and get the tags too. Nothing is said about other tags, unless complete.
export function teachAlso(pictures, tags, complete) {
  sendVerdicts();
  teachEach(pictures.map(picture => {
    const before = picture.taught ?? {tags: [], not: [], only: true};
    const all = [...new Set([...before.tags, ...tags])];
    return {picture, before: picture.taught, judgement: {tags: all, not: before.not.filter(tag => !all.includes(tag)), only: before.only && !complete}};
  }));
}

function teachEach(lesson) {
  const before = tally();
  for (const one of lesson) apply(one);
  changed();
  enqueue(() => deliver(lesson, before));
}

function apply({picture, judgement}) {
  Object.assign(picture, {taught: judgement, news: null, pending: picture.pending + 1});
}

// --- accepting and rejecting ----------------------------------------------------------------------------------------------------------

let verdicts = null; // {lesson: Map of pictures, before, timer}; those that still wait for more

// The tag is right for these pictures, or wrong. The same verdict again takes back one that has not been sent.
export function judge(pictures, tag, yes) {
  verdicts ??= {lesson: new Map(), before: tally(), timer: 0};
  const {lesson} = verdicts, isSame = picture => lesson.has(picture) && lesson.get(picture).verdict.tag === tag && lesson.get(picture).verdict.yes === yes;
  const again = pictures.every(isSame), isKnown = picture => !lesson.has(picture) && (yes ? confirmed(picture).includes(tag) : isDenied(picture, tag));
  for (const picture of pictures.filter(picture => picture.state !== 'failed' && !isKnown(picture))) {
    const old = lesson.get(picture), judgement = judged(picture, tag, yes);
    if (old) picture.pending--;
    lesson.delete(picture);
    if (again) {
      picture.taught = old.before;
    } else {
      const one = {picture, before: old ? old.before : picture.taught, judgement, verdict: {tag, yes}};
      apply(one);
      lesson.set(picture, one);
    }
  }
  clearTimeout(verdicts.timer);
  verdicts.timer = setTimeout(sendVerdicts, SOON);
  changed();
  const [right, wrong] = [true, false].map(kind => [...lesson.values()].filter(({verdict}) => verdict.yes === kind).length);
  emit('line', {text: saidOf(tag, right, wrong), undo: lesson.size > 0});
}

const saidOf = (tag, right, wrong) => `${tag}: ${[right ? `${count(right, 'picture')} accepted` : '', wrong ? `${count(wrong, 'picture')} rejected` : ''].filter(Boolean).join(', ') || 'nothing said'}.`;

function sendVerdicts() {
  if (!verdicts) return;
  const {lesson, before, timer} = verdicts;
  clearTimeout(timer);
  verdicts = null;
  if (lesson.size) enqueue(() => deliver([...lesson.values()], before));
  else changed();
}

// Those that were not sent yet are simply forgotten.
function dropVerdicts() {
  const lesson = [...verdicts.lesson.values()];
  clearTimeout(verdicts.timer);
  verdicts = null;
  for (const {picture} of lesson) picture.pending--;
  takeBack(lesson);
}

// --- sending ------------------------------------------------------------------------------------------------------------------------

// How the server can find a picture: by its key, or if it does not know it any more, by its bytes or its path.
async function reference(picture, whole) {
  if (picture.id !== null) return {id: picture.id, name: picture.path};
  if (picture.key && !whole) return {key: picture.key, name: picture.path};
  return picture.file ? {image: await base64(picture.file), name: picture.path} : {path: picture.path};
}

function say({tags, not, only}) {
  // "None of my tags" names what it means, so that nothing depends on when the server reads it.
  return tags.length ? {tags, not, only} : {tags, not: not.length ? not : known.classes.map(one => one.name), only};
}

async function entry({picture, judgement}, whole) {
  return {...await reference(picture, whole), ...say(judgement)};
}

function takeBack(lesson) {
  for (const {picture, before} of lesson) picture.taught = before;
  changed();
}

// What a picture was taught before is replaced. That needs the history, which not every model has, so it is only asked for if the page knows
// of such a picture, or the server does.
async function send(lesson, whole) {
  const pictures = await Promise.all(lesson.map(one => entry(one, whole)));
  const instead = lesson.some(({before}) => before);
  try {
    return await post('/v1/teach', {pictures, instead});
  } catch (problem) {
    if (problem.status !== CONFLICT || instead) throw problem;
    return post('/v1/teach', {pictures, instead: true});
  }
}
const failures = answer => new Map((answer.failed ?? []).map(one => [one.name, one.error]));

// The server may no longer know some pictures, or all of them, by their keys; these are sent again whole.
async function sendAll(lesson) {
  let answer = null, left = lesson;
  try {
    answer = await send(lesson, false);
    left = lesson.filter(({picture}) => failures(answer).has(picture.path));
  } catch (problem) {
    if (problem.status !== GONE) throw problem;
  }
  if (!left.length) return answer;
  answer = await send(left, true);
  const failed = failures(answer), refused = left.filter(({picture}) => failed.has(picture.path));
  if (refused.length) {
    takeBack(refused);
    emit('refused', {text: failed.get(refused[0].picture.path), hint: 'The other pictures of the lesson were learned.', pictures: refused.map(one => one.picture)});
  }
  return answer;
}

async function deliver(lesson, before) {
  const arrived = () => lesson.forEach(one => { one.picture.pending--; });
  try {
    const answer = await sendAll(lesson);
    arrived();
    learnClasses(answer);
  } catch (problem) {
    arrived();
    takeBack(lesson);
    emit('refused', {text: problem.message, hint: problem.hint, pictures: lesson.map(one => one.picture)});
    return;
  }
  await describe(lesson, before);
}

// --- what changed -------------------------------------------------------------------------------------------------------------------

function difference(before, after, leave) {
  const changes = [];
  for (const [tag, now] of after.tags) {
    const more = now.suggested - (before.tags.get(tag)?.suggested ?? 0);
    if (more && !leave.has(tag)) changes.push({tag, more});
  }
  if (!before.settled || !after.settled) return [];
  changes.sort((a, b) => Math.abs(b.more) - Math.abs(a.more));
  return changes.slice(0, 3).map(({tag, more}) => `${tag} ${more > 0 ? '+' : '−'}${number(Math.abs(more))}`);
}

const suggestions = (after, tag) => after.settled ? `${number(after.tags.get(tag)?.suggested ?? 0)} more suggested` : 'the library follows';

function verdictLine(taught, after) {
  const parts = [...new Set(taught.map(({verdict}) => verdict.tag))].map(tag => {
    const [right, wrong] = [true, false].map(kind => taught.filter(({verdict}) => verdict.tag === tag && verdict.yes === kind).length);
    return `${saidOf(tag, right, wrong).slice(0, -1)}; ${suggestions(after, tag)}.`;
  });
  return parts.slice(0, 3);
}

function lessonLine(taught, tags, after) {
  if (!tags.size) return [`Taught: ${count(taught.length, 'picture')} with none of your tags.`];
  return [...tags].slice(0, 3).map(tag => {
    const total = known.classes.find(one => one.name === tag)?.pictures ?? 0;
    return `${tag}: ${count(total, 'picture')} taught, ${suggestions(after, tag)}.`;
  });
}

async function describe(lesson, before) {
  const taught = lesson.filter(({picture}) => isTaught(picture));
  if (!taught.length) return;
  const tags = new Set(taught.flatMap(({judgement, verdict}) => verdict ? [verdict.tag] : judgement.tags));
  await refresh();
  const after = tally(), parts = taught[0].verdict ? verdictLine(taught, after) : lessonLine(taught, tags, after);
  const others = difference(before, after, tags);
  if (others.length) parts.push(`Suggestions also changed for ${list(others)}.`);
  emit('line', {text: parts.join(' '), undo: true});
}

// --- taking back --------------------------------------------------------------------------------------------------------------------

// A lesson by its id, or the last one.
export function undo(id) {
  if (verdicts && id === undefined) {
    dropVerdicts();
    emit('line', {text: 'Taken back.', undo: false});
    return Promise.resolve();
  }
  return enqueue(async () => {
    try {
      const before = tally();
      const wanted = id ?? (await history())[0]?.id; // named, so that no other lesson is undone if the request has to be sent again
      const answer = await post('/v1/undo', wanted ? {id: wanted} : {});
      learnClasses(answer);
      await refresh();
      const others = difference(before, tally(), new Set());
      const {lesson, pictures} = answer.undone;
      emit('line', {text: `Undone: lesson ${lesson}${pictures ? `, ${count(pictures, 'picture')}` : ''}.` + (others.length ? ` Suggestions changed for ${list(others)}.` : ''), undo: false});
    } catch (problem) {
      if (problem.status === CONFLICT) await refresh();
      emit('refused', {text: problem.message, hint: problem.hint, pictures: []});
    }
  });
}

export function rename(from, to) {
  return enqueue(async () => {
    try {
      await post('/v1/rename', {from, to});
      await refresh();
      emit('line', {text: `${from} is now called ${to}.`, undo: true});
      return true;
    } catch (problem) {
      emit('refused', {text: problem.message, hint: problem.hint, pictures: []});
      return false;
    }
  });
}

export const history = async () => (await get('/v1/history')).lessons;

// The pictures of a lesson; null: the server does not tell them, and undoes the last lesson only.
export async function picturesOf(id) {
  try {
    return (await get(`/v1/lesson?id=${encodeURIComponent(id)}`)).pictures;
  } catch (problem) {
    if (problem.status === MISSING) return null;
    throw problem;
  }
}

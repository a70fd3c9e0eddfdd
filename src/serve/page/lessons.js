// Teaching and taking back. Lessons leave one after the other, in the order they were given; the page shows at once what was said, and
// corrects itself when the server has answered.
import {changed, isTaught, known, learnClasses, reference, refresh, tally} from './pictures.js';
import {get, post} from './server.js';
import {count, list} from './words.js';

export const events = new EventTarget(); // 'line': what changed; 'refused': a lesson or a part of it
const CONFLICT = 409, GONE = 410;
let last = Promise.resolve();
let open = 0;

export const pending = () => open;

function emit(name, detail) {
  events.dispatchEvent(new CustomEvent(name, {detail}));
}

function enqueue(work) {
  open++;
  const result = last.then(work).finally(() => {
    open--;
    changed();
  });
  last = result.catch(() => {});
  return result;
}

// judgement: {tags, not, only}. Without a tag the picture shows none of the tags known so far.
export function teach(pictures, {tags, not = [], only = false}) {
  const lesson = pictures.map(picture => ({picture, before: picture.taught, judgement: {tags: [...tags], not: [...not], only}}));
  return teachEach(lesson);
}

// The pictures keep what was said of them before, and get the tags too. Nothing is said about other tags, unless complete.
export function teachAlso(pictures, tags, complete) {
  return teachEach(pictures.map(picture => {
    const before = picture.taught ?? {tags: [], not: [], only: true};
    const all = [...new Set([...before.tags, ...tags])];
    return {picture, before: picture.taught, judgement: {tags: all, not: before.not.filter(tag => !all.includes(tag)), only: before.only && !complete}};
  }));
}

function teachEach(lesson) {
  const before = tally();
  for (const {picture, judgement} of lesson) Object.assign(picture, {taught: judgement, news: null, pending: picture.pending + 1});
  changed();
  return enqueue(() => deliver(lesson, before));
}

function say({tags, not, only}) {
  // "None of these" names what it means, so that nothing depends on when the server reads it.
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

function difference(before, after, leave) {
  const changes = [];
  for (const [tag, now] of after.tags) {
    const more = now.suggested - (before.tags.get(tag)?.suggested ?? 0);
    if (more && !leave.has(tag)) changes.push({tag, more});
  }
  changes.sort((a, b) => Math.abs(b.more) - Math.abs(a.more));
  return changes.slice(0, 3).map(({tag, more}) => `${tag} ${more > 0 ? '+' : '−'}${Math.abs(more)}`);
}

async function describe(lesson, before) {
  const taught = lesson.filter(({picture}) => isTaught(picture));
  if (!taught.length) return;
  const tags = new Set(taught.flatMap(({judgement}) => judgement.tags));
  await refresh();
  const after = tally();
  const parts = [...tags].slice(0, 3).map(tag => {
    const total = known.classes.find(one => one.name === tag)?.pictures ?? 0;
    return `${tag}: ${count(total, 'picture')} taught, ${after.tags.get(tag)?.suggested ?? 0} more suggested.`;
  });
  if (!tags.size) parts.push(`Taught: ${count(taught.length, 'picture')} with none of your tags.`);
  const others = difference(before, after, tags);
  if (others.length) parts.push(`Suggestions also changed for ${list(others)}.`);
  emit('line', {text: parts.join(' '), undo: true});
}

export function undo() {
  return enqueue(async () => {
    try {
      const before = tally();
      const [newest] = await history(); // named, so that no other lesson is undone if the request has to be sent again
      const answer = await post('/v1/undo', newest ? {id: newest.id} : {});
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

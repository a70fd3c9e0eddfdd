// One picture: what the server says of it, and what the person has said. A picture is
//   {order, path, name, file | null, id | null, key, state: 'waiting' | 'sent' | 'done' | 'failed', tags, uncertain, taught, error}
// with a file if it is in this browser, and an id if it is in the server's index. It stays the same object, so that views can hold on
// to it. Everything that changes ends in one 'change' event per frame.

const NOT_SURE = 0.7;                     // from here on a picture counts as not sure
const MARGIN = (1 / NOT_SURE - 1) / 10;   // the same as a distance of a score from its threshold
const SURE = 1.25;                        // times the threshold

export const events = new EventTarget();
export const known = {classes: [], edition: -1};

let planned = false;
export function changed() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    events.dispatchEvent(new Event('change'));
  });
}

export const create = about => ({name: about.path.split('/').pop(), file: null, id: null, key: null, state: 'waiting', tags: [], uncertain: 0, taught: null,
                                 pending: 0, error: '', hint: '', news: null, ...about});

// From the answer of any request that tells them.
export function learnClasses({classes, edition}) {
  known.classes = classes;
  known.edition = edition;
  changed();
}

// What the server said of one picture.
export function learn(picture, answer) {
  if (answer.error) {
    Object.assign(picture, {state: 'failed', error: answer.error, hint: answer.hint ?? ''});
    return;
  }
  const before = picture.state === 'done' ? new Set(shown(picture)) : null;
  Object.assign(picture, {state: 'done', key: answer.key ?? picture.key, tags: answer.tags, uncertain: answer.uncertain ?? 0});
  if (!picture.pending) picture.taught = answer.taught ?? null; // otherwise what was just said counts
  if (!before) return;
  const news = shown(picture).filter(tag => !before.has(tag));
  if (news.length) picture.news = {tags: new Set(news), edition: known.edition};
}

// A person may have judged all tags of a picture, some, or none; the tagger speaks for the others.
export const isTaught = picture => picture.taught !== null;
export const isSettled = picture => isTaught(picture) && !picture.taught.only;
export const isDone = picture => picture.state === 'done';
export const isOpenTag = ({taught}, tag) => !taught || taught.only && !taught.tags.includes(tag) && !taught.not.includes(tag);
export const confirmed = picture => picture.taught ? picture.taught.tags : [];
export const suggested = picture => picture.tags.filter(({tag, predicted}) => predicted && isOpenTag(picture, tag));
export const shown = picture => [...confirmed(picture), ...suggested(picture).map(({tag}) => tag)];
export const isDenied = (picture, tag) => isTaught(picture) && !picture.taught.tags.includes(tag) && !isOpenTag(picture, tag);

// A score so near its threshold that nobody should rely on the tag, nor on its absence.
export const isNear = ({score, threshold}) => Math.abs(score - threshold) <= MARGIN;

export function confidence(about) {
  if (isNear(about)) return 'not sure';
  return about.score < about.threshold ? 'unlikely' : about.score >= SURE * about.threshold ? 'sure' : 'fairly sure';
}

// As the server says; of a picture that was judged in part, the other tags count, by the same rule.
export function doubt(picture) {
  if (!isDone(picture) || isSettled(picture)) return 0;
  if (!isTaught(picture)) return picture.uncertain;
  const distances = picture.tags.filter(({tag}) => isOpenTag(picture, tag)).map(({score, threshold}) => Math.abs(score - threshold));
  return distances.length ? 1 / (1 + 10 * Math.min(...distances)) : 0;
}
export const isUnsure = picture => doubt(picture) >= NOT_SURE;

// Every picture is exactly one of these, so that their numbers add up.
export function standing(picture) {
  if (isTaught(picture)) return 'taught';
  if (picture.state === 'failed') return 'failed';
  return !isDone(picture) ? 'waiting' : suggested(picture).length ? 'tagged' : 'untagged';
}

// What will have been said of the picture when one tag of it is accepted or rejected, too. What was judged completely stays complete.
export function judged(picture, tag, yes) {
  const before = picture.taught ?? {tags: [], not: [], only: true}, others = tags => tags.filter(one => one !== tag);
  const tags = yes ? [...others(before.tags), tag] : others(before.tags);
  return {tags, not: before.only ? yes ? others(before.not) : [...others(before.not), tag] : [], only: before.only};
}

// One picture at a time: what the tagger believes, to be accepted or corrected. Saving teaches at once and goes on to the next picture.
// Either a list is reviewed in its order, or the pictures that the tagger is least sure of come first, as it now sees them.
import {button, find, make} from './dom.js';
import * as lessons from './lessons.js';
import {allTags} from './library.js';
import {confidence, doubt, events, isDone, isNear, isOpenTag, isSettled, isTaught, known, shown} from './picture.js';
import {again, pictures} from './pictures.js';
import {post} from './server.js';
import {tagbox} from './tagbox.js';
import {showBlob, whole} from './thumbnails.js';
import {count, list, number} from './words.js';

const AHEAD = 4;    // pictures to fetch before they are shown
const OTHERS = 4;   // tags to offer besides those that are given, and of those that are near without being given
const STEADY = 400; // milliseconds that ticks have to be on the screen before Enter accepts them

const dialog = find('#review'), image = find('#review-picture'), note = find('#review-note'), title = find('#review-title');
const place = find('#review-place'), tagList = find('#review-tags'), state = find('#review-state'), open_ = find('#review-open');
const saveButton = find('#review-save');
let session = null; // {list | null, pool, done: Set, trail: [], at}
let current = null, ticks = new Map(), touched = false, unticked = new Set(), loading = null, changedAt = 0, order = [], seen = '';
let all = {picture: null, tags: [], edition: null}; // every tag of the current picture, as of an edition
let readonly = false;

const box = tagbox({label: 'Add a tag', hint: 'type a word', pick: tag => { set(tag, true); box.input.focus(); }, done: save, without: ticked});
find('#review-add').append(box);

export function setReadonly(value) {
  readonly = value;
  dialog.classList.toggle('readonly', value);
}

function ticked() {
  return order.filter(tag => ticks.get(tag));
}

const left = () => session.pool().filter(picture => isDone(picture) && !isSettled(picture) && !session.done.has(picture));

// The least sure first, of those that were neither settled nor passed over; or the first of them, if the pool has an order.
function leastSure() {
  const open = left();
  return session.inOrder ? open[0] ?? null : open.reduce((best, picture) => !best || doubt(picture) > doubt(best) ? picture : best, null);
}

// list: as in collection.js.
export function reviewList(list, at) {
  start({list, at, done: null, pool: null, trail: null});
}

// pool(): the pictures to choose from.
export function reviewUnsure(pool, inOrder = false) {
  session = {list: null, pool, inOrder, done: new Set(), trail: [], at: -1};
  const first = leastSure();
  if (!first) return false;
  session.trail.push(first);
  start({...session, at: 0});
  return true;
}

function start(next) {
  session = next;
  show();
  dialog.showModal();
  title.focus();
}

const length = () => session.list ? session.list.length : session.trail.length;

// What a list does not have yet is fetched.
async function show() {
  const now = session, {at} = session;
  let picture = now.list ? now.list.at(at) : now.trail[at];
  if (!picture) {
    try {
      [picture] = await now.list.load(at, at + 1);
    } catch { /* it has gone */ }
    if (session !== now || session.at !== at) return;
    if (!picture) return dialog.close();
  }
  now.list?.need?.(at, Math.min(at + AHEAD, now.list.length));
  present(picture);
}

function present(picture) {
  current = picture;
  touched = false;
  ticks.clear();
  unticked.clear();
  order = [];
  box.empty();
  all = {picture: current, tags: current.tags, edition: null};
  fill();
  load();
  askAll();
  title.textContent = current.name;
  title.title = current.path;
  find('#review-previous').disabled = session.at === 0;
  find('#review-next').disabled = session.list ? session.at === length() - 1 : false;
  position();
}

function position() {
  place.textContent = session.list ? `${number(session.at + 1)} of ${number(length())}` : `${session.inOrder ? 'What to judge next' : 'Least sure first'} · ${count(left().length, 'picture')} left`;
}

async function load() {
  loading?.abort();
  loading = new AbortController();
  const picture = current;
  note.textContent = '';
  showBlob(image, null);
  try {
    const blob = await whole(picture, loading.signal);
    if (picture !== current) return;
    showBlob(image, blob);
    image.alt = picture.name;
  } catch (problem) {
    if (problem.name !== 'AbortError' && picture === current) note.textContent = 'The picture cannot be loaded. ' + problem.message;
  }
}
image.addEventListener('error', () => {
  if (image.src) note.textContent = current.state === 'failed' ? 'This file cannot be read as a picture.' : 'This browser cannot show the picture, but it can be tagged.';
});

// The tag that is most in doubt need not be among the few that came with the picture.
async function askAll() {
  const picture = current, {edition} = known;
  if (!picture.key && picture.id === null || all.edition === edition) return;
  all.edition = edition;
  try {
    const tags = picture.id !== null ? await allTags(picture) : (await post('/v1/score', {keys: [picture.key], all: true}, {patient: false})).pictures[0]?.tags ?? [];
    if (picture !== current || !tags.length) return;
    all.tags = tags;
    fill();
  } catch { /* then the few have to do */ }
}

// First what the tagger is not sure of, so that one key ticks it; then what is given, and what comes closest.
function offered() {
  const ratio = ({score, threshold}) => threshold > 0 ? score / threshold : score, given = shown(current);
  const open = all.tags.filter(({tag}) => isOpenTag(current, tag)).sort((a, b) => ratio(b) - ratio(a)), isGiven = ({tag}) => given.includes(tag);
  const near = open.filter(isNear), doubtful = [...near.filter(isGiven), ...near.filter(one => !isGiven(one)).slice(0, OTHERS)].map(({tag}) => tag);
  const sure = given.filter(tag => !doubtful.includes(tag)), others = all.tags.filter(({tag}) => !given.includes(tag) && !doubtful.includes(tag)).sort((a, b) => ratio(b) - ratio(a));
  return {doubtful, sure, others: others.slice(0, OTHERS).map(({tag}) => tag)};
}

// Ticks follow the tagger until the person has changed one. Nothing near its threshold is ticked beforehand.
function fill() {
  const before = order.map(tag => [tag, ticks.get(tag)]).join('\n');
  if (!touched) {
    const {doubtful, sure, others} = offered();
    order = [...new Set([...doubtful, ...sure, ...others])];
    ticks = new Map(order.map(tag => [tag, sure.includes(tag)]));
  }
  if (order.map(tag => [tag, ticks.get(tag)]).join('\n') !== before) changedAt = performance.now();
  drawTags();
  drawState();
}

function drawTags() {
  const byTag = new Map([...current.tags, ...all.tags].map(tag => [tag.tag, tag]));
  const focused = document.activeElement?.closest?.('#review-tags input')?.value;
  tagList.replaceChildren(...order.map((tag, i) => {
    const about = byTag.get(tag), isNew = !known.classes.some(one => one.name === tag);
    const box = make('input', {type: 'checkbox', value: tag, disabled: readonly, onchange: event => set(tag, event.target.checked)});
    box.checked = ticks.get(tag);
    const meter = make('span', {class: 'meter', 'aria-hidden': 'true'});
    if (about) {
      const bar = make('span', {class: 'bar'}), mark = make('span', {class: 'mark'}), scale = Math.max(1, 1.15 * about.score, 1.6 * about.threshold);
      bar.style.width = `${100 * Math.max(0, about.score) / scale}%`;
      mark.style.left = `${100 * about.threshold / scale}%`;
      meter.append(bar, mark);
      meter.title = `score ${about.score.toFixed(2)}; the tag is given above ${about.threshold.toFixed(2)}`;
    }
    return make('li', {class: ticks.get(tag) ? 'on' : ''}, make('label', {}, box, make('span', {class: 'name'}, tag),
      make('span', {class: 'soft believed'}, isNew ? 'new tag' : about ? confidence(about) : ''), meter), i < 9 && !readonly ? make('kbd', {'aria-hidden': 'true'}, i + 1) : null);
  }));
  if (focused !== undefined) [...tagList.querySelectorAll('input')].find(input => input.value === focused)?.focus();
}

// What was said of the picture so far, and what is in doubt.
function inPart() {
  const {tags, not} = current.taught ?? {tags: [], not: []}, doubtful = touched ? [] : offered().doubtful;
  return [tags.length ? `You have taught ${list(tags)} with this picture.` : '', not.length ? `You have said that it does not show ${list(not)}.` : '',
    doubtful.length && !readonly ? `It is not sure of ${list(doubtful)}: tick what the picture shows.` : ''].filter(Boolean).join(' ');
}

function drawState() {
  const failed = current.state === 'failed';
  const chosen = ticked();
  state.replaceChildren(failed ? current.error + ' ' : current.state !== 'done' ? 'The tagger has not looked at this picture yet.' : isSettled(current) ? 'You have taught this picture.' : inPart(),
    failed && current.id === null ? button('Try again', () => again(current), {class: 'link'}) : '');
  find('#review-means').textContent = failed || readonly ? '' : chosen.length
    ? `Saves: ${list(chosen)}, and ${open_.checked ? 'nothing about other tags' : 'none of the other tags'}.` : 'Saves: none of your tags.';
  saveButton.disabled = failed || readonly || !chosen.length && !known.classes.length;
  find('#review-none').disabled = failed || readonly || !known.classes.length;
}

function set(tag, on) {
  touched = true;
  if (!order.includes(tag)) order.push(tag);
  ticks.set(tag, on);
  unticked[on ? 'delete' : 'add'](tag);
  drawTags();
  drawState();
}

function save() {
  box.flush();
  if (saveButton.disabled) return;
  if (!touched && performance.now() - changedAt < STEADY) return;
  const tags = ticked(), only = open_.checked;
  const refused = order.filter(tag => !ticks.get(tag) && (unticked.has(tag) || current.tags.some(one => one.tag === tag && one.predicted && !isNear(one))));
  lessons.teach([current], {tags, not: only ? refused : [], only: only && tags.length > 0});
  step(1);
}

function saveNone() {
  if (find('#review-none').disabled) return;
  for (const tag of order) ticks.set(tag, false);
  touched = true;
  lessons.teach([current], {tags: [], not: [], only: false});
  step(1);
}

function step(by) {
  const next = session.at + by;
  if (next < 0) return;
  if (next >= length()) {
    session.done?.add(current);
    const found = session.list ? null : leastSure();
    if (!found) return finish();
    session.trail.push(found);
  }
  session.at = next;
  show();
}

function finish() {
  dialog.close();
  lessons.events.dispatchEvent(new CustomEvent('line', {detail: {text: 'That was the last one.', undo: false}}));
}

function keys(event) {
  if (event.target.matches('input[type=text]') || event.ctrlKey || event.metaKey || event.altKey) {
    if (event.key === 'z' && (event.ctrlKey || event.metaKey) && !event.target.matches('input[type=text]')) lessons.undo();
    return;
  }
  const digit = Number(event.key);
  if (event.key === 'ArrowRight' && !find('#review-next').disabled) step(1);
  else if (event.key === 'ArrowLeft') step(-1);
  else if (readonly) return;
  else if (event.key === 'Enter' && !event.target.closest('button, summary')) save();
  else if (digit >= 1 && digit <= order.length) set(order[digit - 1], !ticks.get(order[digit - 1]));
  else if (event.key === 'n') saveNone();
  else if (event.key === 't' || event.key === '+' || event.key === '/') box.input.focus();
  else if (event.key === 'u') lessons.undo();
  else return;
  event.preventDefault();
}

// A swipe across the picture goes on or back.
function swipe() {
  let from = null;
  const stage = find('#review-stage');
  stage.addEventListener('pointerdown', event => { from = event.isPrimary ? [event.clientX, event.clientY] : null; });
  stage.addEventListener('pointerup', event => {
    if (!from) return;
    const x = event.clientX - from[0], y = event.clientY - from[1];
    from = null;
    if (Math.abs(x) < 60 || Math.abs(y) > Math.abs(x) / 2) return;
    if (x > 0) step(-1);
    else if (!find('#review-next').disabled) step(1);
  });
}

dialog.addEventListener('keydown', keys);
dialog.addEventListener('close', () => {
  loading?.abort();
  showBlob(image, null);
  current = session = null;
});
saveButton.addEventListener('click', save);
open_.addEventListener('change', () => drawState());
find('#review-none').addEventListener('click', saveNone);
find('#review-next').addEventListener('click', () => step(1));
find('#review-previous').addEventListener('click', () => step(-1));
find('#review-close').addEventListener('click', () => dialog.close());
events.addEventListener('change', () => {
  if (!current) return;
  if (current.id === null && !pictures.includes(current)) return dialog.close();
  position();
  askAll();
  const now = JSON.stringify([current.state, current.tags, current.taught, known.classes.length]);
  if (now !== seen) fill();
  seen = now;
});
swipe();

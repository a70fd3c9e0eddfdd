// The history: what was taught when, with which pictures, and how to take it back.
import {button, find, make} from './dom.js';
import * as lessons from './lessons.js';
import {pictureOf as indexed} from './library.js';
import {pictures} from './pictures.js';
import {limits} from './server.js';
import {showWhenSeen} from './thumbnails.js';
import {count, list, number, when} from './words.js';

const LISTED = 12, LESSONS = 500, SHOWN = 60;
const open = new Set(); // ids of lessons whose pictures are shown
let tells = null;       // the server tells the pictures of a lesson, and can undo any

function words(lesson) {
  const all = Object.entries(lesson.tags ?? {}), more = all.length - LISTED;
  const tags = all.slice(0, LISTED).map(([tag, n]) => lesson.pictures === 1 ? tag : `${tag} (${n})`).concat(more > 0 ? [`${more} more`] : []);
  if (lesson.kind === 'rename') return lesson.what ?? `A tag was renamed${tags.length ? `: ${list(tags)}` : ''}`;
  if (lesson.kind === 'take back') return `Took back ${count(lesson.taken_back - lesson.pictures, 'picture')} of an earlier lesson`; // and judged others again without its tag
  if (lesson.kind === 'merge') return `Another model was merged: ${count(lesson.pictures, 'picture')}`;
  if (lesson.kind === 'not kept') return `Taught without a record: ${count(lesson.pictures, 'picture')}`;
  const what = tags.length ? list(tags) : 'none of your tags';
  return `${lesson.kind === 'instead' ? 'Corrected' : 'Taught'} ${count(lesson.pictures, 'picture')}: ${what}${lesson.held === 0 && lesson.pictures ? ' (taken back or corrected since)' : ''}`;
}

// The page has what was dropped on it, and the library what is in it. Of the others there is the name.
function pictureOf(one) {
  const here = pictures.find(picture => one.key ? picture.key === one.key : picture.path === one.path);
  return here ?? (one.id === null || one.id === undefined ? null : indexed({id: one.id, path: one.path}));
}

function figure(one) {
  const what = [one.tags.length ? list(one.tags) : '', one.not?.length && (one.only || one.tags.length) ? `not ${list(one.not)}` : ''].filter(Boolean).join(', ') || 'none of your tags';
  const picture = pictureOf(one), name = one.path.split('/').pop(), image = picture && make('img', {alt: '', decoding: 'async'});
  const element = make('li', {title: one.path}, image ?? make('span', {class: 'missing soft'}, 'not on this page'), make('span', {class: 'name'}, name), make('span', {class: 'soft'}, what));
  if (image) showWhenSeen(element, image, picture);
  return element;
}

async function drawPictures(lesson, root) {
  root.replaceChildren(make('p', {class: 'soft', role: 'status'}, 'One moment…'));
  try {
    const all = await lessons.picturesOf(lesson.id) ?? [];
    const gallery = make('ul', {class: 'gallery', 'aria-label': 'Pictures of this lesson'}), more = button('', () => add(), {class: 'link'});
    let drawn = 0;
    const add = () => {
      gallery.append(...all.slice(drawn, drawn + SHOWN).map(figure));
      drawn = Math.min(all.length, drawn + SHOWN);
      more.hidden = drawn === all.length;
      more.textContent = `Show ${number(Math.min(SHOWN, all.length - drawn))} more of ${number(all.length)}`;
    };
    add();
    root.replaceChildren(all.length ? gallery : make('p', {class: 'soft'}, 'This lesson has no pictures.'), more);
  } catch (problem) {
    root.replaceChildren(make('p', {}, problem.message), make('p', {class: 'soft'}, problem.hint));
  }
}

function item(lesson, isLast) {
  const id = `lesson-${lesson.id}`, root = make('div', {id, class: 'shown', hidden: true});
  const isOpen = () => open.has(lesson.id), toggle = button('', () => show(!isOpen()), {class: 'link', 'aria-controls': id});
  const show = on => {
    open[on ? 'add' : 'delete'](lesson.id);
    root.hidden = !on;
    toggle.textContent = on ? 'Hide pictures' : 'Show pictures';
    toggle.setAttribute('aria-expanded', String(on));
    if (on) drawPictures(lesson, root);
    else root.replaceChildren();
  };
  show(isOpen());
  const undo = lesson.can_undo && (isLast || tells) && !limits.readonly;
  return make('li', {}, make('span', {class: 'soft'}, when(lesson.time)), make('span', {}, words(lesson)), tells && lesson.pictures ? toggle : null,
    undo ? button('Undo', () => lessons.undo(lesson.id), {'aria-label': `Undo: ${words(lesson)}`}) : null, root);
}

export async function history() {
  const body = find('#history-body');
  let all;
  const card = (...content) => make('div', {class: 'card'}, ...content);
  try {
    all = await lessons.history();
    if (all.length) tells ??= await lessons.picturesOf(all[0].id) !== null;
  } catch (problem) {
    body.replaceChildren(card(make('p', {}, problem.message), make('p', {class: 'soft'}, problem.hint)));
    return;
  }
  if (!all.length) {
    body.replaceChildren(card(make('p', {}, 'Nothing has been taught yet.')));
    return;
  }
  const how = tells ? 'Any of them can be taken back.' : 'Lessons are taken back one at a time, the newest first.';
  const focused = document.activeElement?.closest('.lessons li') ? [...body.querySelectorAll('button')].indexOf(document.activeElement) : -1;
  body.replaceChildren(card(make('p', {class: 'soft'}, `Each time you save, the tagger learns one lesson. ${how}`),
    make('ol', {class: 'lessons'}, ...all.slice(0, LESSONS).map((lesson, i) => item(lesson, i === 0)))));
  if (focused >= 0) body.querySelectorAll('button')[Math.min(focused, body.querySelectorAll('button').length - 1)]?.focus();
}

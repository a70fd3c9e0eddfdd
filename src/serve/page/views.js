// "How good is it?" and the history.
import {button, find, make} from './dom.js';
import * as lessons from './lessons.js';
import {known} from './pictures.js';
import {get} from './server.js';
import {count, list, number, percent, when} from './words.js';

const LISTED = 12;
const FEW = 5; // below this many pictures a share says nothing

function share(value, judged) {
  if (value === null || value === undefined || judged < FEW) return make('span', {class: 'soft'}, judged < FEW ? 'too few to say' : '–');
  const bar = make('span', {class: 'bar'});
  bar.style.width = `${100 * value}%`;
  return make('span', {class: 'share'}, make('b', {}, percent(value)), make('span', {class: 'meter', 'aria-hidden': 'true'}, bar));
}

function table(classes, library, show) {
  const head = ['Tag', 'Pictures taught', ...(library ? ['Given here'] : []), 'Right when given', 'Found when shown'].map(text => make('th', {scope: 'col'}, text));
  const rows = classes.map(one => make('tr', {}, make('th', {scope: 'row'}, button(one.name, () => show(one.name), {class: 'link'})), make('td', {}, number(one.pictures)),
    ...(library ? [make('td', {}, number(one.tagged))] : []), make('td', {}, share(one.precision, one.pictures)), make('td', {}, share(one.recall, one.pictures))));
  return make('table', {}, make('thead', {}, make('tr', {}, ...head)), make('tbody', {}, ...rows));
}

const mean = values => values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;

function summary(classes, library) {
  const certain = classes.filter(one => one.pictures >= FEW);
  const right = mean(certain.map(one => one.precision).filter(value => value !== null)), found = mean(certain.map(one => one.recall).filter(value => value !== null));
  if (library && certain.length && certain.every(one => !one.tagged)) return 'No picture of this library gets one of your tags yet. Teach more pictures that show them.';
  if (right === null || found === null) return `It is too early to say. Teach at least ${FEW} pictures of each tag.`;
  if (library) return `In this library, about ${percent(right)} of the tags it gives are right. It finds about ${percent(found)} of what the pictures here show.`;
  return `If half of your pictures show none of your tags, about ${percent(right)} of the tags it gives are right. It finds about ${percent(found)} of what your pictures show.`;
}

// What the numbers are, and what helps.
function remark(library) {
  const how = 'Every picture that you taught is checked as if it had not been. ';
  if (!library) return `These numbers are estimates. ${how}The more of your pictures show none of your tags, the more tags are wrong: teach a few of those pictures as “none”.`;
  return `These numbers are estimates, from ${number(library.pictures)} pictures of this library. ${how}The pictures that you did not teach help as well: they show what is common here. `
    + 'To make it better, correct wrong tags.';
}

// What is wrong with a tag, in the words of the table.
function advice({tag, why}, classes) {
  const one = classes.find(({name}) => name === tag);
  if (one && one.pictures < FEW) return `has only ${count(one.pictures, 'picture')}. Teach more of them.`;
  if (one && one.recall !== null && one.recall < 0.7) return `is missed in ${percent(1 - one.recall)} of the pictures that show it. Teach more of them.`;
  if (one && one.precision !== null && one.precision < 0.7) return `is wrong ${percent(1 - one.precision)} of the time. Teach pictures that look like it but do not show it.`;
  return why;
}

const card = (title, ...content) => make('div', {class: 'card'}, title ? make('h3', {}, title) : null, ...content);

// The check may take the server a moment, so there is one question at a time. If it answers about an older edition, it is asked once more.
let checking = null;
async function check() {
  const ask = () => checking ??= get('/v1/quality').finally(() => { checking = null; });
  const answer = await ask();
  return answer.edition === known.edition ? answer : ask();
}

// show(tag): the pictures with this tag.
export async function quality(show) {
  const body = find('#quality-body');
  if (!body.children.length) body.replaceChildren(make('p', {class: 'soft', role: 'status'}, 'Checking every picture that was taught…'));
  let answer;
  try {
    answer = await check();
  } catch (problem) {
    body.replaceChildren(card('', make('p', {}, problem.message), make('p', {class: 'soft'}, problem.hint)));
    return;
  }
  const {classes = [], confusions = [], next = [], library = null} = answer;
  if (!classes.length) {
    body.replaceChildren(card('', make('p', {}, 'Nothing has been taught yet. Select a few pictures, say what they show, and come back.')));
    return;
  }
  const sorted = [...classes].sort((a, b) => a.name.localeCompare(b.name, 'en'));
  const worst = ({tag}) => Math.min(...classes.filter(one => one.name === tag).flatMap(one => [one.recall ?? 1, one.precision ?? 1]), 1);
  const lines = (items, line) => make('ul', {class: 'next'}, ...items.slice(0, LISTED).map(line));
  body.replaceChildren(
    card('', make('p', {}, summary(classes, library)), make('p', {class: 'soft'}, remark(library))),
    ...(next.length ? [card('What to teach next', lines([...next].sort((a, b) => worst(a) - worst(b)), one => make('li', {}, make('span', {}, make('b', {}, one.tag), ` ${advice(one, classes)}`),
      button('Show its pictures', () => show(one.tag)))))] : []),
    card('Tag by tag', library ? make('p', {class: 'soft'}, `“Given here” is how many of these ${number(library.pictures)} pictures get the tag.`) : null, table(sorted, library, show)),
    ...(confusions.length ? [card('Mixed up', lines([...confusions].sort((a, b) => b.pictures - a.pictures), one => make('li', {}, make('span', {},
      `${count(one.pictures, 'picture')} of `, make('b', {}, one.shown), ' would wrongly get the tag ', make('b', {}, one.tagged)), button(`Show ${one.tagged}`, () => show(one.tagged)))))] : []));
}

function words(lesson) {
  const all = Object.entries(lesson.tags ?? {}), more = all.length - LISTED;
  const tags = all.slice(0, LISTED).map(([tag, n]) => lesson.pictures === 1 ? tag : `${tag} (${n})`).concat(more > 0 ? [`${more} more`] : []);
  if (lesson.kind === 'rename') return lesson.what ?? `A tag was renamed${tags.length ? `: ${list(tags)}` : ''}`;
  if (lesson.kind === 'merge') return `Another model was merged: ${count(lesson.pictures, 'picture')}`;
  if (lesson.kind === 'not kept') return `Taught without a record: ${count(lesson.pictures, 'picture')}`;
  const what = tags.length ? list(tags) : 'none of your tags';
  return `${lesson.kind === 'instead' ? 'Corrected' : 'Taught'} ${count(lesson.pictures, 'picture')}: ${what}`;
}

export async function history(readonly) {
  const body = find('#history-body');
  let all;
  try {
    all = await lessons.history();
  } catch (problem) {
    body.replaceChildren(card('', make('p', {}, problem.message), make('p', {class: 'soft'}, problem.hint)));
    return;
  }
  if (!all.length) {
    body.replaceChildren(card('', make('p', {}, 'Nothing has been taught yet.')));
    return;
  }
  body.replaceChildren(card('', make('p', {class: 'soft'}, 'Each time you save, the tagger learns one lesson. Lessons are taken back one at a time, the newest first.'),
    make('ol', {class: 'lessons'}, ...all.slice(0, 500).map((lesson, i) => make('li', {}, make('span', {class: 'soft'}, when(lesson.time)), make('span', {}, words(lesson)),
      i === 0 && lesson.can_undo && !readonly ? button('Undo', () => lessons.undo()) : null)))));
}

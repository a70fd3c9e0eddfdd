// "How good is it?"
import {button, find, make} from './dom.js';
import {known} from './picture.js';
import {get} from './server.js';
import {count, number, percent} from './words.js';

const LISTED = 12;
const FEW = 5; // below this many pictures a share says nothing
const GOOD = 0.7;

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

const few = one => one.pictures < FEW;
const isWrong = one => one.precision !== null && one.precision < GOOD;
const isMissed = one => one.recall !== null && one.recall < GOOD;

// What is wrong with a tag, in the words of the table. If a tag is often wrong, more pictures that show it do not help: what it was
// wrongly given to has to be said first.
function advice({tag, why}, classes) {
  const one = classes.find(({name}) => name === tag);
  if (one && few(one)) return `has only ${count(one.pictures, 'picture')}. Teach more of them.`;
  if (one && isWrong(one)) return `is wrong ${percent(1 - one.precision)} of the time. Go through what it was suggested for, and reject (✗) the wrong ones.`;
  if (one && isMissed(one)) return `is missed in ${percent(1 - one.recall)} of the pictures that show it. Teach more of them.`;
  return why;
}

// Tags that are often wrong come first, the worst of them at the top.
function urgency(tag, classes) {
  const one = classes.find(({name}) => name === tag);
  return !one ? 3 : few(one) ? 2 : isWrong(one) ? one.precision : 1 + (one.recall ?? 1);
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
  const lines = (items, line) => make('ul', {class: 'next'}, ...items.slice(0, LISTED).map(line));
  body.replaceChildren(
    card('', make('p', {}, summary(classes, library)), make('p', {class: 'soft'}, remark(library))),
    ...(next.length ? [card('What to teach next', lines([...next].sort((a, b) => urgency(a.tag, classes) - urgency(b.tag, classes)), one => make('li', {}, make('span', {}, make('b', {}, one.tag), ` ${advice(one, classes)}`),
      button('Show its pictures', () => show(one.tag)))))] : []),
    card('Tag by tag', library ? make('p', {class: 'soft'}, `“Given here” is how many of these ${number(library.pictures)} pictures get the tag.`) : null, table(sorted, library, show)),
    ...(confusions.length ? [card('Mixed up', lines([...confusions].sort((a, b) => b.pictures - a.pictures), one => make('li', {}, make('span', {},
      `${count(one.pictures, 'picture')} of `, make('b', {}, one.shown), ' would wrongly get the tag ', make('b', {}, one.tagged)), button(`Show ${one.tagged}`, () => show(one.tagged)))))] : []));
}

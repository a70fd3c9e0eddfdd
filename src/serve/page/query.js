// What is listed, as a text that a person can read and change: 'dog and not cat', 'folder:2024/italy', 'is:unsure', 'word:guitar'. The
// server understands it, apart from word:, which is an order and goes beside it.
import {known} from './picture.js';
import {same} from './words.js';

const RESERVED = /^(and|or|not)$/i;
export const quote = name => /^[^\s"():\\]+$/.test(name) && !RESERVED.test(name) ? name : `"${name.replace(/["\\]/g, '\\$&')}"`;
const unquote = text => text.startsWith('"') ? text.slice(1, text.endsWith('"') && text.length > 1 ? -1 : undefined).replace(/\\(.)/g, '$1') : text;

// Tokens with their places: words, quoted names, key:value and brackets.
export function tokens(text) {
  return [...text.matchAll(/[()]|[a-z]+:"(?:[^"\\]|\\.)*"?|"(?:[^"\\]|\\.)*"?|[^\s()"]+/gi)].map(match => ({text: match[0], at: match.index, end: match.index + match[0].length}));
}

const tagOf = text => {
  const name = unquote(text.replace(/^(tag|unsure):/i, ''));
  return known.classes.find(one => one.name === name)?.name ?? known.classes.find(one => same(one.name, name))?.name;
};

const WORD = /^word:/i;
const KINDS = {taught: 'is:said', tagged: 'is:tagged not is:said', untagged: 'is:untagged', waiting: 'is:waiting', failed: 'is:failed', unsure: 'is:unsure'};

// The text of a filter, and back.
export function textOf(filter) {
  if (filter.kind === 'tag') return quote(filter.tag);
  if (filter.kind === 'folder') return `folder:${quote(filter.folder)}`;
  return filter.kind === 'search' ? filter.text : KINDS[filter.kind] ?? '';
}

export function filterOf(text) {
  const plain = text.trim(), all = tokens(plain), kind = Object.keys(KINDS).find(one => KINDS[one] === plain);
  if (!plain) return {kind: 'all'};
  if (kind) return {kind};
  const tag = /^(tag|unsure):/i.test(plain) ? null : all.length === 1 ? tagOf(all[0].text) : tagOf(plain);
  return tag ? {kind: 'tag', tag} : {kind: 'search', text: plain};
}

// The tag that can be accepted and rejected where this is listed: the first that is asked for, or the word of word:. Pictures like those
// of such a list are judged for the same tag.
export function judgedTag(filter) {
  if (filter.kind === 'tag') return filter.tag;
  if (filter.kind === 'like') return filter.judged ?? null;
  if (filter.kind !== 'search') return null;
  const all = tokens(filter.text), word = all.find(({text}) => WORD.test(text));
  if (word) return tagOf(word.text.slice(5)) ?? (unquote(word.text.slice(5)) || null);
  return all.map(({text}, i) => all[i - 1] && /^not$/i.test(all[i - 1].text) ? null : tagOf(text)).find(Boolean) ?? null;
}

// Whether it is an order itself: by a word, or by the pictures that others are to be like.
export const isOrdered = filter => filter.kind === 'like' || filter.kind === 'search' && tokens(filter.text).some(({text}) => WORD.test(text));

// What the server is asked. sure: without what it is not sure of.
export function queryOf(filter, sort, sure = false) {
  if (filter.kind === 'like') return {like: filter.ids.join(','), sort};
  const all = tokens(textOf(filter)), word = all.find(({text}) => WORD.test(text)), left = all.filter(one => one !== word).map(({text}) => text);
  while (/^(and|or)$/i.test(left[0] ?? '')) left.shift();
  while (/^(and|or)$/i.test(left.at(-1) ?? '')) left.pop();
  const where = left.join(' ');
  return {where: sure && filter.kind === 'tag' ? `${where} and not unsure:${quote(filter.tag)}` : where, word: word ? unquote(word.text.slice(5)) : '', sort};
}

export const unsureOf = filter => filter.kind === 'tag' ? {where: `${quote(filter.tag)} and unsure:${quote(filter.tag)}`} : null;

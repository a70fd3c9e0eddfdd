// What can be listed, and the numbers beside it. Every picture is in exactly one of the groups below "All pictures", so that their
// numbers add up to its own; what the tagger is not sure of, and each tag, is a view across them.
import {find, make} from './dom.js';
import {isUnsure, shown, standing} from './picture.js';
import {count, number} from './words.js';

const group = (kind, title, empty) => ({title, empty, takes: picture => standing(picture) === kind});

export const FILTERS = {
  all: {title: 'All pictures', takes: () => true, empty: ''},
  taught: group('taught', 'Taught by you', 'Nothing here has been taught yet.'),
  tagged: group('tagged', 'Tagged', 'No picture has a tag that you did not give it.'),
  untagged: group('untagged', 'Untagged', 'Every picture has a tag.'),
  waiting: group('waiting', 'Not seen yet', 'All pictures were looked at.'),
  failed: group('failed', 'Cannot be read', 'All pictures can be read.'),
  unsure: {title: 'Not sure', takes: isUnsure, empty: 'Nothing is in doubt at the moment.'},
  next: {title: 'What to judge next', takes: () => true, empty: 'There is nothing to judge.'},
  duplicates: {title: 'Nearly the same', takes: () => false, empty: ''},
  left: {title: 'Left out', takes: () => false, empty: 'No file was left out.'},
  here: {title: 'Dropped here', takes: () => true, empty: 'Nothing was dropped on this page.'},
};
const GROUPS = ['taught', 'tagged', 'untagged', 'waiting', 'failed'], OFTEN_EMPTY = ['waiting', 'failed', 'left', 'here'];

const named = {
  tag: ({tag}) => ({title: tag, tag, takes: picture => shown(picture).includes(tag), empty: `No picture here has the tag ${tag} yet.`}),
  folder: ({folder}) => ({title: folder, takes: () => false, empty: 'There are no pictures in this folder.'}),
  search: ({text}) => ({title: text, takes: () => false, empty: 'Nothing was found.'}),
  like: ({names}) => ({title: `Like ${names.length === 1 ? names[0] : `these ${names.length} pictures`}`, takes: () => false, empty: 'Nothing was found.'}),
};
export const rulesOf = filter => named[filter.kind]?.(filter) ?? FILTERS[filter.kind];

const isSame = (one, other) => one.kind === other.kind && one.tag === other.tag;

// sums: numbers of pictures by kind, and tags: name -> {taught, suggested}; null where they are not known yet; more: kinds that only an index has; show(filter).
let drawn = '';
export function drawFilters(filter, sums, more, show) {
  const now = JSON.stringify([filter, sums, [...sums.tags], more]);
  if (now === drawn) return;
  drawn = now;
  const root = find('#filters'), focused = root.contains(document.activeElement) && document.activeElement.children[0]?.textContent;
  const entry = (next, n, unit = 'picture', parts = '') => {
    const title = next.tag ?? FILTERS[next.kind].title, described = n === null ? title : `${title}: ${count(n, unit)}${parts ? `, ${parts}` : ''}`;
    return make('button', {type: 'button', class: GROUPS.includes(next.kind) ? 'part' : null, 'aria-pressed': String(isSame(filter, next)), 'aria-label': described, title: parts ? described : null,
                           onclick: () => show(next)}, make('span', {}, title), make('span', {class: 'n'}, n === null ? '' : number(n)));
  };
  const kinds = wanted => wanted.filter(kind => !OFTEN_EMPTY.includes(kind) || sums[kind] || filter.kind === kind).map(kind => entry({kind}, sums[kind] ?? null, kind === 'left' ? 'file' : 'picture'));
  const tags = [...sums.tags].sort(([a], [b]) => a.localeCompare(b, 'en'));
  find('#kinds').replaceChildren(...kinds(['all', ...GROUPS]), make('h3', {}, 'To check'), ...kinds(['unsure', ...more, 'left', 'here']));
  find('#tags').replaceChildren(...(tags.length ? [make('h3', {}, 'Tags')] : []), ...tags.map(([tag, n]) => entry({kind: 'tag', tag}, sums.all === null ? null : n.taught + n.suggested, 'picture', sums.all === null ? '' : `${n.taught} taught, ${n.suggested} suggested`)));
  for (const row of [find('#kinds'), find('#tags')]) { // on a phone they are rows to be swiped
    const chosen = find('[aria-pressed=true]', row);
    if (chosen && row.scrollWidth > row.clientWidth) row.scrollTo(chosen.offsetLeft - row.offsetLeft - 40, 0);
  }
  if (focused) [...root.querySelectorAll('button')].find(one => one.children[0].textContent === focused)?.focus();
}

// Numbers and lists as people read them.

const thousands = new Intl.NumberFormat('en');
const date = new Intl.DateTimeFormat('en-GB', {dateStyle: 'medium', timeStyle: 'short'});

export const number = n => thousands.format(n);
export const count = (n, one, many = one + 's') => `${number(n)} ${n === 1 ? one : many}`;
export const percent = share => `${Math.round(100 * share)}\u00a0%`;
export const when = text => isNaN(Date.parse(text)) ? text : date.format(new Date(text));

export function list(words) {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words[words.length - 1]}`;
}

// What a program says of a file, as a sentence.
export function sentence(text) {
  const said = text.trim();
  return said ? said[0].toUpperCase() + said.slice(1) + (/[.!?…]$/.test(said) ? '' : '.') : '';
}

// How long something will take, as far as anybody can say.
export function time(seconds) {
  if (seconds < 60) return 'less than a minute';
  return seconds < 5400 ? `about ${count(Math.round(seconds / 60), 'minute')}` : `about ${count(Math.round(seconds / 3600), 'hour')}`;
}

// Tags are compared as people mean them: 'Cat ' is 'cat'.
export const plain = tag => tag.trim().replace(/\s+/g, ' ');
export const same = (a, b) => plain(a).toLowerCase() === plain(b).toLowerCase();

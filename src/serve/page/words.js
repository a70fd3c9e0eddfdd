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

// Tags are compared as people mean them: 'Cat ' is 'cat'.
export const plain = tag => tag.trim().replace(/\s+/g, ' ');
export const same = (a, b) => plain(a).toLowerCase() === plain(b).toLowerCase();

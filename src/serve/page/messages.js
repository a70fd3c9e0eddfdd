// What the page says: notices at the top, which stay, and a line at the bottom about what has just changed.
import {button, find, make} from './dom.js';
import {limits} from './server.js';

const notices = new Map();

export function notice(id, text, {hint = '', actions = [], plainly = false, closes = true} = {}) {
  dismiss(id);
  const close = closes ? [button('Close', () => dismiss(id), {class: 'link'})] : [];
  const element = make('div', {class: plainly ? 'notice plain' : 'notice', role: plainly ? 'status' : 'alert'},
    make('div', {}, text, hint ? make('span', {class: 'soft'}, ` ${hint}`) : ''), ...actions, ...close);
  notices.set(id, element);
  find('#notices').append(element);
}

export function dismiss(id) {
  notices.get(id)?.remove();
  notices.delete(id);
}

// For eyes and screen readers. The review covers the page, so it has a line of its own.
export function say(text, undo = false) {
  const inside = find('#review').open ? '#review' : 'footer';
  for (const root of ['#review', 'footer']) {
    find(`${root} .line`).textContent = root === inside ? text : '';
    find(`${root} .undo`).hidden = root !== inside || !undo || limits.readonly;
  }
  drawLine();
}

// Where nothing is said and nothing can be done, there is no line.
export function drawLine() {
  find('#line').classList.toggle('quiet', find('#progress').hidden && find('#reorder').hidden && !find('footer .line').textContent);
}

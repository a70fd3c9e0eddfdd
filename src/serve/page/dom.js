// Making elements, and the few widgets that several views share.

export const find = (selector, root = document) => root.querySelector(selector);

// make('button', {class: 'plain', onclick: f, disabled: true}, 'text', element, …)
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, '');
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

const SVG = 'http://www.w3.org/2000/svg';

// A drawing from the list at the end of index.html.
export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg'), use = document.createElementNS(SVG, 'use');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  use.setAttribute('href', '#icon-' + name);
  svg.append(use);
  return svg;
}

export function button(text, onclick, attributes = {}) {
  const drawing = attributes.icon && icon(attributes.icon);
  const {icon: _, ...rest} = attributes;
  return make('button', {type: 'button', ...rest, onclick}, drawing, text);
}

// A panel below its button: a details element that closes when something else is used.
export function menu(details) {
  const close = focus => {
    if (!details.open) return;
    details.open = false;
    if (focus) find('summary', details).focus();
  };
  addEventListener('pointerdown', event => details.contains(event.target) || close(false));
  details.addEventListener('focusout', event => event.relatedTarget && !details.contains(event.relatedTarget) && close(false));
  details.addEventListener('keydown', event => {
    if (event.key === 'Escape' && details.open) {
      event.stopPropagation();
      close(true);
    }
  });
  details.addEventListener('click', event => event.target.closest('button') && close(false));
}

// The bytes as a file in the person's download folder.
export function download(name, blob) {
  const url = URL.createObjectURL(blob);
  const link = make('a', {href: url, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

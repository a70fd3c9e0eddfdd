// Selecting with the mouse: a band that is drawn over the grid takes every tile that it touches. Fingers scroll instead, and files that
// are dragged onto the page are not the mouse's own drag.
import {make} from './dom.js';

const FIRST = 5;     // pixels before a press becomes a band
const EDGE = 60, SPEED = 0.3; // near the edges of the window the page scrolls

// root, or what is within: where a band may begin. place(): how far its contents are scrolled; start(adding), move({left, top, right,
// bottom}) in the window, end(cancelled).
export function band(root, {within, place, start, move, end}) {
  let from = null, at = null, element = null, frame = null;

  const corners = () => {
    const y = from.y - (place() - from.place);
    return {left: Math.min(from.x, at.x), right: Math.max(from.x, at.x), top: Math.min(y, at.y), bottom: Math.max(y, at.y)};
  };

  function draw() {
    frame = null;
    const speed = at.y < EDGE ? at.y - EDGE : at.y > innerHeight - EDGE ? at.y - innerHeight + EDGE : 0;
    if (speed) scrollBy(0, SPEED * speed);
    const {left, top, right, bottom} = corners();
    Object.assign(element.style, {transform: `translate(${left}px, ${top}px)`, width: `${right - left}px`, height: `${bottom - top}px`});
    move({left, top, right, bottom});
    if (speed) frame = requestAnimationFrame(draw);
  }

  function stop(cancelled) {
    if (element) {
      cancelAnimationFrame(frame);
      frame = null;
      element.remove();
      element = null;
      document.body.classList.remove('banding');
      end(cancelled);
      // The click that follows belongs to the band.
      const swallow = event => { event.stopPropagation(); event.preventDefault(); };
      addEventListener('click', swallow, {capture: true, once: true});
      setTimeout(() => removeEventListener('click', swallow, {capture: true}), 0);
    }
    from = null;
    removeEventListener('pointermove', moved);
    removeEventListener('pointerup', up);
    removeEventListener('pointercancel', cancel);
    removeEventListener('blur', cancel);
    removeEventListener('keydown', key, {capture: true});
  }
  const up = () => stop(false), cancel = () => stop(true);

  function moved(event) {
    at = {x: event.clientX, y: event.clientY};
    if (!element && Math.hypot(at.x - from.x, at.y - from.y) < FIRST) return;
    if (!element) {
      element = make('div', {class: 'band'});
      document.body.append(element);
      document.body.classList.add('banding');
      getSelection()?.removeAllRanges();
      start(event.shiftKey || event.ctrlKey || event.metaKey);
    }
    frame ??= requestAnimationFrame(draw);
  }

  function key(event) {
    if (event.key !== 'Escape' || !element) return;
    event.stopPropagation();
    event.preventDefault();
    stop(true);
  }

  root.addEventListener('pointerdown', event => {
    if (event.pointerType !== 'mouse' || event.button !== 0 || event.target.closest('[data-say]') || event.target !== root && !within.contains(event.target)) return;
    from = {x: event.clientX, y: event.clientY, place: place()};
    addEventListener('pointermove', moved);
    addEventListener('pointerup', up);
    addEventListener('pointercancel', cancel);
    addEventListener('blur', cancel);
    addEventListener('keydown', key, {capture: true});
  });
}

// Small versions of pictures for the grid. A file is decoded by the browser beside the page's own work; a library picture comes from the
// server. The results are kept as small JPEG files, the least recently used go first, and a URL exists only while an image shows it.
import {send} from './server.js';

const SIDE = 360, KEPT = 3000, AT_ONCE = 4;
const cache = new Map(); // picture -> Blob | null (cannot be shown)
const queue = [];
let running = 0;

function remember(picture, blob) {
  cache.set(picture, blob);
  if (cache.size > KEPT) cache.delete(cache.keys().next().value);
}

async function shrink(blob) {
  const whole = await createImageBitmap(blob);
  const scale = Math.min(1, SIDE / Math.min(whole.width, whole.height));
  const width = Math.max(1, Math.round(whole.width * scale)), height = Math.max(1, Math.round(whole.height * scale));
  const canvas = new OffscreenCanvas(width, height), context = canvas.getContext('2d');
  context.imageSmoothingQuality = 'high';
  context.fillStyle = '#fff'; // behind transparent pictures
  context.fillRect(0, 0, width, height);
  context.drawImage(whole, 0, 0, width, height);
  whole.close();
  return canvas.convertToBlob({type: 'image/jpeg', quality: 0.85});
}

const inLibrary = (kind, path, more = '') => `/v1/library/${kind}?path=${encodeURIComponent(path)}${more}`;

let small = true; // the server makes thumbnails
async function fromLibrary(path) {
  try {
    if (small) return await (await send('GET', inLibrary('thumbnail', path, `&size=${SIDE}`))).blob();
  } catch (problem) {
    if (problem.status !== 404) throw problem;
  }
  const thumbnail = await shrink(await (await send('GET', inLibrary('picture', path))).blob());
  small = false;
  return thumbnail;
}

async function work() {
  running++;
  while (queue.length) {
    const job = queue.pop(); // the newest: it is on the screen
    if (!job.wanted()) {
      job.done(undefined);
      continue;
    }
    try {
      const {picture} = job;
      remember(picture, picture.file ? await shrink(picture.file) : await fromLibrary(picture.path));
    } catch (problem) {
      if (!(problem.status >= 500)) remember(job.picture, null); // otherwise it may be there the next time
    }
    job.done(cache.get(job.picture) ?? null);
  }
  running--;
}

// Resolves to a Blob, to null if the picture cannot be shown, or to undefined if nobody wants it any more.
export function thumbnail(picture, wanted) {
  if (cache.has(picture)) {
    const blob = cache.get(picture);
    cache.delete(picture);
    cache.set(picture, blob);
    return Promise.resolve(blob);
  }
  return new Promise(done => {
    queue.push({picture, wanted, done});
    if (running < AT_ONCE) work();
  });
}

export const isCached = picture => cache.has(picture);

// The picture itself, for review.
export async function whole(picture, signal) {
  return picture.file ?? (await send('GET', inLibrary('picture', picture.path), {signal})).blob();
}

// A thumbnail that is made when its element comes into view.
const coming = new Map(); // element -> what to do
const seen = new IntersectionObserver(entries => {
  for (const {isIntersecting, target} of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    coming.get(target)();
    coming.delete(target);
  }
});

export function showWhenSeen(element, image, picture) {
  coming.set(element, async () => {
    const blob = await thumbnail(picture, () => element.isConnected);
    if (blob && element.isConnected) showBlob(image, blob);
  });
  seen.observe(element);
}

// Shows a blob in an image until the next one, or null, takes its place.
export function showBlob(image, blob) {
  if (image.src) URL.revokeObjectURL(image.src);
  if (blob) image.src = URL.createObjectURL(blob);
  else image.removeAttribute('src');
}

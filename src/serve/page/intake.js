// Pictures that a person drops or chooses, also whole folders. A file that is no picture by its name or type is left out, and named with
// the reason; hidden files are passed over.

const PICTURE = /\.(jpe?g|png|webp|heic|heif|avif)$/i;
const CONVERT = 'convert it to JPEG or PNG';
// As src/base/picture_kind.c says it of files that it recognises by their content.
const KINDS = [
  [/\.(mp4|m4v|mov|avi|mkv|webm|mpe?g|mts|m2ts|3gp|wmv|flv|ogv)$/i, /^video\//, 'this is a video, not a picture', 'save a frame of it as JPEG or PNG'],
  [/\.(cr2|cr3|crw|nef|nrw|arw|srf|sr2|raf|orf|rw2|dng|pef|srw|raw|rwl|iiq|3fr|x3f|mrw|erf|kdc|dcr)$/i, /^image\/x-(canon|nikon|sony|fuji|olympus|panasonic|adobe-dng|pentax|dcraw)/, 'this is a camera\'s RAW picture, which l3a does not read', CONVERT],
  [/\.gif$/i, /^image\/gif$/, 'this is a GIF picture, which l3a does not read', CONVERT],
  [/\.tiff?$/i, /^image\/tiff$/, 'this is a TIFF picture, which l3a does not read', CONVERT],
  [/\.(bmp|dib)$/i, /^image\/(x-ms-)?bmp$/, 'this is a BMP picture, which l3a does not read', CONVERT],
  [/\.svgz?$/i, /^image\/svg/, 'this is an SVG drawing, which l3a does not read', CONVERT],
  [/\.ps[db]$/i, /photoshop/, 'this is a Photoshop picture, which l3a does not read', CONVERT],
  [/\.jxl$/i, /^image\/jxl$/, 'this is a JPEG XL picture, which l3a does not read', CONVERT],
  [/\.(jp2|j2k|jpx)$/i, /^image\/jp(2|x)$/, 'this is a JPEG 2000 picture, which l3a does not read', CONVERT],
  [/\.(ico|icns)$/i, /icon/, 'this is an icon, which l3a does not read', CONVERT],
  [/\.pdf$/i, /pdf$/, 'this is a PDF document, not a picture', 'save its pages as JPEG or PNG'],
  [/\.(zip|tar|t?gz|7z|rar)$/i, /zip|compressed/, 'this is an archive, not a picture', 'unpack it first'],
];
const isHidden = name => name.startsWith('.') || name === '@eaDir';

// Null for a picture. What the browser calls an image, and is not listed above, may be one.
function problem({name, type}) {
  if (PICTURE.test(name)) return null;
  const kind = KINDS.find(([ending]) => ending.test(name)) ?? KINDS.find(([, mime]) => mime.test(type));
  if (kind) return {error: kind[2], hint: kind[3]};
  return type.startsWith('image/') ? null : {error: 'this is not a picture of a kind that l3a knows', hint: ''};
}

function sortFiles(found) {
  const taken = [], left = [];
  for (const {path, file} of found) {
    if (isHidden(file.name)) continue;
    const why = problem(file);
    if (why) left.push({path, ...why});
    else taken.push({path, file});
  }
  const byPath = (a, b) => a.path < b.path ? -1 : a.path > b.path ? 1 : 0;
  return {files: taken.sort(byPath), left: left.sort(byPath)};
}

export function fromInput(input) {
  const found = [...input.files].map(file => ({path: file.webkitRelativePath || file.name, file}));
  input.value = '';
  return sortFiles(found.filter(({path}) => !path.split('/').some(isHidden)));
}

const fileOf = entry => new Promise((done, fail) => entry.file(done, fail));
const readSome = reader => new Promise((done, fail) => reader.readEntries(done, fail));

async function walk(entry, found) {
  if (isHidden(entry.name)) return;
  if (entry.isFile) {
    found.push({path: entry.fullPath.replace(/^\//, ''), file: await fileOf(entry)});
    return;
  }
  const reader = entry.createReader();
  for (let some = await readSome(reader); some.length; some = await readSome(reader)) { // browsers give about a hundred at a time
    for (const one of some) await walk(one, found);
  }
}

// The list of a drop event is emptied when its handler returns, so it is read first.
export async function fromDrop(transfer) {
  const items = [...transfer.items].filter(item => item.kind === 'file');
  const entries = items.map(item => item.webkitGetAsEntry?.() ?? null), plainFiles = [...transfer.files];
  const found = [];
  if (entries.length && entries.every(Boolean)) {
    for (const entry of entries) await walk(entry, found);
  } else {
    found.push(...plainFiles.map(file => ({path: file.name, file})));
  }
  return sortFiles(found);
}

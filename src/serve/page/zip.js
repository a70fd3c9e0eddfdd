// A zip archive whose entries are stored as they are (APPNOTE 6.3, method 0), names in UTF-8. Enough for many small texts.

const TABLE = Uint32Array.from({length: 256}, (_, n) => {
  for (let bit = 0; bit < 8; bit++) n = n & 1 ? 0xedb88320 ^ n >>> 1 : n >>> 1;
  return n >>> 0;
});

function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = TABLE[(crc ^ byte) & 255] ^ crc >>> 8;
  return (crc ^ 0xffffffff) >>> 0;
}

// fields: [bytes, value] pairs, least significant byte first.
function record(fields) {
  const view = new DataView(new ArrayBuffer(fields.reduce((sum, [size]) => sum + size, 0)));
  let at = 0;
  for (const [size, value] of fields) {
    if (size === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += size;
  }
  return new Uint8Array(view.buffer);
}

// What a local header and the directory have in common. Bit 11 says that the name is UTF-8.
const common = (date, time, crc, size, name) => [[2, 20], [2, 1 << 11], [2, 0], [2, time], [2, date], [4, crc], [4, size], [4, size], [2, name.length], [2, 0]];

// entries: [{name, text}]; names have to be unique.
export function zip(entries, now = new Date()) {
  if (entries.length > 65535) throw new Error('An archive holds up to 65,535 files. Export fewer pictures at a time.');
  const date = now.getFullYear() - 1980 << 9 | now.getMonth() + 1 << 5 | now.getDate();
  const time = now.getHours() << 11 | now.getMinutes() << 5 | now.getSeconds() >> 1;
  const encoder = new TextEncoder(), files = [], directory = [];
  let at = 0;
  for (const entry of entries) {
    const name = encoder.encode(entry.name), bytes = encoder.encode(entry.text);
    const fields = common(date, time, crc32(bytes), bytes.length, name);
    const header = record([[4, 0x04034b50], ...fields]);
    files.push(header, name, bytes);
    directory.push(record([[4, 0x02014b50], [2, 20], ...fields, [2, 0], [2, 0], [2, 0], [4, 0], [4, at]]), name);
    at += header.length + name.length + bytes.length;
  }
  const length = directory.reduce((sum, part) => sum + part.length, 0);
  const end = record([[4, 0x06054b50], [2, 0], [2, 0], [2, entries.length], [2, entries.length], [4, length], [4, at], [2, 0]]);
  return new Blob([...files, ...directory, end], {type: 'application/zip'});
}

// Expands a shrunk TFLite file (docs/container.md), in browsers and in Node.
//
//   const response = await fetch("model.tflz");
//   const model = await expand(response.body);  // a Uint8Array

const CHUNK = 1 << 16;
const MAX_RANGES = 16384;

/**
 * Returns the file that was shrunk, byte for byte.
 *
 * @param {ReadableStream|ArrayBuffer|Uint8Array} source The container.
 * @param {number} limit The largest expanded size to accept, in bytes.
 * @throws {Error} If the container is damaged, truncated or too large.
 */
export async function expand(source, limit = 2 ** 30) {
  const stream = source instanceof ReadableStream ? source : new Response(source).body;
  const read = reader(stream);
  const header = await read(32);
  const [magic, version, size, crc, count, rest, restCrc, headerCrc] = numbers(header);
  require(magic === 0x5a4c4654, "it does not begin with 'TFLZ'");
  require(version === 1, `unknown version ${version}`);
  require(count <= MAX_RANGES, `it lists ${count} ranges`);
  const table = await read(12 * count);
  require(crc32(table, crc32(header.subarray(0, 28))) === headerCrc, "wrong header CRC");
  require(size <= limit, `it expands to ${size} bytes, over ${limit}`);
  const ranges = [], gaps = [];
  let end = 0, missing = size;
  for (let i = 0; i < count; i++) {
    const [offset, length, perByte] = numbers(table.subarray(12 * i, 12 * i + 12));
    require([1, 2, 4].includes(perByte), `unknown encoding ${perByte}`);
    require(end <= offset && length > 0 && offset + length <= size, "wrong ranges");
    ranges.push([offset, length, perByte]);
    gaps.push([end, offset]);
    end = offset + length;
    missing -= length;
  }
  gaps.push([end, size]);
  require(missing <= 1032 * rest, "its size is impossible");

  const output = new Uint8Array(size);
  await fill(output, gaps, missing, inflate(read, rest, restCrc));
  for (const [offset, length, perByte] of ranges)
    await expandRange(read, output.subarray(offset, offset + length), perByte);
  require((await read(1, true)).length === 0, "bytes follow its end");
  require(crc32(output) === crc, "wrong CRC");
  return output;
}

/** Yields the inflated rest in chunks. */
async function* inflate(read, unread, crc) {
  let seen = 0;
  const deflated = new ReadableStream({
    async pull(controller) {
      if (unread === 0) return controller.close();
      const bytes = await read(Math.min(CHUNK, unread));
      seen = crc32(bytes, seen);
      unread -= bytes.length;
      controller.enqueue(bytes);
    },
  });
  const chunks = deflated.pipeThrough(new DecompressionStream("deflate")).getReader();
  for (;;) {
    const { done, value } = await chunks.read().catch((error) => {
      throw new Error(`Damaged container: ${error.message}`, { cause: error });
    });
    if (done) break;
    yield value;
  }
  require(unread === 0 && seen === crc, "its deflated rest");
}

async function fill(output, gaps, missing, chunks) {
  let [start, stop] = gaps.shift();
  for await (let data of chunks) {
    missing -= data.length;
    require(missing >= 0, "its deflated rest is too long");
    while (data.length > 0) {
      while (start === stop) [start, stop] = gaps.shift();
      const used = data.subarray(0, stop - start);
      output.set(used, start);
      start += used.length;
      data = data.subarray(used.length);
    }
  }
  require(missing === 0, "its deflated rest is too short");
}

async function expandRange(read, output, perByte) {
  const width = 8 / perByte; // Bits per weight, and bytes per byte of signs.
  const rows = new Uint8Array(256 * width);
  for (let i = 0; i < 256 * 8; i++) {
    const code = (i >> 3 >> (i & 7)) & 1 ? 1 : 2 ** width - 1;
    rows[(i >> 3) * width + Math.floor((i & 7) / perByte)] |= code << ((i % perByte) * width);
  }
  for (let at = 0; at < output.length; ) {
    const bits = await read(Math.min(CHUNK, Math.ceil((output.length - at) / width)));
    const stop = Math.min(at + bits.length * width, output.length);
    for (let i = 0; at < stop; i++)
      for (let j = 0; j < width && at < stop; j++) output[at++] = rows[bits[i] * width + j];
    const used = (stop * perByte) % 8;
    require(used === 0 || bits[bits.length - 1] >> used === 0, "unused bits are set");
  }
}

/** A function that reads the next bytes of a stream. */
function reader(stream) {
  const chunks = stream.getReader();
  let rest = new Uint8Array(0);
  return async function read(count, mayEnd = false) {
    const bytes = new Uint8Array(count);
    for (let at = 0; at < count; ) {
      if (rest.length === 0) {
        const { done, value } = await chunks.read();
        if (done) require(mayEnd, "it is truncated");
        if (done) return bytes.subarray(0, at);
        rest = value;
      }
      const used = rest.subarray(0, count - at);
      bytes.set(used, at);
      at += used.length;
      rest = rest.subarray(used.length);
    }
    return bytes;
  };
}

function numbers(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return Array.from({ length: bytes.length / 4 }, (_, i) => view.getUint32(4 * i, true));
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n;
});

function crc32(bytes, crc = 0) {
  crc = ~crc;
  for (let i = 0; i < bytes.length; i++) crc = CRC_TABLE[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

function require(condition, problem) {
  if (!condition) throw new Error(`Damaged container: ${problem}`);
}

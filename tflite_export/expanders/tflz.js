// Expands a shrunk TFLite file (docs/container.md), in browsers and in Node.

// A chunk is small, because browsers inflate all of it at once.
const CHUNK = 1 << 12, MAX_RANGES = 16384;

/**
 * Returns the file that was shrunk, byte for byte, as a Uint8Array.
 * @param {ReadableStream} source The container, for example `response.body`.
 * @param {number} limit The largest expanded size to accept, in bytes.
 * @throws {Error} If the container is damaged, truncated or too large.
 */
export async function expand(source, limit = 2 ** 30) {
  const input = new Reader(source);
  const header = await input.fill(new Uint8Array(32));
  // Everything that runs TFLite is little-endian, as the container is.
  const [magic, version, size, crc, count, restSize, restCrc, headerCrc] =
    new Uint32Array(header.buffer);
  require(magic === 0x5a4c4654 && version === 1, "it is not 'TFLZ', version 1");
  require(count <= MAX_RANGES, `it lists ${count} ranges`);
  const table = await input.fill(new Uint8Array(12 * count));
  require(crc32(table, crc32(header.subarray(0, 28))) === headerCrc, "wrong header CRC");
  require(size <= limit, `it expands to ${size} bytes, over ${limit}`);
  const ranges = function* () {
    for (let i = 0; i < count; i++) yield new Uint32Array(table.buffer, 12 * i, 3);
  };
  let end = 0, missing = size;
  for (const [offset, length, perByte] of ranges()) {
    require([1, 2, 4].includes(perByte), `unknown encoding ${perByte}`);
    require(end <= offset && length > 0 && offset + length <= size, "wrong ranges");
    [end, missing] = [offset + length, missing - length];
  }
  require(missing <= 1032 * restSize, "its size is impossible");

  const model = new Uint8Array(size);
  await inflate(input, restSize, restCrc, model, ranges());
  for (const [offset, length, perByte] of ranges())
    await expandRange(input, model.subarray(offset, offset + length), perByte);
  require(await input.ended(), "bytes follow its end");
  require(crc32(model) === crc, "wrong CRC");
  return model;
}

/** Inflates the rest of the file into the gaps between the ranges. */
async function inflate(input, unread, crc, model, ranges) {
  let seen = 0, end = 0;
  const deflated = new ReadableStream({
    async pull(controller) {
      const chunk = await input.fill(new Uint8Array(Math.min(CHUNK, unread)));
      [seen, unread] = [crc32(chunk, seen), unread - chunk.length];
      controller.enqueue(chunk);
      if (unread === 0) controller.close();
    },
  });
  const inflated = new Reader(deflated.pipeThrough(new DecompressionStream("deflate")));
  for (const [offset, length] of ranges) {
    await inflated.fill(model.subarray(end, offset));
    end = offset + length;
  }
  await inflated.fill(model.subarray(end));
  require((await inflated.ended()) && unread === 0 && seen === crc, "its rest is damaged");
}

/** Expands sign bits to weights of +1 and -1, one to four in each byte. */
async function expandRange(input, output, perByte) {
  const width = 8 / perByte; // Bits per weight, and bytes per byte of signs.
  const codes = new Uint8Array(1 << perByte);
  for (let i = 0; i < codes.length; i++)
    for (let j = 0; j < perByte; j++)
      codes[i] |= ((i >> j) & 1 ? 1 : (1 << width) - 1) << (j * width);
  for (let at = 0; at < output.length; ) {
    const count = Math.min(CHUNK, Math.ceil((output.length - at) / width));
    for (let bits of await input.fill(new Uint8Array(count))) {
      for (let i = 0; i < width && at < output.length; i++, bits >>= perByte)
        output[at++] = codes[bits & (codes.length - 1)];
      require(bits === 0, "unused bits are set");
    }
  }
}

class Reader {
  chunk = new Uint8Array(0);
  constructor(stream) { this.stream = stream.getReader(); }

  async ended() {
    while (this.chunk.length === 0) {
      const { done, value } = await this.stream.read();
      if (done) return true;
      this.chunk = value;
    }
    return false;
  }

  async fill(target) {
    for (let at = 0; at < target.length; ) {
      require(!(await this.ended()), "it is truncated");
      const used = this.chunk.subarray(0, target.length - at);
      target.set(used, at);
      at += used.length;
      this.chunk = this.chunk.subarray(used.length);
    }
    return target;
  }
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

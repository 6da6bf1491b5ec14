// Expands a container (docs/container.md), in browsers and in Node.
const CHUNK = 1 << 12, MAX_RANGES = 16384; // Browsers inflate a whole chunk at once.

/**
 * Returns the file that was shrunk, byte for byte, as a Uint8Array.
 * @param {ReadableStream|ArrayBuffer|Uint8Array} source The container, such as `response.body`.
 * @param {number} limit The largest expanded size to accept, in bytes.
 * @throws {Error} If the container is damaged, truncated or too large.
 */
export async function expand(source, limit = 2 ** 30) {
  const found = source?.byteLength, body = found >= 0 ? new Response(source).body : source;
  if (!body?.getReader) throw new TypeError(`Expected a stream or bytes. Received: ${source}`);
  const input = new Reader(body);
  return read(input, limit, found).finally(() => input.close());
}

async function read(input, limit, found) {
  const header = await input.fill(new Uint8Array(32));
  const [magic, version, size, crc, count, restSize, restCrc, headerCrc] =
    new Uint32Array(header.buffer); // All that runs TFLite is little-endian, too.
  require(magic === 0x5a4c4654, "it does not begin with 'TFLZ'", "Not a container");
  require(version === 1, version, "Unknown container version");
  require(count <= MAX_RANGES, `it lists ${count} ranges`);
  const table = await input.fill(new Uint8Array(12 * count));
  require(crc32(table, crc32(header.subarray(0, 28))) === headerCrc, "wrong header CRC");
  require(size <= limit, `${size} bytes, over ${limit}`, "File too large");
  const ranges = function* () {
    for (let i = 0; i < count; i++) yield new Uint32Array(table.buffer, 12 * i, 3);
  };
  let end = 0, missing = size, whole = 32 + table.length + restSize;
  for (const [offset, length, perByte] of ranges()) {
    require([1, 2, 4].includes(perByte), `unknown encoding ${perByte}`);
    require(end <= offset && length > 0 && offset + length <= size, "wrong ranges");
    [end, missing] = [offset + length, missing - length];
    whole += Math.ceil((length * perByte) / 8);
  }
  require(missing <= 1032 * restSize, "its size is impossible");
  require((found ?? whole) === whole, `it should have ${whole} bytes`);
  const model = new Uint8Array(size);
  await inflate(input, restSize, restCrc, model, ranges()).catch((cause) => {
    throw input.error ?? new Error("Damaged container: wrong or truncated rest", { cause });
  });
  for (const [offset, length, perByte] of ranges())
    await expandRange(input, model.subarray(offset, offset + length), perByte);
  require(await input.ended(), "bytes follow its end");
  require(crc32(model) === crc, "wrong CRC");
  return model;
}

/** Inflates the rest of the file into the gaps between the ranges. */
async function inflate(input, unread, crc, model, ranges) {
  let seen = 0, end = 0;
  const pull = async (controller) => {
    const chunk = await input.fill(new Uint8Array(Math.min(CHUNK, unread)));
    [seen, unread] = [crc32(chunk, seen), unread - chunk.length];
    controller.enqueue(chunk);
    if (unread === 0) controller.close();
  };
  const rest = new Reader(new ReadableStream({ pull }).pipeThrough(new DecompressionStream("deflate")));
  for (const [offset, length] of ranges) {
    await rest.fill(model.subarray(end, offset));
    end = offset + length;
  }
  await rest.fill(model.subarray(end));
  require((await rest.ended()) && unread === 0 && seen === crc, "its rest is damaged");
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
  close() { this.stream.cancel().catch(() => {}); this.stream.releaseLock(); }
  async ended() {
    if (this.chunk.length > 0) return false;
    const { done, value } = await this.stream.read().catch((e) => { throw (this.error = e); });
    if (!done) this.chunk = value;
    return done || this.ended();
  }
  async fill(target) {
    for (let at = 0; at < target.length; ) {
      require(!(await this.ended()), "it is truncated");
      const used = this.chunk.subarray(0, target.length - at);
      target.set(used, at);
      [at, this.chunk] = [at + used.length, this.chunk.subarray(used.length)];
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

function require(condition, problem, kind = "Damaged container") {
  if (!condition) throw new Error(`${kind}: ${problem}`);
}

// Does what driver.c does. The memory is the most that live arrays took beside
// the container. A rejection that nobody handles ends Node with an error.
import { readFileSync, writeFileSync } from "node:fs";

// Options: the expander, and "bytes" if all containers are expanded from memory.
const [expander, ...options] = process.argv.slice(2);
const [batch, answers, limit] = options.splice(-3);
const { expand } = await import(expander);
const arrays = () => (globalThis.gc?.(), process.memoryUsage().arrayBuffers);

let peak, open;
/** A stream of the bytes in pieces of an odd size. */
function stream(bytes) {
  open = true;
  return new ReadableStream({
    cancel: () => (open = false),
    pull(controller) {
      if (globalThis.gc) peak = Math.max(peak, arrays());
      if (bytes.length === 0) return controller.close((open = false));
      controller.enqueue(bytes.slice(0, 65_537));
      bytes = bytes.subarray(65_537);
    },
  });
}

const parts = [];
for (let input = readFileSync(batch); input.length > 0; ) {
  const end = 4 + input.readUInt32LE(0);
  const before = (peak = arrays());
  // Else every other container is, as bytes or as their buffer.
  const bytes = input.subarray(4, end), others = !globalThis.gc && parts.length % 4 > 0;
  const inMemory = parts.length % 8 > 4 ? Uint8Array.from(bytes).buffer : bytes;
  const source = others || options.length > 0 ? inMemory : stream(bytes);
  const start = performance.now();
  let expanded = 1, answer;
  try {
    answer = Buffer.from((await expand(source, Number(limit))).buffer);
  } catch (error) {
    peak = Math.max(peak, process.memoryUsage().arrayBuffers); // Garbage included.
    answer = Buffer.from(String(error));
    expanded = 0;
  }
  if (open || source.locked) throw new Error("The source is not released.");
  const head = Buffer.alloc(13);
  head.writeUInt8(expanded, 0);
  head.writeUInt32LE(Math.max(0, peak - before), 1);
  head.writeUInt32LE(1000 * (performance.now() - start), 5);
  head.writeUInt32LE(answer.length, 9);
  parts.push(head, answer);
  input = input.subarray(end);
}
writeFileSync(answers, Buffer.concat(parts));

// Does what driver.c does. The memory is the most that live arrays took beside
// the container. A rejection that nobody handles ends Node with an error.
import { readFileSync, writeFileSync } from "node:fs";

const [expander, batch, answers, limit] = process.argv.slice(2);
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
  // Every other container is expanded from memory.
  const bytes = input.subarray(4, end), fromMemory = !globalThis.gc && parts.length % 4 > 0;
  const source = fromMemory ? bytes : stream(bytes);
  const start = performance.now();
  let expanded = 1, answer;
  try {
    answer = Buffer.from((await expand(source, Number(limit))).buffer);
  } catch (error) {
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

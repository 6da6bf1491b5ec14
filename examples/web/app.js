// Loads both networks, runs them on the drawing, and shows what they cost.

import { loadAndCompile, loadLiteRt, Tensor } from "@litertjs/core";
import { Drawing } from "./drawing.js";
import { EXAMPLES } from "./examples.js";
import { SIDE, toPixels } from "./pixels.js";
import { expand } from "./tflz.js";

const FILES = ["digits.tflz", "float.tflite"];
const LARGEST_FILE = 64 * 2 ** 20;
const ROUNDS = 20; // How often each network runs for a time.
const ROWS = {
  answer: "Answer",
  bytes: "Downloaded",
  expanded: "Time to expand",
  run: "Time of one run",
  accuracy: "Test accuracy",
};

const find = (id) => document.getElementById(id);

async function start() {
  const drawing = new Drawing(find("canvas"), changed, (text) => (find("pen").textContent = text));
  find("undo").onclick = () => drawing.undo();
  find("clear").onclick = () => drawing.clear();
  addExamples(drawing);
  addBars();
  addTable();

  // While the networks load or run, a change waits.
  let networks, busy = true, waiting = true, finished = true;
  function changed(unfinished) {
    finished = !unfinished;
    find("answer").ariaBusy = String(unfinished); // A screen reader waits for the end.
    waiting = true;
    if (!busy) requestAnimationFrame(() => read().catch(fail));
    busy = true;
  }
  async function read() {
    while (waiting) {
      waiting = false;
      await show(networks, drawing.strokes, finished);
    }
    busy = false;
  }

  networks = await load();
  await read();
}

/** Downloads and compiles the runtime and both networks. */
async function load() {
  await loadLiteRt(new URL("litert/wasm/", document.baseURI).href);
  const wasm = performance.getEntriesByType("resource").find((e) => e.name.endsWith(".wasm"));
  if (wasm?.decodedBodySize) find("runtime").textContent = megabytes(wasm.decodedBodySize);
  const accuracies = await (await download("models/models.json")).json();
  const networks = [];
  for (const name of FILES) {
    const bytes = new Uint8Array(await (await download(`models/${name}`)).arrayBuffer());
    let content = bytes, expanded;
    if (name.endsWith(".tflz"))
      [content, expanded] = await timed(() => expand(bytes, LARGEST_FILE));
    networks.push({ name, model: await loadAndCompile(content, { accelerator: "wasm" }) });
    tell(name, "bytes", kilobytes(bytes.length));
    tell(name, "expanded", expanded === undefined ? "–" : milliseconds(expanded));
    tell(name, "accuracy", percent(accuracies[name].accuracy, 1));
  }
  return networks;
}

async function download(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${response.statusText}`);
  return response;
}

/** Shows what the networks read, and at the end of a stroke how fast they are. */
async function show(networks, strokes, finished) {
  const pixels = toPixels(strokes);
  paintSeen(pixels);
  const results = new Map();
  for (const { name, model } of networks) results.set(name, await classify(model, pixels));
  if (strokes.length === 0) {
    find("answer").textContent = "Draw a digit from 0 to 9.";
    for (const bar of find("bars").children) setShare(bar, 0);
    for (const name of FILES) tell(name, "answer", "–");
  } else {
    for (const [name, { digit, shares }] of results)
      tell(name, "answer", `${digit} (${percent(shares[digit])})`);
    const { digit, shares } = results.get(FILES[0]);
    const number = document.createElement("strong");
    number.textContent = digit;
    if (find("answer").querySelector("strong")?.textContent !== String(digit))
      find("answer").replaceChildren(number);
    [...find("bars").children].forEach((bar, i) => setShare(bar, shares[i]));
  }
  if (finished) await measure(networks, pixels);
}

async function measure(networks, pixels) {
  const times = new Map(networks.map(({ name }) => [name, []]));
  for (let round = 0; round < ROUNDS; round++)
    for (const { name, model } of networks)
      times.get(name).push((await classify(model, pixels)).time);
  for (const [name, values] of times) {
    values.sort((a, b) => a - b);
    tell(name, "run", milliseconds(values[ROUNDS / 2]));
  }
}

async function classify(model, pixels) {
  const input = new Tensor(pixels, [1, SIDE, SIDE, 1]);
  const [[output], time] = await timed(() => model.run([input]));
  const scores = Array.from(output.toTypedArray());
  input.delete();
  output.delete();
  const largest = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - largest));
  const sum = powers.reduce((a, b) => a + b);
  return { time, digit: scores.indexOf(largest), shares: powers.map((p) => p / sum) };
}

async function timed(task) {
  const begin = performance.now();
  const result = await task();
  return [result, performance.now() - begin];
}

function addExamples(drawing) {
  EXAMPLES.forEach((strokes, digit) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = digit;
    button.ariaLabel = `Draw a ${digit}`;
    button.onclick = () => drawing.set(structuredClone(strokes));
    find("examples").append(button);
  });
}

function addBars() {
  for (let digit = 0; digit < 10; digit++) {
    const bar = document.createElement("li");
    bar.append(document.createElement("i"), String(digit));
    find("bars").append(bar);
    setShare(bar, 0);
  }
}

function setShare(bar, share) {
  bar.style.setProperty("--share", share);
  bar.ariaLabel = `${bar.textContent}: ${percent(share)}`;
}

function addTable() {
  for (const [key, title] of Object.entries(ROWS)) {
    const row = find("table").insertRow();
    row.append(Object.assign(document.createElement("th"), { scope: "row", textContent: title }));
    for (const name of FILES)
      Object.assign(row.insertCell(), { id: `${key} ${name}`, textContent: "…" });
  }
}

function tell(name, key, text) {
  find(`${key} ${name}`).textContent = text;
}

function paintSeen(pixels) {
  const image = new ImageData(SIDE, SIDE);
  pixels.forEach((ink, i) => image.data.fill(255 * ink, 4 * i, 4 * i + 3));
  pixels.forEach((_, i) => (image.data[4 * i + 3] = 255));
  find("seen").getContext("2d").putImageData(image, 0, 0);
}

function fail(error) {
  console.error(error);
  const answer = find("answer");
  answer.className = "error";
  answer.textContent = `This does not work here. ${error.message ?? error}`;
}

const kilobytes = (count) => `${Math.round(count / 1000).toLocaleString("en")} kB`;
const megabytes = (count) => `${(count / 1e6).toFixed(1)} MB`;
const milliseconds = (time) => `${time < 10 ? time.toFixed(2) : Math.round(time)} ms`;
const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}%`;

start().catch(fail);

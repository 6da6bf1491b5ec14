// The drawing area: strokes by pointer or by keyboard.

const PEN = 0.05, STEP = 1 / 40;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class Drawing {
  /**
   * @param {HTMLCanvasElement} canvas Square, and focusable.
   * @param {function} changed Called after each change, with whether a stroke is
   *   still being drawn.
   * @param {function} say Called with what a screen reader should say.
   */
  constructor(canvas, changed, say) {
    Object.assign(this, { canvas, changed, say, strokes: [], cursor: [0.5, 0.5] });
    this.pointer = null; // The id of the pointer that draws.
    this.penDown = false; // The pen of the keyboard.
    const on = (type, handler) => canvas.addEventListener(type, handler.bind(this));
    on("pointerdown", this.begin);
    on("pointermove", this.move);
    on("pointerup", this.end);
    on("pointercancel", this.end);
    on("keydown", this.press);
    on("focus", this.paint);
    on("blur", this.lift);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
    this.paint();
  }

  /** Replaces the drawing, and ends the stroke that is being drawn. */
  set(strokes) {
    this.lift();
    this.pointer = null;
    this.strokes = strokes;
    this.update(false);
  }

  undo() {
    this.set(this.strokes.slice(0, -1));
  }

  clear() {
    this.set([]);
    this.cursor = [0.5, 0.5];
    this.paint();
  }

  begin(event) {
    if (this.pointer !== null || event.button !== 0) return;
    this.lift();
    this.pointer = event.pointerId;
    this.canvas.setPointerCapture(event.pointerId);
    this.strokes.push([this.position(event)]);
    this.update(true);
  }

  move(event) {
    if (event.pointerId !== this.pointer) return;
    // A browser may join several movements into one event.
    const events = event.getCoalescedEvents?.() ?? [];
    const points = (events.length ? events : [event]).map((e) => this.position(e));
    this.strokes.at(-1).push(...points);
    this.update(true);
  }

  end(event) {
    if (event.pointerId !== this.pointer) return;
    this.pointer = null;
    this.update(false);
  }

  position({ clientX, clientY }) {
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    return [inside((clientX - left) / width), inside((clientY - top) / height)];
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in ARROWS) this.step(ARROWS[event.key]);
    else if (event.key === " " && !event.repeat) this.togglePen();
    else if (event.key === "Backspace") this.undo();
    else if (event.key === "Delete") this.clear();
    else if (event.key !== " ") return;
    event.preventDefault(); // Do not scroll.
  }

  step([dx, dy]) {
    const [x, y] = this.cursor;
    this.cursor = [inside(x + dx * STEP), inside(y + dy * STEP)];
    if (!this.penDown) return this.paint();
    this.strokes.at(-1).push(this.cursor);
    this.update(true);
  }

  togglePen() {
    if (this.penDown) return this.lift();
    this.pointer = null;
    this.penDown = true;
    this.strokes.push([this.cursor]);
    this.say("Pen down");
    this.update(true);
  }

  lift() {
    if (!this.penDown) return this.paint();
    this.penDown = false;
    this.say("Pen up");
    this.update(false);
  }

  update(drawing) {
    this.paint();
    this.changed(drawing);
  }

  paint() {
    const { canvas } = this, context = canvas.getContext("2d"), side = canvas.width;
    context.clearRect(0, 0, side, side);
    context.strokeStyle = context.fillStyle = getComputedStyle(canvas).color;
    context.lineWidth = PEN * side;
    context.lineCap = context.lineJoin = "round";
    for (const [first, ...others] of this.strokes) {
      context.beginPath();
      context.moveTo(side * first[0], side * first[1]);
      for (const [x, y] of [first, ...others]) context.lineTo(side * x, side * y);
      context.stroke();
    }
    if (canvas.matches(":focus-visible")) this.paintCursor(context, side);
  }

  paintCursor(context, side) {
    const [x, y] = this.cursor.map((value) => side * value), size = PEN * side;
    context.lineWidth = 3;
    context.beginPath();
    context.arc(x, y, size, 0, 2 * Math.PI);
    context.stroke();
    if (!this.penDown) return;
    context.beginPath();
    context.arc(x, y, size / 2, 0, 2 * Math.PI);
    context.fill();
  }
}

function inside(value) {
  return Math.min(1, Math.max(0, value));
}

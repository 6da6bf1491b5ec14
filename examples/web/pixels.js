// From strokes to the 28×28 pixels that the network was trained on.

export const SIDE = 28;

// As MNIST was made: a box of 20×20 pixels, with its centre of mass in the middle.
const BOX = 20, MIDDLE = (SIDE - 1) / 2;
// Half the width of MNIST's strokes, and how far they fade out.
const RADIUS = 1.3, FADE = 0.7;
// A dot must not fill the box. A share of the drawing area.
const SMALLEST = 0.15;

/**
 * Returns the pixels of a drawing, 0 to 1, row by row.
 * @param {number[][][]} strokes Lists of points [x, y], 0 to 1, y downwards.
 * @returns {Float32Array} 784 pixels; all zero if nothing is drawn.
 */
export function toPixels(strokes) {
  const points = strokes.flat();
  if (points.length === 0) return new Float32Array(SIDE * SIDE);
  const [left, right] = bounds(points.map(([x]) => x));
  const [top, bottom] = bounds(points.map(([, y]) => y));
  const extent = Math.max(right - left, bottom - top, SMALLEST);
  const scale = (BOX - 1 - 2 * RADIUS) / extent;
  const move = (dx, dy) => ([x, y]) => [
    MIDDLE + dx + scale * (x - (left + right) / 2),
    MIDDLE + dy + scale * (y - (top + bottom) / 2),
  ];
  const centred = render(strokes.map((s) => s.map(move(0, 0))));
  const [x, y] = centreOfMass(centred);
  return render(strokes.map((s) => s.map(move(MIDDLE - x, MIDDLE - y))));
}

function bounds(values) {
  return [Math.min(...values), Math.max(...values)];
}

/** A pixel is as bright as it is near to a stroke. */
function render(strokes) {
  const pixels = new Float32Array(SIDE * SIDE);
  const reach = RADIUS + FADE;
  for (const stroke of strokes) {
    for (let i = 0; i < stroke.length; i++) {
      const from = stroke[Math.max(i - 1, 0)], to = stroke[i];
      const [x0, x1] = bounds([from[0], to[0]]), [y0, y1] = bounds([from[1], to[1]]);
      for (let y = Math.max(0, Math.ceil(y0 - reach)); y <= Math.min(SIDE - 1, y1 + reach); y++)
        for (let x = Math.max(0, Math.ceil(x0 - reach)); x <= Math.min(SIDE - 1, x1 + reach); x++) {
          const ink = (reach - distance(x, y, from, to)) / (2 * FADE);
          const at = SIDE * y + x;
          pixels[at] = Math.max(pixels[at], Math.min(1, ink));
        }
    }
  }
  return pixels;
}

function distance(x, y, [x0, y0], [x1, y1]) {
  const dx = x1 - x0, dy = y1 - y0, length = dx * dx + dy * dy;
  const along = length ? ((x - x0) * dx + (y - y0) * dy) / length : 0;
  const t = Math.min(1, Math.max(0, along));
  return Math.hypot(x - x0 - t * dx, y - y0 - t * dy);
}

function centreOfMass(pixels) {
  let sum = 0, x = 0, y = 0;
  pixels.forEach((ink, i) => {
    sum += ink;
    x += ink * (i % SIDE);
    y += ink * Math.floor(i / SIDE);
  });
  return [x / sum, y / sum];
}

// A drawing of each digit. "27" is the point x = .25, y = .75.

const LINES = [
  ["4132243657677572516141"],
  ["334147"],
  ["233152626354452727475767"],
  ["23325162636434446566574736"],
  ["41256575", "524858"],
  ["21223444556657473726", "216161"],
  ["514134253647576665554536"],
  ["21227171714748"],
  ["62514132233445566757472635445362"],
  ["635141323344546362535648"],
];

/** The strokes of the digits 0 to 9. */
export const EXAMPLES = LINES.map((lines) =>
  lines.map((line) => {
    const points = line.match(/../g).map(([x, y]) => [(+x + 0.5) / 9, (+y + 0.5) / 9]);
    return smooth(smooth(points));
  }),
);

/** Cuts the corners of a line (Chaikin's algorithm). */
function smooth(points) {
  const [first, last] = [points[0], points.at(-1)];
  const cut = points.slice(1).flatMap(([x1, y1], i) => {
    const [x0, y0] = points[i];
    return [0.25, 0.75].map((t) => [x0 + t * (x1 - x0), y0 + t * (y1 - y0)]);
  });
  return [first, ...cut, last];
}

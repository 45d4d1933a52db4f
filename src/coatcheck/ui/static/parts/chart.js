// A chart of finished jobs per minute of the last hour, by uPlot.

import { colour, theme } from "../theme.js";
import { useStore } from "../store.js";
import uPlot from "../vendor/uplot.js";
import { html, useEffect, useRef } from "../view.js";

const HEIGHT = 190;

const bars = uPlot.paths.bars({ size: [0.72, 14], radius: 0.15 });

const options = (width) => {
  const axis = {
    stroke: colour("quiet"),
    grid: { stroke: colour("line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui",
  };
  const whole = (_plot, splits) => splits.map((value) => (Number.isInteger(value) ? value : ""));
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
    padding: [10, 26, 0, 0],
    scales: {
      x: { range: (_plot, first, last) => [first - 40, last + 40] },
      y: { range: (_plot, _low, high) => [0, Math.max(4, high * 1.08)] },
    },
    axes: [
      { ...axis, size: 26, grid: { show: false }, values: (_plot, splits) => splits.map(minuteOf) },
      { ...axis, size: 44, values: whole },
    ],
    series: [
      {},
      // The total is drawn first, and failures over its lower part.
      { fill: colour("succeeded"), width: 0, paths: bars, points: { show: false } },
      { fill: colour("failed"), width: 0, paths: bars, points: { show: false } },
    ],
  };
};

const minuteOf = (seconds) =>
  new Date(1000 * seconds).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });

// `minutes` are [{at, ended, failed}], oldest first.
export const Chart = ({ minutes }) => {
  const place = useRef(null);
  const plot = useRef(null);
  const shade = useStore(theme);
  const data = [
    minutes.map(({ at }) => at / 1000),
    minutes.map(({ ended }) => ended),
    minutes.map(({ failed }) => failed),
  ];
  useEffect(() => {
    const frame = place.current;
    const make = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(frame.clientWidth), data, frame);
    };
    make();
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const resized = new ResizeObserver(() =>
      plot.current?.setSize({ width: frame.clientWidth, height: HEIGHT }),
    );
    resized.observe(frame);
    dark.addEventListener("change", make);
    return () => {
      resized.disconnect();
      dark.removeEventListener("change", make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shade]);
  useEffect(() => plot.current?.setData(data), [minutes]);
  const ended = minutes.reduce((sum, each) => sum + each.ended, 0);
  const failed = minutes.reduce((sum, each) => sum + each.failed, 0);
  return html`<div class="chart" ref=${place} role="img"
    aria-label=${`In the last hour ${ended} jobs finished, ${failed} of them failed`}></div>`;
};

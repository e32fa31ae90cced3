// Draws the charts of a benchmark from the JSON that the page carries. Names reach the page as text alone.
(() => {
  "use strict";
  const report = JSON.parse(document.getElementById("report").textContent);
  const memory = report.limits.memory_read_bytes_per_s, arithmetic = report.limits.float32_operations_per_s;
  const rows = report.scenarios.flatMap((scenario) => scenario.results.filter((result) => !result.failure).map((result) => ({
    scenario: scenario.name, contender: result.contender,
    ratio: result.ratio.median, low: result.ratio.low, high: result.ratio.high,
    intensity: result.operations_per_byte, speed: result.operations_per_s / 1e9, // of loading there are none
  })));
  const contenders = [...new Set(rows.map((row) => row.contender))];
  const colour = { field: "contender", type: "nominal", title: null, sort: contenders, scale: { scheme: "tableau10" } };
  const tips = (...fields) => fields.map((field) => ({ field, type: typeof rows[0]?.[field] === "number" ? "quantitative" : "nominal", format: typeof rows[0]?.[field] === "number" ? ".3g" : undefined }));

  const ratios = () => ({
    height: { step: 14 }, width: 560,
    data: { values: rows },
    layer: [
      { mark: { type: "rule", strokeDash: [3, 3], color: "currentColor", opacity: 0.6 }, encoding: { x: { datum: 1 } } },
      { mark: { type: "bar", opacity: 0.85 }, encoding: { x: { field: "ratio", type: "quantitative", title: "speed, the first contender's is 1" },
        y: { field: "scenario", type: "nominal", sort: null, title: null }, yOffset: { field: "contender", sort: contenders }, color: colour, tooltip: tips("scenario", "contender", "ratio", "low", "high") } },
      { mark: { type: "rule", color: "currentColor" }, encoding: { x: { field: "low", type: "quantitative" }, x2: { field: "high" },
        y: { field: "scenario", type: "nominal", sort: null }, yOffset: { field: "contender", sort: contenders } } },
    ],
  });

  const roofline = () => {
    const points = rows.filter((row) => row.intensity), ridge = arithmetic / memory, all = points.map((row) => row.intensity);
    const left = Math.min(ridge / 4, ...all) / 2, right = Math.max(ridge * 4, ...all) * 2;
    const roof = [left, ridge, right].map((intensity) => ({ intensity, speed: Math.min(memory * intensity, arithmetic) / 1e9 }));
    const x = { field: "intensity", type: "quantitative", title: "operations for each byte of weights", scale: { type: "log", nice: false, domain: [left, right] } };
    const y = { field: "speed", type: "quantitative", title: "GFLOP/s", scale: { type: "log" } };
    return {
      height: 320, width: 560,
      layer: [
        { data: { values: roof }, mark: { type: "line", color: "currentColor", strokeWidth: 2 }, encoding: { x, y } },
        { data: { values: points }, mark: { type: "point", filled: true, size: 70 }, encoding: { x, y, color: colour, tooltip: tips("scenario", "contender", "intensity", "speed") } },
      ],
    };
  };

  const ink = "currentColor";
  const config = {
    background: null, font: 'system-ui, "DejaVu Sans", sans-serif', view: { stroke: ink, strokeOpacity: 0.25 },
    axis: { labelColor: ink, titleColor: ink, domainColor: ink, tickColor: ink, gridColor: ink, gridOpacity: 0.12, titleFontWeight: "normal" },
    legend: { labelColor: ink, titleColor: ink },
  };
  const charts = { ratios, roofline };
  const draw = async (figure) => {
    if (!rows.length) return figure.remove();
    const { spec } = tandemVega.compile({ description: figure.querySelector("figcaption").textContent, ...charts[figure.dataset.chart]() }, { config });
    // With the interpreter nothing is compiled at run time: the page's policy forbids it.
    const view = new tandemVega.View(tandemVega.parse(spec, undefined, { ast: true }),
      { expr: tandemVega.expressionInterpreter, renderer: "svg", container: figure.querySelector(".chart"), hover: true });
    await view.runAsync();
  };
  Promise.all([...document.querySelectorAll("figure[data-chart]")].map(draw)).then(() => { document.documentElement.dataset.drawn = "yes"; });
})();

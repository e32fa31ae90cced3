// Draws the charts of a report from the JSON that the page carries. Names in it may be hostile: they reach the page
// as text alone (textContent, and Vega's SVG text and titles).
(() => {
  "use strict";
  const report = JSON.parse(document.getElementById("report").textContent);
  const levels = report.levels || {};
  const REFERENCE = "#4a86c5";
  const OTHER = "#c8701a";
  const TINY = 1e-300;

  const label = (text) => String(text).replace(/^model\.layers\./, "layer ");
  const show = (value) => (typeof value !== "number" ? String(value ?? "not finite")
    : Number.isInteger(value) ? value.toLocaleString("en") : Math.abs(value) >= 1e-3 && Math.abs(value) < 1e4 ? value.toPrecision(4) : value.toExponential(2));

  // The charts: each gives the rows that are also its table, and a Vega-Lite specification without data.

  const taps = () => {
    // Colour: log10; the darkest for what failed and has no figure, grey for what no bar decides (a router's choices).
    const rows = [];
    for (const layer of levels.layer?.layers ?? [])
      for (const tap of layer.taps ?? []) {
        const inside = tap.tap.startsWith(layer.layer + ".") ? tap.tap.slice(layer.layer.length + 1) : "(output)";
        const over = tap.over_bar;
        rows.push({ layer: label(layer.layer), tap: inside, over_bar: over ?? null, max_abs_error: tap.max_abs_error ?? null,
                    verdict: tap.equal ? "equal" : tap.verdict === "equal" ? "nothing compared" : tap.verdict,
                    colour: tap.equal && typeof over !== "number" ? null : !tap.equal && !(over > 1) ? 4 : Math.log10(Math.max(over, 1e-3)) });
      }
    // Taps in the order in which a layer computes them: each is put before the first known one that follows it.
    const order = [];
    for (const layer of levels.layer?.layers ?? []) {
      const inside = rows.filter((row) => row.layer === label(layer.layer)).map((row) => row.tap);
      inside.forEach((name, i) => {
        if (order.includes(name)) return;
        const next = inside.slice(i + 1).map((later) => order.indexOf(later)).find((at) => at >= 0);
        order.splice(next ?? order.length, 0, name);
      });
    }
    const y = { field: "layer", type: "ordinal", sort: null, title: null };
    const x = { field: "tap", type: "ordinal", sort: order, title: null, axis: { labelAngle: -45, labelLimit: 260 } };
    return {
      rows, columns: ["layer", "tap", "over_bar", "max_abs_error", "verdict"],
      spec: {
        width: { step: 30 }, height: { step: 20 },
        layer: [
          { mark: { type: "rect", stroke: "currentColor", strokeOpacity: 0.25, strokeWidth: 0.5, invalid: "show" },
            encoding: { x, y,
              color: { condition: { test: "datum.colour === null", value: "#9aa3ac" }, field: "colour", type: "quantitative", title: "distance / bar",
                scale: { domain: [-3, -0.001, 0, 4], range: ["#d7e8f7", "#4a86c5", "#f0a35e", "#8c1a11"], interpolate: "rgb", clamp: true, type: "linear" },
                legend: { orient: "right", values: [-3, -2, -1, 0, 1, 2, 3, 4], gradientLength: 160,
                          labelExpr: "datum.value == -3 ? 'up to 0.001' : datum.value == 4 ? '10⁴ and more, or not finite' : datum.value == 0 ? '1 (the bar)' : format(pow(10, datum.value), '~r')" } },
              tooltip: tips(["layer", "tap", "over_bar", "max_abs_error", "verdict"]) } },
          { transform: [{ filter: "datum.verdict !== 'equal'" }],
            mark: { type: "text", text: "×", fontSize: 15, fontWeight: "bold", color: "#ffffff", stroke: "#000000", strokeWidth: 0.6 },
            encoding: { x, y, tooltip: tips(["layer", "tap", "over_bar", "max_abs_error", "verdict"]) } },
        ],
      },
    };
  };

  const routing = () => {
    const rows = [];
    for (const layer of levels.layer?.layers ?? []) {
      const by = layer.routing?.experts;
      (by?.both ?? []).forEach((both, expert) => {
        const either = by.reference[expert] + by.other[expert] - both;
        if (either > 0)
          rows.push({ layer: label(layer.layer), expert, reference: by.reference[expert], other: by.other[expert], both, agreement: both / either });
      });
    }
    const experts = 1 + rows.reduce((most, row) => Math.max(most, row.expert), 0);
    return {
      rows, columns: ["layer", "expert", "reference", "other", "both", "agreement"],
      spec: {
        width: { step: Math.max(3, Math.min(26, 820 / experts)) }, height: { step: 20 },
        mark: { type: "rect", stroke: "currentColor", strokeOpacity: experts > 64 ? 0 : 0.25, strokeWidth: 0.5 },
        encoding: {
          x: { field: "expert", type: "ordinal", title: "expert", axis: { labelAngle: 0, labelOverlap: true } },
          y: { field: "layer", type: "ordinal", sort: null, title: null },
          color: { field: "agreement", type: "quantitative", title: "agreement", legend: { format: ".0%", gradientLength: 60, values: [0, 0.5, 1] },
                   scale: { domain: [0, 0.5, 1], range: ["#8c1a11", "#f0a35e", "#4a86c5"], interpolate: "rgb" } },
          tooltip: tips(["layer", "expert", "reference", "other", "both", "agreement"]),
        },
      },
    };
  };

  const depths = () => {
    const failed = new Set((levels.module?.taps ?? []).filter((tap) => !tap.equal).map((tap) => tap.tap));
    const rows = [];
    for (const depth of levels.module?.depths ?? [])
      for (const side of report.float64 ? ["reference", "other"] : ["other"])
        rows.push({ depth: label(depth.tap), side: side === "other" ? "other side" : "reference", error: depth[side],
                    verdict: side === "other" && failed.has(depth.tap) ? "out of line" : "in line" });
    const x = { field: "depth", type: "ordinal", sort: null, scale: { domain: [...new Set(rows.map((row) => row.depth))] }, title: null, axis: { labelAngle: -45, labelOverlap: true, labelLimit: 200 } };
    return {
      rows, columns: ["depth", "side", "error", "verdict"],
      spec: {
        width: 720, height: 240, transform: [{ filter: `datum.error > ${TINY}` }],
        encoding: { x, y: logarithmic(rows, "error", "error / RMS"), color: sides(), tooltip: tips(["depth", "side", "error", "verdict"]) },
        layer: [
          { mark: { type: "line", strokeWidth: 2 } },
          { mark: { type: "point", filled: true, size: 60, opacity: 1 },
            encoding: { shape: { field: "verdict", type: "nominal", title: null, scale: { domain: ["in line", "out of line"], range: ["circle", "cross"] } } } },
        ],
      },
    };
  };

  const alongPositions = (pairs, title, field) => {
    const rows = pairs.map(([position, value]) => ({ position, [field]: value }));
    return {
      rows, columns: ["position", field],
      spec: {
        width: 720, height: 200, transform: [{ filter: `datum.${field} > ${TINY}` }],
        mark: { type: "point", filled: true, size: 14, color: OTHER, opacity: 0.9 },
        encoding: { x: { field: "position", type: "quantitative", title: "position", scale: { zero: false, nice: false } },
                    y: logarithmic(rows, field, title), tooltip: tips(["position", field]) },
      },
    };
  };
  const positions = () => alongPositions(levels.module?.positions?.errors ?? [], "error / RMS", "error");
  const kl = () => alongPositions(levels.model?.positions?.kl ?? [], "KL, nats", "kl");

  const tried = () => {
    const rows = (report.divergence?.tried ?? []).map((fault, i) => ({
      fault: `${i + 1}. ${fault.fault}`, words: fault.words, left: fault.left, explains: fault.explains ? "explains it" : "does not" }));
    return {
      rows, columns: ["fault", "words", "left", "explains"],
      spec: {
        width: 560, height: { step: 20 }, transform: [{ filter: `datum.left > ${TINY}` }],
        layer: [
          { data: { values: [{ one: 1 }] }, transform: [], mark: { type: "rule", color: "currentColor", strokeDash: [4, 4], opacity: 0.6 },
            encoding: { x: { datum: 1, type: "quantitative" } } },
          { mark: { type: "point", filled: true, size: 90, opacity: 1 },
            encoding: {
              x: logarithmic(rows, "left", "share of the difference that is left"),
              y: { field: "fault", type: "ordinal", sort: null, title: null, axis: { labelLimit: 260 } },
              color: { field: "explains", type: "nominal", title: null, scale: { domain: ["explains it", "does not"], range: [REFERENCE, OTHER] } },
              shape: { field: "explains", type: "nominal", title: null, scale: { domain: ["explains it", "does not"], range: ["circle", "diamond"] } },
              tooltip: tips(["fault", "words", "left", "explains"]) } },
        ],
      },
    };
  };

  function tips(fields) {
    return fields.map((field) => ({ field, type: "nominal", title: field.replaceAll("_", " ") }));
  }
  /// A logarithmic axis with a line at powers of ten alone; where they are many, at some of them.
  function logarithmic(rows, field, title) {
    const logs = rows.map((row) => row[field]).filter((value) => value > TINY).map(Math.log10);
    const low = Math.floor(Math.min(...logs)), high = Math.max(low + 1, Math.ceil(Math.max(...logs)));
    const step = Math.ceil((high - low) / 8), values = [];
    for (let power = low; power <= high; power += step) values.push(Number(`1e${power}`));
    return { field, type: "quantitative", title, scale: { type: "log", nice: false, domain: [Number(`1e${low}`), Number(`1e${high}`)] }, axis: { format: ".0e", values } };
  }
  function sides() {
    return { field: "side", type: "nominal", title: null, scale: { domain: ["reference", "other side"], range: [REFERENCE, OTHER] } };
  }

  // Everything that is no data is drawn in the colour of the page's text: light, dark and paper need no second drawing.
  const ink = "currentColor";
  const config = {
    background: null, font: 'system-ui, "DejaVu Sans", sans-serif',
    view: { stroke: ink, strokeOpacity: 0.25 },
    axis: { labelColor: ink, titleColor: ink, domainColor: ink, domainOpacity: 0.4, tickColor: ink, tickOpacity: 0.4, gridColor: ink, gridOpacity: 0.12, labelFontSize: 11, titleFontWeight: "normal" },
    legend: { labelColor: ink, titleColor: ink, titleFontWeight: "normal", labelFontSize: 11, labelLimit: 240, symbolBaseFillColor: ink, symbolBaseStrokeColor: ink },
    axisBand: { grid: false },
  };

  function tableOf({ rows, columns }) {
    const table = document.createElement("table");
    const line = (into, tag, texts) => {
      const row = into.insertRow();
      for (const text of texts) row.appendChild(document.createElement(tag)).textContent = text;
    };
    line(table.createTHead(), "th", columns.map((column) => column.replaceAll("_", " ")));
    const body = table.createTBody();
    for (const row of rows) line(body, "td", columns.map((column) => show(row[column])));
    return table;
  }

  /// The same figures as a table, made when it is asked for.
  function addTable(figure, chart) {
    const details = figure.appendChild(document.createElement("details"));
    details.appendChild(document.createElement("summary")).textContent = `As a table (${chart.rows.length} rows)`;
    details.addEventListener("toggle", () => {
      if (details.querySelector("table")) return;
      const scroll = details.appendChild(document.createElement("div"));
      scroll.className = "scroll";
      scroll.appendChild(tableOf(chart));
    });
  }

  async function draw(figure, make) {
    const chart = make();
    if (!chart.rows.length) return figure.remove();
    const description = figure.querySelector("figcaption").textContent;
    const { spec } = tandemVega.compile({ description, data: { values: chart.rows }, ...chart.spec }, { config });
    // With the interpreter nothing is compiled at run time: the page's policy forbids it.
    const view = new tandemVega.View(tandemVega.parse(spec, undefined, { ast: true }),
      { expr: tandemVega.expressionInterpreter, renderer: "svg", container: figure.querySelector(".chart"), hover: true });
    await view.runAsync();
    addTable(figure, chart);
  }

  const charts = { taps, routing, depths, positions, kl, tried };
  const drawn = [...document.querySelectorAll("figure[data-chart]")].map((figure) => draw(figure, charts[figure.dataset.chart]));
  Promise.all(drawn).then(() => { document.documentElement.dataset.drawn = "yes"; });
})();

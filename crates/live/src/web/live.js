"use strict";
// The state of the run, as the server sends it.
let now = null;
let cells = [];
let ended = false;
const element = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

// A number with three significant digits.
function digits(value) {
  if (value === 0) return "0";
  const places = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(places, 6));
}

// Divisor and name of the unit in which a value is read most easily.
function scale(unit, largest) {
  const steps = {
    "bit/s": [[1, "bit/s"], [1e3, "kbit/s"], [1e6, "Mbit/s"], [1e9, "Gbit/s"]],
    ns: [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e10, "s", 1e9]],
    B: [[1, "B"], [1e3, "kB"], [1e6, "MB"], [1e9, "GB"]],
    ratio: [[0, "%", 0.01]],
    cores: [[0, "% of a core", 0.01]],
  }[unit] || [[0, unit === "1" ? "" : unit, 1]];
  const fit = steps.filter((step) => Math.abs(largest) >= step[0]).pop() || steps[0];
  return { divisor: fit[2] || fit[0] || 1, unit: fit[1] };
}

function quantity(unit, value) {
  const { divisor, unit: shown } = scale(unit, value);
  return `${digits(value / divisor)} ${shown}`.trim();
}

function rough(seconds) {
  const s = Math.max(0, Math.ceil(seconds));
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} days ${Math.floor((s % 86400) / 3600)} h`;
}

const from = (unixNs) => Date.now() / 1e3 - unixNs / 1e9;

function showProgress() {
  if (!now || !now.study) return;
  document.title = `${now.done}/${now.trials} ${now.study}`;
  element("title").textContent = now.title || now.study;
  element("about").textContent = `${now.study} · ${now.bed} · Regatta ${now.version} · ${now.directory}`;
  element("bar").max = Math.max(1, now.trials);
  element("bar").value = now.done;
  const activity = now.activity;
  const parts = [`${now.done} of ${now.trials} trials done`];
  if (activity.shards) {
    const counts = Object.entries(activity.shards);
    const all = counts.reduce((sum, [, count]) => sum + count, 0);
    parts.push(`${all} shards: ${counts.map(([state, count]) => `${count} ${state}`).join(", ")}`);
  } else {
    parts.push(`round ${now.round + 1} of ${now.rounds}`);
  }
  if (activity.ended) {
    parts.push(activity.ended.complete ? "the run is complete" : `the run has ended: ${activity.ended.reason}`);
  } else {
    if (activity.waiting) parts.push(`the next round begins in ${rough(-from(activity.waiting.until_unix_ns))}`);
    if (activity === "preparing") parts.push("preparing");
    if (now.ends_unix_ns) parts.push(`about ${rough(-from(now.ends_unix_ns))} left`);
    if (ended) parts.push("the connection to the run is lost");
  }
  element("progress").textContent = parts.join(", ");
}

function showTrial() {
  const trial = now.activity.trial;
  element("trial").hidden = !trial;
  if (!trial) return;
  const attempt = trial.attempt > 1 ? `, attempt ${trial.attempt}` : "";
  element("cell").textContent = `${trial.transport} · ${trial.condition} · ${trial.workload}${attempt}`;
  const known = (value, unit) => (value === null || value === undefined ? null : quantity(unit, value));
  const figures = [
    ["time", trial.elapsed_ns === null ? null : rough(trial.elapsed_ns / 1e9)],
    ["goodput", known(trial.goodput_bps, "bit/s")],
    ["delivered", known(trial.delivered_bytes, "B")],
    ["congestion window", known(trial.congestion_window_bytes, "B")],
    ["in flight", known(trial.bytes_in_flight, "B")],
    ["smoothed RTT", known(trial.smoothed_rtt_ns, "ns")],
    ["retransmitted packets", trial.retransmitted_packets === null ? null : String(trial.retransmitted_packets)],
    ["path drops, forward / reverse", trial.dropped ? trial.dropped.join(" / ") : null],
    ["CPU of the sender", known(trial.cpu_sender_ratio, "cores")],
    ["CPU of the receiver", known(trial.cpu_receiver_ratio, "cores")],
  ].filter((figure) => figure[1] !== null);
  element("figures").replaceChildren(...figures.map(([name, value]) => {
    const group = document.createElement("div");
    for (const [tag, text] of [["dt", name], ["dd", value]]) {
      group.appendChild(document.createElement(tag)).textContent = text;
    }
    return group;
  }));
  const history = trial.goodput_history_bps;
  element("history").toggleAttribute("hidden", history.length === 0);
  const most = Math.max(1, ...history);
  element("line").setAttribute("points", history.map((rate, i) =>
    `${(600 * i) / Math.max(1, 119)},${118 - (112 * rate) / most}`).join(" "));
  element("scale").textContent = history.length ? `goodput, the last 30 s, from 0 to ${quantity("bit/s", most)}` : "no figures yet";
}

// Marks of the transports, as in the report.
const MARKS = ["●", "■", "▲", "◆", "▼", "✚", "▬"];

// Creates an element with a text.
function made(tag, text, name) {
  const part = document.createElement(tag);
  part.textContent = text;
  if (name) part.className = name;
  return part;
}

// Every trial of a cell as a point on the axis of its metric, from zero, with the mean and its interval.
function points(cell, most) {
  const svg = document.createElementNS(SVG, "svg");
  const x = (value) => `${Math.min(99, 1 + (97 * Math.max(0, value)) / most).toFixed(2)}%`;
  const draw = (tag, attributes) => {
    const part = svg.appendChild(document.createElementNS(SVG, tag));
    for (const [name, value] of Object.entries(attributes)) part.setAttribute(name, value);
  };
  svg.setAttribute("role", "img");
  svg.setAttribute("class", `k${cell.colour_and_mark[0]}`);
  svg.setAttribute("aria-label", `${cell.values.length} trials`);
  if (cell.interval) draw("line", { class: "interval", x1: x(cell.interval[0]), x2: x(cell.interval[1]), y1: 7, y2: 7 });
  draw("line", { class: "mean", x1: x(cell.value), x2: x(cell.value), y1: 2, y2: 12 });
  // At three heights, so that equal trials stay visible.
  cell.values.forEach((value, i) => draw("circle", { cx: x(value), cy: 16 + 4 * (i % 3), r: 2.5 }));
  return svg;
}

// Most rows: a browser is slow with many thousands of them.
const ROWS = 1000;

// The row of a cell: transport, value with its interval, and points; `largest` is the end of the axis.
function row(cell, largest) {
  const row = document.createElement("tr");
  const trial = now && now.activity.trial;
  if (trial && trial.transport === cell.transport && trial.condition === cell.condition && trial.workload === cell.workload) {
    row.className = "current";
  }
  const head = row.appendChild(document.createElement("th"));
  head.scope = "row";
  head.append(made("span", `${MARKS[cell.colour_and_mark[1]]} `, `k${cell.colour_and_mark[0]}`), cell.transport);
  const others = Object.entries(cell.outcomes).filter(([name]) => name !== "measured")
    .map(([name, count]) => `${count} ${name.replace("_", " ")}`);
  const unit = scale(cell.unit, largest);
  const shown = (value) => digits(value / unit.divisor);
  // Further from the mean than a thousandfold, an end is no number: as on the terminal, one digit to the safe side.
  const [least, most] = [cell.value / 1000 / unit.divisor, cell.value * 1000 / unit.divisor];
  const digit = (value, round) => {
    const power = 10 ** Math.floor(Math.log10(value));
    return Number((round(value / power) * power).toPrecision(1));
  };
  const end = (value) => {
    if (value > 0 && value / unit.divisor < least) return `< ${digit(least, Math.ceil)}`;
    return cell.value > 0 && value / unit.divisor > most ? `> ${digit(most, Math.floor)}` : shown(value);
  };
  const value = row.appendChild(document.createElement("td"));
  value.append(made("b", cell.value === null ? "–" : shown(cell.value)));
  if (cell.interval) value.append(made("small", `[${end(cell.interval[0])}, ${end(cell.interval[1])}]`));
  value.append(made("small", [`${cell.n} ${cell.n === 1 ? "trial" : "trials"}`, ...others].join(", ")));
  const last = row.appendChild(document.createElement("td"));
  if (cell.value !== null) last.appendChild(points(cell, largest || 1));
  return row;
}

// A table for each condition and workload, whose transports are compared.
function showCells() {
  const largest = {};
  const groups = new Map();
  for (const cell of cells.slice(0, ROWS)) {
    largest[cell.metric] = Math.max(largest[cell.metric] || 0, cell.value || 0, ...cell.values);
    const key = JSON.stringify([cell.condition, cell.workload]);
    groups.set(key, [...(groups.get(key) || []), cell]);
  }
  element("more").textContent = cells.length > ROWS ? `The first ${ROWS} of ${cells.length} cells; the report has all of them.` : "";
  const workloads = new Set(cells.map((cell) => cell.workload));
  element("cells").replaceChildren(...[...groups.values()].map((group) => {
    const { condition, workload, metric, title, unit: name } = group[0];
    const table = document.createElement("table");
    table.appendChild(made("caption", workloads.size > 1 ? `${condition} · ${workload}` : condition));
    const head = table.createTHead().insertRow();
    const unit = scale(name, largest[metric]).unit;
    const end = largest[metric] ? `each trial, 0 to ${quantity(name, largest[metric])}` : "";
    for (const text of ["transport", unit ? `${title}, ${unit}` : title, end]) {
      const cell = head.appendChild(made("th", text));
      cell.scope = "col";
    }
    table.createTBody().append(...group.map((cell) => row(cell, largest[metric])));
    return table;
  }));
}

// Puts a text with code between backticks into an element.
function prose(into, text) {
  text.split("`").forEach((part, i) => into.append(i % 2 ? made("code", part) : part));
  return into;
}

// State whose answer was asked for last.
let asked = "";

// Shows the answer when a round, or the run, has ended.
async function showAnswer() {
  const state = `${now.round} ${now.activity.ended ? "ended" : ""}`;
  if (state === asked || now.done === 0 || (now.round === 0 && !now.activity.ended && !now.activity.shards)) return;
  asked = state;
  try {
    const response = await fetch("answer");
    if (!response.ok) return;
    const answer = await response.json();
    element("answer-heading").textContent = now.activity.ended ? "Answer" : `Answer so far, from ${answer.trials} of ${now.trials} trials`;
    element("answer").replaceChildren(...answer.sentences.map((text) => prose(document.createElement("p"), text)));
  } catch {
    // The run has gone.
  }
}

// Keeps the report in the browser, as the server ends with the run.
async function keepReport() {
  const [link, about] = [element("report"), element("about-report")];
  about.textContent = `The report is report.html in ${now.directory}.`;
  try {
    const response = await fetch("report");
    await response.text();
    if (!response.ok) throw new Error();
    link.textContent = "Open the report";
    fetch("received").catch(() => {});
  } catch {
    link.hidden = true;
  }
}

function showMessages() {
  element("messages").replaceChildren(...now.messages.map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
}

const events = new EventSource("events");
let cell = "";
events.addEventListener("now", (event) => {
  now = JSON.parse(event.data).now;
  ended = false;
  showProgress();
  showTrial();
  showMessages();
  const trial = now.activity.trial;
  const current = trial ? [trial.transport, trial.condition, trial.workload].join("\n") : "";
  if (current !== cell) {
    cell = current;
    showCells();
  }
  if (now.activity.ended) {
    events.close();
    showAnswer().then(keepReport);
    return;
  }
  showAnswer();
});
events.addEventListener("cells", (event) => {
  cells = JSON.parse(event.data).cells;
  showCells();
});
events.onerror = () => {
  ended = true;
  showProgress();
};
setInterval(showProgress, 1000);

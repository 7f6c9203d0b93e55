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

// The interval of a cell on the axis of its metric, from zero.
function range(cell, most) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 100 10");
  svg.setAttribute("preserveAspectRatio", "none");
  const x = (value) => Math.min(99, (98 * value) / most + 1);
  if (cell.interval) {
    const line = svg.appendChild(document.createElementNS(SVG, "line"));
    for (const [name, value] of [["x1", x(cell.interval[0])], ["x2", x(cell.interval[1])], ["y1", 5], ["y2", 5]]) {
      line.setAttribute(name, value);
    }
  }
  const circle = svg.appendChild(document.createElementNS(SVG, "circle"));
  for (const [name, value] of [["cx", x(cell.value)], ["cy", 5], ["r", 2]]) circle.setAttribute(name, value);
  return svg;
}

// Most rows: a browser is slow with many thousands of them.
const ROWS = 1000;

function showCells() {
  const trial = now && now.activity.trial;
  const largest = {};
  for (const cell of cells) {
    if (cell.value !== null) largest[cell.metric] = Math.max(largest[cell.metric] || 0, cell.value);
  }
  element("more").textContent = cells.length > ROWS ? `The first ${ROWS} of ${cells.length} cells; the report has all of them.` : "";
  element("cells").replaceChildren(...cells.slice(0, ROWS).map((cell) => {
    const row = document.createElement("tr");
    if (trial && trial.transport === cell.transport && trial.condition === cell.condition && trial.workload === cell.workload) {
      row.className = "current";
    }
    const others = Object.entries(cell.outcomes).filter(([name]) => name !== "measured")
      .map(([name, count]) => `${count} ${name.replace("_", " ")}`);
    const unit = scale(cell.unit, largest[cell.metric] || 0);
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
    const texts = [
      cell.transport, cell.condition, cell.workload, [cell.n, ...others].join(", "),
      cell.value === null ? "" : `${shown(cell.value)} ${unit.unit}`,
      cell.interval ? `[${end(cell.interval[0])}, ${end(cell.interval[1])}]` : "",
    ];
    for (const text of texts) row.appendChild(document.createElement("td")).textContent = text;
    const last = row.appendChild(document.createElement("td"));
    if (cell.value !== null) last.appendChild(range(cell, 1.3 * largest[cell.metric] || 1));
    return row;
  }));
  const titles = [...new Set(cells.map((cell) => cell.title))];
  element("metric").textContent = titles.length === 1 ? titles[0] : "Mean";
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
    // The server ends with the run.
    const link = element("report");
    link.removeAttribute("href");
    link.textContent = `report.html and the other results are in ${now.directory}.`;
    link.nextSibling.textContent = "";
  }
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

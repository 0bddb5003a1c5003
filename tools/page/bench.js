"use strict";
const bench = JSON.parse(document.getElementById("data").textContent);

function add(parent, tag, text, className) {
  const node = parent.appendChild(document.createElement(tag));
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

function figure(value) {
  return value === 0 ? "0" : Math.abs(value) >= 1000 || Math.abs(value) < 0.001 ? value.toPrecision(4) : String(+value.toPrecision(4));
}

// A bar from the peer (the line in the middle) to ours; 10x either way fills it.
function bar(cell, result) {
  const advantage = Math.log10(result.ratio) * (result.more_is_better ? 1 : -1);
  const part = Math.max(-1, Math.min(1, advantage)) * 50;
  const track = add(cell, "span", undefined, "track");
  const fill = add(track, "span", undefined, part >= 0 ? "fill better-fill" : "fill worse-fill");
  fill.style.left = `${50 + Math.min(part, 0)}%`;
  fill.style.width = `${Math.max(Math.abs(part), 0.5)}%`;
}

function table(section, results) {
  const node = add(add(section, "div", undefined, "scroll"), "table");
  const head = add(node, "tr");
  for (const title of ["setting", "ours", "peer", "ratio", "", "peer is"]) add(head, "th", title);
  for (const result of results) {
    const row = add(node, "tr");
    add(row, "td", result.setting);
    add(row, "td", `${figure(result.ours)} ${result.unit}`);
    add(row, "td", `${figure(result.peer_value)} ${result.unit}`);
    const isGood = result.more_is_better ? result.ratio >= 1 : result.ratio <= 1;
    const beyondNoise = Math.abs(Math.log(result.ratio)) > result.spread / 2;
    const ratio = add(row, "td", result.ratio.toFixed(2), beyondNoise ? (isGood ? "better" : "worse") : "");
    add(ratio, "span", `±${Math.round(50 * result.spread)} %`, "ratio");
    bar(add(row, "td"), result);
    add(row, "td", result.peer);
  }
}

document.getElementById("subtitle").textContent = [bench.date, ...new Set(bench.results.flatMap((r) => [r.hardware, r.versions]))].join(" · ");
const byName = new Map();
for (const result of bench.results) {
  if (!byName.has(result.name)) byName.set(result.name, []);
  byName.get(result.name).push(result);
}
for (const [name, results] of byName) {
  const section = add(document.getElementById("suites"), "section");
  add(section, "h2", name);
  add(section, "p", `${results[0].more_is_better ? "More" : "Less"} is better.`, "hint");
  table(section, results);
}

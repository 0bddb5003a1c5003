"use strict";
const bench = JSON.parse(document.getElementById("data").textContent);

function add(parent, tag, text, className) {
  const node = parent.appendChild(document.createElement(tag));
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

function figure(value) {
  const large = Math.abs(value) >= 1000;
  return large ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(Math.abs(value) < 0.001 ? 2 : 3));
}

// A bar from the peer (the line in the middle) to ours; 10x either way fills it.
function bar(cell, result) {
  const advantage = result.ratio > 0 ? Math.log10(result.ratio) * (result.more_is_better ? 1 : -1) : 1;
  const part = Math.max(-1, Math.min(1, advantage)) * 50;
  const track = add(cell, "span", undefined, "track");
  const fill = add(track, "span", undefined, part >= 0 ? "fill better-fill" : "fill worse-fill");
  fill.style.left = `${50 + Math.min(part, 0)}%`;
  fill.style.width = `${Math.max(Math.abs(part), 0.5)}%`;
}

function row(table, result, label) {
  const node = add(table, "tr");
  add(node, "td", label, "label");
  add(node, "td", `${figure(result.ours)} ${result.unit}`);
  add(node, "td", `${figure(result.peer_value)} ${result.unit}`);
  const isGood = result.more_is_better ? result.ratio >= 1 : result.ratio <= 1;
  const beyondNoise = Math.abs(Math.log(result.ratio)) > result.spread / 2;
  const shown = result.ratio >= 0.1 ? result.ratio.toFixed(2) : result.ratio.toPrecision(2);
  const ratio = add(node, "td", shown, beyondNoise ? (isGood ? "better" : "worse") : "");
  if (result.spread) add(ratio, "span", `±${Math.round(50 * result.spread)} %`, "ratio");
  bar(add(node, "td"), result);
}

// The columns of words: they are on the left, and have the room that the others leave.
function isText(titles, i) {
  return i === 0 || titles[i] === "peer is";
}

function head(table, titles) {
  const node = add(add(table, "thead"), "tr");
  titles.forEach((title, i) => add(node, "th", title, isText(titles, i) ? "label" : ""));
}

function grouped(results, keyOf) {
  const groups = new Map();
  for (const result of results) {
    const key = keyOf(result);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(result);
  }
  return groups;
}

// A table for each peer: it is named once, above it.
function measurement(section, name, results) {
  add(section, "h3", name);
  for (const [peer, ofPeer] of grouped(results, (result) => result.peer)) {
    const better = ofPeer[0].more_is_better ? "more" : "less";
    add(section, "p", `peer: ${peer}; ${better} is better`, "hint");
    const table = add(add(section, "div", undefined, "scroll"), "table", undefined, "results");
    head(table, ["setting", "ours", "peer", "ratio", ""]);
    for (const result of ofPeer) row(table, result, result.setting);
  }
}

function suiteSection(parent, suite, results) {
  const section = add(parent, "section");
  section.id = suite || "results";
  if (suite) add(section, "h2", suite);
  const names = grouped(results, (result) => result.name);
  for (const [name, ofName] of names) measurement(section, name, ofName);
}

function headlines(parent, rows) {
  const section = add(parent, "section");
  add(section, "h2", "At a glance");
  const table = add(add(section, "div", undefined, "scroll"), "table", undefined, "results");
  const titles = ["measured", "ours", "peer", "", "peer is"];
  head(table, titles);
  for (const cells of rows) {
    const node = add(table, "tr");
    cells.forEach((cell, i) => add(node, "td", cell, isText(titles, i) ? "label" : titles[i] ? "" : "verdict"));
  }
}

const hardware = [...new Set(bench.results.flatMap((result) => [result.hardware, result.versions]))];
document.getElementById("subtitle").textContent = [bench.date.replace("T", " ").slice(0, 16), ...hardware].join(" · ");
const main = document.getElementById("suites");
if (bench.headlines.length) headlines(main, bench.headlines);
const suites = grouped(bench.results, (result) => result.suite);
if (suites.size > 1) {
  const links = add(document.getElementById("contents"), "p", "Suites: ");
  for (const suite of suites.keys()) add(links, "a", suite).href = `#${suite}`;
}
for (const [suite, results] of suites) suiteSection(main, suite, results);

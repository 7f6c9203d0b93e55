//! Tests of the page in headless Chromium: no error, no request, and every figure is visible.
//!
//! Needs Debian's package `chromium-headless-shell`, which `make test` installs.

use std::{fs, path::Path, process::Command};

use regatta_report::{RunData, html, summarise};

use crate::{
    common,
    devtools::{QUIET, browser},
};

/// Script at the end of the page that writes its measurements into the document.
const PROBE: &str = r#"<script>
const seen = [...document.querySelectorAll("svg.panel")].filter((svg) => {
  const box = svg.getBoundingClientRect();
  return box.width > 150 && box.height > 60;
}).length;
let smallest = 1e9, clipped = 0, over = 0;
for (const svg of document.querySelectorAll("svg.panel")) {
  const panel = svg.getBoundingClientRect();
  const boxes = [];
  for (const text of svg.querySelectorAll("text")) {
    const box = text.getBoundingClientRect();
    smallest = Math.min(smallest, parseFloat(text.getAttribute("font-size")) * panel.width / svg.viewBox.baseVal.width);
    if (box.left < panel.left - 2 || box.right > panel.right + 2 || box.top < panel.top - 2 || box.bottom > panel.bottom + 2) clipped++;
    if (boxes.some((b) => Math.min(b.right, box.right) - Math.max(b.left, box.left) > 2 && Math.min(b.bottom, box.bottom) - Math.max(b.top, box.top) > 4)) over++;
    boxes.push(box);
  }
}
// Of each row of figures, the share of the page's width that drawings and captions take.
const rows = new Map();
for (const figure of document.querySelectorAll(".figures > figure")) {
  const top = Math.round(figure.getBoundingClientRect().top);
  const row = rows.get(top) ?? [1e9, -1e9, figure.parentElement.clientWidth];
  for (const part of figure.querySelectorAll(".panels svg, figcaption")) {
    const box = part.getBoundingClientRect();
    row[0] = Math.min(row[0], box.left); row[1] = Math.max(row[1], box.right);
  }
  rows.set(top, row);
}
const root = document.documentElement.dataset;
// Tables that are wider than their place, and what marks it: the shadow stays, its cover scrolls along.
const wide = [...document.querySelectorAll("main > section > .scroll")].filter((it) => it.scrollWidth > it.clientWidth + 1);
root.scrolled = wide.length;
root.marked = wide.filter((it) => getComputedStyle(it).backgroundAttachment === "local, scroll").length;
root.column = Math.max(...wide.map((it) => it.querySelector("tbody th").offsetWidth / it.clientWidth));
root.used = Math.min(...[...rows.values()].map(([left, right, width]) => (right - left) / width)).toFixed(2);
root.seen = seen; root.clipped = clipped; root.over = over; root.smallest = smallest.toFixed(1);
root.wide = document.documentElement.scrollWidth - innerWidth;
root.fill = getComputedStyle(document.querySelector("svg.panel text") ?? document.body).fill;
</script>"#;

struct Visit {
    dom: String,
    console: Vec<String>,
    requests: Vec<String>,
}

/// Opens a page from disk with an empty profile and the network log on.
fn visit(dir: &Path, page: &str, width: u32) -> Visit {
    let file = dir.join("page.html");
    fs::write(&file, page).expect("a writable directory");
    let log = dir.join("net-log.json");
    let output = Command::new(browser())
        .args(QUIET)
        .args(["--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--window-size={width},900"))
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("--log-net-log={}", log.display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("Chromium starts");
    let console = String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .map(str::to_owned)
        .collect();
    let log = fs::read_to_string(log).expect("Chromium writes its network log");
    let log: serde_json::Value = serde_json::from_str(&log).expect("the log is whole");
    // Chromium asks its maker for things of its own accord: these requests have no page as their
    // initiator, and the log says so.
    let requests = log["events"]
        .as_array()
        .expect("the log has events")
        .iter()
        .map(|event| &event["params"])
        .filter(|params| {
            params["initiator"]
                .as_str()
                .is_some_and(|by| by != "not an origin")
        })
        .filter_map(|params| params["url"].as_str())
        .filter(|url| !url.starts_with("file:") && !url.starts_with("data:"))
        .map(str::to_owned)
        .collect();
    Visit {
        dom: String::from_utf8_lossy(&output.stdout).into_owned(),
        console,
        requests,
    }
}

fn probed(data: &RunData) -> String {
    let page = html::render(data, &summarise(data)).expect("the page is made");
    page.replace("</body>", &format!("{PROBE}</body>"))
}

fn attribute(dom: &str, name: &str) -> f64 {
    let text = dom
        .split(&format!("data-{name}=\""))
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    text.unwrap_or_else(|| panic!("the probe did not write `{name}`"))
        .parse()
        .unwrap_or_else(|error| panic!("`{name}`: {error}"))
}

/// Checks that the page opens from disk without error or request, and everything can be read.
#[track_caller]
fn opens(width: u32) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = common::full();
    let panels = probed(&data).matches("<svg class=\"panel\"").count();
    assert!(panels >= 20, "{panels}");
    let visit = visit(dir.path(), &probed(&data), width);
    assert!(visit.console.is_empty(), "{width}: {:?}", visit.console);
    assert!(visit.requests.is_empty(), "{width}: {:?}", visit.requests);
    assert!(visit.dom.contains("Fastest: "));
    assert_eq!(attribute(&visit.dom, "seen") as usize, panels, "{width}");
    assert_eq!(
        attribute(&visit.dom, "clipped"),
        0.0,
        "text outside its panel at {width}"
    );
    assert_eq!(
        attribute(&visit.dom, "over"),
        0.0,
        "text over text at {width}"
    );
    assert!(attribute(&visit.dom, "smallest") >= 8.5, "{width}");
    assert!(
        attribute(&visit.dom, "wide") <= 0.0,
        "the page scrolls sideways at {width}"
    );
    assert!(
        visit.dom.contains("data-fill=\"rgb("),
        "the inks have values"
    );
}

#[test]
fn the_page_opens_in_a_wide_window() {
    opens(1280);
}

#[test]
fn the_page_opens_in_a_narrow_window() {
    opens(500);
}

/// Tables that are wider than a phone scroll, show that they do, and leave room beside their first column.
#[test]
fn tables_on_a_phone_show_that_they_scroll() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let visit = visit(dir.path(), &probed(&common::full()), 390);
    let scrolled = attribute(&visit.dom, "scrolled");
    assert!(scrolled >= 2.0, "{scrolled}");
    assert_eq!(attribute(&visit.dom, "marked"), scrolled);
    assert!(attribute(&visit.dom, "column") < 0.45);
    assert!(attribute(&visit.dom, "wide") <= 0.0);
}

#[test]
fn a_hostile_run_does_no_harm() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let visit = visit(dir.path(), &probed(&common::hostile()), 1280);
    assert!(visit.console.is_empty(), "{:?}", visit.console);
    assert!(visit.requests.is_empty(), "{:?}", visit.requests);
    assert_eq!(attribute(&visit.dom, "clipped"), 0.0);
}

/// Checks that figures of one condition, with one panel each, leave no half of a wide page empty.
#[test]
fn figures_of_one_panel_use_the_width() {
    let mut data = common::full();
    data.header.study.conditions.truncate(1);
    data.trials.retain(|trial| trial.condition == "baseline");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let visit = visit(dir.path(), &probed(&data), 1200);
    assert!(visit.dom.contains("class=\"half\""));
    assert!(visit.dom.contains("class=\"alone\""));
    let used = attribute(&visit.dom, "used");
    assert!(used >= 0.9, "{used}");
    assert_eq!(attribute(&visit.dom, "clipped"), 0.0);
}

/// Checks that the two tests above would see an error and a request if there were any.
#[test]
fn errors_and_requests_are_detected() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let bad =
        "<!doctype html><img src=\"http://127.0.0.1:9/x.png\"><script>nothing.here()</script>";
    let visit = visit(dir.path(), bad, 800);
    assert!(
        visit
            .console
            .iter()
            .any(|line| line.contains("nothing is not defined")),
        "{:?}",
        visit.console
    );
    assert!(
        visit
            .requests
            .iter()
            .any(|url| url == "http://127.0.0.1:9/x.png"),
        "{:?}",
        visit.requests
    );
}

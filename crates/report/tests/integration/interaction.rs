//! Tests of the pages' script in headless Chromium: values, switches, zoom, sorting, themes, and the page without it.
//!
//! Needs Debian's package `chromium-headless-shell`, which `make test` installs.

use regatta_model::{
    HostSample, HostSamples,
    host_sample::ELAPSED,
    metric::{self, id},
};
use regatta_report::{HostTimeline, compare::compare, format::Scale, html, summarise, timeline};
use serde_json::json;

use crate::{common, devtools::Tab};

const WIDE: [u32; 2] = [1280, 900];
const PHONE: [u32; 2] = [400, 800];

/// Figure of the means of goodput.
const MEANS: &str = "document.querySelector('#figure-mean-goodput-bps svg')";
/// Figure of goodput over time.
const OVER_TIME: &str = "document.querySelector('#figure-time-goodput-bps svg')";
const TIP: &str = "document.getElementById('tip').innerText";

fn page() -> String {
    let data = common::full();
    html::render(&data, &summarise(&data)).expect("the page is made")
}

/// Returns the first number of a text.
fn number(text: &str) -> f64 {
    let number: String = text
        .chars()
        .skip_while(|c| !c.is_ascii_digit())
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    number
        .parse()
        .unwrap_or_else(|error| panic!("`{text}`: {error}"))
}

#[test]
fn a_pointer_shows_the_value_of_the_summary() {
    let mut tab = Tab::open(&page(), WIDE);
    let data = common::full();
    let summary = summarise(&data);
    let unit = metric::find(id::GOODPUT_BPS).expect("a metric").unit;
    let mut seen = 0;
    for (position, row) in ["tcp", "quic-quinn", "udp"].into_iter().enumerate() {
        let condition = tab.text(&format!("{MEANS}.dataset.c"));
        let cell = summary.cells.iter();
        let cell = cell
            .filter(|cell| cell.condition == condition && cell.transport == row)
            .find(|cell| cell.metrics.contains_key(id::GOODPUT_BPS));
        let Some(cell) = cell else { continue };
        let (value, interval) = cell.shown(id::GOODPUT_BPS).expect("a mean");
        tab.hover(&format!(
            "{MEANS}.querySelector('g.value[data-s=\"{row}\"]')"
        ));
        let tip = tab.text(TIP);
        let lines: Vec<&str> = tip.lines().collect();
        let scale = Scale::for_largest(unit, value);
        assert!(
            lines[0].starts_with(&format!("{row}: ")),
            "{position}: {tip}"
        );
        let shown = number(lines[0].split(": ").nth(1).expect("a value"));
        assert!(
            (shown / scale.apply(value) - 1.0).abs() < 0.006,
            "{tip}: {value}"
        );
        assert!(lines[0].ends_with(scale.unit), "{tip}");
        let [low, high] = interval.expect("an interval").map(|end| scale.text(end));
        let n = cell.metrics[id::GOODPUT_BPS].n;
        assert_eq!(lines[1], format!("95 % interval [{low}, {high}], n = {n}"));
        seen += 1;
    }
    assert!(seen >= 2, "{seen} rows were checked");
    tab.is_quiet();
}

#[test]
fn keys_visit_the_values_of_a_figure() {
    let mut tab = Tab::open(&page(), WIDE);
    tab.eval(&format!("{MEANS}.focus()"));
    tab.press("Home", "");
    let mut seen = vec![tab.text(TIP)];
    for _ in 0..20 {
        tab.press("ArrowDown", "");
        let tip = tab.text(TIP);
        if seen.last() == Some(&tip) {
            break;
        }
        seen.push(tip);
    }
    let rows = tab.number(&format!("{MEANS}.querySelectorAll('g.value').length"));
    assert_eq!(seen.len() as f64, rows, "{seen:?}");
    tab.press("Escape", "");
    assert_eq!(tab.eval("document.getElementById('tip').hidden"), true);
    tab.is_quiet();
}

#[test]
fn a_pointer_shows_all_lines_at_a_time() {
    let mut tab = Tab::open(&page(), WIDE);
    tab.hover(OVER_TIME);
    let tip = tab.text(TIP);
    let lines = tab.number(&format!("{OVER_TIME}.querySelectorAll('g.line').length"));
    let with_interval = tip.lines().filter(|line| line.contains(", n = ")).count();
    assert!(
        tip.starts_with("time since the first connect call, s: "),
        "{tip}"
    );
    assert!(tip.contains("goodput, Mbit/s"), "{tip}");
    assert!(with_interval >= 1 && with_interval as f64 <= lines, "{tip}");
    tab.is_quiet();
}

#[test]
fn only_switched_off_items_disappear() {
    let mut tab = Tab::open(&page(), WIDE);
    let visible = |tab: &mut Tab, of: &str| {
        tab.number(&format!(
            "[...document.querySelectorAll('main {of}')].filter((it) => it.getClientRects().length).length"
        ))
    };
    let (tcp, quic) = ("[data-s=\"tcp\"]", "[data-s=\"quic-quinn\"]");
    let (lossy, baseline) = ("[data-c=\"loss-5\"]", "[data-c=\"baseline\"]");
    tab.eval("document.getElementById('shown').open = true");
    let before = [tcp, quic, lossy, baseline].map(|of| visible(&mut tab, of));
    assert!(before.iter().all(|count| *count > 4.0), "{before:?}");

    tab.click("document.querySelector('#shown input[value=\"tcp\"]')");
    assert_eq!(visible(&mut tab, tcp), 0.0);
    assert_eq!(visible(&mut tab, quic), before[1]);
    let text = tab.text("document.getElementById('left-out').textContent");
    assert_eq!(text, ", without tcp");

    // By keyboard.
    tab.eval("document.querySelector('#shown input[value=\"loss-5\"]').focus()");
    tab.press(" ", " ");
    assert_eq!(visible(&mut tab, lossy), 0.0);
    assert!(visible(&mut tab, baseline) > 4.0);

    for set in ["s", "c"] {
        tab.click(&format!(
            "document.querySelector('[data-of={set}] [data-all=\"1\"]')"
        ));
    }
    let after = [tcp, quic, lossy, baseline].map(|of| visible(&mut tab, of));
    assert_eq!(after, before);
    tab.is_quiet();
}

#[test]
fn headings_sort_their_columns() {
    let mut tab = Tab::open(&page(), WIDE);
    let column = "[...[...document.querySelectorAll('table')].find((it) => it.caption?.textContent.startsWith('Geometric means')).tBodies[0].rows].map((row) => parseFloat(row.cells[2].textContent))";
    let button = "[...document.querySelectorAll('table')].find((it) => it.caption?.textContent.startsWith('Geometric means')).tHead.rows[0].cells[2].firstChild";
    let values = |tab: &mut Tab| -> Vec<f64> {
        let values = tab.eval(column);
        let values = values.as_array().expect("a list").iter();
        values.filter_map(serde_json::Value::as_f64).collect()
    };
    let sorted = |tab: &mut Tab| tab.eval(&format!("{button}.parentElement.ariaSort"));
    let original = values(&mut tab);
    let mut expected = original.clone();
    expected.sort_by(f64::total_cmp);
    assert!(expected.len() >= 3, "{expected:?}");
    tab.click(button);
    assert_eq!(values(&mut tab), expected);
    assert_eq!(sorted(&mut tab), "ascending");
    expected.reverse();
    // By keyboard.
    tab.eval(&format!("{button}.focus()"));
    tab.press("Enter", "\r");
    assert_eq!(values(&mut tab), expected);
    assert_eq!(sorted(&mut tab), "descending");
    tab.click(button);
    assert_eq!(values(&mut tab), original);
    assert_eq!(sorted(&mut tab), json!(null));
    tab.is_quiet();
}

#[test]
fn a_time_series_zooms_by_pointer_and_by_keys() {
    let mut tab = Tab::open(&page(), WIDE);
    let ticks = format!(
        "[...{OVER_TIME}.querySelectorAll('.x-ticks text')].map((it) => it.textContent).join(' ')"
    );
    let line = format!("{OVER_TIME}.querySelector('g.line polyline').getAttribute('points')");
    let zoomed = "document.querySelectorAll('.zoomed').length";
    let panels = tab.number(&format!(
        "{OVER_TIME}.closest('figure').querySelectorAll('svg').length"
    ));
    let (all_ticks, complete) = (tab.text(&ticks), tab.text(&line));
    let [x, y] = tab.middle(OVER_TIME);
    tab.mouse("mouseMoved", [x - 40.0, y]);
    tab.mouse("mousePressed", [x - 40.0, y]);
    tab.mouse("mouseMoved", [x, y]);
    tab.mouse("mouseReleased", [x, y]);
    assert_eq!(tab.number(zoomed), panels, "all panels of the figure zoom");
    assert_eq!(
        tab.text("String(getSelection())"),
        "",
        "no label is selected"
    );
    assert_ne!(tab.text(&ticks), all_ticks);
    assert_ne!(tab.text(&line), complete);
    tab.click("document.querySelector('.reset')");
    assert_eq!(tab.number(zoomed), 0.0);
    assert_eq!(tab.text(&ticks), all_ticks);

    tab.eval(&format!("{OVER_TIME}.focus()"));
    tab.press("+", "+");
    assert_eq!(tab.number(zoomed), panels);
    tab.press("0", "0");
    assert_eq!(tab.number(zoomed), 0.0);
    let [x, y] = tab.middle(OVER_TIME);
    let wheel = json!({ "type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": -120 });
    tab.call("Input.dispatchMouseEvent", wheel);
    assert_eq!(tab.number(zoomed), panels, "the focused figure zooms");
    let moved = tab.text(&line);
    tab.press("0", "0");
    assert_ne!(tab.text(&line), moved);
    let first = |text: &str| number(text);
    assert!((first(&tab.text(&line)) - first(&complete)).abs() < 0.11);
    tab.is_quiet();
}

#[test]
fn a_theme_can_be_chosen() {
    let mut tab = Tab::open(&page(), WIDE);
    let paper = "getComputedStyle(document.documentElement).backgroundColor";
    let [white, black] = ["rgb(255, 255, 255)", "rgb(20, 23, 27)"];
    tab.emulate("", "dark");
    assert_eq!(tab.text(paper), black);
    tab.click("document.getElementById('theme')");
    assert_eq!(tab.text(paper), white);
    tab.emulate("", "light");
    assert_eq!(tab.text(paper), white);
    tab.click("document.getElementById('theme')");
    assert_eq!(tab.text(paper), black);
    tab.emulate("print", "dark");
    assert_eq!(tab.text(paper), white, "paper is white");
    tab.is_quiet();
}

#[test]
fn a_phone_does_not_scroll_sideways() {
    let mut tab = Tab::open(&page(), PHONE);
    assert_eq!(tab.number("innerWidth"), 400.0);
    let over = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(tab.number(over), 0.0);
    tab.eval("document.getElementById('shown').open = true");
    tab.hover(OVER_TIME);
    assert_eq!(tab.number(over), 0.0);
    let tip = tab.eval(
        "(({ left, right }) => left >= 0 && right <= 400)(document.getElementById('tip').getBoundingClientRect())",
    );
    assert_eq!(tip, true, "the values are within the window");
    tab.is_quiet();
}

#[test]
fn the_page_is_complete_without_its_script() {
    let mut tab = Tab::empty();
    tab.resize(WIDE);
    tab.call(
        "Emulation.setScriptExecutionDisabled",
        json!({ "value": true }),
    );
    let page = page();
    tab.load(&page);
    assert_eq!(
        tab.eval("document.querySelector('[role=application]')"),
        json!(null)
    );
    let hidden = |of: &str| {
        format!(
            "[...document.querySelectorAll('{of}')].filter((it) => !it.checkVisibility()).length"
        )
    };
    let panels = tab.number("document.querySelectorAll('svg.panel').length");
    assert_eq!(
        panels as usize,
        page.matches("<svg class=\"panel\"").count()
    );
    assert_eq!(tab.number(&hidden("svg.panel")), 0.0);
    assert_eq!(tab.number(&hidden("section > .scroll table")), 0.0);
    // Folded tables are unfolded by the browser.
    tab.click("document.querySelector('main details:not([hidden]) summary')");
    assert_eq!(
        tab.eval("document.querySelector('main details:not([hidden]) table').checkVisibility()"),
        true
    );
    // Values are shown by the browser, as titles.
    assert!(tab.number("document.querySelectorAll('g.value > title').length") > 10.0);
    // Controls that would do nothing are not there.
    assert_eq!(
        tab.eval("document.getElementById('theme').checkVisibility()"),
        false
    );
    assert_eq!(
        tab.eval("document.getElementById('shown').checkVisibility()"),
        false
    );
    // On paper, folded tables are unfolded.
    tab.emulate("print", "light");
    assert_eq!(tab.number(&hidden("main details:not([hidden]) table")), 0.0);
    tab.is_quiet();
}

#[test]
fn the_script_is_small_and_the_page_forbids_requests() {
    let page = page();
    let script = page.split("<script>").nth(1).expect("a script");
    let script = script.split("</script>").next().expect("its end");
    assert!(script.len() < 50_000, "{} bytes", script.len());
    assert!(page.contains("content=\"default-src 'none'; script-src 'unsafe-inline'"));
    let mut tab = Tab::open(&page, WIDE);
    let refused = tab.eval("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')");
    assert_eq!(refused, "refused");
}

/// Returns samples of a host over a minute.
fn samples() -> Vec<HostTimeline> {
    let sample = |second: i64| HostSample {
        unix_ns: second * 1_000_000_000,
        monotonic_ns: 0,
        values: vec![Some(1e9), Some((second * second) as f32)],
    };
    let mut hosts = Vec::new();
    let batch = HostSamples {
        host: "sender".into(),
        trial: None,
        names: vec![ELAPSED.into(), "load.runnable_tasks".into()],
        samples: (1..60).map(sample).collect(),
    };
    timeline::add(&mut hosts, &batch);
    hosts
}

/// Checks that a page shows values, zooms or not, and fits a phone.
#[track_caller]
fn is_like_the_report(page: &str, zooms: bool) {
    let mut tab = Tab::open(page, WIDE);
    let panel = "document.querySelector('svg.panel')";
    tab.eval(&format!("{panel}.focus()"));
    tab.press("ArrowRight", "");
    assert!(tab.text(TIP).contains(": "), "{}", tab.text(TIP));
    tab.press("+", "+");
    let zoomed = tab.number("document.querySelectorAll('.zoomed').length");
    assert_eq!(zoomed > 0.0, zooms);
    tab.click("document.getElementById('theme')");
    assert_eq!(tab.text("document.documentElement.dataset.theme"), "dark");
    tab.resize(PHONE);
    let over = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(tab.number(over), 0.0);
    tab.is_quiet();
}

#[test]
fn the_page_of_a_monitor_is_like_the_report() {
    let page = html::monitor::render(&samples()).expect("the page is made");
    is_like_the_report(&page, true);
}

#[test]
fn the_page_of_a_comparison_is_like_the_report() {
    let mut other = common::full();
    other.header.run_id = "another".to_owned();
    let runs = [common::full(), other].map(|data| (data.header.run_id.clone(), data));
    let comparison = compare(&runs, None).expect("the runs can be compared");
    let page = html::compare::render(&comparison).expect("the page is made");
    is_like_the_report(&page, false);
    let mut tab = Tab::open(&page, WIDE);
    tab.eval("document.getElementById('shown').open = true");
    tab.click("document.querySelector('#shown input[value=\"udp\"]')");
    let visible_elements = "[...document.querySelectorAll('main [data-s=\"udp\"]')].filter((it) => it.getClientRects().length).length";
    assert_eq!(tab.number(visible_elements), 0.0);
    tab.is_quiet();
}

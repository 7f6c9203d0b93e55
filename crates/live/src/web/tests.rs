//! The page in headless Chromium, without a server.
//!
//! Needs Debian's package `chromium-headless-shell`, which `make test` installs.

use std::{fs, process::Command};

use crate::{
    model::{Activity, LiveRun, Update},
    tests::under_way,
};

/// Replaces the connection to the server.
const SOURCE: &str = "<script>window.EventSource = class {
  constructor() { window.source = this; this.listeners = {}; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
};</script>";

/// Measures the page after it has received the state.
const MEASURE: &str = "const root = document.documentElement;
root.dataset.wide = root.scrollWidth - root.clientWidth;
root.dataset.graph = getComputedStyle(document.getElementById('history')).display;";

/// Returns the document of the page that shows this state in a narrow window.
fn shown(run: &LiveRun) -> String {
    let event = |name: &str, update: Update| {
        let state = serde_json::to_string(&update).expect("a state");
        let data = serde_json::to_string(&state).expect("a text");
        let data = data.replace('<', "\\u003c");
        format!("source.listeners.{name}({{ data: {data} }});\n")
    };
    let now = event("now", Update::Now(run.now.clone()));
    let cells = event("cells", Update::Cells(run.cells.clone()));
    let style = format!("<style>{}</style>", include_str!("live.css"));
    let script = include_str!("live.js");
    let scripts =
        format!("{SOURCE}<script>{script}</script><script>{now}{cells}{MEASURE}</script></body>");
    let page = include_str!("index.html")
        .replace("<link rel=\"stylesheet\" href=\"live.css\">", &style)
        .replace("<script src=\"live.js\" defer></script>", "")
        .replace("</body>", &scripts);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("page.html");
    fs::write(&file, page).expect("a writable directory");
    let names = [
        "chromium-headless-shell",
        "chromium",
        "chromium-browser",
        "google-chrome",
    ];
    let output = names.iter().find_map(|browser| {
        Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
            .args(["--no-first-run", "--disable-background-networking"])
            .arg("--window-size=500,900")
            .arg(format!("--user-data-dir={}", dir.path().display()))
            .arg(format!("file://{}", file.display()))
            .output()
            .ok()
    });
    let output = output.expect("Chromium is needed: run `apt-get install chromium-headless-shell`");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn page_has_intervals_of_the_terminal_and_fits_a_phone() {
    let mut run = under_way().run;
    let long = "tcp:cc=cubic:send_buffer=4MiB:receive_buffer=1MiB";
    run.cells[0].transport = long.into();
    run.cells[0].value = Some(4.06e6);
    run.cells[0].interval = Some([1.0, 1e30]);
    let page = shown(&run);
    for text in [
        "[&lt; 0.005, &gt; 4000]",
        "95 % interval",
        long,
        "40.0 Mbit/s",
    ] {
        assert!(page.contains(text), "`{text}` is not in\n{page}");
    }
    assert!(page.contains("data-wide=\"0\""), "{page}");
    assert!(page.contains("data-graph=\"inline\""), "{page}");
}

#[test]
fn trial_without_figures_has_no_empty_graph() {
    let mut run = under_way().run;
    run.now.activity = Activity::Trial(Box::default());
    let page = shown(&run);
    assert!(page.contains("data-graph=\"none\""), "{page}");
    assert!(page.contains("no figures yet"), "{page}");
}

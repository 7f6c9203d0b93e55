//! The page in headless Chromium, without a server.
//!
//! Needs Debian's package `chromium-headless-shell`, which `make test` installs.

use std::{fs, process::Command, time::Duration};

use regatta_engine::Event;
use regatta_report::RunState;

use super::*;
use crate::{
    model::{LiveRun, Update},
    shared::Pages,
    tests::{QUOTED, started, trial, under_way},
};

/// Replaces the connection to the server.
const SOURCE: &str = "<script>window.EventSource = class {
  constructor() { window.source = this; this.listeners = {}; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  close() {}
};
window.fetch = async (path) => ({
  ok: true, text: async () => path,
  json: async () => ({ trials: 4, sentences: [\"Fastest: `tcp`, by 40 %.\", \"Under `near`: more.\"] }),
});</script>";

/// Measures the page after it has received the state.
const MEASURE: &str = "const root = document.documentElement;
root.dataset.wide = root.scrollWidth - root.clientWidth;
const first = document.querySelector('tbody td').getBoundingClientRect();
root.dataset.first = first.left >= 0 && first.right <= innerWidth;
root.dataset.points = document.querySelectorAll('tbody circle').length;
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
    let palette = regatta_report::html::palette();
    let style = format!("<style>{palette}{}</style>", include_str!("live.css"));
    let script = include_str!("live.js");
    let scripts =
        format!("{SOURCE}<script>{script}</script><script>{now}{cells}{MEASURE}</script></body>");
    let page = include_str!("index.html")
        .replace("<link rel=\"stylesheet\" href=\"palette.css\">\n", "")
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
            .arg("--window-size=390,844")
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
        "95 % intervals",
        long,
        "40.0 Mbit/s",
    ] {
        assert!(page.contains(text), "`{text}` is not in\n{page}");
    }
    assert!(page.contains("data-wide=\"0\""), "{page}");
    assert!(page.contains("data-first=\"true\""), "{page}");
    assert!(page.contains("data-graph=\"inline\""), "{page}");
}

#[test]
fn page_begins_with_the_answer_and_has_a_point_for_each_trial() {
    let page = shown(&under_way().run);
    let places = [
        "Answer so far, from 4 of 6 trials",
        "Fastest: <code>tcp</code>, by 40 %.",
        "4 of 6 trials done",
        "<caption>near</caption>",
    ]
    .map(|text| {
        page.find(text)
            .unwrap_or_else(|| panic!("no `{text}` in\n{page}"))
    });
    assert!(places.is_sorted(), "{places:?}");
    // The goodput is the first column after the transport.
    assert!(page.contains("<td><b>42.0</b>"), "{page}");
    assert!(page.contains("data-points=\"4\""), "{page}");
}

#[test]
fn page_of_a_run_that_has_ended_opens_the_report() {
    let mut run = under_way().run;
    run.now.activity = Activity::Ended {
        complete: true,
        reason: String::new(),
    };
    let page = shown(&run);
    assert!(
        page.contains("<h2 id=\"answer-heading\">Answer</h2>"),
        "{page}"
    );
    assert!(page.contains(">Open the report</a>"), "{page}");
    assert!(
        page.contains("The report is report.html in regatta-results/two."),
        "{page}"
    );
}

/// Returns a page of a run with two rounds, which has ended or not.
fn page(is_over: bool) -> Page {
    let crate::model::LiveRun { mut now, .. } = under_way().run;
    if is_over {
        now.activity = Activity::Ended {
            complete: true,
            reason: String::new(),
        };
    }
    let load = || {
        let Event::RunStarted { header, .. } = started() else {
            return Err("no header".to_owned());
        };
        let rates = [[40e6, 30e6], [44e6, 31e6], [42e6, 30.5e6]];
        let trials = rates.iter().enumerate().flat_map(|(round, rates)| {
            let round = round as u32;
            ["tcp", QUOTED]
                .iter()
                .zip(rates)
                .map(move |(label, rate)| trial(round, 1, label, Some(*rate)))
        });
        Ok(RunData {
            header: *header,
            trials: trials.collect(),
            repeated: Vec::new(),
            path_checks: Vec::new(),
            warnings: Vec::new(),
            hosts: Vec::new(),
            nodes: Default::default(),
            state: RunState::Complete,
        })
    };
    let shared = Shared::new(Box::new(load));
    shared.run().now = now;
    Page {
        access: Access::new("127.0.0.1:1".parse().expect("an address")),
        shared: Arc::new(shared),
        report: Arc::default(),
    }
}

/// Returns header and body of the response to a request.
fn response(page: &Page, name: &str) -> (String, String) {
    let path = format!("/{}/{name}", page.access.token);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let response = runtime.block_on(page.clone().respond(&path));
    let header = format!("{:?}", response.headers());
    let Body::Text(Some(body)) = response.into_body() else {
        panic!("no text: {header}");
    };
    (header, String::from_utf8(body.to_vec()).expect("UTF-8"))
}

#[test]
fn answer_has_the_sentences_of_the_report() {
    let page = page(false);
    let (_, answer) = response(&page, "answer");
    let summary = regatta_report::summarise(&page.shared.load().expect("a run"));
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(answer["trials"], 6);
    assert_eq!(answer["sentences"][0], summary.verdict.headline[0].as_str());
    assert_eq!(
        answer["sentences"][summary.verdict.headline.len()],
        summary.verdict.conditions[0].text.as_str()
    );
}

#[test]
fn browser_keeps_the_report_of_a_run_that_has_ended_and_no_other() {
    for (is_over, kept) in [(false, false), (true, true)] {
        let (header, report) = response(&page(is_over), "report");
        assert!(report.contains("Two transports"), "{report}");
        assert_eq!(header.contains("max-age=86400"), kept, "{header}");
        assert!(header.contains("sandbox allow-scripts"), "{header}");
    }
}

#[test]
fn server_waits_while_the_report_is_made_and_until_the_page_has_it() {
    /// Many times as long as a page that asks for nothing is waited for.
    const MAKING: Duration = Duration::from_millis(200);
    const ASK_TIMEOUT: Duration = Duration::from_millis(20);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.expect("a runtime");
    for receives in [true, false] {
        runtime.block_on(async {
            let pages = Arc::<Pages>::default();
            let request = pages.request();
            let mut waiting = std::pin::pin!(pages.wait_for(1, ASK_TIMEOUT));
            let early = tokio::time::timeout(MAKING, &mut waiting).await;
            assert!(early.is_err(), "the request is under way");
            if receives {
                pages.receive();
            }
            drop(request);
            waiting.await;
        });
    }
}

#[test]
fn trial_without_figures_has_no_empty_graph() {
    let mut run = under_way().run;
    run.now.activity = Activity::Trial(Box::default());
    let page = shown(&run);
    assert!(page.contains("data-graph=\"none\""), "{page}");
    assert!(page.contains("no figures yet"), "{page}");
}

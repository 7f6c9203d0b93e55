//! Tests of the page on paper, as headless Chromium prints it.
//!
//! Needs Debian's packages `chromium-headless-shell` and `poppler-utils`, which `make test` installs.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use regatta_report::{html, summarise};
use serde_json::json;

use crate::{common, devtools::Tab};

/// Words at the end of each table's heading, and at the beginning of each of its rows. White, so that they are only there
/// for who reads the text of the page.
const MARKED: &str = r#"
for (const table of document.querySelectorAll("table")) {
  const mark = (element, word) => element?.insertAdjacentHTML("beforeend", ` <small>${word}</small>`);
  mark(table.tHead?.rows[0]?.cells[0], "TABLEHEAD");
  for (const row of table.tBodies[0].rows) mark(row.cells[0], "TABLEROW");
}
for (const heading of document.querySelectorAll("main h2, main h3, main caption")) heading.insertAdjacentHTML("beforeend", " <small>HEADING</small>");
"#;

/// Prints the page in headless Chromium on paper of some height, in inches; returns the text of each of its pages.
fn printed(tab: &mut Tab, height: f64) -> Vec<String> {
    let params = json!({ "paperWidth": 8.3, "paperHeight": height, "preferCSSPageSize": false });
    let pdf = tab.call("Page.printToPDF", params);
    let pdf = STANDARD.decode(pdf["data"].as_str().expect("a document"));
    let pdf = pdf.expect("base64");
    let text = common::paper::run("pdftotext", &pdf, &["-layout", "-"]);
    text.split('\u{c}').map(str::to_owned).collect()
}

/// Checks that no page ends with the heading of a table whose rows are on the next one, at several heights of the paper:
/// each has its own breaks.
#[test]
fn no_heading_is_alone_at_the_foot_of_a_page() {
    let data = common::full();
    let page = html::render(&data, &summarise(&data)).expect("the page is made");
    let mut tab = Tab::open(&page, [1280, 900]);
    tab.eval(MARKED);
    let mut pages = 0;
    for height in [8.0, 9.25, 10.5, 11.75] {
        for (number, text) in printed(&mut tab, height).iter().enumerate() {
            pages += 1;
            let last = ["HEADING", "TABLEHEAD", "TABLEROW"].map(|word| text.rfind(word));
            let [heading, head, row] = last;
            let of_table = head.max(row).max(heading);
            assert!(
                head.is_none() || of_table != head,
                "height {height}, page {}: {text}",
                number + 1
            );
            // A heading has at least a line of something after it.
            let after = heading.map(|at| &text[at + "HEADING".len()..]);
            assert!(
                after.is_none_or(|after| !after.trim().is_empty()),
                "height {height}, page {}: {text}",
                number + 1
            );
        }
    }
    assert!(pages > 4 * 10, "{pages}");
}

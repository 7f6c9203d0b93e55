//! Kernel of a publication beside that of the run.

use regatta_report::{html, summarise};

use crate::common;

/// Returns the page of a run on Linux 6.18 whose study names the kernel of its publication.
fn page(release: &str, of: Option<&str>) -> String {
    let mut data = common::full();
    let source = data.header.study.source.as_mut().expect("a publication");
    source.kernel = Some(release.to_owned());
    source.kernel_of = of.map(str::to_owned);
    html::render(&data, &summarise(&data)).expect("the page is made")
}

#[test]
fn defaults_that_a_newer_kernel_has_changed_are_a_difference() {
    let page = page("5.15.0-105-generic", Some("Ubuntu 22.04 LTS"));
    for part in [
        "had Linux 5.15.0-105-generic, that of Ubuntu 22.04 LTS; here Linux 6.18.0 ran",
        "these differ: segments that TCP hands over together: 1 ms of the rate then, 1 ms of the rate, more",
        "one for all here. Alike are the others (initial window: 10 packets; slow start of CUBIC: HyStart;",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_kernel_with_the_same_defaults_is_named_as_such() {
    let page = page("6.8", None);
    let text = "had Linux 6.8; here Linux 6.18.0 ran. The defaults that move figures are alike (";
    assert!(page.contains(text));
}

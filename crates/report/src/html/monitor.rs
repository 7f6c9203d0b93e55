//! `monitor.html`: the figures of hosts that were monitored without a run.

use minijinja::{AutoEscape, Environment, value::Serde};
use regatta_model::shell::printable;
use serde::Serialize;

use super::figures::{self, Figure};
use crate::{ReportError, format, timeline::HostTimeline};

/// Renders the page.
///
/// # Errors
/// [`ReportError::Page`] if the template does not fit its data: a fault of this crate.
pub fn render(hosts: &[HostTimeline]) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_template("monitor.html", include_str!("monitor.html"))?;
    let began = hosts.iter().map(|host| host.origin_unix_ns).min();
    let page = Page {
        style: include_str!("style.css"),
        version: env!("CARGO_PKG_VERSION"),
        started: began.map_or_else(String::new, format::moment),
        hosts: (hosts.iter())
            .map(|host| HostText {
                name: &host.host,
                text: host.in_words(),
            })
            .collect(),
        figures: figures::hosts::draw(hosts, None),
    };
    let page = environment
        .get_template("monitor.html")?
        .render(Serde(&page))?;
    Ok(printable(&page))
}

/// Data of the template.
#[derive(Serialize)]
struct Page<'a> {
    style: &'static str,
    version: &'static str,
    started: String,
    hosts: Vec<HostText<'a>>,
    figures: Vec<Figure>,
}

/// Description of a host.
#[derive(Serialize)]
struct HostText<'a> {
    name: &'a str,
    text: String,
}

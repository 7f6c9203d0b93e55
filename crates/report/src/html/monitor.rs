//! `monitor.html`: the figures of hosts that were monitored without a run.

use minijinja::{
    context,
    value::{Serde, Value},
};

use super::figures;
use crate::{ReportError, format, timeline::HostTimeline};

/// Renders the page.
///
/// # Errors
/// [`ReportError::Page`] if the template does not fit its data: a fault of this crate.
pub fn render(hosts: &[HostTimeline]) -> Result<String, ReportError> {
    let began = hosts.iter().map(|host| host.origin_unix_ns).min();
    let page = context! {
        shown => Serde(super::Shown::new([], [])),
        version => env!("CARGO_PKG_VERSION"),
        started => began.map_or_else(String::new, format::moment),
        hosts => (hosts.iter())
            .map(|host| context! { name => &*host.host, text => host.text() })
            .collect::<Vec<Value>>(),
        figures => Serde(figures::hosts::draw(hosts, None)),
    };
    super::fill(include_str!("monitor.html"), page)
}

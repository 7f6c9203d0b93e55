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
    let mut drawn = figures::hosts::draw(hosts, None);
    let zero = figures::take_zeros(&mut drawn);
    let page = context! {
        zeros => figures::about_zeros(&zero),
        shown => Serde(super::Shown::new([], [])),
        version => env!("CARGO_PKG_VERSION"),
        started => began.map_or_else(String::new, format::moment),
        hosts => (hosts.iter())
            .map(|host| context! { name => &*host.host, text => host.text() })
            .collect::<Vec<Value>>(),
        figures => Serde(drawn),
    };
    super::fill(include_str!("monitor.html"), page)
}

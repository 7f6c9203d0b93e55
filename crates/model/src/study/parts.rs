//! The smaller sections of a study file: source, transport, published figure.

use std::{collections::BTreeMap, ops::Range};

use toml::de::DeValue;

use super::{
    OptionValue, Published, Source, Transport,
    error::Result,
    names::nearest,
    section::{Section, toml_text},
};
use crate::{
    condition::Condition,
    kernel::KernelVersion,
    metric::{self, METRICS, MetricDefinition, Unit},
    units::UnitError,
    workload::Workload,
};

/// Longest name or label, in characters.
pub const LONGEST_NAME: usize = 64;
pub(super) fn read_source(mut section: Section<'_>) -> Result<Source> {
    let (citation, _) = section.required_text("citation", "\"authors, title, journal\"")?;
    let doi = section.text("doi")?.map(|(text, _)| text);
    let kernel = section.text_such_as("kernel", "5.15")?;
    if let Some((release, span)) = &kernel
        && KernelVersion::of_release(release).is_none()
    {
        return Err(section.error(
            span.clone(),
            format!("`{release}` is not the release of a kernel"),
            "write it as `uname -r` does, such as `kernel = \"5.15\"`",
        ));
    }
    let kernel_of = section.text("kernel_of")?.map(|(system, _)| system);
    let differences = section.texts("differences")?;
    section.end()?;
    Ok(Source {
        citation,
        doi,
        kernel: kernel.map(|(release, _)| release),
        kernel_of,
        differences,
    })
}

/// Spans of the driver and the options of a transport in the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct TransportSpans {
    pub driver: Range<usize>,
    pub options: BTreeMap<String, Range<usize>>,
}

/// Reads a transport; returns it, the spans of its parts and that of its label.
pub(super) fn read_transport(
    mut section: Section<'_>,
) -> Result<(Transport, (TransportSpans, Range<usize>))> {
    let section_span = section.span();
    let (driver, driver_span) = section.required_text("driver", "\"tcp\"")?;
    let (label, label_span) = match section.text("label")? {
        Some((label, span)) => {
            section.visible("label", &label, span.clone())?;
            (label, span)
        }
        None => (driver.clone(), driver_span.clone()),
    };
    section.visible("driver", &driver, driver_span.clone())?;
    let mut spans = TransportSpans {
        driver: driver_span,
        options: BTreeMap::new(),
    };
    let mut options = BTreeMap::new();
    for (key, value) in section.rest() {
        let name = key.get_ref().to_string();
        let read = match value.get_ref() {
            DeValue::Boolean(flag) => Some(OptionValue::Flag(*flag)),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .ok()
                .map(OptionValue::Number),
            DeValue::String(text) => Some(OptionValue::Text(text.to_string())),
            _ => None,
        };
        let read = read.ok_or_else(|| {
            section.error(
                value.span(),
                format!("option `{name}` cannot have this value"),
                "an option is a text, a whole number, true or false",
            )
        })?;
        spans.options.insert(name.clone(), key.span());
        options.insert(name, read);
    }
    let label_span = if label_span.is_empty() {
        section_span
    } else {
        label_span
    };
    Ok((
        Transport {
            label,
            driver,
            options,
        },
        (spans, label_span),
    ))
}

pub(super) fn read_published(
    mut section: Section<'_>,
    conditions: &[Condition],
    workloads: &[Workload],
) -> Result<Published> {
    let (transport, _) = section.required_text("transport", "\"tcp\"")?;
    let names = conditions.iter().map(|known| known.name.as_str());
    let example = toml_text(names.clone().next().unwrap_or("baseline"));
    let condition = section.known_text("condition", "condition", names)?;
    let (condition, _) = section.required("condition", &example, condition)?;
    let names = workloads.iter().map(|known| known.name.as_str());
    let workload = section.known_text("workload", "workload", names)?;
    let workload = workload.map(|(name, _)| name);
    let metric = section.text_such_as("metric", "goodput_bps")?;
    let (metric, span) = section.required("metric", "\"goodput_bps\"", metric)?;
    let metric = known_metric(&section, &metric, span)?;
    let example = example_in(metric.unit);
    let value = section.quantity("value", example, |text| metric.unit.read(text))?;
    let (value, _) = section.required("value", &format!("\"{example}\""), value)?;
    let note = section.text("note")?.map(|(text, _)| text);
    let path_permits = section.flag("path_permits")?.map(|(flag, _)| flag);
    section.end()?;
    Ok(Published {
        transport,
        condition,
        workload,
        metric: metric.name.to_owned(),
        value,
        note,
        path_permits,
    })
}

/// Returns the metric of this name.
pub(super) fn known_metric(
    section: &Section<'_>,
    name: &str,
    span: Range<usize>,
) -> Result<&'static MetricDefinition> {
    find_metric(name).map_err(|error| section.error(span, error.message, error.hint))
}

/// Returns the metric of this name.
pub(super) fn find_metric(name: &str) -> Result<&'static MetricDefinition, UnitError> {
    metric::find(name).ok_or_else(|| {
        let names: Vec<&str> = METRICS.iter().map(|known| known.name).collect();
        let hint = match nearest(name, &names) {
            Some(near) => format!("did you mean `{near}`? `regatta list metrics` lists all"),
            None => "`regatta list metrics` lists all".to_owned(),
        };
        UnitError::new(format!("unknown metric `{name}`"), hint)
    })
}

/// Returns an example of a value in `unit`.
pub(super) const fn example_in(unit: Unit) -> &'static str {
    match unit {
        Unit::BitsPerSecond => "91.8Mbit/s",
        Unit::Nanoseconds => "52.6ms",
        Unit::Bytes => "10MB",
        Unit::Ratio => "20.4%",
        Unit::CoreRatio | Unit::Count | Unit::PerSecond | Unit::NanosecondsPerByte => "12",
    }
}

//! The smaller sections of a study file: source, transport, published figure.

use std::{collections::BTreeMap, ops::Range};

use toml::de::DeValue;

use super::{
    OptionValue, Published, Source, Transport, error::StudyError, names::nearest, section::Section,
};
use crate::{
    condition::Condition,
    metric::{self, METRICS, Unit},
    units::{BitRate, Bytes, Ratio, UnitError, parse_duration},
    workload::Workload,
};

/// Longest name or label, in characters.
pub const LONGEST_NAME: usize = 64;
pub(super) fn read_source(mut section: Section<'_>) -> Result<Source, StudyError> {
    let (citation, _) = section.required_text("citation", "\"authors, title, journal\"")?;
    let doi = section.text("doi")?.map(|(text, _)| text);
    let differences = section.texts("differences")?;
    section.end()?;
    Ok(Source {
        citation,
        doi,
        differences,
    })
}

/// Places of the driver and the options of a transport in the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct TransportPlace {
    pub driver: Range<usize>,
    pub options: BTreeMap<String, Range<usize>>,
}

/// Reads a transport; returns it, the places of its parts, and the place of its label.
pub(super) fn read_transport(
    mut section: Section<'_>,
) -> Result<(Transport, (TransportPlace, Range<usize>)), StudyError> {
    let whole = section.span();
    let (driver, driver_span) = section.required_text("driver", "\"tcp\"")?;
    let (label, label_span) = match section.text("label")? {
        Some((label, span)) => {
            section.visible("label", &label, span.clone())?;
            (label, span)
        }
        None => (driver.clone(), driver_span.clone()),
    };
    section.visible("driver", &driver, driver_span.clone())?;
    let mut place = TransportPlace {
        driver: driver_span,
        options: BTreeMap::new(),
    };
    let mut options = BTreeMap::new();
    for (key, value) in section.rest() {
        let read = match value.get_ref() {
            DeValue::Boolean(flag) => Some(OptionValue::Flag(*flag)),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .ok()
                .map(OptionValue::Number),
            DeValue::String(text) => Some(OptionValue::Text(text.to_string())),
            _ => None,
        };
        let Some(read) = read else {
            return Err(section.error(
                value.span(),
                format!("option `{}` cannot have this value", key.get_ref()),
                "an option is a text, a whole number, true or false",
            ));
        };
        place.options.insert(key.get_ref().to_string(), key.span());
        options.insert(key.get_ref().to_string(), read);
    }
    let label_span = if label_span.is_empty() {
        whole
    } else {
        label_span
    };
    Ok((
        Transport {
            label,
            driver,
            options,
        },
        (place, label_span),
    ))
}

pub(super) fn read_published(
    mut section: Section<'_>,
    conditions: &[Condition],
    workloads: &[Workload],
) -> Result<Published, StudyError> {
    let (transport, _) = section.required_text("transport", "\"tcp\"")?;
    let (condition, span) = section.required_text("condition", "\"baseline\"")?;
    let names: Vec<&str> = conditions.iter().map(|known| known.name.as_str()).collect();
    known(&section, "condition", &condition, span, &names)?;
    let workload = section.text("workload")?;
    if let Some((workload, span)) = &workload {
        let names: Vec<&str> = workloads.iter().map(|known| known.name.as_str()).collect();
        known(&section, "workload", workload, span.clone(), &names)?;
    }
    let workload = workload.map(|(name, _)| name);
    let (metric, span) = section.required_text("metric", "\"goodput_bps\"")?;
    let Some(definition) = metric::find(&metric) else {
        let names: Vec<&str> = METRICS.iter().map(|known| known.name).collect();
        let hint = match nearest(&metric, &names) {
            Some(near) => format!("did you mean `{near}`? `regatta list metrics` lists all"),
            None => "`regatta list metrics` lists all".to_owned(),
        };
        return Err(section.error(span, format!("unknown metric `{metric}`"), hint));
    };
    let (example, parse) = value_reader(definition.unit);
    let value = section
        .quantity("value", example, parse)?
        .map(|(value, _)| value);
    let value = section.required("value", &format!("\"{example}\""), value)?;
    let note = section.text("note")?.map(|(text, _)| text);
    let path_permits = section.flag("path_permits")?.map(|(flag, _)| flag);
    section.end()?;
    Ok(Published {
        transport,
        condition,
        workload,
        metric,
        value,
        note,
        path_permits,
    })
}

/// Checks that a study has a condition or workload of this name.
fn known(
    section: &Section<'_>,
    what: &str,
    name: &str,
    span: Range<usize>,
    names: &[&str],
) -> Result<(), StudyError> {
    if names.contains(&name) {
        return Ok(());
    }
    let hint = match nearest(name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("write one of: {}", names.join(", ")),
    };
    Err(section.error(span, format!("this study has no {what} `{name}`"), hint))
}

/// Reader of a value into a metric's unit.
type ReadValue = fn(&str) -> Result<f64, UnitError>;

/// Returns an example of a value in `unit`, and the reader of such values.
fn value_reader(unit: Unit) -> (&'static str, ReadValue) {
    match unit {
        Unit::BitsPerSecond => ("91.8Mbit/s", |text| {
            text.parse::<BitRate>().map(|value| value.0 as f64)
        }),
        Unit::Nanoseconds => ("52.6ms", |text| {
            parse_duration(text).map(|t| t.as_nanos() as f64)
        }),
        Unit::Bytes => ("10MB", |text| {
            text.parse::<Bytes>().map(|value| value.0 as f64)
        }),
        Unit::Ratio => ("20.4%", |text| text.parse::<Ratio>().map(|value| value.0)),
        Unit::CoreRatio | Unit::Count | Unit::PerSecond | Unit::NanosecondsPerByte => {
            ("12", |text| {
                text.trim()
                    .parse::<f64>()
                    .ok()
                    .filter(|value| value.is_finite())
                    .ok_or_else(|| UnitError {
                        message: format!("`{text}` is not a number"),
                        hint: "write a number in the metric's own unit".to_owned(),
                    })
            })
        }
    }
}

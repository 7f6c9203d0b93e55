//! Reader of `[[sweep]]`.

use std::{collections::BTreeSet, ops::Range};

use super::{
    Part, Spacing, Sweep, SweptValue, example,
    range::{self, measure_all, shown, texts},
};
use crate::{
    metric::Unit,
    named::Named as _,
    study::{
        error::Result,
        message::{message, setting},
        section::{Scalar, Section, refuse},
    },
};

/// Maximum number of values of one sweep.
const MAX_VALUES: u64 = 10_000;

/// Sweep with its spans in the file.
#[derive(Debug)]
pub(in crate::study) struct Written {
    /// The sweep.
    pub sweep: Sweep,
    /// Names of the entries that it applies to; all if empty.
    pub of: Vec<Scalar>,
    /// Span of the key.
    pub key_span: Range<usize>,
    /// Values as in a study, with their spans.
    pub values: Vec<Scalar>,
}

/// Reads all sweeps of a study, and checks that those which are zipped fit.
pub(in crate::study) fn read_sweeps(root: &mut Section<'_>) -> Result<Vec<Written>> {
    let mut sweeps: Vec<Written> = Vec::new();
    let free_key = example::free_key(root);
    let entry_lists = |part| example::entry_list(root, part);
    let lists = [Part::Transport, Part::Condition, Part::Workload].map(|it| (it, entry_lists(it)));
    for section in root.sections("sweep", "sweep")? {
        let section_span = section.span();
        let new = read(section, &free_key, &lists)?;
        for before in &sweeps {
            fit(root, before, &new, &section_span)?;
        }
        sweeps.push(new);
    }
    Ok(sweeps)
}

/// Checks that a sweep can stand beside an earlier one.
fn fit(
    root: &Section<'_>,
    before: &Written,
    new: &Written,
    section_span: &Range<usize>,
) -> Result<()> {
    let [first, second] = [&before.sweep, &new.sweep];
    let [first_key, second_key] = [first, second].map(Sweep::full_key);
    let shares = |name: &Scalar| before.of.iter().any(|other| other.shown == name.shown);
    let overlap = before.of.is_empty() || new.of.is_empty() || new.of.iter().any(shares);
    refuse! { root;
        (first.part, &first.key) == (second.part, &second.key) && overlap => new.key_span.clone(),
            "`{second_key}` is swept twice",
            "leave one of the two out, or give each its own entries with `of`";
    }
    if second.zip.is_none() || first.zip != second.zip {
        return Ok(());
    }
    let [one, other] = [first.values.len(), second.values.len()];
    refuse! { root;
        first.part != second.part => new.key_span.clone(),
            "`{first_key}` and `{second_key}` cannot be zipped: every transport runs under every condition with every workload",
            "leave `zip` out of one of them, which crosses the two";
        one != other => section_span.clone(),
            "`{second_key}` has {other} values and `{first_key}`, with which it is zipped, {one}",
            "give both the same number of values, or leave `zip` out to cross them";
    }
    Ok(())
}

/// Reads a sweep. For hints: `free_key` is a key that can be swept, and `lists` have an entry of each part.
fn read(mut section: Section<'_>, free_key: &str, lists: &[(Part, String)]) -> Result<Written> {
    let key = section.text_such_as("key", free_key.trim_matches('"'))?;
    let (key, span) = section.required("key", free_key, key)?;
    let (part, inner) = split_key(&section, &key, &span, free_key)?;
    let [first, second] = example::values(part, &inner);
    let list = format!("[{first}, {second}]");
    section.not_both("values", "from")?;
    let entry = lists.iter().find(|(of, _)| *of == part);
    let entry = entry.map_or("[]", |(_, entry)| entry);
    let of = section.scalars("of", entry)?.unwrap_or_default();
    let zip = section.text("zip")?.map(|(name, _)| name);
    let values = section.scalars("values", &list)?;
    let is_range = values.is_none();
    let scale = section.choice::<Spacing>("scale")?;
    let values = match values {
        Some(values) => values,
        None => read_range(&mut section, scale.unwrap_or_default(), [&first, &second])?,
    };
    section.end()?;
    let mut seen = BTreeSet::new();
    if let Some(again) = values
        .iter()
        .find(|value| !seen.insert(shown(&value.shown)))
    {
        let message = format!("`{}` is listed twice", again.shown);
        let hint = "leave one of the two out; `rounds` says how often each is run";
        return Err(section.error(again.span.clone(), message, hint));
    }
    refuse! { section;
        values.is_empty() || values.len() as u64 > MAX_VALUES => span,
            "a sweep has from 1 to {MAX_VALUES} values",
            ["write ", setting("values", &list), ", or `from`, `to` and `points`"];
    }
    let measured = measure_all(values.iter().map(|value| value.shown.as_str()));
    let scale = scale.unwrap_or_else(|| match &measured {
        Some((_, numbers)) if !is_range => natural_scale(numbers),
        _ => Spacing::Linear,
    });
    let numbers = measured.as_ref().map(|(_, numbers)| numbers);
    refuse! { section;
        scale == Spacing::Log && numbers.is_none_or(|all| all.iter().any(|value| *value <= 0.0)) => span,
            "a logarithmic sweep has quantities of one unit above zero",
            "leave `scale` out, or leave out the values that have no logarithm";
    }
    let sweep = Sweep {
        part,
        key: inner,
        unit: measured.as_ref().map(|(written, _)| match written {
            range::Written::Unit(unit) => *unit,
            range::Written::Number(_) => Unit::Count,
        }),
        scale,
        zip,
        values: (values.iter().enumerate())
            .map(|(position, value)| SweptValue {
                text: shown(&value.shown),
                value: numbers.and_then(|numbers| numbers.get(position)).copied(),
            })
            .collect(),
    };
    Ok(Written {
        sweep,
        of,
        key_span: span,
        values,
    })
}

/// Returns the scale on which listed values are shown: logarithmic if they are above zero and span
/// more than a factor of 20.
fn natural_scale(values: &[f64]) -> Spacing {
    let ends = |of: fn(f64, f64) -> f64| values.iter().copied().reduce(of).unwrap_or(0.0);
    let (low, high) = (ends(f64::min), ends(f64::max));
    if low > 0.0 && high / low > 20.0 && values.len() > 2 {
        Spacing::Log
    } else {
        Spacing::Linear
    }
}

/// Splits `condition.loss` into the part and the key within it.
fn split_key(
    section: &Section<'_>,
    key: &str,
    span: &Range<usize>,
    free_key: &str,
) -> Result<(Part, String)> {
    let example = || {
        let others = ", or another key such as `transport.cc` or `workload.size`";
        message!(["write ", setting("key", free_key), others])
    };
    let (part, inner) = key.split_once('.').unwrap_or((key, ""));
    let (message, hint) = match Part::from_name(part) {
        None => (
            format!("`{key}` is no key of a condition, a transport or a workload"),
            example(),
        ),
        Some(part) if inner.split('.').any(str::is_empty) => (
            format!("`{key}` names no key of the {}", part.as_str()),
            example(),
        ),
        Some(_) if matches!(inner, "name" | "label") => (
            format!("`{key}` cannot be swept: the names of a sweep are made from its values"),
            "sweep another key; each value gets a name of its own".into(),
        ),
        Some(part) => return Ok((part, inner.to_owned())),
    };
    Err(section.error(span.clone(), message, hint))
}

/// Reads `from`, `to` and `points`.
fn read_range(
    section: &mut Section<'_>,
    scale: Spacing,
    [first, second]: [&str; 2],
) -> Result<Vec<Scalar>> {
    let from = section.scalar("from", first)?;
    let to = section.scalar("to", second)?;
    let points = section.number("points", 2, MAX_VALUES)?;
    if from.is_none() && to.is_none() && points.is_none() {
        return section.required("values", &format!("[{first}, {second}]"), None);
    }
    let from = section.required("from", first, from)?;
    let to = section.required("to", second, to)?;
    let points = section.required("points", "7", points)? as usize;
    let ends = [from.shown.as_str(), to.shown.as_str()];
    let Some((written, values)) = measure_all(ends.into_iter()) else {
        let of_key = first.trim_matches('"');
        let (wrong, right) = match measure_all([of_key, ends[0]].into_iter()) {
            Some(_) => ("to", second),
            None => ("from", first),
        };
        return Err(section.error(
            to.span.clone(),
            format!(
                "`{}` and `{}` are no quantities of one unit",
                ends[0], ends[1]
            ),
            message!([
                "write both with the same kind of unit, such as ",
                setting(wrong, right),
            ]),
        ));
    };
    refuse! { section;
        scale == Spacing::Log && values.iter().any(|value| *value <= 0.0) => from.span,
            "a logarithmic range begins above zero",
            "write a `from` above zero, or `scale = \"linear\"`";
    }
    let ends = [(ends[0], values[0]), (ends[1], values[1])];
    let Some(texts) = texts(ends, points, scale, &written) else {
        return Err(section.error(
            to.span,
            format!(
                "there are no {points} different values from `{}` to `{}`",
                from.shown, to.shown
            ),
            "write fewer `points`, or a wider range",
        ));
    };
    let scalar = |text: String| Scalar {
        source: match from.is_text {
            true => format!("\"{text}\""),
            false => text.clone(),
        },
        shown: text,
        ..from.clone()
    };
    Ok(texts.into_iter().map(scalar).collect())
}

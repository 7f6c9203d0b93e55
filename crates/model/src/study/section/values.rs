//! Values of keys: texts, quantities, numbers, flags and names, and lists of them.

use std::{ops::Range, str::FromStr, time::Duration};

use toml::{
    Spanned,
    de::{DeArray, DeInteger, DeValue},
};

use super::{Scalar, Section, Taken, refuse, toml_text};
use crate::{
    condition::Condition,
    named::Named,
    study::{
        error::Result,
        message::{key as name_of, message},
        names::one_of,
    },
    units::{Bytes, UnitError, beginning, parse_duration},
};

impl<'a> Section<'a> {
    /// Reads a text that is one of many known ones, such as `example`.
    pub fn text_such_as(&mut self, key: &'static str, example: &str) -> Result<Taken<String>> {
        self.value(key, ("a text", &toml_text(example)), text_of)
    }

    /// Reads a text.
    pub fn text(&mut self, key: &'static str) -> Result<Taken<String>> {
        let quoted = self.bare(key).map(|bare| format!("\"{bare}\""));
        let example = quoted.as_deref().unwrap_or("\"…\"");
        self.value(key, ("a text", example), text_of)
    }

    /// Returns a number or flag as it is written, where a text may be meant.
    fn bare(&self, key: &str) -> Option<&'a str> {
        let value = self.table.get(key)?;
        let is_scalar = matches!(
            value.get_ref(),
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_)
        );
        self.file.written(value.span()).filter(|_| is_scalar)
    }

    /// Returns a text that `fits` if it is written without quotes.
    fn quoted(&self, key: &str, fits: impl Fn(&str) -> bool) -> Option<String> {
        let (text, _) = self.peek(key)?;
        Some(text.trim().to_owned()).filter(|text| fits(text))
    }

    /// Reads a quantity with a unit, written as a text; refuses a bare number except 0 and names the unit.
    pub fn quantity<T>(
        &mut self,
        key: &'static str,
        default: &str,
        parse: impl Fn(&str) -> Result<T, UnitError>,
    ) -> Result<Taken<T>> {
        self.quantity_fitting(key, default, |_| true, parse)
    }

    /// Reads a quantity as [`Section::quantity`] does; hints have only values that `fits`.
    fn quantity_fitting<T>(
        &mut self,
        key: &'static str,
        default: &str,
        fits: impl Fn(&T) -> bool,
        parse: impl Fn(&str) -> Result<T, UnitError>,
    ) -> Result<Taken<T>> {
        // The number that is written, with the unit of the example.
        let unit = default.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let has_unit = unit != default && !unit.is_empty();
        let number = (self.bare(key)).filter(|it| has_unit && it.parse::<u64>().is_ok());
        let written = number.map(|number| format!("{number}{unit}"));
        let example = written.filter(|written| parse(written).is_ok_and(|it| fits(&it)));
        let example = format!("\"{}\"", example.as_deref().unwrap_or(default));
        let taken = self.value(key, ("a text with a unit", &example), quantity_of)?;
        let parsed = taken.map(|(text, span)| match parse(&text) {
            Ok(parsed) => Ok((parsed, span)),
            Err(error) => Err(self.error(span, error.message, error.hint)),
        });
        parsed.transpose()
    }

    /// Reads a quantity as [`Section::quantity`] does, where the usual examples of its unit are refused: hints have this one.
    pub fn quantity_such_as<T>(
        &mut self,
        key: &'static str,
        example: &str,
        parse: impl Fn(&str) -> Result<T, UnitError>,
    ) -> Result<Taken<T>> {
        self.quantity(key, example, |text| {
            let hint = || format!("write a value such as `{example}`");
            parse(text).map_err(|error| UnitError::new(error.message, hint()))
        })
    }

    /// Reads a quantity by its type's [`FromStr`].
    pub fn parsed<T: FromStr<Err = UnitError>>(
        &mut self,
        key: &'static str,
        example: &str,
    ) -> Result<Taken<T>> {
        self.quantity(key, example, str::parse)
    }

    /// Reads a time span of at most 30 days.
    pub fn duration(&mut self, key: &'static str, example: &str) -> Result<Taken<Duration>> {
        self.quantity(key, example, |text| {
            let time = parse_duration(text)?;
            if time > Condition::LONGEST_TIME {
                let hint = format!("write a time such as `{example}`");
                return Err(UnitError::new("this time is longer than 30 days", hint));
            }
            Ok(time)
        })
    }

    /// Reads a time span of at most 30 days; hints have one of at most `most`.
    pub fn duration_up_to(&mut self, key: &'static str, most: Duration) -> Result<Taken<Duration>> {
        let example = match most.as_micros() {
            0 => "0ms".to_owned(),
            micros @ 1..2000 => format!("{micros}us"),
            _ => "2ms".to_owned(),
        };
        let fits = |time: &Duration| *time <= most;
        self.quantity_fitting(key, &example, fits, |text| {
            let hint = || format!("write a time of at most the delay, such as `{example}`");
            match parse_duration(text) {
                Ok(time) if time <= Condition::LONGEST_TIME => Ok(time),
                Ok(_) => Err(UnitError::new("this time is longer than 30 days", hint())),
                Err(error) => Err(UnitError::new(error.message, hint())),
            }
        })
    }

    /// Reads a time span, or returns its default; refuses zero and times longer than 30 days.
    pub fn time_or(
        &mut self,
        key: &'static str,
        example: &str,
        default: Duration,
    ) -> Result<Duration> {
        let taken = self.duration(key, example)?;
        self.time(taken, example)
            .map(|time| time.unwrap_or(default))
    }

    /// Checks a time that was read: refuses zero.
    pub fn time(&self, taken: Taken<Duration>, example: &str) -> Result<Option<Duration>> {
        let Some((value, span)) = taken else {
            return Ok(None);
        };
        refuse! { self;
            value.is_zero() => span,
                "this time must be longer than zero and at most 30 days", "write a time such as `{example}`";
        }
        Ok(Some(value))
    }

    /// Reads a size between two bounds in bytes, both allowed, and its span.
    pub fn amount(
        &mut self,
        key: &'static str,
        example: &str,
        [least, most]: [u64; 2],
    ) -> Result<Taken<Bytes>> {
        let bounds = [least, most].map(|bound| Bytes(bound).exact());
        let [shortest, longest] = bounds.each_ref().map(|bound| bound.replace(' ', ""));
        let hint = || format!("write a size from `{shortest}` to `{longest}`");
        self.quantity(key, example, |text| match text.parse::<Bytes>() {
            Ok(size) if !(least..=most).contains(&size.0) => {
                let [least, most] = &bounds;
                let message = format!("this size must be from {least} to {most}");
                Err(UnitError::new(message, hint()))
            }
            // The usual examples are too large.
            Err(error) if most < 10_000_000 => Err(UnitError::new(error.message, hint())),
            parsed => parsed,
        })
    }

    /// Reads a text that must be there, with its span.
    pub fn required_text(
        &mut self,
        key: &'static str,
        example: &str,
    ) -> Result<(String, Range<usize>)> {
        let text = self.text(key)?;
        self.required(key, example, text)
    }

    /// Reads a list of whole numbers, or the name of a file with one on each line.
    pub fn numbers(&mut self, key: &'static str) -> Result<Taken<Vec<u64>>> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let span = value.span();
        let of_item = |item: &Spanned<DeValue<'_>>| {
            let wrong = || self.wrong_kind(item, key, "a list of whole numbers", "[3, 17]");
            let number = item.get_ref().as_integer().ok_or_else(wrong)?;
            whole(number).ok_or_else(|| {
                let message = format!("`{}` is no number of a packet", number.as_str());
                self.error(item.span(), message, "the first packet is 1")
            })
        };
        let numbers: Result<Vec<u64>> = match value.get_ref() {
            DeValue::Array(items) => items.iter().map(of_item).collect(),
            DeValue::String(name) => {
                let text = self.file(name, &span)?;
                let of_line = |(line, text): (usize, &str)| {
                    text.trim().parse().map_err(|_| {
                        let (line, shown) = (line + 1, beginning(text));
                        let message =
                            format!("line {line} of `{name}` is no whole number: `{shown}`");
                        let hint = "write one number a line; the first packet is 1";
                        self.error(span.clone(), message, hint)
                    })
                };
                text.lines().enumerate().map(of_line).collect()
            }
            _ => {
                let want = "a list of whole numbers or the name of a file";
                Err(self.wrong_kind(&value, key, want, "[3, 17]"))
            }
        };
        Ok(Some((numbers?, span)))
    }

    /// Reads a whole number from `lowest` to `highest`, inclusive.
    pub fn number(&mut self, key: &'static str, lowest: u64, highest: u64) -> Result<Option<u64>> {
        let taken = self.number_at(key, lowest, highest)?;
        Ok(taken.map(|(number, _)| number))
    }

    /// Reads a whole number from `lowest` to `highest`, inclusive, and its span.
    pub fn number_at(
        &mut self,
        key: &'static str,
        lowest: u64,
        highest: u64,
    ) -> Result<Taken<u64>> {
        let is_number = |text: &str| {
            let number = text.parse::<u64>();
            number.is_ok_and(|number| (lowest..=highest).contains(&number))
        };
        let example = self.quoted(key, is_number);
        let example = example.unwrap_or_else(|| lowest.max(1).to_string());
        let kind = ("a whole number", &*example);
        let taken = self.value(key, kind, |value| {
            let number = value.as_integer()?;
            Some((number.as_str().to_owned(), whole(number)))
        })?;
        match taken {
            None => Ok(None),
            Some(((_, Some(number)), span)) if (lowest..=highest).contains(&number) => {
                Ok(Some((number, span)))
            }
            Some(((written, _), span)) => Err(self.error(
                span,
                message!([name_of(key), format!(" cannot be {written}")]),
                format!("write a whole number from {lowest} to {highest}"),
            )),
        }
    }

    /// Reads `true` or `false`, and its span.
    pub fn flag(&mut self, key: &'static str) -> Result<Taken<bool>> {
        let example = self.quoted(key, |text| text.parse::<bool>().is_ok());
        let example = example.as_deref().unwrap_or("true");
        self.value(key, ("true or false", example), DeValue::as_bool)
    }

    /// Reads the name of a value of a type.
    pub fn choice<T: Named>(&mut self, key: &'static str) -> Result<Option<T>> {
        Ok(self.choice_at(key)?.map(|(value, _)| value))
    }

    /// Reads the name of a value of a type, and its span.
    pub fn choice_at<T: Named>(&mut self, key: &'static str) -> Result<Taken<T>> {
        self.choice_of(key, T::NAMES)
    }

    /// Reads one of several names, and its span.
    pub fn choice_of<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&'static str, T)],
    ) -> Result<Taken<T>> {
        let first = choices.first().map_or("…", |(name, _)| name);
        let example = format!("\"{first}\"");
        let Some((chosen, span)) = self.value(key, ("a text", &example), text_of)? else {
            return Ok(None);
        };
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == chosen) {
            return Ok(Some((*value, span)));
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let hint = format!("write {}", one_of(&names));
        let message = message!([format!("`{chosen}` is not a value of "), name_of(key)]);
        Err(self.error(span, message, hint))
    }

    /// Reads a number above zero.
    pub fn factor(&mut self, key: &'static str) -> Result<Option<f64>> {
        let number = |value: &DeValue<'_>| match value {
            DeValue::Integer(it) => i64::from_str_radix(it.as_str(), it.radix())
                .ok()
                .map(|it| it as f64),
            DeValue::Float(it) => it.as_str().replace('_', "").parse().ok(),
            _ => None,
        };
        match self.value(key, ("a number", "1.5"), number)? {
            Some((value, span)) if !(value.is_finite() && value > 0.0) => Err(self.error(
                span,
                format!("`{key}` is not above zero"),
                format!("such as `{key} = 1.5`"),
            )),
            taken => Ok(taken.map(|(value, _)| value)),
        }
    }

    /// Reads a list of texts.
    pub fn texts(&mut self, key: &'static str) -> Result<Vec<String>> {
        let kind = ("a list of texts", "[\"…\"]");
        let items = self.value(key, kind, |value| Some(value.as_array()?.clone()))?;
        let items = items.map_or_else(DeArray::new, |(items, _)| items);
        (items.iter())
            .map(|item| {
                let text = text_of(item.get_ref());
                text.ok_or_else(|| self.wrong_kind(item, key, kind.0, kind.1))
            })
            .collect()
    }

    /// Reads a text, a whole number, `true` or `false`.
    pub fn scalar(&mut self, key: &'static str, example: &str) -> Result<Option<Scalar>> {
        let value = self.take(key);
        let scalar = value.map(|value| self.scalar_of(&value, key, example));
        scalar.transpose()
    }

    /// Reads a list of texts, whole numbers and flags.
    pub fn scalars(&mut self, key: &'static str, example: &str) -> Result<Option<Vec<Scalar>>> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let DeValue::Array(items) = value.get_ref() else {
            return Err(self.wrong_kind(&value, key, "a list of values", example));
        };
        let items = items.iter().map(|item| self.scalar_of(item, key, example));
        items.collect::<Result<_, _>>().map(Some)
    }

    fn scalar_of(&self, value: &Spanned<DeValue<'_>>, key: &str, example: &str) -> Result<Scalar> {
        let span = value.span();
        let shown = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Boolean(flag) => flag.to_string(),
            _ => {
                let want = "made of texts, whole numbers, `true` or `false`";
                return Err(self.wrong_kind(value, key, want, example));
            }
        };
        let source = self.file.written(span.clone()).unwrap_or_default();
        Ok(Scalar {
            source: source.to_owned(),
            shown,
            is_text: value.get_ref().is_str(),
            span,
        })
    }
}

pub(super) fn text_of(value: &DeValue<'_>) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Returns a quantity as a text; 0 needs no unit, and so no text.
fn quantity_of(value: &DeValue<'_>) -> Option<String> {
    let number = value.as_integer().and_then(|it| it.as_str().parse().ok());
    text_of(value).or_else(|| (number == Some(0)).then(|| "0".to_owned()))
}

/// Returns a whole number that is not negative.
fn whole(number: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

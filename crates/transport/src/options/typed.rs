//! Options with the types of their values.

use std::{
    marker::PhantomData,
    ops::{Deref, RangeInclusive},
    str::FromStr,
    time::Duration,
};

use regatta_model::{BitRate, Bytes};

use crate::descriptor::{OptionDefinition, OptionKind, OptionValues};

/// Type of the value of an option.
pub trait FromOptionValue: Sized {
    /// Kind of values that the option takes; for a whole number the range of the type.
    const KIND: OptionKind;

    /// Reads the value among options that were checked, or the default; `None` for an option that is not set and has no
    /// default.
    fn read(definition: &OptionDefinition, options: &OptionValues) -> Option<Self>;
}

/// Type of one of a few values, which have names.
// The compiler names this trait where a type has neither an implementation of its own nor this one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the type of an option's value",
    label = "this type",
    note = "values are of the types `bool`, `u16`, `u32`, `u64`, `Bytes`, `BitRate`, `Duration`, \
            `KernelCongestionControl`, or of one that implements `Choice`",
    note = "an option without a default is an `Option` of such a type"
)]
pub trait Choice: FromStr {
    /// Names of the values, in the order of help; `from_str` has a value for each.
    const NAMES: &'static [&'static str];
}

impl<C: Choice> FromOptionValue for C {
    const KIND: OptionKind = OptionKind::OneOf(C::NAMES);

    fn read(definition: &OptionDefinition, options: &OptionValues) -> Option<Self> {
        definition.text(options)?.parse().ok()
    }
}

/// Name of a congestion control of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelCongestionControl(pub String);

/// Implements [`FromOptionValue`]: type, kind, and expression that reads `$definition` among `$options`.
macro_rules! from_option_value {
    ($($type:ty: $kind:expr, |$definition:ident, $options:ident| $read:expr;)*) => {
        $(impl FromOptionValue for $type {
            const KIND: OptionKind = $kind;

            fn read($definition: &OptionDefinition, $options: &OptionValues) -> Option<Self> {
                $read
            }
        })*
    };
}

from_option_value! {
    bool: OptionKind::Flag, |option, options| Some(option.flag(options));
    Bytes: OptionKind::Size, |option, options| option.size(options).map(Bytes);
    BitRate: OptionKind::Rate, |option, options| option.rate(options);
    Duration: OptionKind::Time, |option, options| option.time(options);
    KernelCongestionControl: OptionKind::KernelCongestionControl,
        |option, options| option.text(options).map(|name| Self(name.to_owned()));
    u16: whole_number(u16::MAX as i64), |option, options| option.number(options);
    u32: whole_number(u32::MAX as i64), |option, options| option.number(options);
    u64: whole_number(i64::MAX), |option, options| option.number(options);
}

const fn whole_number(most: i64) -> OptionKind {
    OptionKind::Number { least: 0, most }
}

/// Type of the field of an option: that of its value if it has a default, or an `Option` of that if it has none.
pub trait OptionField: Sized {
    /// Kind of values that the option takes.
    const KIND: OptionKind;

    /// Whether the option has no default.
    const IS_OPTIONAL: bool;

    /// Reads the option among options that were checked.
    fn read(definition: &OptionDefinition, options: &OptionValues) -> Self;
}

impl<T: FromOptionValue> OptionField for T {
    const KIND: OptionKind = T::KIND;
    const IS_OPTIONAL: bool = false;

    fn read(definition: &OptionDefinition, options: &OptionValues) -> Self {
        let value = <T as FromOptionValue>::read(definition, options);
        let default = || <T as FromOptionValue>::read(definition, &OptionValues::new());
        value
            .or_else(default)
            .unwrap_or_else(|| panic!("the default of `{}` is one of its values", definition.name))
    }
}

impl<T: FromOptionValue> OptionField for Option<T> {
    const KIND: OptionKind = T::KIND;
    const IS_OPTIONAL: bool = true;

    fn read(definition: &OptionDefinition, options: &OptionValues) -> Self {
        <T as FromOptionValue>::read(definition, options)
    }
}

/// Definition of an option whose value is read as a `T`.
#[derive(Debug, Clone, Copy)]
pub struct TypedOption<T: OptionField> {
    /// Name, kind, default and help.
    pub definition: OptionDefinition,
    value: PhantomData<fn() -> T>,
}

impl<T: OptionField> TypedOption<T> {
    /// Returns an option with this name, default and help. The default is written as in a study, and is empty for none.
    ///
    /// # Panics
    /// If the default is not one of the option's values: of an option that is a constant, the compiler reports it.
    #[must_use]
    pub const fn new(name: &'static str, default: &'static str, help: &'static str) -> Self {
        match T::IS_OPTIONAL {
            true => assert!(
                default.is_empty(),
                "an option that has a default is not of the type `Option<…>`"
            ),
            false => assert!(
                !default.is_empty(),
                "an option that has no default is of the type `Option<…>`"
            ),
        }
        let definition = OptionDefinition {
            name,
            kind: T::KIND,
            default,
            help,
        };
        Self::of(definition)
    }

    /// Returns the option with a narrower range of its number.
    ///
    /// # Panics
    /// If it is not a number, or the range is wider than that of its type, or does not include the default.
    #[must_use]
    pub const fn within(self, range: RangeInclusive<i64>) -> Self {
        let OptionKind::Number { least, most } = self.definition.kind else {
            panic!("only a whole number has a range");
        };
        assert!(
            least <= *range.start() && *range.end() <= most,
            "the range is wider than that of the type"
        );
        Self::of(OptionDefinition {
            kind: OptionKind::Number {
                least: *range.start(),
                most: *range.end(),
            },
            ..self.definition
        })
    }

    const fn of(definition: OptionDefinition) -> Self {
        let default = definition.default;
        assert!(
            default.is_empty() || may_be(definition.kind, default),
            "the default is not one of the option's values"
        );
        Self {
            definition,
            value: PhantomData,
        }
    }

    /// Returns the option, for a field with its name.
    ///
    /// # Panics
    /// If the field has another name.
    #[must_use]
    pub const fn of_field(self, name: &str) -> Self {
        assert!(
            are_equal(self.definition.name, name),
            "the field does not have the name of the option"
        );
        self
    }

    /// Reads the value among options that were checked.
    #[must_use]
    pub fn read(&self, options: &OptionValues) -> T {
        T::read(&self.definition, options)
    }
}

impl<T: FromOptionValue> TypedOption<Option<T>> {
    /// Returns the option with a default.
    ///
    /// # Panics
    /// If the default is not one of the option's values.
    #[must_use]
    pub const fn or(self, default: &'static str) -> TypedOption<T> {
        TypedOption::of(OptionDefinition {
            default,
            ..self.definition
        })
    }
}

impl<T: OptionField> Deref for TypedOption<T> {
    type Target = OptionDefinition;

    fn deref(&self) -> &OptionDefinition {
        &self.definition
    }
}

/// Whether a text is a value of this kind, as far as a constant function can tell: values with units are not read.
const fn may_be(kind: OptionKind, text: &str) -> bool {
    match kind {
        OptionKind::Flag => are_equal(text, "true") || are_equal(text, "false"),
        OptionKind::Number { least, most } => match i64::from_str_radix(text, 10) {
            Ok(number) => least <= number && number <= most,
            Err(_) => false,
        },
        OptionKind::OneOf(names) => contains(names, text),
        _ => true,
    }
}

const fn contains(names: &[&str], name: &str) -> bool {
    let mut rest = names;
    while let [first, others @ ..] = rest {
        if are_equal(first, name) {
            return true;
        }
        rest = others;
    }
    false
}

const fn are_equal(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

/// Checks the rows of a table of options: no name twice, and each option of a group.
///
/// # Panics
/// If a name occurs twice, or an option of the group is absent.
#[doc(hidden)]
pub const fn check_table(options: &[OptionDefinition], group: &[OptionDefinition]) {
    let mut rest = options;
    while let [first, others @ ..] = rest {
        assert!(!has(others, first.name), "two rows have the same name");
        rest = others;
    }
    let mut rest = group;
    while let [first, others @ ..] = rest {
        assert!(
            has(options, first.name),
            "an option of the group has no row"
        );
        rest = others;
    }
}

const fn has(options: &[OptionDefinition], name: &str) -> bool {
    let mut rest = options;
    while let [first, others @ ..] = rest {
        if are_equal(first.name, name) {
            return true;
        }
        rest = others;
    }
    false
}

#[cfg(test)]
mod tests {
    use regatta_model::OptionValue;

    use super::*;

    #[derive(Debug, PartialEq)]
    enum Control {
        Cubic,
        Reno,
    }

    impl FromStr for Control {
        type Err = ();

        fn from_str(name: &str) -> Result<Self, ()> {
            match name {
                "cubic" => Ok(Self::Cubic),
                "reno" => Ok(Self::Reno),
                _ => Err(()),
            }
        }
    }

    impl Choice for Control {
        const NAMES: &'static [&'static str] = &["cubic", "reno"];
    }

    fn set(name: &str, value: OptionValue) -> OptionValues {
        OptionValues::from([(name.to_owned(), value)])
    }

    fn text(text: &str) -> OptionValue {
        OptionValue::Text(text.to_owned())
    }

    #[test]
    fn options_read_as_their_type() {
        let none = OptionValues::new();
        let control = TypedOption::<Control>::new("cc", "cubic", "");
        assert_eq!(control.kind, OptionKind::OneOf(&["cubic", "reno"]));
        assert_eq!(control.read(&none), Control::Cubic);
        assert_eq!(control.read(&set("cc", text("reno"))), Control::Reno);
        let size = TypedOption::<Option<Bytes>>::new("size", "", "");
        assert_eq!(size.read(&none), None);
        assert_eq!(size.read(&set("size", text("1KiB"))), Some(Bytes(1024)));
        assert_eq!(size.or("2B").read(&none), Bytes(2));
        let count = TypedOption::<u16>::new("count", "3", "").within(1..=8);
        assert_eq!(count.kind, OptionKind::Number { least: 1, most: 8 });
        assert_eq!(count.read(&set("count", OptionValue::Number(5))), 5);
    }

    #[test]
    fn a_value_that_was_not_checked_gives_way_to_the_default_of_the_options() {
        let count = TypedOption::<u16>::new("count", "3", "");
        let beyond = OptionValue::Number(1 << 16);
        assert_eq!(count.read(&set("count", beyond)), 3);
        let control = TypedOption::<Control>::new("cc", "reno", "");
        assert_eq!(control.read(&set("cc", text("vegas"))), Control::Reno);
    }

    #[test]
    #[should_panic(expected = "the default is not one of the option's values")]
    fn defaults_outside_the_range_of_their_options_are_refused() {
        let _ = TypedOption::<u16>::new("count", "3", "").within(4..=8);
    }

    #[test]
    #[should_panic(expected = "the range is wider than that of the type")]
    fn ranges_beyond_the_type_of_their_options_are_refused() {
        let _ = TypedOption::<Option<u16>>::new("count", "", "").within(0..=65_536);
    }

    #[test]
    #[should_panic(expected = "the field does not have the name of the option")]
    fn fields_have_the_name_of_their_options() {
        let _ = TypedOption::<bool>::new("gso", "true", "").of_field("gro");
    }

    #[test]
    #[should_panic(expected = "an option that has no default is of the type `Option<…>`")]
    fn options_without_a_default_are_optional() {
        let _ = TypedOption::<Duration>::new("time", "", "");
    }

    #[test]
    #[should_panic(expected = "an option of the group has no row")]
    fn each_option_of_a_group_has_a_row() {
        let option = |name| TypedOption::<bool>::new(name, "true", "").definition;
        check_table(&[option("a")], &[option("a"), option("ab")]);
    }

    #[test]
    #[should_panic(expected = "two rows have the same name")]
    fn options_have_one_row_each() {
        let option = |name| TypedOption::<bool>::new(name, "true", "").definition;
        check_table(&[option("a"), option("b"), option("a")], &[]);
    }
}

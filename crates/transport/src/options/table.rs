//! Macro that makes the options of a driver from a table.

/// Makes the options of a driver from a table of them: a struct with their values, the definitions that
/// `regatta list transports` and the driver's page show, and the reader.
///
/// A row has the option's name, type and default, and the sentence of its help:
///
/// ```
/// use std::time::Duration;
///
/// use regatta_model::{Bytes, OptionValue};
/// use regatta_transport::{OptionKind, OptionValues, driver_options, options::DSCP};
///
/// driver_options! {
///     /// Options of a driver.
///     #[derive(Debug, PartialEq)]
///     pub(crate) struct Options {
///         checksum: bool = false, "add a checksum to each message";
///         // A whole number may have a range.
///         connections: u16 [1..=64] = 8, "number of connections";
///         // Values with a unit are written as in a study.
///         block_size: Bytes = "16MiB", "largest part of a file that is sent at a time";
///         // An option without a default, which may be not set.
///         timeout: Option<Duration>, "largest retransmission time-out; the kernel's if not set";
///         // A definition that several drivers have, with its default and help.
///         dscp: Option<u16> = DSCP;
///     }
/// }
///
/// let options = OptionValues::from([("connections".to_owned(), OptionValue::Number(2))]);
/// let expected = Options {
///     checksum: false,
///     connections: 2,
///     block_size: Bytes(16 << 20),
///     timeout: None,
///     dscp: None,
/// };
/// assert_eq!(Options::read(&options), expected);
///
/// let [_, connections, ..] = Options::DEFINITIONS else { panic!() };
/// assert_eq!((connections.name, connections.default), ("connections", "8"));
/// assert_eq!(connections.kind, OptionKind::Number { least: 1, most: 64 });
/// ```
///
/// The type gives the kind of the values ([`FromOptionValue`](crate::options::FromOptionValue)): for one of a few names
/// it is an enum that implements [`Choice`](crate::options::Choice). A constant with the name of the option is its
/// definition: `Options::block_size.read(options)`, `Options::block_size.definition`.
///
/// Drivers that share a group of options have its struct in a field, `with FIELD: GROUP`. Rows of the driver say where
/// the group's options stand in the order of help, each once. Without `with`, such rows name some options of a table that
/// the driver reads in another place.
///
/// ```
/// use regatta_transport::driver_options;
///
/// driver_options! {
///     /// Options of every driver of the family.
///     pub(crate) struct Common {
///         gso: bool = true, "pass several packets to the kernel in one call";
///         keylog: bool = false, "write the TLS secrets to a file";
///     }
/// }
///
/// driver_options! {
///     /// Options of one driver.
///     pub(crate) struct Options with common: Common {
///         ..Common::{gso};
///         pacing: bool = true, "spread packets over the round-trip time";
///         ..Common::{keylog};
///     }
/// }
///
/// let names: Vec<_> = Options::DEFINITIONS.iter().map(|it| it.name).collect();
/// assert_eq!(names, ["gso", "pacing", "keylog"]);
/// assert!(Options::read(&Default::default()).common.gso);
/// ```
///
/// The compiler reports a default that is not one of the values (of values with a unit, a test of the registry does),
/// a range beyond the type, an option of a group that has no row, and two options with one name:
///
/// ```compile_fail,E0080
/// regatta_transport::driver_options! {
///     /// Options of a driver.
///     pub(crate) struct Options {
///         connections: u16 [1..=64] = 65, "number of connections";
///     }
/// }
/// ```
#[macro_export]
macro_rules! driver_options {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $Options:ident $(with $group:ident: $Group:ty)? {
            $(
                $(..$From:ident::{$($member:ident),+ $(,)?})?
                $($name:ident: $type:ty $([$range:expr])? $(= $value:expr)? $(, $help:literal)?)?
            ;)*
        }
    ) => {
        $(#[$attribute])*
        $visibility struct $Options {
            $(
                #[doc = concat!("Options of [`", stringify!($Group), "`].")]
                pub $group: $Group,
            )?
            $($(
                #[doc = concat!("Option `", stringify!($name), "`" $(, ": ", $help)?, ".")]
                pub $name: $type,
            )?)*
        }

        // Constants have the names of the options.
        #[allow(non_upper_case_globals)]
        impl $Options {
            $($(
                #[doc = concat!("Definition of the option `", stringify!($name), "`.")]
                pub const $name: $crate::options::TypedOption<$type> =
                    $crate::option_of_row!($name: $type $([$range])? $(= $value)? $(, $help)?);
            )?)*

            /// Definitions of the options, in the order of help.
            pub const DEFINITIONS: &'static [$crate::OptionDefinition] = &[
                $(
                    $($($From::$member.definition,)+)?
                    $(Self::$name.definition,)?
                )*
            ];

            /// Reads options that were checked against the driver's descriptor.
            #[must_use]
            pub fn read(options: &$crate::OptionValues) -> Self {
                Self {
                    $($group: <$Group>::read(options),)?
                    $($($name: Self::$name.read(options),)?)*
                }
            }
        }

        const _: () = $crate::options::check_table($Options::DEFINITIONS, &[]);
        $(const _: () = $crate::options::check_table($Options::DEFINITIONS, <$Group>::DEFINITIONS);)?
    };
}

/// Makes the definition of one row of [`driver_options!`].
#[doc(hidden)]
#[macro_export]
macro_rules! option_of_row {
    ($name:ident: $type:ty = $shared:expr) => {
        $shared.of_field(stringify!($name))
    };
    ($name:ident: $type:ty $([$range:expr])? $(= $default:expr)?, $help:literal) => {
        $crate::options::TypedOption::<$type>::new(
            stringify!($name),
            concat!($($default)?),
            $help,
        )$(.within($range))?
    };
    ($name:ident: $($row:tt)*) => {
        compile_error!(concat!(
            "the row of the option `",
            stringify!($name),
            "` has neither a help nor a definition alone: write `name: Type [range] = default, \"help\";` or \
             `name: Type = DEFINITION;`"
        ))
    };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use regatta_model::{Bytes, OptionValue};

    use crate::{OptionKind, OptionValues, options::DSCP};

    driver_options! {
        /// Options of every driver.
        #[derive(Debug, PartialEq)]
        struct Common {
            block_size: Bytes = "16MiB", "largest part of a file";
            timeout: Option<Duration>, "largest retransmission time-out";
            dscp: Option<u16> = DSCP;
        }
    }

    driver_options! {
        /// Options of one driver.
        #[derive(Debug, PartialEq)]
        struct Options with common: Common {
            ..Common::{timeout, block_size};
            checksum: bool = false, "add a checksum";
            connections: u16 [1..=1_000] = 1_00, "number of \
                connections";
            ..Common::{dscp};
        }
    }

    #[test]
    fn a_table_of_options_makes_definitions_in_its_order_and_values() {
        let rows = Options::DEFINITIONS.iter().map(|it| (it.name, it.default));
        assert_eq!(
            rows.collect::<Vec<_>>(),
            [
                ("timeout", ""),
                ("block_size", "16MiB"),
                ("checksum", "false"),
                ("connections", "100"),
                ("dscp", ""),
            ]
        );
        let connections = Options::connections.definition;
        let (least, most) = (1, 1000);
        assert_eq!(connections.kind, OptionKind::Number { least, most });
        assert_eq!(connections.help, "number of connections");
        let set = OptionValues::from([
            ("checksum".to_owned(), OptionValue::Flag(true)),
            ("timeout".to_owned(), OptionValue::Text("2s".to_owned())),
        ]);
        let expected = Options {
            common: Common {
                block_size: Bytes(16 << 20),
                timeout: Some(Duration::from_secs(2)),
                dscp: None,
            },
            checksum: true,
            connections: 100,
        };
        assert_eq!(Options::read(&set), expected);
    }
}

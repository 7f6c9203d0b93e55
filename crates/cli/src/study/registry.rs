//! Registry of drivers by name, and the checks of a study's transports.

use regatta_bed::guest;
use regatta_model::{
    Amount, Clock, Study, Transport, Workload, WorkloadKind,
    study::{StudyError, StudyFile},
};

use regatta_transport::{Driver, OptionKind};

use crate::exit::{Failure, Result, did_you_mean};

/// Error in a transport, or in its use.
pub struct RegistryError {
    /// Name of the option; `None` if the driver's name is wrong.
    pub option: Option<String>,
    /// Description of the error.
    pub message: String,
    /// Hint on what to write instead.
    hint: Hint,
}

/// Hint on what to write instead.
enum Hint {
    /// Text that is the same in a study and on the command line.
    Text(String),
    /// Driver and congestion control that the unknown name was composed of.
    CongestionControl { driver: &'static str, name: String },
}

impl Hint {
    fn on_command_line(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::CongestionControl { driver, name } => {
                format!("a congestion control is an option: write `{driver}:cc={name}`")
            }
        }
    }

    fn in_study(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::CongestionControl { driver, name } => format!(
                "a congestion control is an option: write `driver = \"{driver}\"` and `cc = \"{name}\"`"
            ),
        }
    }
}

impl RegistryError {
    const fn transport(message: String, hint: String) -> Self {
        Self {
            option: None,
            message,
            hint: Hint::Text(hint),
        }
    }
}

impl From<RegistryError> for Failure {
    fn from(wrong: RegistryError) -> Self {
        Self::input(wrong.message, wrong.hint.on_command_line())
    }
}

/// Returns a driver and one of its congestion controls if a name was made of the two, as `tcp-bbr`, or of the latter alone.
fn with_congestion_control(name: &str) -> Option<(&'static str, String)> {
    let name = name.to_lowercase();
    let of_kernel = |name: &str| {
        let mut known = guest::CONGESTION_CONTROLS.iter();
        name == "reno" || known.any(|(_, known)| *known == name)
    };
    let of_driver = |driver: &'static dyn Driver| {
        let it = driver.descriptor();
        let rest = name
            .strip_prefix(it.name)?
            .strip_prefix(['-', '_', '+', '/'])?;
        let option = it.options.iter().find(|option| option.name == "cc")?;
        let is_one = match option.kind {
            OptionKind::OneOf(names) => names.contains(&rest),
            _ => of_kernel(rest),
        };
        is_one.then(|| (it.name, rest.to_owned()))
    };
    let drivers = regatta_agent::registry().into_iter();
    let longest = drivers
        .filter_map(of_driver)
        .max_by_key(|(driver, _)| driver.len());
    longest.or_else(|| of_kernel(&name).then(|| ("tcp", name.clone())))
}

/// Checks a transport's driver and options.
///
/// # Errors
/// The first mistake.
pub fn check(transport: &Transport) -> Result<(), RegistryError> {
    let name = &*transport.driver;
    let Some(driver) = regatta_agent::find_driver(name) else {
        if regatta_agent::is_left_out(name) {
            return Err(RegistryError::transport(
                format!("`{name}` was left out of this build"),
                format!("build with `cargo build --release --features {name}`"),
            ));
        }
        if let Some((driver, cc)) = with_congestion_control(name) {
            return Err(RegistryError {
                option: None,
                message: format!("there is no transport `{name}`"),
                hint: Hint::CongestionControl { driver, name: cc },
            });
        }
        let names: Vec<&str> = (regatta_agent::registry().iter())
            .map(|driver| driver.descriptor().name)
            .collect();
        let near = did_you_mean(name, &names);
        return Err(RegistryError::transport(
            format!("there is no transport `{name}`"),
            match name.split_once(':') {
                Some((driver, _)) => format!(
                    "write `driver = \"{driver}\"`, and each option as a key of its own below it"
                ),
                None => format!("{near}the transports are: {}", names.join(", ")),
            },
        ));
    };
    // All at once: some need each other.
    driver
        .check_options(&transport.options)
        .map_err(|error| RegistryError {
            option: Some(error.name().to_owned()),
            message: error.to_string(),
            hint: Hint::Text(error.hint().to_owned()),
        })
}

/// The option with which a transport names a congestion control of the kernel, and the name; `None`
/// for one that leaves it to the driver, or that brings its own.
pub fn kernel_congestion_control(transport: &Transport) -> Option<(&'static str, &str)> {
    let descriptor = regatta_agent::find_driver(&transport.driver)?.descriptor();
    descriptor.kernel_congestion_control(&transport.options)
}

/// Checks every transport of a study file against the registry.
///
/// # Errors
/// The first mistake, shown in the file.
pub fn check_file(file: &StudyFile) -> Result<(), StudyError> {
    for (position, transport) in file.study.transports.iter().enumerate() {
        check(transport).map_err(|wrong| {
            let hint = wrong.hint.in_study();
            file.transport_error(position, wrong.option.as_deref(), wrong.message, hint)
        })?;
    }
    Ok(())
}

/// Checks that every transport can carry the probe under load with each workload's placement.
///
/// # Errors
/// The first transport that cannot.
pub fn check_probes(study: &Study) -> Result<()> {
    for transport in &study.transports {
        let Some(driver) = regatta_agent::find_driver(&transport.driver) else {
            continue;
        };
        for (_, workload) in study.works_of(&transport.label) {
            driver
                .probe_applicable(&transport.options, workload)
                .map_err(|wrong| Failure::input(wrong.reason, wrong.hint))?;
        }
    }
    Ok(())
}

/// Checks that every transfer comes to an end: in virtual time the clock stands still while a sender works, so that the
/// duration of one that never waits is never over.
///
/// # Errors
/// The first transport and workload of which a transfer would not end.
pub fn check_endings(study: &Study) -> Result<(), RegistryError> {
    if study.guest.clock != Clock::Virtual {
        return Ok(());
    }
    let for_a_time = |it: &Workload| {
        matches!(
            it.kind,
            WorkloadKind::Bulk {
                amount: Amount::Time(_),
                ..
            }
        )
    };
    let never_waits = |it: &&Transport| {
        regatta_agent::find_driver(&it.driver).is_some_and(|driver| driver.never_waits(&it.options))
    };
    let endless = study.transports.iter().filter(never_waits);
    let endless = endless.flat_map(|it| study.workloads.iter().map(move |work| (it, work)));
    // A flow of a competition may have work of its own.
    let mut endless = endless.filter(|(it, work)| {
        study.has_cell(&it.label, work) && for_a_time(work.of_transport(&it.label))
    });
    match endless.next() {
        None => Ok(()),
        Some((Transport { label, driver, .. }, workload)) => Err(RegistryError::transport(
            format!(
                "`{label}` has no rate and never waits, so that in virtual time the `duration` of `{}` is never over",
                workload.name
            ),
            format!(
                "give it a rate, such as `--transport {driver}:rate=50Mbit/s`, or the workload a `size` instead"
            ),
        )),
    }
}

/// Checks transports that were named on the command line.
///
/// # Errors
/// The first mistake.
pub fn check_all(transports: &[Transport]) -> Result<()> {
    Ok(transports.iter().try_for_each(check)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Hints for a transport of this name: on the command line and in a study.
    fn hints(name: &str) -> [String; 2] {
        let wrong = || {
            check(&Transport {
                label: name.to_owned(),
                driver: name.to_owned(),
                options: BTreeMap::new(),
            })
            .expect_err("no driver")
        };
        [wrong().hint.on_command_line(), wrong().hint.in_study()]
    }

    #[test]
    fn a_congestion_control_in_the_name_is_an_option() {
        let [option, keys] = hints("tcp-bbr");
        assert!(option.ends_with("write `tcp:cc=bbr`"), "{option}");
        assert!(
            keys.ends_with("write `driver = \"tcp\"` and `cc = \"bbr\"`"),
            "{keys}"
        );
        for (name, expected) in [
            ("TCP-BBR", "`tcp:cc=bbr`"),
            ("tcp-tls-cubic", "`tcp-tls:cc=cubic`"),
            ("quic-quinn-bbr", "`quic-quinn:cc=bbr`"),
            ("hybla", "`tcp:cc=hybla`"),
        ] {
            let [option, _] = hints(name);
            assert!(option.contains(expected), "{name}: {option}");
        }
    }

    #[test]
    fn a_part_of_a_name_is_enough_for_a_suggestion() {
        let [option, _] = hints("quinn");
        assert!(option.starts_with("did you mean `quic-quinn`?"), "{option}");
    }

    /// In virtual time a flow that never waits sends a script beside one that sends for a time.
    #[test]
    fn only_what_a_transport_does_itself_must_come_to_an_end() {
        let study = |flow: &str| {
            let text = format!(
                "name = \"s\"\nbed = \"uml\"\nclock = \"virtual\"\n\
                [[transport]]\ndriver = \"tcp\"\n[[transport]]\ndriver = \"udp\"\n\
                [[condition]]\nname = \"c\"\nrate = \"1Mbit/s\"\n\
                [[workload]]\nname = \"flow\"\nkind = \"bulk\"\nduration = \"1s\"\ntransports = [\"tcp\"]\n\
                [[workload]]\nname = \"few\"\nkind = \"script\"\ntransports = [\"udp\"]\n\
                [[workload.flow]]\nsteps = [{{ send = \"1kB\" }}]\n\
                [[competition]]\nworkload = \"flow\"\n[[competition.flow]]\ntransport = \"tcp\"\n\
                [[competition.flow]]\ntransport = \"udp\"\n{flow}"
            );
            Study::parse(&text, "s.toml").unwrap_or_else(|error| panic!("{error}"))
        };
        assert!(check_endings(&study("workload = \"few\"\n")).is_ok());
        assert!(check_endings(&study("")).is_err());
    }
}

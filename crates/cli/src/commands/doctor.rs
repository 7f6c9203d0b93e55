//! `regatta doctor`.

use std::{collections::BTreeSet, fmt::Write, process::ExitCode};

use regatta_bed::guest;
use regatta_model::{BedKind, Clock, Emulator, Study, differing_sysctls};
use regatta_telemetry::{Capability, capabilities, facts::sysctl};
use serde_json::{Value, json};

use crate::{
    args::DoctorArgs,
    exit::{Code, Result},
    output,
    study::{self, registry},
};

/// Names of the capabilities of namespaces.
const USER: &str = "user_namespaces";
const NETWORK: &str = "network_namespaces";

/// Hidden command that a controller starts on a host.
pub const JSON_COMMAND: &str = "doctor-json";

/// Runs `regatta doctor`.
///
/// # Errors
/// Standard output cannot be written.
pub fn doctor(args: &DoctorArgs) -> Result<Code> {
    let mut found = found();
    if let Some(name) = &args.study {
        let needed = needed(&study::named(name)?);
        found.retain(|it| needed.contains(it.name));
    }
    if args.json {
        return output::json(&value(&found));
    }
    output::show(&match args.fix_hints {
        true => hints(&found),
        false => table(&found),
    })
}

/// Main function of the process that prints the capabilities of a host as JSON.
pub fn json_main() -> ExitCode {
    match output::exactly(&value(&found()).to_string()) {
        Ok(()) => Code::Measured.into(),
        Err(_) => Code::Failed.into(),
    }
}

/// Tries what this machine can do.
fn found() -> Vec<Capability> {
    let mut found = capabilities();
    found.push(guest_kernel("guest_kernel", Clock::Real));
    found.push(guest_kernel("guest_kernel.virtual_clock", Clock::Virtual));
    found.push(kernel_settings());
    found.extend(default_congestion_control());
    found.extend(shaped_interfaces());
    found
}

/// Returns the names of the capabilities that the runs of a study need.
fn needed(study: &Study) -> BTreeSet<String> {
    let of_bed: &[&str] = match (study.bed, study.guest.clock, study.path.emulator) {
        // The guest's kernel has all that its transports need.
        (BedKind::Uml, Clock::Real, _) => return ["guest_kernel".to_owned()].into(),
        (BedKind::Uml, Clock::Virtual, _) => {
            return ["guest_kernel.virtual_clock".to_owned()].into();
        }
        (BedKind::Hosts, ..) => &[],
        (BedKind::Netns, _, Emulator::Auto | Emulator::Userspace) => &[USER, NETWORK, "tun"],
        (BedKind::Netns, _, Emulator::Netem) => &[USER, NETWORK, "netem"],
        (BedKind::Netns, _, Emulator::None | Emulator::Loopback) => &[USER, NETWORK],
    };
    let of_kernel = study.transports.iter().flat_map(|transport| {
        let control = registry::kernel_congestion_control(transport);
        let control = control.map(|(_, name)| format!("congestion_control.{name}"));
        let own = Some(transport.driver.clone());
        let own = own.filter(|driver| matches!(&**driver, "sctp" | "mptcp"));
        control.into_iter().chain(own)
    });
    of_bed
        .iter()
        .map(|&it| it.to_owned())
        .chain(of_kernel)
        .collect()
}

/// Says which congestion control the kernel gives to sockets that ask for none, and which one the driver `tcp` sets
/// instead. `None` if the system does not report it.
fn default_congestion_control() -> Option<Capability> {
    let default = regatta_agent::find_driver("tcp")?.descriptor().options;
    let default = default.iter().find(|option| option.name == "cc")?.default;
    let kernels = sysctl("net.ipv4.tcp_congestion_control")?;
    let detail = if kernels == default {
        format!("`{default}` is the kernel's default for TCP and Regatta's")
    } else {
        format!(
            "the kernel's default for TCP is `{kernels}`, which other programs use (`iperf3 -C {default}` does not); \
             Regatta sets `{default}` unless the option `cc` names another"
        )
    };
    Some(Capability {
        name: "default_congestion_control",
        available: true,
        detail,
        hint: String::new(),
    })
}

/// Names the sysctls of this machine that differ from those of a kernel that has just booted. They apply to runs between
/// hosts, and to what no tuning of a study sets.
fn kernel_settings() -> Capability {
    let differing = differing_sysctls(sysctl);
    let texts =
        differing.map(|(it, value)| format!("{} {value} (boots with {})", it.name, it.boot));
    let detail = match texts.collect::<Vec<_>>() {
        texts if texts.is_empty() => {
            "buffers and other settings of the network are those that a kernel boots with"
                .to_owned()
        }
        texts => format!("this machine's own: {}", texts.join("; ")),
    };
    Capability {
        name: "kernel_settings",
        available: true,
        detail,
        hint: String::new(),
    }
}

fn value(found: &[Capability]) -> Value {
    let found = found.iter().map(|it| {
        json!({
            "name": it.name,
            "available": it.available,
            "detail": it.detail,
            "hint": it.hint,
        })
    });
    json!({ "capabilities": found.collect::<Vec<_>>() })
}

/// Checks whether `--bed uml` has a kernel for this clock.
fn guest_kernel(name: &'static str, clock: Clock) -> Capability {
    let found = guest::find(None, clock);
    let (detail, hint) = match &found {
        Ok(image) => {
            let path = image.path.display();
            (
                format!("`--bed uml` has Linux {}: {path}", image.release),
                "",
            )
        }
        Err(error) => (error.to_string(), error.hint()),
    };
    Capability {
        name,
        available: found.is_ok(),
        detail,
        hint: hint.to_owned(),
    }
}

/// Says which interfaces a run has shaped and left so, as all that could restore them were killed at once.
fn shaped_interfaces() -> Vec<Capability> {
    // Without netlink nothing is shaped.
    let shaped = regatta_path_daemon::shaped_interfaces().unwrap_or_default();
    let unused = shaped.into_iter().filter(|it| it.is_in_use != Some(true));
    unused.map(|it| {
        let name = it.name;
        let remove = format!("`sudo tc qdisc del dev {name} root` gives it the kernel's default");
        let sure = match it.is_in_use {
            Some(_) => "was left there by a run that was killed",
            None => "is there, of a run that shapes it now or was killed",
        };
        Capability {
            name: "unshaped_interfaces",
            available: false,
            detail: format!(
                "`{name}` has a queueing discipline of Regatta's (`prio 7e9a:`), which {sure}"
            ),
            hint: match it.has_record {
                true => format!(
                    "the next `regatta run` or `regatta hosts check` that shapes `{name}` restores what it had; {remove}"
                ),
                false => remove,
            },
        }
    })
    .collect()
}

fn hints(found: &[Capability]) -> String {
    let with_hints = found.iter().filter(|it| !it.hint.is_empty());
    with_hints
        .map(|it| format!("{}: {}\n", it.name, it.hint))
        .collect()
}

fn table(found: &[Capability]) -> String {
    let width = found.iter().map(|it| it.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for it in found {
        let mark = if it.available { "yes" } else { "no " };
        let _ = writeln!(text, "{mark}  {:width$}  {}", it.name, it.detail);
        if !it.hint.is_empty() {
            let _ = writeln!(text, "     {:width$}  hint: {}", "", it.hint);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_study_needs_its_bed_and_the_kernel_of_its_transports() {
        let text = |bed: &str| {
            format!(
                "name = \"x\"\n{bed}\n[[transport]]\ndriver = \"sctp\"\n[[transport]]\ndriver = \"tcp\"\ncc = \"bbr\"\n\
             [[condition]]\nname = \"c\"\nrtt = \"10ms\"\nrate = \"1Mbit/s\"\n\
             [[workload]]\nname = \"w\"\nkind = \"bulk\"\nsize = \"1MB\"\n"
            )
        };
        let needs = |bed: &str| {
            let study = Study::parse(&text(bed), "study.toml").expect("a study");
            needed(&study).into_iter().collect::<Vec<_>>()
        };
        let of_kernel = ["congestion_control.bbr", NETWORK, "sctp", "tun", USER];
        assert_eq!(needs("emulator = \"userspace\""), of_kernel);
        assert_eq!(needs("bed = \"uml\""), ["guest_kernel"]);
        let all: Vec<_> = found().into_iter().map(|it| it.name).collect();
        for name in of_kernel {
            assert!(all.contains(&name), "{name}");
        }
    }
}

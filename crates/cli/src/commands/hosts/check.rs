//! `regatta hosts check`: what Regatta can do on a host, and on the way between it and another one.

use std::{
    collections::BTreeSet, fmt::Write as _, fs::File, io::Read as _, path::Path, time::Duration,
};

use regatta_bed::{
    Bed, Errors, Host, Launcher as _, StopRequest, TestBed as _, port_probe::ReachedPorts,
};
use regatta_model::{
    Condition, Link, PathCheck, PathSetup,
    study::LOCAL,
    units::{format_duration, nanoseconds},
};
use serde_json::{Value, json};

use crate::{
    commands::doctor::JSON_COMMAND,
    exit::{Code, OrFailure as _, Result, no_bed, refuse},
    hosts::{
        ended::ended_well,
        file::HostsFile,
        remote::{self, Opened},
    },
    output,
};

/// Delay in each direction of the condition with which shaping is tried.
const TRIED_DELAY: Duration = Duration::from_millis(10);

/// Writes what is found, as text or as JSON lines.
#[derive(Clone, Copy)]
struct Printer {
    is_json: bool,
}

impl Printer {
    /// Writes text, unless the output is JSON.
    fn text(self, text: &str) -> Result<()> {
        match self.is_json {
            true => Ok(()),
            false => output::out(text),
        }
    }

    /// Writes a line of JSON, if the output is JSON.
    fn json(self, value: Value) -> Result<()> {
        match self.is_json {
            true => output::json_lines([value].into_iter()),
            false => Ok(()),
        }
    }
}

/// Runs `regatta hosts check` for a host and the other one, which is this machine if none is named.
///
/// # Errors
/// If a host cannot be reached; mistakes in the hosts file.
pub fn check(names: &[String], hosts_file: Option<&Path>, is_json: bool) -> Result<Code> {
    let printer = Printer { is_json };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    refuse! {
        names.len() > 2 => "a path has two ends";
            "name one host, or two: `regatta hosts check a,b`";
    }
    for opened in remote::open(names.iter().copied(), hosts_file, &StopRequest::default())? {
        host(opened, printer)?;
    }
    match names[..] {
        [a, b] => check_path([a, b], hosts_file, printer),
        // A transfer between the two was not requested.
        [name] if name != LOCAL => {
            if let Err(failure) = check_path([name, LOCAL], hosts_file, printer) {
                let message = failure.render(false);
                let message = message.trim_start_matches("error: ");
                printer.text(&format!("No path to this machine: {message}\n"))?;
                let (reason, hint) = failure.message_and_hint();
                printer.json(json!({ "event": "no_path", "from": name, "to": LOCAL, "reason": reason, "hint": hint }))?;
            }
            printer.text(&format!(
                "`regatta hosts check {name},OTHER` checks the path to another host.\n"
            ))?;
            Ok(Code::Measured)
        }
        _ => Ok(Code::Measured),
    }
}

/// Says how a host is reached and what its kernel can do.
fn host(opened: Opened, printer: Printer) -> Result<()> {
    let mut launcher = opened.launcher();
    let Opened {
        name,
        address,
        addresses,
        connect_time,
        ..
    } = opened;
    let mut text = format!(
        "Host `{name}` is reached in {}.\n",
        format_duration(Duration::from_millis(connect_time.as_millis() as u64))
    );
    if let Some([local, remote]) = addresses {
        text.push_str(&format!("SSH goes from {local} to {remote}.\n"));
    }
    match (address, addresses) {
        (Some(address), _) | (None, Some([_, address])) => {
            text.push_str(&format!("Transfers go to {address}.\n"));
        }
        (None, None) => text.push_str("The address of transfers is taken from the other host.\n"),
    }
    printer.text(&text)?;
    let command = match printer.is_json {
        true => JSON_COMMAND,
        false => "doctor",
    };
    let mut doctor = launcher.launch(command, Errors::Inherit).map_err(no_bed)?;
    let mut found = String::new();
    File::from(doctor.output).read_to_string(&mut found)?;
    ended_well(&name, &mut *doctor.process)?;
    printer.text(&format!("What Regatta can do there:\n{found}\n"))?;
    if !printer.is_json {
        return Ok(());
    }
    let found: Value = serde_json::from_str(&found)
        .context(format!("Regatta on `{name}` does not say what it can do"))
        .hint("put this version of Regatta there, or take `agent` out of the hosts file")?;
    printer.json(json!({
        "event": "host",
        "name": name,
        "reached_in_ns": nanoseconds(connect_time),
        "ssh": addresses.map(|[local, remote]| json!({ "from": local, "to": remote })),
        "transfers_to": address.or(addresses.map(|[_, remote]| remote)),
        "capabilities": found["capabilities"],
    }))
}

/// Says which ports are open between two hosts, and what the path check finds.
fn check_path(names: [&str; 2], hosts_file: Option<&Path>, printer: Printer) -> Result<Code> {
    let hosts = HostsFile::read_or_new(hosts_file)?;
    let mut is_shaped = true;
    for name in names {
        is_shaped &= hosts.host(name)?.shaping.is_some();
    }
    let condition = condition(is_shaped);
    let conditions = std::slice::from_ref(&condition);
    let needs = (conditions, &[][..]);
    let ends = remote::ends(names, needs, hosts_file, &StopRequest::default())?;
    printer.text(&format!("Between `{}` and `{}`:\n", names[0], names[1]))?;
    let mut bed =
        Bed::of_hosts(ends, PathSetup::default(), conditions, "hosts check").map_err(no_bed)?;
    let reached = bed.probe_ports().map_err(no_bed)?;
    let is_open = reached.iter().all(is_open);
    for ports in &reached {
        let has_range = bed.ports(ports.from.other()).is_some();
        printer.text(&ports_text(ports, names, has_range))?;
        let [from, to] = [ports.from, ports.from.other()].map(|host| names[host as usize]);
        printer.json(json!({
            "event": "ports",
            "from": from,
            "to": to,
            "protocol": ports.protocol,
            "tried": ports.tried,
            "blocked": ports.blocked,
            "unanswered": ports.unanswered,
        }))?;
    }
    if !is_open {
        let [a, b] = Host::BOTH.map(|host| bed.address(host));
        printer.text(&format!(
            "Open these ports in the firewalls of both hosts and of what lies between, for packets between {a} and \
             {b}; `ports = \"5200-5299\"` in the hosts file names those that a host listens on. \
             Where nothing arrives at any port, give both hosts an `address` at which the other one reaches them.\n"
        ))?;
        return Ok(Code::Failed);
    }
    let mut check = bed.check_path(&condition).map_err(no_bed)?;
    check.spoiled = check.spoiled.map(|why| why.in_english());
    printer.text(&path(&check, is_shaped))?;
    printer.json(json!({
        "event": "path",
        "from": names[0],
        "to": names[1],
        "is_shaped": is_shaped,
        "check": check,
    }))?;
    Ok(match check.within {
        true => Code::Measured,
        false => Code::Failed,
    })
}

fn is_open(ports: &ReachedPorts) -> bool {
    !ports.tried.is_empty() && ports.blocked.is_empty() && ports.unanswered.is_empty()
}

/// Returns the network as it is, or a delay with which shaping is tried.
fn condition(is_shaped: bool) -> Condition {
    let link = Link {
        delay: match is_shaped {
            true => TRIED_DELAY,
            false => Duration::ZERO,
        },
        ..Link::default()
    };
    Condition {
        name: "check".to_owned(),
        forward: link.clone(),
        reverse: link,
        mtu_bytes: Condition::DEFAULT_MTU_BYTES,
        schedule: Vec::new(),
        tuning: regatta_model::HostTuning::default(),
    }
}

/// Returns a line for each group of ports of one host.
fn ports_text(reached: &ReachedPorts, names: [&str; 2], has_range: bool) -> String {
    let ReachedPorts {
        from,
        protocol,
        tried,
        blocked,
        unanswered,
    } = reached;
    let [from, to] = [*from, from.other()].map(|host| names[host as usize]);
    let mut text = String::new();
    let direction = format!("{protocol} from `{from}` to `{to}`");
    if tried.is_empty() {
        let _ = writeln!(text, "{direction}: all ports are in use");
    }
    let any = match has_range {
        true => "",
        false => ", tried for any port",
    };
    let open = &(tried - blocked) - unanswered;
    for (ports, state) in [
        (&open, "open"),
        (blocked, "blocked: nothing arrives"),
        (
            unanswered,
            "half open: packets arrive, and the answers do not come back",
        ),
    ] {
        if !ports.is_empty() {
            let ports = ranges(ports, tried);
            let _ = writeln!(text, "{direction}, port {ports}{any}: {state}");
        }
    }
    text
}

/// Returns ports as ranges of those that were tried.
fn ranges(ports: &BTreeSet<u16>, tried: &BTreeSet<u16>) -> String {
    let tried: Vec<u16> = tried.iter().copied().collect();
    let groups = tried.chunk_by(|a, b| ports.contains(a) == ports.contains(b));
    let groups = groups.filter(|group| ports.contains(&group[0]));
    let groups = groups.map(|group| match group {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    groups.collect::<Vec<_>>().join(", ")
}

/// Returns what a path check has found.
fn path(check: &PathCheck, is_shaped: bool) -> String {
    let milliseconds = |nanoseconds: f64| format!("{:.3} ms", nanoseconds / 1e6);
    let mut text = String::new();
    for quantity in &check.quantities {
        let value = quantity.achieved;
        let line = match &*quantity.name {
            "round_trip_delay_p50_ns" => format!("Round-trip delay: {}", milliseconds(value)),
            "forward_loss_ratio" => format!("Loss there: {:.2} %", value * 100.0),
            "reverse_loss_ratio" => format!("Loss back: {:.2} %", value * 100.0),
            "clock_offset_ns" => format!(
                "Clock of the second host less that of the first: {} ± {}",
                milliseconds(value),
                milliseconds((quantity.highest - quantity.lowest) / 2.0)
            ),
            _ => continue,
        };
        let _ = writeln!(text, "{line} (n = {})", quantity.n);
    }
    if is_shaped {
        let expected = format_duration(2 * TRIED_DELAY);
        let not = if check.within { "" } else { "not " };
        let _ = writeln!(
            text,
            "Shaping was tried with a delay of {expected} there and back: {not}within the tolerance of the path check"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(blocked: &[u16], unanswered: &[u16]) -> ReachedPorts {
        ReachedPorts {
            from: Host::Server,
            protocol: "UDP",
            tried: (5200..5210).collect(),
            blocked: blocked.iter().copied().collect(),
            unanswered: unanswered.iter().copied().collect(),
        }
    }

    #[test]
    fn blocked_ports_are_named_with_their_direction() {
        let text = ports_text(&reached(&[5203, 5204, 5209], &[5200]), ["a", "b"], true);
        assert_eq!(
            text,
            "UDP from `b` to `a`, port 5201-5202, 5205-5208: open\n\
             UDP from `b` to `a`, port 5203-5204, 5209: blocked: nothing arrives\n\
             UDP from `b` to `a`, port 5200: half open: packets arrive, and the answers do not come back\n"
        );
        assert!(is_open(&reached(&[], &[])));
        assert!(!is_open(&reached(&[5200], &[])));
    }
}

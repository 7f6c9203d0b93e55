//! `regatta doctor`.

use std::fmt::Write;

use regatta_telemetry::{Capability, capabilities};

use crate::{
    args::DoctorArgs,
    exit::{Code, Failure},
    output,
};

/// `regatta doctor`.
///
/// # Errors
/// If standard output cannot be written.
pub fn doctor(args: &DoctorArgs) -> Result<Code, Failure> {
    let found = capabilities();
    let text = if args.fix_hints {
        hints(&found)
    } else {
        table(&found)
    };
    output::out(&text).map_err(Failure::failed)?;
    Ok(Code::Measured)
}

fn hints(found: &[Capability]) -> String {
    let mut text = String::new();
    for it in found.iter().filter(|it| !it.hint.is_empty()) {
        let _ = writeln!(text, "{}: {}", it.name, it.hint);
    }
    text
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

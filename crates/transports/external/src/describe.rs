//! Request of a program's description. A description is kept as long as the program's file stays
//! the same: an interpreter that has to be started for each answer would double the time between
//! trials.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{LazyLock, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use regatta_transport::{MonotonicTime, Stop, Unsupported};

use crate::{
    contract::{CONTRACT_VERSION, Description, FromProgram, ToProgram},
    error::{Broken, ProgramError},
    inbox::Event,
    program::Program,
};

/// Time in which a program must send its description.
const DESCRIBE_LIMIT: Duration = Duration::from_secs(5);

/// Time in which the program must end after that.
const END_LIMIT: Duration = Duration::from_secs(1);

/// The workload that programs carry out.
pub(crate) const WORKLOAD: &str = "bulk";

/// Arguments and file of a program, with the file's modification time and length.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    program: PathBuf,
    arguments: Vec<String>,
    changed: Option<SystemTime>,
    length: Option<u64>,
}

static KNOWN: LazyLock<Mutex<HashMap<Key, Description>>> = LazyLock::new(Mutex::default);

/// Returns the description of a program, from the cache or by starting the program.
pub(crate) fn describe(
    path: &Path,
    arguments: &[String],
    stop: &Stop,
) -> Result<Description, Broken> {
    let file = fs::metadata(path).ok();
    let key = Key {
        program: path.to_path_buf(),
        arguments: arguments.to_vec(),
        changed: file.as_ref().and_then(|file| file.modified().ok()),
        length: file.map(|file| file.len()),
    };
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(description) = known().get(&key) {
        return Ok(description.clone());
    }
    let description = ask(path, arguments, stop)?;
    known().insert(key, description.clone());
    Ok(description)
}

fn ask(path: &Path, arguments: &[String], stop: &Stop) -> Result<Description, Broken> {
    let mut program = Program::start(path, arguments, stop)?;
    program.tell(&ToProgram::Describe {
        contract: CONTRACT_VERSION,
    })?;
    let until = MonotonicTime::now() + DESCRIBE_LIMIT;
    let description = loop {
        match program.next(until)? {
            Some(Event::Said(FromProgram::Description(description))) => break description,
            Some(Event::Said(said)) => {
                return Err(ProgramError::OutOfTurn {
                    said: said.name(),
                    when: "when it was asked for its description",
                }
                .into());
            }
            Some(_) => {}
            None => return Err(program.silent("description", DESCRIBE_LIMIT)),
        }
    };
    program.finish(END_LIMIT);
    if description.contract != CONTRACT_VERSION {
        return Err(ProgramError::Wrong(format!(
            "it speaks version `{}` of the contract and not `{CONTRACT_VERSION}`",
            description.contract
        ))
        .into());
    }
    if !description.workloads.iter().any(|name| name == WORKLOAD) {
        return Err(Broken::Unsupported(Unsupported {
            reason: format!("`{}` does not carry out `{WORKLOAD}`", description.name),
            hint: String::new(),
        }));
    }
    Ok(description)
}

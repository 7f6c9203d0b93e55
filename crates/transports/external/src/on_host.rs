//! Programs of a study on a host that has files of its own: they are sent there, or found there.

use std::path::{Path, PathBuf};

use regatta_model::Transport;

use crate::driver::{self, DIRECTORY, PROGRAM};

/// Program of a transport, and the files that it needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramFiles {
    /// Name of the driver that comes with Regatta, or the program's path in the study.
    pub name: String,
    /// Directory of the files, or the program itself if it needs no others.
    pub root: PathBuf,
    /// Path of the program in the directory; its file name if it needs no others.
    pub program: PathBuf,
    /// Path of the program in a directory with the programs of a host.
    pub on_host: PathBuf,
}

/// Returns the program of a transport that has one, whether or not it is there.
#[must_use]
pub fn program_files(transport: &Transport) -> Option<ProgramFiles> {
    if transport.driver == driver::EXTERNAL.name {
        let named = PROGRAM.text(&transport.options)?;
        let path = Path::new(named);
        let file_name = PathBuf::from(path.file_name()?);
        let directory = DIRECTORY.text(&transport.options).map(Path::new);
        let inside =
            directory.and_then(|directory| Some((directory, path.strip_prefix(directory).ok()?)));
        let (root, program) = match inside {
            Some((directory, program)) => (directory.to_owned(), program.to_owned()),
            None => (path.to_owned(), file_name.clone()),
        };
        return Some(ProgramFiles {
            name: named.to_owned(),
            root,
            program,
            on_host: file_name,
        });
    }
    driver::drivers()
        .iter()
        .find(|driver| driver.descriptor().name == transport.driver)?;
    let name = transport.driver.clone();
    Some(ProgramFiles {
        root: driver::directory()?.join(&name),
        program: driver::PROGRAM_FILE.into(),
        on_host: Path::new(&name).join(driver::PROGRAM_FILE),
        name,
    })
}

#[cfg(test)]
mod tests {
    use regatta_model::OptionValue;

    use super::*;

    fn transport(driver: &str, options: &[(&str, &str)]) -> Transport {
        Transport {
            label: driver.to_owned(),
            driver: driver.to_owned(),
            options: options
                .iter()
                .map(|(name, value)| ((*name).to_owned(), OptionValue::Text((*value).to_owned())))
                .collect(),
        }
    }

    #[test]
    fn program_files_are_the_program_or_its_directory() {
        let alone = program_files(&transport("external", &[("program", "./mine/run")])).unwrap();
        assert_eq!(alone.root, Path::new("./mine/run"));
        assert_eq!(alone.program, Path::new("run"));
        let options = [("program", "./mine/bin/run"), ("directory", "./mine")];
        let inside = program_files(&transport("external", &options)).unwrap();
        assert_eq!(inside.root, Path::new("./mine"));
        assert_eq!(inside.program, Path::new("bin/run"));
        assert_eq!(inside.on_host, Path::new("run"));
        let named = program_files(&transport("quic-go", &[])).unwrap();
        assert_eq!(named.on_host, Path::new("quic-go/driver"));
        assert_eq!(program_files(&transport("tcp", &[])), None);
    }
}

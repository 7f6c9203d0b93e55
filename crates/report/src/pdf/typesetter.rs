//! The typesetter: the program `typeset.py`, which makes PDF and PNG of a job with the Python package `typst`.

use std::{
    fs, io, iter,
    path::{Path, PathBuf},
    process::Command,
};

/// Source of the program. The interpreter gets it as an argument, so that only the packages have to be found.
const PROGRAM: &str = include_str!("typeset.py");

/// Packages that the program imports.
const PACKAGES: [&str; 3] = ["typst", "fontpkg", "fontpkg_noto_sans"];

/// Interpreter of Python, and directory of the packages `typst` and `fontpkg_noto_sans`.
#[derive(Debug, Clone)]
pub struct Typesetter {
    python: PathBuf,
    packages: PathBuf,
}

impl Typesetter {
    /// Returns the typesetter of a directory of packages, or of an environment of Python, whose interpreter it uses;
    /// `None` if `typst` is not installed there.
    #[must_use]
    pub fn installed_in(directory: &Path) -> Option<Self> {
        let own = directory.join("bin/python3");
        Some(Self {
            packages: packages(directory)?,
            python: match own.is_file() {
                true => own,
                false => PathBuf::from("python3"),
            },
        })
    }

    /// Returns the interpreter: a path, or a name to be looked up in `PATH`.
    #[must_use]
    pub fn python(&self) -> &Path {
        &self.python
    }

    /// Copies the packages into a new directory, in which a typesetter is installed then.
    ///
    /// # Errors
    /// Those of the system.
    pub fn copy_to(&self, directory: &Path) -> io::Result<()> {
        PACKAGES.iter().try_for_each(|name| {
            let from = self.packages.join(name);
            // Those of the fonts may be missing.
            match from.is_dir() {
                true => copy_tree(&from, &directory.join(name)),
                false => Ok(()),
            }
        })
    }

    /// Returns the command that reads a job from standard input and writes its files to standard output.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.python);
        // Without the user's variables and packages, and without byte code written beside the packages.
        command
            .args(["-I", "-S", "-B", "-c", PROGRAM])
            .arg(&self.packages);
        command
    }
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let copy = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_tree(&entry.path(), &copy)?,
            false => drop(fs::copy(entry.path(), copy)?),
        }
    }
    Ok(())
}

/// Returns the directory of packages in which `typst` is: this one, or that of an environment.
fn packages(directory: &Path) -> Option<PathBuf> {
    let libraries = fs::read_dir(directory.join("lib")).into_iter().flatten();
    let of_environment = libraries.flatten().filter_map(|entry| {
        let is_python = entry.file_name().to_str()?.starts_with("python3");
        is_python.then(|| entry.path().join("site-packages"))
    });
    iter::once(directory.to_owned())
        .chain(of_environment)
        .find(|path| path.join("typst").is_dir())
}

/// Splits the output of the typesetter into files, in the order of the job: each follows its length, an unsigned
/// number of 8 bytes in network byte order. `None` if the output is cut off.
#[must_use]
pub fn files(mut output: &[u8]) -> Option<Vec<&[u8]>> {
    let mut files = Vec::new();
    while !output.is_empty() {
        let (length, rest) = output.split_first_chunk()?;
        let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
        let (file, rest) = rest.split_at_checked(length)?;
        files.push(file);
        output = rest;
    }
    Some(files)
}

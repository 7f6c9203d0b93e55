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

    /// Copies the Python packages of the typesetter into a new directory, which can then be used instead of the present
    /// one.
    ///
    /// # Errors
    /// Errors of the file system.
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

/// Copies the directories of a tree and its files, those that links name, too. A link to a directory, which may be one above it,
/// and pipes, sockets and devices are left out.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_tree(&path, &copy)?;
        } else if path.is_file() {
            fs::copy(path, copy)?;
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

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use super::*;

    #[test]
    fn packages_are_copied_without_what_is_no_file() {
        let root = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| root.path().join(name));
        fs::create_dir_all(from.join("typst/inner")).unwrap();
        fs::write(from.join("typst/inner/file"), "content").unwrap();
        fs::write(root.path().join("elsewhere"), "linked").unwrap();
        let place = |name: &str| from.join("typst").join(name);
        symlink(root.path().join("elsewhere"), place("link")).unwrap();
        symlink(root.path().join("missing"), place("dangling")).unwrap();
        symlink(&from, place("loop")).unwrap();
        let _socket = UnixListener::bind(place("socket")).unwrap();
        let typesetter = Typesetter {
            python: "python3".into(),
            packages: from,
        };
        typesetter.copy_to(&to).unwrap();
        let read = |name: &str| fs::read_to_string(to.join("typst").join(name)).unwrap();
        assert_eq!(
            (read("inner/file"), read("link")),
            ("content".to_owned(), "linked".to_owned())
        );
        assert!(!to.join("typst/link").is_symlink());
        for absent in ["dangling", "loop", "socket"] {
            assert!(to.join("typst").join(absent).symlink_metadata().is_err());
        }
    }
}

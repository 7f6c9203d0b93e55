//! Search for the kernel that a guest runs.

use std::{
    env,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use regatta_model::{Clock, Named as _, directories};
use regatta_process::end_within;

/// Environment variable that names a kernel for every guest of this user.
const VARIABLE: &str = "REGATTA_UML_KERNEL";

/// Name of the kernel that Debian's package `user-mode-linux` has.
const PACKAGED: &str = "linux.uml";

/// Directory in which the package `regatta-lab-kernel` has its kernel, as `lab/build-kernel` has it in its cache.
const INSTALLED: &str = "/usr/lib/regatta/lab-kernel";

/// Congestion controls of Linux, by the setting that a kernel is built with. `reno` has none: every
/// kernel has it.
pub const CONGESTION_CONTROLS: [(&str, &str); 16] = [
    ("BBR", "bbr"),
    ("BIC", "bic"),
    ("CDG", "cdg"),
    ("CUBIC", "cubic"),
    ("DCTCP", "dctcp"),
    ("HSTCP", "highspeed"),
    ("HTCP", "htcp"),
    ("HYBLA", "hybla"),
    ("ILLINOIS", "illinois"),
    ("LP", "lp"),
    ("NV", "nv"),
    ("SCALABLE", "scalable"),
    ("VEGAS", "vegas"),
    ("VENO", "veno"),
    ("WESTWOOD", "westwood"),
    ("YEAH", "yeah"),
];

/// Hint for a host without a kernel for a real clock.
const REAL_KERNEL_HINT: &str = "install one with `sudo apt-get install --no-install-recommends user-mode-linux`, or name one with `--kernel PATH`";

/// Hint for a machine without a kernel for a virtual clock.
pub const VIRTUAL_KERNEL_HINT: &str = "install the package `regatta-lab-kernel`, build one with `make lab-kernel` in a clone of Regatta (4 to 7 minutes), or name one with `--kernel PATH`";

/// Longest time that a kernel may take to print its release or configuration; it boots nothing for
/// that.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Kernel that can run the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Path of the kernel's executable.
    pub path: PathBuf,
    /// Release of the kernel, such as `6.12.117`.
    pub release: String,
    /// Whether the kernel supports a virtual clock (time travel mode).
    pub travels_in_time: bool,
    /// Names of its congestion controls, built in or as modules. `None` for a kernel that the user
    /// named, which may have others than Linux has.
    pub congestion_controls: Option<Vec<&'static str>>,
}

/// Reasons why there is no kernel to run.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// No kernel was named, and none was found in the usual places.
    #[error("there is no User Mode Linux kernel for a {} clock: looked for {looked_for}", clock.as_str())]
    Missing {
        /// Description of the places that were searched.
        looked_for: String,
        /// Clock that the kernel was to have.
        clock: Clock,
    },
    /// The file that was named cannot be run.
    #[error("cannot run the kernel `{}`", path.display())]
    NotRun {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The file that was named is another program.
    #[error("`{}` is not a User Mode Linux kernel", path.display())]
    OtherProgram {
        /// The file.
        path: PathBuf,
    },
    /// The kernel has no time travel mode.
    #[error(
        "the kernel `{}` ({release}) has no virtual clock: it was built without CONFIG_UML_TIME_TRAVEL_SUPPORT",
        path.display()
    )]
    NoTimeTravel {
        /// The file.
        path: PathBuf,
        /// Release of the kernel.
        release: String,
    },
}

impl ImageError {
    /// Returns a command that helps.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Missing {
                clock: Clock::Real, ..
            } => REAL_KERNEL_HINT,
            Self::Missing {
                clock: Clock::Virtual,
                ..
            }
            | Self::NoTimeTravel { .. } => VIRTUAL_KERNEL_HINT,
            Self::NotRun { .. } | Self::OtherProgram { .. } => {
                "name a kernel that was built with ARCH=um, such as Debian's `/usr/bin/linux.uml`"
            }
        }
    }

    /// Whether the user named an unfit kernel, rather than this machine lacking one.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Missing { .. })
    }
}

/// Finds the kernel for a guest: `named`, else the one that `REGATTA_UML_KERNEL` names, else for a virtual clock the one
/// built by `lab/build-kernel` or installed by the package `regatta-lab-kernel`, and the system's for a real one.
///
/// # Errors
/// [`ImageError`] where there is none or the named one is not fit.
pub fn find(named: Option<&Path>, clock: Clock) -> Result<Image, ImageError> {
    let named = named.map(Path::to_owned).or_else(|| {
        let named = env::var_os(VARIABLE).filter(|it| !it.is_empty());
        named.map(PathBuf::from)
    });
    if let Some(path) = named {
        let image = Image {
            congestion_controls: None,
            ..inspect(&path)?
        };
        return fit(image, clock);
    }
    let found = match clock {
        Clock::Real => packaged().or_else(built),
        Clock::Virtual => built(),
    };
    let missing = || ImageError::Missing {
        looked_for: match clock {
            Clock::Real => format!("`{PACKAGED}` in PATH, and {}", in_directories()),
            Clock::Virtual => in_directories(),
        },
        clock,
    };
    fit(inspect(&found.ok_or_else(missing)?)?, clock)
}

fn fit(image: Image, clock: Clock) -> Result<Image, ImageError> {
    match clock == Clock::Real || image.travels_in_time {
        true => Ok(image),
        false => Err(ImageError::NoTimeTravel {
            path: image.path,
            release: image.release,
        }),
    }
}

/// Description of the directories of kernels with a virtual clock.
fn in_directories() -> String {
    let cache = cache().map_or_else(
        || "no cache, as there is no home directory".to_owned(),
        |cache| format!("`{}`", cache.display()),
    );
    format!("one for virtual time in {cache} and `{INSTALLED}`")
}

/// Returns the directory in which `lab/build-kernel` keeps what it builds.
fn cache() -> Option<PathBuf> {
    if let Some(directory) = env::var_os("REGATTA_LAB_KERNELS") {
        return Some(directory.into());
    }
    Some(directories::cache()?.join("lab-kernel"))
}

/// Returns the newest kernel of the cache, or else the installed one.
fn built() -> Option<PathBuf> {
    cache()
        .and_then(|cache| newest_in(&cache))
        .or_else(|| newest_in(Path::new(INSTALLED)))
}

/// Returns the newest finished kernel below a directory.
fn newest_in(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?;
    entries
        .filter_map(|entry| {
            let kernel = entry.ok()?.path().join("linux");
            let modified = kernel.metadata().ok()?.modified().ok()?;
            // One that is being built is not a kernel yet.
            let finished = kernel.parent()?.join("config").exists();
            finished.then_some((modified, kernel))
        })
        .max()
        .map(|(_, kernel)| kernel)
}

fn packaged() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|directory| directory.join(PACKAGED))
        .find(|file| file.is_file())
}

/// Runs a kernel to find out its release and configuration.
fn inspect(path: &Path) -> Result<Image, ImageError> {
    let config = run(path, "--showconfig")?;
    if !config.contains("CONFIG_UML=y") {
        return Err(ImageError::OtherProgram {
            path: path.to_owned(),
        });
    }
    let release = run(path, "--version")?.trim().to_owned();
    Ok(Image {
        path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        release,
        travels_in_time: config.contains("CONFIG_UML_TIME_TRAVEL_SUPPORT=y"),
        congestion_controls: Some(congestion_controls(&config)),
    })
}

/// Names of the congestion controls that a kernel of this configuration has.
fn congestion_controls(config: &str) -> Vec<&'static str> {
    let is_set = |setting: &&str| {
        let setting = format!("CONFIG_TCP_CONG_{setting}=");
        let value = config.lines().find_map(|line| line.strip_prefix(&setting));
        matches!(value, Some("y" | "m"))
    };
    let configured = CONGESTION_CONTROLS.iter();
    let configured = configured.filter(|(setting, _)| is_set(setting));
    let names = configured.map(|(_, name)| *name);
    ["reno"].into_iter().chain(names).collect()
}

/// Runs a program with one argument and returns its output. A program that is no kernel may do
/// anything, so it is given nothing to read and little time.
fn run(path: &Path, argument: &str) -> Result<String, ImageError> {
    let failed = |source| ImageError::NotRun {
        path: path.to_owned(),
        source,
    };
    let mut child = Command::new(path)
        .arg(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let output = child.stdout.take().expect("a pipe");
    let reader = std::thread::Builder::new().spawn(move || {
        let mut text = Vec::new();
        // Longer output is no answer.
        let read = output.take(4 << 20).read_to_end(&mut text);
        read.map(|_| String::from_utf8_lossy(&text).into_owned())
    });
    end_within(&mut child, ANSWER_TIMEOUT);
    let text = reader.map_err(failed)?.join();
    text.unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()))
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_controls_are_those_of_the_configuration() {
        let config =
            "CONFIG_TCP_CONG_CUBIC=y\nCONFIG_TCP_CONG_HTCP=m\n# CONFIG_TCP_CONG_BBR is not set\n";
        assert_eq!(congestion_controls(config), ["reno", "cubic", "htcp"]);
        let lab = include_str!("../../../../lab/lab.config");
        assert_eq!(
            congestion_controls(lab).len(),
            CONGESTION_CONTROLS.len() + 1
        );
    }

    #[test]
    fn other_programs_and_missing_kernels_are_refused() {
        let error = find(Some(Path::new("/bin/true")), Clock::Real).expect_err("no kernel");
        assert!(matches!(error, ImageError::OtherProgram { .. }), "{error}");
        assert!(error.is_bad_input());
        let error = find(Some(Path::new("/no/such")), Clock::Real).expect_err("no kernel");
        assert!(matches!(error, ImageError::NotRun { .. }), "{error}");
    }
}

//! Reader of study files, which fills in every default and reports every mistake with its span.

use std::{collections::BTreeSet, ops::Range, time::Duration};

use toml::de::DeTable;

use super::{
    BedKind, CaptureSetup, Emulator, GuestSetup, Guests, PathSetup, Placement, Study,
    claim::read_claims,
    competition::read_competitions,
    curve::read_curve,
    error::{Result, StudyError},
    keys::PATH_KEYS,
    message::{Message, key as name_of, message, setting, setting_or_option, text_setting},
    overlay::{Laid, Overlay},
    parts::{LONGEST_NAME, TransportSpans, read_published, read_source, read_transport},
    path::{read_condition, read_tuning},
    rounds,
    section::{Section, refuse},
    source::{File, ReadFile, no_files},
    sweep::{Expansion, Part, Sweeps, Written, base_name, read_sweeps},
    work::read_workload,
    work_keys::WORKLOAD_KEYS,
};
use crate::{
    condition::Condition,
    named::Named as _,
    units::{UnitError, parse_duration},
};

/// Form of a study, for hints.
const FORM: &str = "a study is a TOML file: `key = \"value\"`, `[section]`, `[[list]]`";

/// Parsed study, with the spans of its transports, so that mistakes that only the registry of
/// drivers can find are shown in the file too.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyFile {
    /// The study.
    pub study: Study,
    file: String,
    text: String,
    transports: Vec<TransportSpans>,
    kernel: Option<Range<usize>>,
}

impl StudyFile {
    /// Parses a study from the text of a file; `file` is its name for messages. The study must not
    /// name other files.
    ///
    /// # Errors
    /// The first mistake, with file, line, caret and hint.
    pub fn parse(text: &str, file: &str) -> Result<Self> {
        Self::parse_beside(text, file, &no_files)
    }

    /// Parses a study that may name other files, such as traces: `beside` reads one by its name as
    /// written in the study.
    ///
    /// # Errors
    /// The first mistake, with file, line, caret and hint.
    pub fn parse_beside(text: &str, file: &str, beside: ReadFile<'_>) -> Result<Self> {
        let source = File::new(file, text, beside);
        let document = source.parse(FORM)?;
        Self::read(source, document, None)
    }

    /// Reads the study again with options of the command line in the place of its own keys; `beside` is as for
    /// [`Self::parse_beside`]. The claims are those that were read.
    ///
    /// # Errors
    /// The first mistake of the options, and what of the file does not fit them.
    pub fn with_options(&self, beside: ReadFile<'_>, overlay: Overlay<'_>) -> Result<Self> {
        let text = &*self.text;
        let file = File::new(&self.file, text, beside);
        let mut document = file.parse(FORM)?;
        // The spans of the options begin where those of the file end.
        let both = format!("{text}\n{}", overlay.keys);
        let options = format!("{}{}", " ".repeat(text.len() + 1), overlay.keys);
        let file = file.with_options(&both, overlay.beside);
        let options = file.parse_text(&options, FORM)?;
        let laid = Laid::new(options, overlay.applies, &mut document);
        // Claims are of the study as it is: of the metric by which it ranks, for example.
        document.remove("claim");
        let mut read = Self::read(file, document, Some(&laid))?;
        read.study.claims.clone_from(&self.study.claims);
        Ok(read)
    }

    fn read(source: File<'_>, document: DeTable<'_>, laid: Option<&Laid<'_>>) -> Result<Self> {
        // An error about a missing part is shown at the beginning of the file, not at all of it.
        let mut root = Section::new(source, "the study", 0..0, document);

        let [name, title, description] = read_heading(&mut root)?;
        let rounds = rounds::read(&mut root)?;
        let rank_by = rounds::read_rank_by(&mut root)?;
        let equivalence = rounds::read_equivalence(&mut root)?;
        let seed = root.number("seed", 0, i64::MAX as u64)?.unwrap_or(1);
        let (bed, hosts) = read_bed(&mut root)?;
        let (guest, guest_spans) = GuestSetup::read(&mut root)?;
        let mut path = read_path(&mut root, bed, guest.guests)?;
        let capture = read_capture(&mut root, &mut path)?;
        let tuning = read_tuning(&mut root)?;
        let [deadline, connect_deadline, sample_interval] = read_times(&mut root)?;
        let source_section = root.section("source", "[source]")?;
        let source_section = source_section.map(read_source).transpose()?;
        let mut transport_spans = Vec::new();
        let written: Vec<Written> = read_sweeps(&mut root)?;
        let mut sweeps = Expansion::new(&written);
        let mut transports = read_list(&mut root, Part::Transport, &mut sweeps, None, |section| {
            let (transport, (spans, label)) = read_transport(section)?;
            transport_spans.push(spans);
            Ok((transport.label.clone(), Some(label), transport))
        })?;
        let conditions = read_list(&mut root, Part::Condition, &mut sweeps, laid, |section| {
            let (condition, span) =
                read_condition(section, &tuning, path.emulator.default_mtu_bytes())?;
            Ok((condition.name.clone(), Some(span), condition))
        })?;
        let mut workloads = read_list(&mut root, Part::Workload, &mut sweeps, laid, |section| {
            let (workload, span) = read_workload(section, deadline)?;
            Ok((workload.name.clone(), span, workload))
        })?;
        let competitions = root.sections("competition", "competition")?;
        let published_sections = root.sections("published", "published")?;
        let claims = root.sections("claim", "claim")?;
        let curves = root.sections("curve", "curve")?.into_iter();
        let curves = curves.map(read_curve).collect::<Result<_>>()?;
        root.end_unless(of_a_section)?;

        refuse! { root;
            transports.is_empty() => 0..0,
                "this study has no transport", ["add a section `[[transport]]` with ", text_setting("driver", "tcp")];
            conditions.is_empty() => 0..0,
                "this study has no condition", ["add a section `[[condition]]` with ", text_setting("name", "baseline")];
            workloads.is_empty() => 0..0,
                "this study has no workload", ["add a section `[[workload]]` with ", text_setting("kind", "bulk")];
        }
        let transports_and_spans = (&mut transports, &mut transport_spans);
        let competing = read_competitions(competitions, transports_and_spans, &mut workloads)?;
        for (name, span) in &competing {
            let others = workloads.iter().filter(|other| other.name == *name);
            refuse! { root;
                others.count() > 1 => span.clone(),
                    [format!("two workloads or competitions of this study are named `{name}`")],
                    ["give one of them another ", name_of("name")];
            }
        }
        let sweeps = sweeps.finish();
        for workload in &mut workloads {
            let labels = transports.iter().map(|it| it.label.as_str()).collect();
            let chosen = &mut workload.transports;
            resolve(&root, (Part::Transport, labels), chosen, &sweeps)?;
            let names = conditions.iter().map(|it| it.name.as_str()).collect();
            let chosen = &mut workload.conditions;
            resolve(&root, (Part::Condition, names), chosen, &sweeps)?;
        }
        let published = published_sections.into_iter();
        let published = published.map(|it| read_published(it, &conditions, &workloads));
        let published = published.collect::<Result<_, _>>()?;

        let mut study = Study {
            name,
            title,
            description,
            source: source_section,
            rounds: rounds.rounds,
            until: rounds.until,
            time_limit: rounds.time_limit,
            cell_end: rounds.cell_end,
            rank_by,
            equivalence,
            every: rounds.every,
            scaled: None,
            seed,
            bed,
            hosts,
            guest,
            path,
            capture,
            deadline,
            connect_deadline,
            sample_interval,
            transports,
            conditions,
            workloads,
            published,
            claims: Vec::new(),
            curves,
            sweeps,
        };
        study.choose_emulator_for_flows().map_err(|mistake| {
            let named = competing
                .into_iter()
                .find(|(name, _)| *name == mistake.competition);
            let span = named.map(|(_, span)| span).unwrap_or_default();
            source.error(span, mistake.message, mistake.hint)
        })?;
        study.claims = read_claims(claims, &study)?;
        let fits = study.check_guest();
        fits.map_err(|mistake| guest_spans.error(&source, mistake))?;
        Ok(Self {
            study,
            file: source.name().to_owned(),
            text: source.text().to_owned(),
            transports: transport_spans,
            kernel: guest_spans.kernel(),
        })
    }

    /// Returns an error at the guest's kernel, if the study names one.
    #[must_use]
    pub fn kernel_error(
        &self,
        message: impl Into<Message>,
        hint: impl Into<Message>,
    ) -> Option<StudyError> {
        Some(self.error(self.kernel.clone()?, message, hint))
    }

    /// Returns an error at the driver's name of one transport, or at one of its options.
    #[must_use]
    pub fn transport_error(
        &self,
        transport: usize,
        option: Option<&str>,
        message: impl Into<Message>,
        hint: impl Into<Message>,
    ) -> StudyError {
        let span = self.transports.get(transport).map(|spans| {
            let option = option.and_then(|option| spans.options.get(option));
            option.unwrap_or(&spans.driver).clone()
        });
        self.error(span.unwrap_or_default(), message, hint)
    }

    fn error(
        &self,
        span: Range<usize>,
        message: impl Into<Message>,
        hint: impl Into<Message>,
    ) -> StudyError {
        File::new(&self.file, &self.text, &no_files).error(span, message, hint)
    }
}

impl Study {
    /// Maximum number of rounds of a run.
    pub const MAX_ROUNDS: u32 = 1_000_000;

    /// Parses a study from the text of a file; `file` is its name for messages.
    ///
    /// # Errors
    /// The first mistake, with file, line, caret and hint.
    pub fn parse(text: &str, file: &str) -> Result<Self> {
        StudyFile::parse(text, file).map(|file| file.study)
    }
}

/// Replaces names of a part of the study by full ones: a name that sweeps multiply stands for all that they made.
fn resolve(
    root: &Section<'_>,
    (part, known): (Part, Vec<&str>),
    names: &mut Vec<String>,
    sweeps: &Sweeps,
) -> Result<()> {
    let mut all = Vec::new();
    for name in std::mem::take(names) {
        let entries = sweeps.entries.iter();
        let made = entries.filter(|it| it.part == part && it.base == name);
        let made: Vec<String> = made.map(|it| it.name.clone()).collect();
        if made.is_empty() {
            let span = root.source().span_of(&format!("\"{name}\""));
            root.known(part.as_str(), &name, &span, known.iter().copied())?;
            all.push(name);
        }
        all.extend(made);
    }
    *names = all;
    Ok(())
}

/// Reads the settings of the path's emulation.
fn read_path(root: &mut Section<'_>, bed: BedKind, guests: Guests) -> Result<PathSetup> {
    let emulator = root.choice("emulator")?.unwrap_or_default();
    let span = root.span_of("placement").unwrap_or_default();
    let placement = root.choice("placement")?;
    refuse! { root;
        bed == BedKind::Hosts && placement == Some(Placement::Between) => span,
            "between two hosts there is only their network: netem stands on both ends of it",
            ["leave ", name_of("placement"), " out, or write ", setting_or_option("placement", "ends")];
    }
    let loss_by = root.choice("loss_by")?;
    let offloads = root.choice("offloads")?;
    // Two guests have ends and nothing between them. Settings that they cannot have are errors of the key `guests`.
    let usual = match (guests, emulator) {
        (Guests::Two, Emulator::Auto | Emulator::Netem) => Placement::Ends,
        _ => Placement::default(),
    };
    let path = PathSetup {
        emulator,
        placement: placement.unwrap_or(usual),
        loss_by: loss_by.unwrap_or_default(),
        offloads: offloads.unwrap_or_default(),
    };
    match path.contradiction() {
        Some(message) => {
            let hint = message!([
                "write ",
                text_setting("emulator", "netem"),
                " or `\"auto\"`"
            ]);
            Err(root.error(0..0, message, hint))
        }
        None => Ok(path),
    }
}

/// Reads `bed` and `hosts`. The names of two hosts imply the bed `hosts`.
fn read_bed(root: &mut Section<'_>) -> Result<(BedKind, Vec<String>)> {
    let hosts = read_hosts(root)?;
    let usual = match hosts[..] {
        [] => BedKind::Netns,
        _ => BedKind::Hosts,
    };
    let bed = root.choice("bed")?.unwrap_or(usual);
    refuse! { root;
        (bed == BedKind::Hosts) == hosts.is_empty() => 0..0,
            "the bed `hosts` and the names of two hosts go together",
            [
                "write ", text_setting("bed", "hosts"), " and ", setting("hosts", TWO_HOSTS),
                ", with names of the hosts file",
            ];
    }
    Ok((bed, hosts))
}

/// Reads `hosts`: the names of the host that connects and of the other one.
fn read_hosts(root: &mut Section<'_>) -> Result<Vec<String>> {
    let hosts = root.texts("hosts")?;
    let fits = match &hosts[..] {
        [] => true,
        [a, b] => a != b && [a, b].into_iter().all(|name| is_host_name(name)),
        _ => false,
    };
    refuse! { root;
        !fits => 0..0,
            [name_of("hosts"), " are the names of two different hosts of the hosts file"],
            ["write ", setting("hosts", TWO_HOSTS), ": the first one connects, `local` is this machine"];
    }
    Ok(hosts)
}

/// Example of the names of two hosts, as TOML.
const TWO_HOSTS: &str = "[\"lab1\", \"local\"]";

/// Whether a name can be that of a host in the hosts file: letters, digits, `-`, `_`, `.`, 64 at most.
pub fn is_host_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && !name.starts_with(['.', '-'])
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Reads `name`, `title` and `description`.
fn read_heading(root: &mut Section<'_>) -> Result<[String; 3]> {
    let name = root.text("name")?;
    if let Some((name, span)) = &name {
        check_study_name(root, name, span.clone())?;
    }
    let name = name.map_or_else(|| "study".to_owned(), |(name, _)| name);
    let title = root.text("title")?;
    let title = title.map_or_else(|| name.clone(), |(title, _)| title);
    let description = root.text("description")?.unwrap_or_default().0;
    Ok([name, title, description])
}

/// Returns the hint for a key at the head of a study that belongs into one of its sections.
fn of_a_section(key: &str) -> Option<Message> {
    let section = match key {
        _ if PATH_KEYS.iter().any(|known| known.name == key) => "[[condition]]",
        _ if WORKLOAD_KEYS.iter().any(|known| known.name == key) => "[[workload]]",
        _ => return None,
    };
    Some(message!([
        name_of(key),
        format!(" is a key of `{section}`")
    ]))
}

/// Reads `capture`, and puts the path into the form that a capture needs.
fn read_capture(root: &mut Section<'_>, path: &mut PathSetup) -> Result<Option<CaptureSetup>> {
    let Some((capture, span)) = root.quantity("capture", "headers", str::parse)? else {
        return Ok(None);
    };
    *path = CaptureSetup::path(*path).map_err(|why| {
        let hint = message!(["leave that out, or ", name_of("capture")]);
        root.error(span, why.after("there is no capture here: "), hint)
    })?;
    Ok(Some(capture))
}

/// Reads `deadline`, `connect_deadline` and `sample_interval`.
fn read_times(root: &mut Section<'_>) -> Result<[Duration; 3]> {
    let deadline = root.time_or("deadline", "30s", Duration::from_secs(60))?;
    let connect_deadline = root.time_or("connect_deadline", "10s", Study::CONNECT_DEADLINE)?;
    let (shortest, example) = (Duration::from_millis(10), "100ms");
    let interval = root.quantity("sample_interval", example, |text| match parse_duration(text)? {
        time if (shortest..=Condition::LONGEST_TIME).contains(&time) => Ok(time),
        _ => Err(UnitError::new(
            "this interval is shorter than 10 ms, which would disturb what is measured, or longer than 30 days",
            format!("write an interval such as `{example}`"),
        )),
    })?;
    let interval = interval.map_or(Duration::from_millis(100), |(interval, _)| interval);
    Ok([deadline, connect_deadline, interval])
}

/// Reads the tables of a part, one for each value of its sweeps and with the keys of options, with `read`, which returns an
/// entry's name with its span in the file and the entry. No two entries have the same name.
fn read_list<'a, T>(
    root: &mut Section<'a>,
    part: Part,
    sweeps: &mut Expansion<'a>,
    laid: Option<&Laid<'a>>,
    mut read: impl FnMut(Section<'a>) -> Result<(String, Option<Range<usize>>, T)>,
) -> Result<Vec<T>> {
    let list = part.as_str();
    let key = part.name_key();
    let mut names = BTreeSet::new();
    let mut entries = Vec::new();
    let sections = root.sections(list, list)?;
    for mut section in sweeps.expand(part, sections)? {
        let section_span = section.span();
        let (known, _) = base_name(part, &section);
        if let Some(laid) = laid {
            laid.lay_over(part, &known, section.table_mut());
        }
        let (name, span, entry) = read(section).map_err(|mut error| {
            error.place.entry = Some(format!("the {list} `{known}`"));
            error
        })?;
        unique(root, key, &mut names, &name, span.unwrap_or(section_span))?;
        entries.push(entry);
    }
    Ok(entries)
}

/// Checks that a name is not among those before it, and adds it to them.
fn unique(
    root: &Section<'_>,
    key: &str,
    before: &mut BTreeSet<String>,
    name: &str,
    span: Range<usize>,
) -> Result<()> {
    if before.insert(name.to_owned()) {
        return Ok(());
    }
    Err(root.error(
        span,
        format!("the {key} `{name}` is in this study twice"),
        message!([
            "give one of them another one: ",
            text_setting(key, format_args!("{name}-2")),
        ]),
    ))
}

fn check_study_name(root: &Section<'_>, name: &str, span: Range<usize>) -> Result<()> {
    if is_host_name(name) {
        return Ok(());
    }
    let length = name.chars().count();
    let message = if length > LONGEST_NAME {
        format!(
            "this name has {length} characters, and the longest name of a study has {LONGEST_NAME}: \
             it names a directory"
        )
    } else {
        let wrong = name
            .chars()
            .find(|c| !is_host_name(&c.to_string()) && !".-".contains(*c));
        let wrong = match wrong {
            Some(' ') => "it has a space".to_owned(),
            Some(other) => format!("it has `{}`", other.escape_debug()),
            None if name.is_empty() => "it is empty".to_owned(),
            None => "it begins with no letter or digit".to_owned(),
        };
        format!(
            "`{name}` cannot be the name of a study, which is also that of a directory: {wrong}"
        )
    };
    let allowed = |c: char| match c {
        c if is_host_name(&c.to_string()) || ".-".contains(c) => c,
        _ => '-',
    };
    let near: String = name.chars().map(allowed).collect();
    let near = near.trim_matches(['.', '-']);
    let hint = match is_host_name(near) {
        true if root.span_of("title").is_some() => {
            message!(["write ", text_setting("name", near)])
        }
        true => message!([
            "write ",
            text_setting("name", near),
            ", and ",
            text_setting("title", name.escape_debug()),
            " for readers",
        ]),
        false => message!("write letters, digits and hyphens, at most {LONGEST_NAME}"),
    };
    Err(root.error(span, message, hint))
}

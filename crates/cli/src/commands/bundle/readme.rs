//! `README.md` of an archive.

use std::fmt::Write as _;

use regatta_model::shell::printable;
use regatta_report::{RunData, Summary, format};

use super::{LeftOut, Member, archive::DIGESTS, markdown, rerun::RerunCommand};

/// Facts of a host that the page shows; all are in `environment.json`.
const FACTS: [&str; 4] = ["kernel.release", "cpu.model", "cpu.cores", "memory.bytes"];

/// Returns the page.
pub fn page(
    data: &RunData,
    summary: &Summary,
    members: &[Member],
    left_out: &[LeftOut],
    again: &RerunCommand,
) -> String {
    let header = &data.header;
    let headline = summary.verdict.headline.iter();
    let headline: Vec<String> = headline.map(|line| markdown::text(line)).collect();
    let mut page = format!(
        "# {}\n\nStudy {}, run {}, started {}, with Regatta {} on {}. {} of {} trials are stored.\n\n{}\n\n{}\n",
        markdown::text(&header.study.title),
        markdown::code(&header.study.name),
        markdown::code(&header.run_id),
        format::moment(header.started_unix_ns),
        markdown::text(&header.regatta_version),
        markdown::text(&header.bed),
        summary.state.trials_saved,
        summary.state.trials_planned,
        headline.join("\n"),
        markdown::text(&summary.verdict.overall),
    );
    page.push_str("\n## Contents\n\n| file | contents |\n|---|---|\n");
    let captures = members
        .iter()
        .filter(|member| member.name.contains('/'))
        .count();
    for member in members.iter().filter(|member| !member.name.contains('/')) {
        let name = markdown::cell(&markdown::code(&member.name));
        let _ = writeln!(page, "| {name} | {} |", member.description());
    }
    if captures > 0 {
        let _ = writeln!(
            page,
            "| `files/` | {captures} captures and logs of the trials |"
        );
    }
    let _ = write!(
        page,
        "| `{DIGESTS}` | SHA-256 of every file above |\n\n\
         ## Check\n\n```sh\nsha256sum --check {DIGESTS}\n```\n\n\
         ## Read\n\n`report.html` opens in any browser. Regatta {} or later makes every report and table again from \
         the results file:\n\n```sh\nregatta report .\nregatta export . --out tables --format parquet,csv\n```\n\n\
         ## Run again\n\n{}\n",
        markdown::text(&header.regatta_version),
        markdown::block("sh", &format!("{}\nregatta compare . again", again.line)),
    );
    match &again.checked {
        Ok(()) => page.push_str(
            "This command was checked: it asks for the same study, with the same seed.\n",
        ),
        Err(reason) => {
            let _ = writeln!(
                page,
                "This command does not ask for exactly the same study: {}.",
                markdown::text(reason)
            );
        }
    }
    for build in &summary.builds {
        let _ = writeln!(
            page,
            "\nBuild at {}: {}.",
            markdown::text(&build.hosts.join(" and ")),
            markdown::text(&build.text())
        );
    }
    page.push_str("\n## Hosts\n\nAll facts are in `environment.json`.\n\n");
    for (host, facts) in &header.hosts {
        let known = |name: &&str| Some(format!("{name} {}", facts.0.get(*name)?));
        let known: Vec<String> = FACTS.iter().filter_map(known).collect();
        let label = header.host_label(host);
        let line = format!("{label}: {}", known.join(", "));
        let _ = writeln!(page, "- {}", markdown::text(&line));
    }
    page.push_str("\n## Left out\n\n");
    if left_out.is_empty() {
        page.push_str("Nothing of the run.\n");
    }
    for it in left_out {
        let _ = writeln!(page, "- {}: {}", markdown::code(&it.name), it.reason);
    }
    printable(&page)
}

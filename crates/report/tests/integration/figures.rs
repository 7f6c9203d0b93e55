//! Figures as files: names, sizes, legible texts, values of the summary, and what the typesetter makes of them.

use std::{collections::BTreeSet, io::Write as _, process::Command, time::Duration};

use crate::common::paper::typeset_job;
use regatta_model::{Condition, Step, metric, metric::id};
use regatta_report::{
    RunData,
    figure_files::{self, FigureFiles, figure_files, index},
    format::Scale,
    html,
    pdf::{Form, Paper},
    summarise,
};

use crate::common;

fn files() -> Vec<FigureFiles> {
    let data = common::full();
    figure_files(&data, &summarise(&data))
}

fn file<'a>(files: &'a [FigureFiles], name: &str) -> &'a FigureFiles {
    let found = files.iter().find(|file| file.name == name);
    found.unwrap_or_else(|| {
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        panic!("no `{name}` in {names:?}")
    })
}

#[test]
fn every_figure_has_a_unique_name_and_a_line_in_the_list() {
    let files = files();
    let names: BTreeSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert!(files.len() >= 10, "{names:?}");
    assert_eq!(names.len(), files.len(), "{names:?}");
    let list = index(&files);
    assert_eq!(list.lines().count(), files.len() + 1);
    for name in names {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(name.chars().all(is_plain), "{name}");
        assert!(list.contains(&format!("\n{name},")), "{name}");
    }
}

#[test]
fn a_figure_fits_a_column_and_its_texts_are_legible() {
    for file in files() {
        let [width, height] = file.size_mm;
        assert!([85.0, 175.0].contains(&width), "{}: {width}", file.name);
        assert!(height > 20.0, "{}: {height}", file.name);
        assert!(!file.svg.contains("var(--"), "{}: colours", file.name);
        // A panel has 420 units in a column of 85 mm.
        let points = 85.0 / 420.0 / 25.4 * 72.0;
        for size in file.svg.split("font-size=\"").skip(1) {
            let size: f64 = size
                .split('"')
                .next()
                .expect("a size")
                .parse()
                .expect("a number");
            assert!(size * points >= 7.0, "{}: {size}", file.name);
        }
    }
}

#[test]
fn the_values_are_those_of_the_summary() {
    let data = common::full();
    let summary = summarise(&data);
    let files = files();
    let figure = file(&files, "mean-goodput-bps");
    let cells = summary.cells.iter().filter(|cell| cell.n > 0);
    let mut seen = 0;
    for cell in cells {
        let Some((value, Some([low, high]))) = cell.shown(id::GOODPUT_BPS) else {
            continue;
        };
        let start = format!("{},{},mean,,", cell.condition, cell.transport);
        let line = figure.csv.lines().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("{start}: {}", figure.csv));
        let numbers: Vec<f64> = line[start.len()..]
            .split(',')
            .map(|number| number.parse().expect("a number"))
            .collect();
        let scale = Scale {
            divisor: 1e6,
            unit: "Mbit/s",
        };
        let expected = [value, low, high].map(|value| scale.apply(value));
        for (number, expected) in numbers.iter().zip(expected) {
            assert!((number / expected - 1.0).abs() < 1e-8, "{line}: {expected}");
        }
        let trials = format!("{},{},trial,", cell.condition, cell.transport);
        let trials = figure.csv.lines().filter(|line| line.starts_with(&trials));
        assert_eq!(trials.count() as u64, cell.n, "{start}");
        seen += 1;
    }
    assert!(seen >= 4, "{seen}");
    assert!(
        figure.caption.contains("value, low, high: goodput, Mbit/s"),
        "{}",
        figure.caption
    );
}

#[test]
fn a_line_has_its_band_in_the_same_row() {
    let files = files();
    let figure = file(&files, "time-goodput-bps");
    let mut rows = 0;
    for line in figure.csv.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), 8, "{line}");
        assert_eq!(fields[2], "line", "{line}");
        let [value, low, high] = [4, 5, 6].map(|n| fields[n].parse::<f64>().expect("a number"));
        assert!(low <= value && value <= high, "{line}");
        rows += 1;
    }
    assert!(rows > 20, "{rows}");
    assert!(
        figure.caption.contains("x: time since"),
        "{}",
        figure.caption
    );
}

/// Returns the figures of a run.
fn of(data: &RunData) -> Vec<FigureFiles> {
    figure_files(data, &summarise(data))
}

/// Returns the colour of a transport in the figure of the means.
fn colour(data: &RunData, label: &str) -> String {
    let files = of(data);
    let figure = file(&files, "mean-goodput-bps");
    let row = figure
        .svg
        .split(&format!("class=\"value\" data-s=\"{label}\""))
        .nth(1);
    let mark = row.and_then(|row| row.split("class=\"mark\" fill=\"").nth(1));
    mark.and_then(|mark| mark.split('"').next())
        .expect("a mark")
        .to_owned()
}

#[test]
fn a_transport_has_its_colour_whatever_else_ran() {
    let all = common::full();
    let mut study = common::study();
    study.transports.reverse();
    study
        .transports
        .retain(|it| ["quic-quinn", "tcp", "udp"].contains(&it.label.as_str()));
    let few = common::run(study, |_| None);
    for label in ["tcp", "udp", "quic-quinn"] {
        assert_eq!(colour(&all, label), colour(&few, label), "{label}");
    }
    let labels = ["tcp", "tcp-bbr", "tcp-tls", "udp", "quic-quinn"];
    let colours: BTreeSet<String> = labels.iter().map(|label| colour(&all, label)).collect();
    assert_eq!(colours.len(), labels.len(), "{colours:?}");
}

#[test]
fn no_cell_of_the_values_begins_like_a_formula() {
    let mut study = common::study();
    let labels = ["=1+1", "+cmd", "-cmd", "@SUM(A1)", "=\"a\",b"];
    study.transports.truncate(labels.len());
    for (transport, label) in study.transports.iter_mut().zip(labels) {
        transport.label = label.to_owned();
    }
    for (condition, begin) in study
        .conditions
        .iter_mut()
        .zip(["=", "+", "-", "@"].iter().cycle())
    {
        condition.name = format!("{begin}{}", condition.name);
    }
    study.published.clear();
    study.source = None;
    let files = of(&common::run(study, |_| None));
    let (mut quoted, mut begins) = (0, BTreeSet::new());
    for text in files.iter().map(|file| &*file.csv).chain([&*index(&files)]) {
        // A cell with quotes begins after one; no other cell has a comma.
        let cells = text.lines().flat_map(|line| line.split(','));
        for cell in cells.map(|cell| cell.trim_start_matches('"')) {
            let is_number = cell.parse::<f64>().is_ok();
            assert!(
                is_number || !cell.starts_with(['=', '+', '-', '@']),
                "{cell}"
            );
            if let Some(formula) = cell.strip_prefix('\'') {
                quoted += 1;
                begins.extend(formula.chars().next());
            }
        }
    }
    assert!(quoted > 100, "{quoted}");
    assert!(
        begins.is_superset(&BTreeSet::from(['=', '+', '-', '@'])),
        "{begins:?}"
    );
}

#[test]
fn long_labels_are_not_cut_where_they_differ() {
    let mut study = common::study();
    let labels = [
        "a-transport-with-a-window-of-1MB-and-cubic",
        "a-transport-with-a-window-of-16MB-and-cubic",
    ];
    study.transports.truncate(2);
    for (transport, label) in study.transports.iter_mut().zip(labels) {
        transport.label = label.to_owned();
    }
    study.published.clear();
    let data = common::run(study, |_| None);
    let files = of(&data);
    for name in [
        "mean-goodput-bps",
        "time-goodput-bps",
        "box-goodput-bps",
        "trial-goodput-bps",
    ] {
        let svg = &file(&files, name).svg;
        let texts: BTreeSet<&str> = (svg.split("</text>"))
            .filter_map(|part| part.rsplit('>').next())
            .filter(|text| text.contains('…'))
            .collect();
        assert_eq!(texts.len(), 2, "{name}: {texts:?}");
        for window in ["…1MB…", "…16MB…"] {
            assert!(
                texts.iter().any(|text| text.contains(window)),
                "{name}: {texts:?}"
            );
        }
    }
    let options = regatta_report::terminal::TerminalOptions {
        width: 80,
        color: false,
        details: true,
    };
    let text = regatta_report::terminal::render(&summarise(&data), &data, &options);
    assert!(text.contains("…1MB…") && text.contains("…16MB…"), "{text}");
}

/// Makes the second sample of each trial with BBR one of `rate`, in bit/s.
fn with_sample_of(rate: f64) -> RunData {
    let mut data = common::full();
    for trial in &mut data.trials {
        let series = trial.measurements.series.iter_mut();
        let series = series.filter(|it| it.name == "goodput_bps" && trial.transport == "tcp-bbr");
        for values in series.map(|it| &mut it.values) {
            values[1] = rate;
        }
    }
    data
}

#[test]
fn an_outlier_above_the_link_rate_does_not_set_the_axis() {
    const CUT: &str = "What lies beyond the vertical axis is drawn at its upper end.";
    let drawn = |rate| {
        let files = of(&with_sample_of(rate));
        let figure = file(&files, "time-goodput-bps");
        (figure.caption.clone(), figure.svg.contains(">200</text>"))
    };
    let (caption, ends_at_double) = drawn(15e9);
    assert!(caption.contains("at most 15.0 Gbit/s"), "{caption}");
    assert!(caption.contains(CUT) && ends_at_double, "{caption}");
    let (caption, _) = drawn(130e6);
    assert!(!caption.contains(CUT), "{caption}");
}

#[test]
fn samples_above_the_link_rate_are_explained() {
    let caption = |data: &RunData| file(&of(data), "time-goodput-bps").caption.clone();
    let plain = caption(&common::full());
    assert!(plain.contains("Dotted across: the link rate."), "{plain}");
    assert!(!plain.contains("above the link rate"), "{plain}");
    let data = with_sample_of(130e6);
    let caption = caption(&data);
    assert!(
        caption.contains("Samples above the link rate (at most 130.0 Mbit/s over a link of 100.0 Mbit/s, `tcp-bbr` under `baseline`): where a transport delivers in order"),
        "{caption}"
    );
    let files = of(&data);
    assert!(
        file(&files, "time-goodput-bps")
            .svg
            .contains(">link rate</text>")
    );
}

#[test]
fn a_quantity_that_is_zero_throughout_has_a_sentence_instead_of_a_figure() {
    let errors = |value: f32| {
        let mut data = common::full();
        let series = data
            .trials
            .iter_mut()
            .flat_map(|it| &mut it.measurements.series);
        for series in series.filter(|it| it.name == "interface_errors") {
            series.values.fill(value.into());
        }
        let page = html::render(&data, &summarise(&data)).expect("the page is made");
        let names: Vec<String> = of(&data).into_iter().map(|file| file.name).collect();
        let is_drawn = names.iter().any(|name| name == "time-interface-errors");
        (
            is_drawn,
            page.contains("Zero throughout, and therefore without a figure: Errors of each end"),
        )
    };
    assert_eq!(errors(0.0), (false, true));
    assert_eq!(errors(2.0), (true, false));
}

#[test]
fn a_caption_can_be_read_alone() {
    for figure in files() {
        let same = figure.caption.find(" the same messages");
        let mean = figure.caption.find("Mean over the messages");
        assert!(
            same.is_none() || mean < same,
            "{}: {}",
            figure.name,
            figure.caption
        );
    }
    let files = files();
    let figure = file(&files, "mean-round-trip-delay-p50-ns");
    assert!(
        figure
            .caption
            .contains("from the scheduled departure of each to its answer"),
        "{}",
        figure.caption
    );
}

#[test]
fn a_page_defines_a_metric_at_one_figure_and_a_paper_among_its_terms() {
    let data = common::full();
    let summary = summarise(&data);
    let definition = metric::find(id::GOODPUT_BPS).expect("a metric").definition;
    let page = html::render(&data, &summary).expect("the page is made");
    let captions = page.split("<figcaption>").skip(1);
    let captions = captions.map(|it| it.split("</figcaption>").next().unwrap_or_default());
    let escaped = definition.replace('\'', "&#39;");
    let escaped = escaped
        .replacen("`", "<code>", 1)
        .replacen('`', "</code>", 1);
    let defining = captions.filter(|caption| caption.contains(&escaped));
    assert_eq!(defining.count(), 1);
    let job = regatta_report::pdf::job(&data, &summary, Paper::A4, Form::Full).expect("a job");
    assert_eq!(job.matches(definition).count(), 1);
}

#[test]
fn times_that_span_decades_have_a_logarithmic_axis() {
    let drawn = |factor: f64| {
        let mut data = common::full();
        for trial in &mut data.trials {
            let slow = if trial.condition == "baseline" {
                1.0
            } else {
                factor
            };
            let time = 20e6 * slow * (1.0 + 0.01 * f64::from(trial.round));
            trial
                .measurements
                .metrics
                .insert("time_to_first_byte_p50_ns", time);
        }
        let files = of(&data);
        let figure = file(&files, "mean-time-to-first-byte-p50-ns");
        figure.caption.contains("The axis is logarithmic.")
    };
    assert!(drawn(500.0));
    assert!(!drawn(5.0));
}

#[test]
fn steps_of_a_schedule_have_labels() {
    let mut study = common::study();
    study.transports.truncate(2);
    let lossy = study.conditions.remove(1);
    let step = |ms, loss: &Condition| Step {
        at: Duration::from_millis(ms),
        forward: loss.forward.clone(),
        reverse: loss.reverse.clone(),
    };
    let first = study.conditions[0].clone();
    study.conditions[0].schedule = vec![step(350, &lossy), step(700, &first)];
    study.published.clear();
    let data = common::run(study, |_| None);
    let files = of(&data);
    for name in [
        "time-goodput-bps",
        "time-round-trip-delay-ns",
        "time-cpu-ratio",
    ] {
        let figure = file(&files, name);
        for label in [">0 % loss</text>", ">5 % loss</text>"] {
            assert!(figure.svg.contains(label), "{name}: {label}");
        }
        assert!(
            figure.caption.contains("Steps of `baseline`: 0 % loss at first; 1 at 350 ms: 5 % loss; 2 at 700 ms: 0 % loss."),
            "{}",
            figure.caption
        );
    }
}

#[test]
fn pdf_and_png_have_the_size_of_the_figure_and_the_same_bytes_again() {
    let data = common::full();
    let [files, again] = [(); 2].map(|()| figure_files(&data, &summarise(&data)));
    let [figure, again] = [&files, &again].map(|files| file(files, "mean-goodput-bps"));
    assert_eq!((&figure.svg, &figure.csv), (&again.svg, &again.csv));

    let typeset = |figure| {
        typeset_job(&figure_files::typeset_job(
            std::slice::from_ref(figure),
            &data,
        ))
    };
    let typeset_figure = typeset(figure);
    assert_eq!(typeset_figure, typeset(again));
    let [pdf, png] = typeset_figure.try_into().expect("PDF and PNG");
    let mut on_disk = tempfile::NamedTempFile::new().expect("a temporary file");
    on_disk.write_all(&pdf).expect("a writable file");
    let tool_output = |program: &str, more: &[&str]| {
        let output = Command::new(program)
            .arg(on_disk.path())
            .args(more)
            .output();
        String::from_utf8(output.expect("poppler-utils").stdout).expect("UTF-8")
    };
    let info = tool_output("pdfinfo", &[]);
    let points = figure.size_mm.map(|length| length / 25.4 * 72.0);
    let size = info
        .lines()
        .find(|line| line.starts_with("Page size"))
        .expect("a size");
    let sizes: Vec<f64> = size
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    assert!(
        sizes
            .iter()
            .zip(points)
            .all(|(size, points)| (size - points).abs() < 0.1),
        "{info}"
    );
    assert!(
        info.lines()
            .any(|line| line.starts_with("Pages") && line.ends_with(" 1")),
        "{info}"
    );
    let text = tool_output("pdftotext", &["-"]);
    assert!(
        text.contains("goodput, Mbit/s"),
        "text can be searched: {text}"
    );

    let dots = |from: usize| u32::from_be_bytes(png[from..from + 4].try_into().expect("4 bytes"));
    let expected = figure.size_mm.map(|length| (length / 25.4 * 600.0).round());
    for (dots, expected) in [dots(16), dots(20)].into_iter().zip(expected) {
        assert!(
            (f64::from(dots) - expected).abs() <= 1.0,
            "{dots}: {expected}"
        );
    }
}

//! Drawing of a run's state, in any size; without colours.

use std::time::Duration;

use ratatui::{
    Frame,
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::{Paragraph, Row, Sparkline, Table, Wrap},
};
use regatta_model::{Unit, shell::printable};
use regatta_report::{
    format::{Scale, quantity},
    labels::Labels,
};

use crate::{
    model::{Activity, LiveCell, LiveRun, LiveTrial, RunStatus},
    run_estimate::coarse_duration,
};

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Smallest width of the names of cells.
const MIN_NAME_WIDTH: u16 = 8;

/// Rows of the trial under way.
const TRIAL_ROWS: u16 = 6;

/// State to draw, and how.
pub struct View<'a> {
    pub run: &'a LiveRun,
    pub now_unix_ns: i64,
    /// Whether the run is another process's.
    pub is_attached: bool,
    pub is_utf8: bool,
    /// Address of the web page.
    pub url: Option<&'a str>,
}

impl View<'_> {
    /// Draws the whole screen.
    pub fn draw(&self, frame: &mut Frame) {
        let message_rows = (self.run.now.messages.len() as u16).min(3);
        let pages = u16::from(self.url.is_some());
        let [head, trial, cells, messages, page, foot] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Length(TRIAL_ROWS),
            Constraint::Min(3),
            Constraint::Length(message_rows),
            Constraint::Length(pages),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        self.draw_head(frame, head);
        self.draw_activity(frame, trial);
        self.draw_cells(frame, cells);
        self.draw_messages(frame, messages);
        frame.render_widget(Line::raw(self.url.unwrap_or_default()), page);
        frame.render_widget(Line::styled(self.foot(), REVERSED), foot);
        if !self.is_utf8 {
            to_ascii(frame.buffer_mut());
        }
    }

    fn draw_head(&self, frame: &mut Frame, area: Rect) {
        let now = &self.run.now;
        let name = match now.title.is_empty() {
            true => now.study.clone(),
            false => format!("{}: {}", now.study, now.title),
        };
        let width = usize::from(area.width);
        let lines = vec![
            Line::styled(truncated(&name, width), BOLD),
            Line::raw(truncated(&now.bed, width)),
            Line::raw(self.progress(width)),
        ];
        frame.render_widget(Paragraph::new(lines), area);
    }

    /// Returns the line of the whole run: a progress bar, trials, rounds and the remaining time.
    fn progress(&self, width: usize) -> String {
        let now = &self.run.now;
        let mut text = format!(" {}/{} trials", now.done, now.trials);
        if !matches!(now.activity, Activity::Shards(_)) {
            text.push_str(&format!(", round {}/{}", now.round + 1, now.rounds));
        }
        if let Some(remaining) = self.time_until(now.ends_unix_ns) {
            text.push_str(&format!(", about {} left", coarse_duration(remaining)));
        }
        let room = width.saturating_sub(text.chars().count() + 2).min(40);
        if room < 4 {
            return text.trim_start().to_owned();
        }
        let share = f64::from(now.done) / f64::from(now.trials.max(1));
        let full = ((room as f64 * share) as usize).min(room);
        format!("[{}{}]{text}", "#".repeat(full), ".".repeat(room - full))
    }

    fn time_until(&self, unix_ns: Option<i64>) -> Option<Duration> {
        let remaining = unix_ns?.saturating_sub(self.now_unix_ns).max(0);
        Some(Duration::from_nanos(remaining.unsigned_abs()))
    }

    fn draw_activity(&self, frame: &mut Frame, area: Rect) {
        let text = match &self.run.now.activity {
            Activity::Trial(trial) => return self.draw_trial(frame, area, trial),
            Activity::Shards(counts) => counts.to_string(),
            Activity::Preparing => "preparing: the bed, its path, or the next trial".to_owned(),
            Activity::Waiting { until_unix_ns } => {
                let remaining = self.time_until(Some(*until_unix_ns)).unwrap_or_default();
                format!(
                    "round {} begins in {}",
                    self.run.now.round + 1,
                    coarse_duration(remaining)
                )
            }
            Activity::Ended { complete: true, .. } => "the run is complete".to_owned(),
            Activity::Ended { reason, .. } => format!("the run has ended: {reason}"),
        };
        let text = format!("\n{}", printable(&text));
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
    }

    fn draw_trial(&self, frame: &mut Frame, area: Rect, trial: &LiveTrial) {
        let since = self.now_unix_ns.saturating_sub(trial.started_unix_ns);
        let seconds = since.max(0) / 1_000_000_000;
        let attempt = match trial.attempt {
            0 | 1 => String::new(),
            attempt => format!(", attempt {attempt}"),
        };
        let [title, figures] =
            Layout::vertical([Constraint::Length(2), Constraint::Min(0)]).areas(area);
        let since = coarse_duration(Duration::from_secs(seconds.unsigned_abs()));
        let after = format!("{attempt}, {since}");
        let room = usize::from(area.width).saturating_sub(after.chars().count());
        let name = self.title_of(trial, room);
        let title_lines = vec![Line::raw(""), Line::styled(name + &after, BOLD)];
        frame.render_widget(Paragraph::new(title_lines), title);
        let known = figures_of(trial);
        if known.is_empty() {
            let text = match self.is_attached {
                true => "no figures yet: they come from the first trial that begins after `attach`",
                false => "no figures yet",
            };
            frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), figures);
            return;
        }
        let wide = area.width >= 60;
        let columns = if wide { 3 } else { 2 };
        let areas = Layout::horizontal(vec![Constraint::Ratio(1, columns); columns as usize])
            .spacing(1)
            .split(figures);
        let per_column = known.len().div_ceil(2);
        for (column, area) in known.chunks(per_column).zip(areas.iter()) {
            let lines = column.iter().map(|(name, value)| figure(name, value));
            frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), *area);
        }
        if wide && self.is_utf8 {
            let shown = areas[2].width as usize;
            let history = &trial.goodput_history_bps;
            let last = &history[history.len().saturating_sub(shown)..];
            let rates: Vec<u64> = last.iter().map(|rate| *rate as u64).collect();
            frame.render_widget(Sparkline::default().data(&rates), areas[2]);
        }
    }

    /// Returns the names of a trial's cell in at most `room` characters, cut where they differ from no other cell.
    fn title_of(&self, trial: &LiveTrial, room: usize) -> String {
        let names = [&*trial.transport, &*trial.condition, &*trial.workload];
        let title = joined(&names);
        if title.chars().count() <= room {
            return title;
        }
        let others = self.run.cells.iter();
        let others = others.map(|cell| joined(&[&cell.transport, &cell.condition, &cell.workload]));
        let all: Vec<String> = others.chain([title.clone()]).collect();
        let labels = Labels::new(all.iter().map(String::as_str), room.max(1));
        labels.get(&title).to_owned()
    }

    fn draw_cells(&self, frame: &mut Frame, area: Rect) {
        let cells = &self.run.cells;
        let now = &self.run.now;
        let current = current_cell(now, cells);
        let room = usize::from(area.height.saturating_sub(2));
        let skip = current
            .unwrap_or(0)
            .saturating_sub(room / 2)
            .min(cells.len().saturating_sub(room));
        let with_workload = cells
            .windows(2)
            .any(|pair| pair[0].workload != pair[1].workload);
        let scale_of = |cell: &LiveCell| {
            let values = cells.iter().filter(|other| other.metric == cell.metric);
            let largest = values.filter_map(|other| other.value).fold(0.0, f64::max);
            Scale::for_largest(cell.unit, largest)
        };
        let numbers = if area.width >= 60 {
            [10, 15, 21]
        } else {
            [4, 12, 10]
        };
        let shown = cells.iter().enumerate().skip(skip).take(room);
        let names: Vec<String> = shown
            .clone()
            .map(|(_, cell)| name(cell, with_workload))
            .collect();
        // A mark before the name, and a column between any two.
        let other_columns = 1 + numbers.iter().sum::<u16>() + numbers.len() as u16;
        let width = area
            .width
            .saturating_sub(other_columns)
            .max(MIN_NAME_WIDTH - 1);
        let labels = Labels::new(names.iter().map(String::as_str), usize::from(width));
        let rows = shown.zip(&names).map(|((position, cell), name)| {
            let is_current = current == Some(position);
            let mark = if is_current { ">" } else { " " };
            let name = format!("{mark}{}", labels.get(name));
            let row = Row::new(cell_row(name, cell, scale_of(cell)));
            row.style(if is_current { BOLD } else { Style::new() })
        });
        let hidden = cells.len().saturating_sub(room);
        let title = match (hidden, cells.len()) {
            (0, _) => "cells".to_owned(),
            (_, all) => format!("cells {} to {} of {all}", skip + 1, (skip + room).min(all)),
        };
        // Workloads of several kinds have a metric each.
        let mean = match cells.first() {
            Some(first) if cells.iter().all(|cell| cell.title == first.title) => &first.title,
            _ => "mean",
        };
        let header = Row::new([&*title, "n", mean, "95 % interval"]);
        let mut widths = vec![Constraint::Min(MIN_NAME_WIDTH)];
        widths.extend(numbers.map(Constraint::Length));
        let table = Table::new(rows, widths).header(header.style(REVERSED).top_margin(1));
        frame.render_widget(table, area);
    }

    fn draw_messages(&self, frame: &mut Frame, area: Rect) {
        let messages = &self.run.now.messages;
        let last = &messages[messages.len().saturating_sub(usize::from(area.height))..];
        let width = usize::from(area.width);
        let lines = last.iter().map(|text| Line::raw(truncated(text, width)));
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
    }

    fn foot(&self) -> String {
        let keys = match self.is_attached {
            true => "Ctrl-C detaches, and the run goes on",
            false => "Ctrl-C stops the run and keeps what was measured",
        };
        format!("{keys} · {}", printable(&self.run.now.directory))
    }
}

/// Truncates a text to `width` characters, with an ellipsis at the end.
fn truncated(text: &str, width: usize) -> String {
    let text = printable(text);
    if text.chars().nth(width).is_none() {
        return text;
    }
    let shown = text.chars().take(width.saturating_sub(1));
    shown.chain(['…']).collect()
}

/// Returns the position of the cell of the trial under way.
fn current_cell(now: &RunStatus, cells: &[LiveCell]) -> Option<usize> {
    let trial = now.trial()?;
    let is_current =
        |cell: &LiveCell| cell.is_of(&trial.transport, &trial.condition, &trial.workload);
    cells.iter().position(is_current)
}

fn figure(name: &'static str, value: &str) -> Line<'static> {
    Line::from(vec![
        Span::raw(format!("{name:<12}")),
        Span::styled(value.to_owned(), BOLD),
    ])
}

/// Returns the names and values of the known figures of a trial.
fn figures_of(trial: &LiveTrial) -> Vec<(&'static str, String)> {
    let bytes = |value: Option<u64>| value.map(|value| quantity(Unit::Bytes, value as f64));
    let cores = |value: Option<f64>| value.map(|value| format!("{:.0} %", value * 100.0));
    let goodput = trial.goodput_bps;
    let rtt = trial.smoothed_rtt_ns.map(|ns| ns as f64);
    let drops = trial.dropped;
    let cpu = [trial.cpu_sender_ratio, trial.cpu_receiver_ratio].map(cores);
    let cpu: Vec<String> = cpu.into_iter().flatten().collect();
    let figures = [
        (
            "goodput",
            goodput.map(|rate| quantity(Unit::BitsPerSecond, rate)),
        ),
        ("delivered", bytes(trial.delivered_bytes)),
        ("cwnd", bytes(trial.congestion_window_bytes)),
        ("in flight", bytes(trial.bytes_in_flight)),
        ("RTT", rtt.map(|ns| quantity(Unit::Nanoseconds, ns))),
        (
            "retransmits",
            trial.retransmitted_packets.map(|count| count.to_string()),
        ),
        (
            "drops",
            drops.map(|[forward, reverse]| format!("{forward} / {reverse}")),
        ),
        ("CPU", (!cpu.is_empty()).then(|| cpu.join(" / "))),
    ];
    figures
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// Returns the name of a cell, with its workload if `with_workload`.
fn name(cell: &LiveCell, with_workload: bool) -> String {
    let names = [&*cell.transport, &*cell.condition, &*cell.workload];
    joined(&names[..if with_workload { 3 } else { 2 }])
}

/// Joins names as a line shows them.
fn joined(names: &[&str]) -> String {
    printable(&names.join(" · "))
}

/// Returns the texts of a cell's row.
fn cell_row(name: String, cell: &LiveCell, scale: Scale) -> [String; 4] {
    let others: u64 = (cell.outcomes.iter())
        .filter(|(outcome, _)| *outcome != "measured")
        .map(|(_, count)| count)
        .sum();
    let n = match others {
        0 => cell.n.to_string(),
        others => format!("{} +{others} not", cell.n),
    };
    let value = cell.value.map(|value| scale.quantity(value));
    let interval = cell.interval.zip(cell.value).map(|(ends, value)| {
        let [low, high] = scale.ends(value, ends);
        format!("[{low}, {high}]")
    });
    [
        name,
        n,
        value.unwrap_or_default(),
        interval.unwrap_or_default(),
    ]
}

/// Replaces characters that a terminal without UTF-8 cannot show.
fn to_ascii(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if !cell.symbol().is_ascii() {
            let plain = match cell.symbol() {
                "·" => "-",
                "µ" => "u",
                "…" => "~",
                "\u{a0}" => " ",
                _ => "?",
            };
            cell.set_symbol(plain);
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;
    use crate::{model::ShardCounts, tests::under_way};

    fn drawn(run: &LiveRun, (width, height): (u16, u16), is_utf8: bool) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        let now_unix_ns = run.now.trial().map_or(0, |trial| trial.started_unix_ns);
        let view = View {
            run,
            now_unix_ns,
            is_attached: false,
            is_utf8,
            url: Some("http://127.0.0.1:1/0/"),
        };
        terminal.draw(|frame| view.draw(frame)).expect("drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn screen_of_80_by_24_has_all_figures() {
        let mut run = under_way().run;
        run.now.messages.push("warning: the path is late".into());
        (run.now.messages).push(format!("warning: {}, and so on", "some text, ".repeat(8)));
        let screen = drawn(&run, (80, 24), true);
        for text in [
            "two: Two transports",
            "4/6 trials, round 3/3",
            "tcp · near · bulk",
            "goodput     40.0 Mbit/s",
            "cwnd        120.0 kB",
            "RTT         11.0 ms",
            "retransmits 3",
            "drops       7 / 1",
            "CPU         20 %",
            ">tcp · near",
            "42.0 Mbit/s",
            "a \"quoted\" name · near",
            "warning: the path is late",
            "some text, some…",
            "http://127.0.0.1:1/0/",
            "regatta-results/two",
        ] {
            assert!(screen.contains(text), "`{text}` is not in\n{screen}");
        }
    }

    #[test]
    fn long_labels_keep_the_part_that_differs() {
        let mut run = under_way().run;
        let cell = run.cells[0].clone();
        let long = "tcp:cc=cubic:send_buffer=4MiB:receive_buffer=";
        run.cells = ["1MiB", "2MiB"]
            .map(|end| LiveCell {
                transport: format!("{long}{end}"),
                ..cell.clone()
            })
            .to_vec();
        let screen = drawn(&run, (80, 24), true);
        assert!(
            screen.contains("1MiB") && screen.contains("2MiB"),
            "{screen}"
        );
    }

    #[test]
    fn title_of_a_trial_keeps_the_part_that_differs() {
        let mut run = under_way().run;
        let long = "quic-quinn:cc=cubic:send_window=4MiB:receive_window=4MiB:streams=";
        let trial = LiveTrial {
            transport: format!("{long}18"),
            condition: "a-condition-with-a-long-name".into(),
            workload: "bulk".into(),
            ..LiveTrial::default()
        };
        let cell = LiveCell {
            condition: trial.condition.clone(),
            workload: trial.workload.clone(),
            ..run.cells[0].clone()
        };
        run.cells = ["18", "64"]
            .map(|end| LiveCell {
                transport: format!("{long}{end}"),
                ..cell.clone()
            })
            .to_vec();
        run.now.activity = Activity::Trial(Box::new(trial));
        let screen = drawn(&run, (80, 24), true);
        let title = screen.lines().nth(4).expect("a title");
        assert!(
            title.contains("18 ·") && title.contains(", 0 s"),
            "{screen}"
        );
        assert!(title.contains("quic") && title.contains("bulk"), "{screen}");
    }

    #[test]
    fn screens_of_many_sizes_can_be_drawn() {
        let run = under_way().run;
        let small = drawn(&run, (40, 10), true);
        assert!(small.contains("4/6 trials"), "{small}");
        // Each width and each height with a fifth of the others.
        for width in 1..90 {
            for height in (1..30).filter(|height| (width + height) % 5 == 0) {
                drawn(&run, (width, height), true);
            }
        }
        drawn(&LiveRun::default(), (80, 24), true);
        // A trial of which only the time is known.
        let mut run = run;
        run.now.activity = Activity::Trial(Box::new(LiveTrial {
            elapsed_ns: Some(1),
            ..LiveTrial::default()
        }));
        drawn(&run, (80, 24), true);
    }

    #[test]
    fn shard_counts_replace_the_round() {
        let mut run = under_way().run;
        run.now.activity = Activity::Shards(ShardCounts {
            complete: 3,
            running: 2,
            waiting: 7,
            missing: 0,
        });
        let screen = drawn(&run, (80, 24), true);
        let counts = "12 shards: 3 complete, 2 running, 7 waiting, 0 missing";
        assert!(screen.contains(counts), "{screen}");
        assert!(
            screen.contains("4/6 trials") && !screen.contains("round"),
            "{screen}"
        );
    }

    #[test]
    fn terminal_without_utf_8_gets_ascii() {
        let screen = drawn(&under_way().run, (80, 24), false);
        assert!(screen.is_ascii(), "{screen}");
        assert!(screen.contains("tcp - near - bulk"), "{screen}");
    }

    #[test]
    fn cell_under_way_is_visible_among_many() {
        let mut run = under_way().run;
        let mut cells = Vec::new();
        for number in 0..200 {
            let mut cell = run.cells[1].clone();
            cell.condition = format!("swept-{number}");
            cells.push(cell);
        }
        cells.insert(150, run.cells[0].clone());
        run.cells = cells;
        let screen = drawn(&run, (80, 24), true);
        assert!(screen.contains(">tcp · near"), "{screen}");
        assert!(screen.contains("of 201"), "{screen}");
    }
}

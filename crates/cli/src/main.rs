//! The `regatta` binary: arguments, listeners, exit codes.

mod allocator;
mod args;
mod commands;
mod config;
mod directory;
#[cfg(test)]
mod documents;
mod dry_run;
mod exit;
#[cfg(test)]
mod hints;
mod hosts;
mod interrupt;
mod listen;
mod output;
mod pinned_tls;
mod provenance;
mod study;
mod text_file;

use std::{ffi::OsStr, fs::File, process::ExitCode};

use args::Command;
use clap::Parser;
use commands::{
    attach, bundle, client, cluster, compare, completion, doctor, export, list, manual, merge,
    monitor, path, plan, report, run, server, wdt,
};
use exit::{Code, Failure, OrFailure as _};
use nix::libc;
use regatta_bed::{guest, port_probe, program, session};
use regatta_path_daemon as path_daemon;
use regatta_report::language;

fn main() -> ExitCode {
    interrupt::report_file_size_limits();
    if regatta_ssh::is_askpass() {
        return regatta_ssh::askpass_main();
    }
    // The hidden processes enter namespaces, which a process can do only before it has a
    // second thread, so they are distinguished before anything else happens.
    if let Some(process) = std::env::args_os().nth(1).as_deref().and_then(hidden) {
        return process();
    }
    // Random numbers may need a file, and panic without one.
    if let Err(error) = File::open("/dev/null")
        && error.raw_os_error() == Some(libc::EMFILE)
    {
        return failed(
            &Failure::failed(error).context("no file can be opened"),
            false,
        );
    }
    let arguments = match config::with_defaults(std::env::args_os().collect()) {
        Ok(arguments) => arguments,
        Err(failure) => return failed(&failure, false),
    };
    let args = match args::Args::try_parse_from(&arguments) {
        Ok(args) => args,
        Err(error) => return not_parsed(&args::suggestions::improve(error, &arguments)),
    };
    regatta_results::on_locked(|path| {
        output::err(&format!(
            "waiting for `{}`, which another program has locked; it is given up after {} s",
            path.display(),
            regatta_results::LOCK_LIMIT.as_secs()
        ));
    });
    let colour = output::Colour::new(args.color);
    let done = match args.command {
        Command::Run(args) => language::with(args.lang, || run::run(&args, colour)),
        Command::Plan(args) => plan::plan(&args),
        Command::Path(args) => path::path(&args),
        Command::Wdt(args) => wdt::wdt(&args),
        Command::Server(args) => server::server(&args),
        Command::Client(args) => client::client(&args, colour),
        Command::Hosts(args) => commands::hosts::hosts(&args),
        Command::Monitor(args) => monitor::monitor(&args),
        Command::Merge(args) => merge::merge(&args, colour),
        Command::Submit(args) => cluster::submit(&args),
        Command::Status(args) => cluster::status(&args),
        Command::Resume(args) => language::with(args.lang, || run::resume(&args, colour)),
        Command::Attach(args) => attach::attach(&args),
        Command::Report(args) => report::report(&args, colour),
        Command::Compare(args) => compare::compare(&args, colour),
        Command::Export(args) => export::export(&args),
        Command::Bundle(args) => bundle::bundle(&args),
        Command::List(args) => list::list(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
    };
    match done {
        Ok(code) => code.into(),
        Err(failure) => failed(&failure, colour.stderr),
    }
}

/// Prints an error and returns its exit code.
fn failed(failure: &Failure, colour: bool) -> ExitCode {
    output::styled(&failure.render(colour));
    Code::from(failure).into()
}

/// Returns the main function of a process that Regatta starts itself, by the name of its command. Those that
/// their standard input ends ignore what a terminal sends to the whole group.
fn hidden(command: &OsStr) -> Option<fn() -> ExitCode> {
    fn ignoring(main: fn() -> ExitCode) -> ExitCode {
        interrupt::ignore();
        main()
    }
    Some(match command.to_str()? {
        "agent" => || ignoring(|| regatta_agent::main(provenance::facts())),
        doctor::JSON_COMMAND => || ignoring(doctor::json_main),
        server::AGENT_COMMAND => || {
            let limits = std::env::args().nth(2).unwrap_or_default();
            interrupt::ignore();
            regatta_agent::served_main(provenance::facts(), &limits)
        },
        regatta_bed::HOST_MONITOR => || ignoring(regatta_telemetry::monitor::main),
        path_daemon::COMMAND => || ignoring(path_daemon::main),
        guest::DAEMON_COMMAND => || ignoring(guest::daemon_main),
        port_probe::COMMAND => || ignoring(port_probe::main),
        program::SUPERVISOR_COMMAND => program::main,
        guest::INIT_COMMAND => guest::init_main,
        regatta_bed::SECOND_GUEST_COMMAND => regatta_bed::second_guest_main,
        session::SERVER_COMMAND => || {
            regatta_ssh::tidy_cache();
            session::server_main(std::env::args().skip(2))
        },
        session::GUARD_COMMAND => || session::guard_main(std::env::args().skip(2)),
        path_daemon::INTERFACE_GUARD_COMMAND => path_daemon::interface_guard_main,
        regatta_ssh::FILES_COMMAND => || {
            let mut arguments = std::env::args().skip(2);
            let (digest, bytes) = (arguments.next(), arguments.next());
            regatta_ssh::files_main(digest.as_deref(), bytes.as_deref())
        },
        completion::COMMAND => completion::main,
        hosts::address::COMMAND => || hosts::address::main(std::env::args().nth(2).as_deref()),
        "guest-run" => || regatta_engine::guest::serve(run::STOP_RULE),
        _ => return None,
    })
}

/// Prints the requested help, or the error of the arguments.
fn not_parsed(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    let written = match (error.use_stderr(), output::charset::is_utf8()) {
        (true, _) => {
            // clap's own way to print repeats what was typed, with what a terminal obeys.
            output::err(text.trim_end());
            Ok(())
        }
        (false, true) => output::ignore_broken_pipe(error.print()).or_failure(),
        (false, false) => output::out(&text),
    };
    match written {
        Ok(()) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Code::Input.into())),
        Err(failure) => failed(&failure, false),
    }
}

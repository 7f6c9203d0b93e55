//! One test for each clause of the contract and each driver.

/// Makes one test for each clause of the contract, for each of these drivers.
///
/// ```ignore
/// regatta_test_contract::contract_tests! {
///     tcp: streams => driver("tcp");
///     tcp_tls: streams => driver("tcp-tls");
/// }
///
/// #[test]
/// fn every_driver_has_its_cases() {
///     contract::drivers_have_cases(&tested_drivers(), drivers());
/// }
/// ```
///
/// makes `mod tcp { #[test] fn probes_are_answered() {…} … }` and the same for `tcp_tls`. A clause
/// that is tried with several sizes, directions or handshakes is a module with a test for each:
/// `tcp::every_size_is_delivered::size_163_message_17`.
///
/// Before `=>` stands what the driver carries, which chooses its clauses: `streams`, `messages`,
/// `reliable_messages` or `files`. One more test, `tcp::carries::streams`, asserts that the
/// descriptor has the same. `tested_drivers()` returns the names of the drivers.
///
/// A driver to which only some clauses apply has their names after its kind,
/// `framed: messages[probes_are_answered, the_deadline_is_kept] => …`: of [`contract`](crate::contract) then.
///
/// With `, if GUARD` after the driver a test whose name below the caller's module is `name`
/// returns at once unless `GUARD(name)`: a function `fn(&str) -> bool` that runs the test elsewhere
/// where it returns `false`.
#[macro_export]
macro_rules! contract_tests {
    ($(
        $module:ident: $kind:ident $([$($clause:ident),+ $(,)?])? => $driver:expr $(, if $guard:expr)?
    );+ $(;)?) => {
        $(
            mod $module {
                #[allow(unused_imports)]
                use super::*;

                #[allow(dead_code)]
                pub(super) fn name() -> &'static str {
                    $crate::Driver::descriptor($driver).name
                }

                fn run_clause(case: &str, clause: impl FnOnce(&dyn $crate::Driver)) {
                    let _name = ::std::format!("{}::{case}", ::std::stringify!($module));
                    $(
                        if !$guard(&_name) {
                            return;
                        }
                    )?
                    clause($driver);
                }

                $crate::contract_clauses! { $kind $([$($clause),+])? }
            }
        )+

        /// Returns the names of the drivers that have cases.
        #[allow(dead_code)]
        fn tested_drivers() -> ::std::vec::Vec<&'static str> {
            ::std::vec![$($module::name()),+]
        }
    };
}

/// The clauses of the contract, by what a driver carries, as tests.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_clauses {
    (streams) => {
        $crate::contract_clauses! { of contract: carries { streams(Carries::Streams, true) } }
        $crate::contract_clauses! { of_every_driver }
        $crate::contract_clauses! { of_every_connection }
        $crate::contract_clauses! { of_exchanges }
        $crate::contract_clauses! { of exchanges: neither_end_blocks_the_other }
        $crate::contract_clauses! { of_connections }
        $crate::contract_clauses! { of_flows }
        $crate::contract_clauses! { of contract: a_probe_may_share_the_connection }
        $crate::contract_clauses! {
            of contract: a_probe_may_share_the_connection_of_one_of_several_flows
        }
    };
    (messages) => {
        $crate::contract_clauses! { of contract: carries { messages(Carries::Messages, false) } }
        $crate::contract_clauses! { of_every_driver }
        $crate::contract_clauses! { of_exchanges }
        $crate::contract_clauses! { of_messages }
    };
    (reliable_messages) => {
        $crate::contract_clauses! {
            of contract: carries { reliable_messages(Carries::Messages, true) }
        }
        $crate::contract_clauses! { of_every_driver }
        $crate::contract_clauses! { of_exchanges }
        $crate::contract_clauses! { of exchanges: neither_end_blocks_the_other }
        $crate::contract_clauses! { of_messages }
    };
    (files) => {
        $crate::contract_clauses! { of contract: carries { files(Carries::Files, true) } }
        $crate::contract_clauses! { of_every_driver }
        $crate::contract_clauses! { of_every_connection }
        $crate::contract_clauses! { of_files }
    };
    (messages[$($clause:ident),+]) => {
        $crate::contract_clauses! { of contract: carries { messages(Carries::Messages, false) } }
        $( $crate::contract_clauses! { of contract: $clause } )+
    };

    (of_every_driver) => {
        $crate::contract_clauses! { of contract:
            options_are_checked
            every_size_is_delivered {
                size_0_message_1(0, 1)
                size_1_message_1(1, 1)
                size_1_message_65507(1, 65_507)
                size_500_message_1(500, 1)
                size_150_message_15(150, 15)
                size_160_message_16(160, 16)
                size_163_message_17(163, 17)
                size_33333_message_1000(33_333, 1000)
                size_100000_message_1400(100_000, 1400)
                size_400000_message_10000(400_000, 10_000)
                size_600000_message_65507(600_000, 65_507)
            }
            random_data_is_delivered
            random_data_of_another_seed_is_not_delivered
            probes_are_answered
            the_stack_is_described
            the_deadline_is_kept
            an_abort_ends_both_ends
            an_abort_ends_a_receiver_that_waits
            a_vanished_receiver_is_noticed
            a_wrong_token_is_refused
            a_stranger_is_refused
        }
    };
    (of_every_connection) => {
        $crate::contract_clauses! { of contract: a_vanished_sender_is_noticed }
    };
    (of_exchanges) => {
        $crate::contract_clauses! { of exchanges:
            stop_and_wait_has_each_message_acknowledged {
                size_0_message_1(0, 1)
                size_1_message_1(1, 1)
                // More than one byte can number.
                size_300_message_1(300, 1)
                size_150_message_15(150, 15)
                size_163_message_17(163, 17)
                size_20500_message_1000(20_500, 1000)
            }
            requests_have_their_answers {
                small_requests_one_at_a_time(100, 100, 1000, 1)
                small_responses_16_outstanding(300, 1000, 100, 16)
                all_of_50_outstanding(50, 4, 4, 50)
            }
            requests_keep_their_rate
            the_deadline_ends_an_exchange
            an_abort_ends_an_exchange
        }
    };
    (of_connections) => {
        $crate::contract_clauses! { of connections:
            short_connections_have_their_answers {
                full_handshakes(Handshake::Full, 20, 100, 1000)
                full_handshakes_without_a_request(Handshake::Full, 3, 0, 1)
                full_handshakes_and_long_responses(Handshake::Full, 2, 5000, 300_000)
                resumption(Handshake::Resumed, 20, 100, 1000)
                resumption_without_a_request(Handshake::Resumed, 3, 0, 1)
                resumption_and_long_responses(Handshake::Resumed, 2, 5000, 300_000)
                early_data(Handshake::EarlyData, 20, 100, 1000)
                early_data_without_a_request(Handshake::EarlyData, 3, 0, 1)
                early_data_and_long_responses(Handshake::EarlyData, 2, 5000, 300_000)
                retry(Handshake::Retry, 20, 100, 1000)
                retry_without_a_request(Handshake::Retry, 3, 0, 1)
                retry_and_long_responses(Handshake::Retry, 2, 5000, 300_000)
            }
            the_deadline_ends_short_connections
            short_connections_need_the_token
            messages_over_many_streams_arrive {
                streams_8(300, 1000, 3000.0, 8, Spread::Streams)
                streams_1_message_1(100, 1, 1000.0, 1, Spread::Streams)
                streams_10_fewer_messages(7, 20_000, 1000.0, 10, Spread::Streams)
                connections_4(100, 50_000, 500.0, 4, Spread::Connections)
            }
            the_deadline_ends_messages_over_many_streams
        }
        $crate::contract_clauses! { of scripts:
            every_step_of_a_script_is_carried_out {
                either(Spread::Either)
                connections(Spread::Connections)
            }
            a_flow_begins_when_the_one_before_has_ended
            a_step_is_measured_from_its_schedule
            the_deadline_ends_a_script
        }
    };
    (of_flows) => {
        $crate::contract_clauses! { of flows:
            every_direction_and_number_of_flows_delivers_everything {
                forward_1_flow(Direction::Forward, 1, 1_000_003, 10_000)
                forward_1_flow_size_17(Direction::Forward, 1, 17, 5)
                forward_3_flows(Direction::Forward, 3, 1_000_003, 10_000)
                forward_3_flows_size_17(Direction::Forward, 3, 17, 5)
                reverse_1_flow(Direction::Reverse, 1, 1_000_003, 10_000)
                reverse_1_flow_size_17(Direction::Reverse, 1, 17, 5)
                reverse_3_flows(Direction::Reverse, 3, 1_000_003, 10_000)
                reverse_3_flows_size_17(Direction::Reverse, 3, 17, 5)
                both_1_flow(Direction::Both, 1, 1_000_003, 10_000)
                both_1_flow_size_17(Direction::Both, 1, 17, 5)
                both_3_flows(Direction::Both, 3, 1_000_003, 10_000)
                both_3_flows_size_17(Direction::Both, 3, 17, 5)
            }
            an_answered_opening_delivers_everything
            data_that_is_not_verified_is_counted
            a_duration_ends_a_transfer_cleanly
            a_warm_up_is_excluded
            a_file_is_read_and_delivered
            an_abandoned_transfer_reports_delivered_bytes
            the_deadline_ends_every_flow {
                forward(Direction::Forward)
                reverse(Direction::Reverse)
            }
        }
    };
    (of_messages) => {
        $crate::contract_clauses! { of connections:
            short_connections_are_unsupported {
                full_handshakes(Handshake::Full)
                resumption(Handshake::Resumed)
                early_data(Handshake::EarlyData)
                retry(Handshake::Retry)
            }
            messages_over_many_streams_are_unsupported {
                streams_1(1, Spread::Streams)
                streams_8(8, Spread::Streams)
                connections_4(4, Spread::Connections)
            }
        }
        $crate::contract_clauses! { of scripts:
            every_step_of_a_script_is_carried_out {
                either(Spread::Either)
            }
            a_flow_begins_when_the_one_before_has_ended
            a_step_is_measured_from_its_schedule
            the_deadline_ends_a_script
            a_script_of_streams_or_tiny_messages_is_unsupported
        }
        $crate::contract_clauses! { of flows:
            flows_of_messages_end_after_their_duration {
                forward_1_flow(Direction::Forward, 1)
                forward_3_flows(Direction::Forward, 3)
                reverse_1_flow(Direction::Reverse, 1)
                reverse_3_flows(Direction::Reverse, 3)
                both_1_flow(Direction::Both, 1)
                both_2_flows(Direction::Both, 2)
            }
            flows_of_messages_of_a_size_are_sent {
                forward_3_flows(Direction::Forward, 3, 100_003)
                forward_3_flows_size_17(Direction::Forward, 3, 17)
                reverse_1_flow(Direction::Reverse, 1, 100_003)
                reverse_3_flows_size_17(Direction::Reverse, 3, 17)
                both_1_flow(Direction::Both, 1, 100_003)
                both_2_flows_size_17(Direction::Both, 2, 17)
            }
            the_deadline_ends_flows_of_messages {
                forward_3_flows(Direction::Forward, 3)
                reverse_1_flow(Direction::Reverse, 1)
                both_2_flows(Direction::Both, 2)
            }
        }
    };
    (of_files) => {
        $crate::contract_clauses! { of files:
            digests_agree_from_memory_and_from_a_file {
                memory_size_0(Pattern::Random, 0, 1)
                memory_size_1(Pattern::Random, 1, 1)
                memory_size_1000003(Pattern::Random, 1_000_003, 10_000)
                memory_size_3000017(Pattern::Random, 3_000_017, 1_000_001)
                file_size_0(Pattern::File, 0, 1)
                file_size_1(Pattern::File, 1, 1)
                file_size_1000003(Pattern::File, 1_000_003, 10_000)
                file_size_3000017(Pattern::File, 3_000_017, 1_000_001)
            }
            the_warm_up_of_a_file_transfer_is_excluded
            workloads_without_files_are_unsupported {
                several_flows(workloads::bulk(|it| it.flows = 2))
                the_other_direction(workloads::bulk(|it| it.direction = Direction::Reverse))
                both_directions(workloads::bulk(|it| it.direction = Direction::Both))
                a_duration(workloads::bulk_for_a_second())
                an_answered_opening(workloads::bulk(|it| it.opening = Opening::Answered))
                abandoning(workloads::bulk(|it| it.finish = Finish::Abandon))
                stop_and_wait(workloads::stop_and_wait())
                request_response(workloads::request_response())
                short_connections(workloads::short_connections())
                multi_stream(workloads::multi_stream())
                script(workloads::script())
            }
        }
    };

    // One clause after another: with cases, and without.
    (of $file:ident: $clause:ident { $($case:ident($($argument:expr),*))+ } $($rest:tt)*) => {
        mod $clause {
            use super::run_clause;
            #[allow(unused_imports)]
            use $crate::cases::{arguments::*, workloads};

            $(
                #[test]
                fn $case() {
                    let case =
                        ::std::concat!(::std::stringify!($clause), "::", ::std::stringify!($case));
                    run_clause(case, |driver| {
                        $crate::$file::$clause(driver, $($argument),*);
                    });
                }
            )+
        }
        $crate::contract_clauses! { of $file: $($rest)* }
    };
    (of $file:ident: $clause:ident $($rest:tt)*) => {
        #[test]
        fn $clause() {
            run_clause(::std::stringify!($clause), $crate::$file::$clause);
        }
        $crate::contract_clauses! { of $file: $($rest)* }
    };
    (of $file:ident:) => {};
}

/// Makes one test for each of these functions and each driver: functions of one argument, the
/// driver.
///
/// ```ignore
/// regatta_test_contract::driver_tests! {
///     [a_path_with_too_small_packets_is_unsupported, stack_settings_are_read_back]
///     quinn => &QuicQuinn;
///     noq => &QuicNoq;
/// }
/// ```
///
/// makes `mod quinn { #[test] fn stack_settings_are_read_back() {…} … }` and the same for `noq`.
#[macro_export]
macro_rules! driver_tests {
    ($tests:tt $($module:ident => $driver:expr);+ $(;)?) => {
        $(
            mod $module {
                $crate::driver_tests! { @ $tests $driver }
            }
        )+
    };
    (@ [$($test:ident),+ $(,)?] $driver:expr) => {
        $(
            #[test]
            fn $test() {
                #[allow(unused_imports)]
                use super::*;
                super::$test($driver);
            }
        )+
    };
}

/// Makes one test for each of these arguments of a function.
///
/// ```ignore
/// regatta_test_contract::test_cases! { a_rate_is_kept:
///     by_messages_that_fit_a_packet(1400)
///     by_messages_that_are_fragmented(10_000)
/// }
/// ```
///
/// makes `mod a_rate_is_kept { #[test] fn by_messages_that_fit_a_packet() {…} … }`, whose tests call
/// the function of that name.
#[macro_export]
macro_rules! test_cases {
    ($function:ident: $($case:ident($($argument:expr),* $(,)?))+) => {
        mod $function {
            $(
                #[test]
                fn $case() {
                    #[allow(unused_imports)]
                    use super::*;
                    super::$function($($argument),*);
                }
            )+
        }
    };
}

/// Types that stand in the arguments of clauses.
pub mod arguments {
    pub use regatta_model::{Direction, Finish, Handshake, Opening, Pattern, Spread};
    pub use regatta_transport::Carries;
    pub use std::time::Duration;
}

/// Workloads that stand in the arguments of clauses.
pub mod workloads {
    use std::time::Duration;

    use regatta_model::{
        Amount, Arrivals, BulkOptions, Bytes, Handshake, Pattern, Script, Spread, WorkloadKind,
    };

    /// Returns a bulk transfer, of which `change` sets the options.
    #[must_use]
    pub fn bulk(change: impl FnOnce(&mut BulkOptions)) -> WorkloadKind {
        let mut options = BulkOptions::default();
        change(&mut options);
        WorkloadKind::Bulk {
            amount: Bytes(1000).into(),
            message: Bytes(100),
            pattern: Pattern::Data,
            options,
        }
    }

    /// Returns a bulk transfer for a time.
    #[must_use]
    pub fn bulk_for_a_second() -> WorkloadKind {
        let mut kind = bulk(|_| {});
        if let WorkloadKind::Bulk { amount, .. } = &mut kind {
            *amount = Amount::Time(Duration::from_secs(1));
        }
        kind
    }

    /// Returns ten messages, one after another.
    #[must_use]
    pub fn stop_and_wait() -> WorkloadKind {
        WorkloadKind::StopAndWait {
            size: Bytes(10),
            message: Bytes(1),
            pattern: Pattern::Data,
            timeout: Duration::from_secs(1),
        }
    }

    /// Returns one request.
    #[must_use]
    pub fn request_response() -> WorkloadKind {
        WorkloadKind::RequestResponse {
            requests: 1,
            request: Bytes(1),
            response: Bytes(1),
            arrivals: Arrivals::Closed { outstanding: 1 },
        }
    }

    /// Returns one connection with one request.
    #[must_use]
    pub fn short_connections() -> WorkloadKind {
        WorkloadKind::ShortConnections {
            connections: 1,
            handshake: Handshake::Full,
            request: Bytes(1),
            response: Bytes(1),
        }
    }

    /// Returns the load of a page.
    #[must_use]
    pub fn script() -> WorkloadKind {
        WorkloadKind::Script(Script::page_load())
    }

    /// Returns one message on a connection of its own.
    #[must_use]
    pub fn multi_stream() -> WorkloadKind {
        WorkloadKind::MultiStream {
            messages: 1,
            message: Bytes(1),
            messages_per_second: 1.0,
            streams: 1,
            spread: Spread::Connections,
        }
    }
}

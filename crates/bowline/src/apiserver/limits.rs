//! How much the API server does at a time: upstream's flags, and ours for what upstream leaves without a limit.

use bowline_apiserver::limits::LimitSettings;

/// What upstream's server takes 0 for.
const STREAMS: u32 = 100;

#[derive(clap::Args, Debug)]
pub struct LimitArgs {
    /// Requests that change nothing and are answered at a time; 0 is no limit
    #[arg(long, value_name = "COUNT", default_value_t = 400)]
    max_requests_inflight: usize,
    /// Requests that change something and are answered at a time; 0 is no limit
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    max_mutating_requests_inflight: usize,
    /// Requests at a time over one HTTP/2 connection; 0 stands for 100
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    http2_max_streams_per_connection: u32,
    /// Watches, logs and exec sessions at a time; 0 is no limit
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    max_long_running_requests: usize,
    /// The same for one user; 0 is no limit
    #[arg(long, value_name = "COUNT", default_value_t = 2_000)]
    max_long_running_requests_per_user: usize,
    /// Connections at a time; 0 is no limit
    #[arg(long, value_name = "COUNT", default_value_t = 8_000)]
    max_connections: usize,
    /// The same from one address; 0 is no limit
    #[arg(long, value_name = "COUNT", default_value_t = 4_000)]
    max_connections_per_address: usize,
}

impl LimitArgs {
    pub fn settings(&self) -> LimitSettings {
        let streams = match self.http2_max_streams_per_connection {
            0 => STREAMS,
            count => count,
        };
        LimitSettings {
            max_requests_inflight: self.max_requests_inflight,
            max_mutating_requests_inflight: self.max_mutating_requests_inflight,
            max_long_running: self.max_long_running_requests,
            max_long_running_per_user: self.max_long_running_requests_per_user,
            max_connections: self.max_connections,
            max_connections_per_address: self.max_connections_per_address,
            http2_max_streams_per_connection: streams,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        limits: LimitArgs,
    }

    #[test]
    fn without_flags_the_limits_are_the_defaults() {
        let parsed = |flags: &[&str]| Flags::parse_from(["x"].iter().chain(flags)).limits.settings();
        assert_eq!(parsed(&[]), LimitSettings::default());
        let given = parsed(&["--max-requests-inflight=3", "--http2-max-streams-per-connection=250"]);
        assert_eq!((given.max_requests_inflight, given.http2_max_streams_per_connection), (3, 250));
    }
}

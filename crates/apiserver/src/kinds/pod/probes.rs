//! How a container is asked whether it lives, and what is called when it starts and stops.

use k8s_openapi::api::core::v1::{
    Container, ExecAction, GRPCAction, HTTPGetAction, Lifecycle, LifecycleHandler, Probe, SleepAction,
    TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::field::Invalid;
use crate::kinds::check::{self, names};

const ANOTHER: &str = "may not specify more than 1 handler type";
const SCHEMES: [&str; 2] = ["HTTP", "HTTPS"];
const NO_HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";

/// The hooks and probes of a container that stays up. `grace` is how long its pod takes to stop.
pub fn errors(at: &str, one: &Container, grace: Option<i64>) -> Vec<Invalid> {
    let mut errors = Vec::new();
    if let Some(lifecycle) = &one.lifecycle {
        errors.extend(lifecycle_errors(&format!("{at}.lifecycle"), lifecycle, grace));
    }
    if let Some(probe) = &one.liveness_probe {
        errors.extend(fatal_probe(&format!("{at}.livenessProbe"), probe, grace));
    }
    if let Some(probe) = &one.readiness_probe {
        let at = format!("{at}.readinessProbe");
        errors.extend(probe_errors(&at, probe, grace));
        if let Some(seconds) = probe.termination_grace_period_seconds {
            let text = "must not be set for readinessProbes";
            errors.push(Invalid::invalid(format!("{at}.terminationGracePeriodSeconds"), seconds, text));
        }
    }
    if let Some(probe) = &one.startup_probe {
        errors.extend(fatal_probe(&format!("{at}.startupProbe"), probe, grace));
    }
    errors
}

fn lifecycle_errors(at: &str, lifecycle: &Lifecycle, grace: Option<i64>) -> Vec<Invalid> {
    let hooks = [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)];
    let set = hooks.into_iter().filter_map(|(field, hook)| Some((field, hook.as_ref()?)));
    set.flat_map(|(field, hook)| Handler::of_hook(hook).errors(&format!("{at}.{field}"), grace)).collect()
}

/// A probe that ends its container when it fails: one success is enough.
fn fatal_probe(at: &str, probe: &Probe, grace: Option<i64>) -> Vec<Invalid> {
    let mut errors = probe_errors(at, probe, grace);
    if let Some(count) = probe.success_threshold.filter(|count| *count != 1) {
        errors.push(Invalid::invalid(format!("{at}.successThreshold"), count, "must be 1"));
    }
    errors
}

fn probe_errors(at: &str, probe: &Probe, grace: Option<i64>) -> Vec<Invalid> {
    let mut errors = Handler::of_probe(probe).errors(at, grace);
    let counts = [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ];
    for (field, count) in counts {
        errors.extend(check::non_negative(&format!("{at}.{field}"), count.unwrap_or(0).into()));
    }
    if let Some(seconds) = probe.termination_grace_period_seconds.filter(|seconds| *seconds <= 0) {
        let text = "must be greater than 0";
        errors.push(Invalid::invalid(format!("{at}.terminationGracePeriodSeconds"), seconds, text));
    }
    errors
}

/// Ways to ask or tell a container something; exactly one is meant.
#[derive(Default)]
struct Handler<'a> {
    exec: Option<&'a ExecAction>,
    http: Option<&'a HTTPGetAction>,
    tcp: Option<&'a TCPSocketAction>,
    grpc: Option<&'a GRPCAction>,
    sleep: Option<&'a SleepAction>,
}

impl<'a> Handler<'a> {
    fn of_probe(probe: &'a Probe) -> Self {
        let (exec, http) = (probe.exec.as_ref(), probe.http_get.as_ref());
        Self { exec, http, tcp: probe.tcp_socket.as_ref(), grpc: probe.grpc.as_ref(), sleep: None }
    }

    fn of_hook(hook: &'a LifecycleHandler) -> Self {
        let (exec, http) = (hook.exec.as_ref(), hook.http_get.as_ref());
        Self { exec, http, tcp: hook.tcp_socket.as_ref(), grpc: None, sleep: hook.sleep.as_ref() }
    }

    fn errors(&self, at: &str, grace: Option<i64>) -> Vec<Invalid> {
        let field = |name: &str| format!("{at}.{name}");
        let kinds = [
            ("exec", self.exec.map(|exec| exec_errors(&field("exec"), exec))),
            ("httpGet", self.http.map(|http| http_errors(&field("httpGet"), http))),
            ("tcpSocket", self.tcp.map(|tcp| port_errors(&field("tcpSocket.port"), &tcp.port))),
            ("grpc", self.grpc.map(|grpc| port_errors(&field("grpc.port"), &IntOrString::Int(grpc.port)))),
            ("sleep", self.sleep.map(|sleep| sleep_errors(&field("sleep"), sleep, grace))),
        ];
        let mut set = kinds.into_iter().filter_map(|(name, errors)| Some((name, errors?)));
        let Some((_, mut errors)) = set.next() else {
            return vec![Invalid::required(at, "must specify a handler type")];
        };
        errors.extend(set.map(|(name, _)| Invalid::forbidden(field(name), ANOTHER)));
        errors
    }
}

fn exec_errors(at: &str, exec: &ExecAction) -> Vec<Invalid> {
    let empty = exec.command.as_ref().is_none_or(Vec::is_empty);
    empty.then(|| Invalid::required(format!("{at}.command"), "")).into_iter().collect()
}

fn http_errors(at: &str, http: &HTTPGetAction) -> Vec<Invalid> {
    let mut errors: Vec<Invalid> =
        check::required(&format!("{at}.path"), http.path.as_deref()).into_iter().collect();
    errors.extend(port_errors(&format!("{at}.port"), &http.port));
    let scheme = http.scheme.as_deref().unwrap_or_default();
    errors.extend(check::one_of(&format!("{at}.scheme"), scheme, &SCHEMES));
    for header in http.http_headers.iter().flatten() {
        let name = header.name.as_str();
        if name.is_empty() || !name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-') {
            errors.push(Invalid::invalid(format!("{at}.httpHeaders"), name, NO_HEADER));
        }
    }
    errors
}

/// A port by number, or by the name of one of the container's.
pub fn port_errors(at: &str, port: &IntOrString) -> Vec<Invalid> {
    match port {
        IntOrString::Int(number) if (1..=65535).contains(number) => Vec::new(),
        IntOrString::Int(number) => vec![Invalid::invalid(at, *number, check::range_text(1, 65535))],
        IntOrString::String(name) => names::port(at, name),
    }
}

fn sleep_errors(at: &str, sleep: &SleepAction, grace: Option<i64>) -> Vec<Invalid> {
    let wrong = grace.filter(|grace| !(0..=*grace).contains(&sleep.seconds));
    let text = |grace| format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
    wrong.map(|grace| Invalid::invalid(at, sleep.seconds, text(grace))).into_iter().collect()
}

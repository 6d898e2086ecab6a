//! What probes and lifecycle hooks ask for, in one form. Pure.

use std::time::Duration;

use bowline_api::Container;
use k8s_openapi::api::core::v1::{
    ExecAction, HTTPGetAction, LifecycleHandler, Probe, SleepAction, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::spec::POD_IP;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handler {
    Exec(Vec<String>),
    Http(HttpGet),
    Tcp { host: String, port: u16 },
    Sleep(Duration),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpGet {
    pub host: String,
    pub port: u16,
    pub path: String,
    pub headers: Vec<(String, String)>,
}

pub fn of_probe(container: &Container, probe: &Probe) -> Result<Handler, String> {
    let parts = (probe.exec.as_ref(), probe.http_get.as_ref(), probe.tcp_socket.as_ref());
    handler(container, parts, None).ok_or_else(|| "missing probe handler".to_owned())?
}

pub fn of_hook(container: &Container, hook: &LifecycleHandler) -> Result<Handler, String> {
    let parts = (hook.exec.as_ref(), hook.http_get.as_ref(), hook.tcp_socket.as_ref());
    handler(container, parts, hook.sleep.as_ref()).ok_or_else(|| "invalid handler".to_owned())?
}

type Parts<'a> = (Option<&'a ExecAction>, Option<&'a HTTPGetAction>, Option<&'a TCPSocketAction>);

fn handler(
    container: &Container,
    (exec, http, tcp): Parts<'_>,
    sleep: Option<&SleepAction>,
) -> Option<Result<Handler, String>> {
    let host =
        |given: &Option<String>| given.clone().filter(|h| !h.is_empty()).unwrap_or_else(|| POD_IP.into());
    if let Some(exec) = exec {
        return Some(Ok(Handler::Exec(exec.command.clone().unwrap_or_default())));
    }
    if let Some(get) = http {
        let path = get.path.clone().filter(|path| !path.is_empty()).unwrap_or_else(|| "/".into());
        let path = if path.starts_with('/') { path } else { format!("/{path}") };
        let headers = get.http_headers.iter().flatten().map(|one| (one.name.clone(), one.value.clone()));
        let headers = headers.collect();
        let of_port = |port| Handler::Http(HttpGet { host: host(&get.host), port, path, headers });
        return Some(port(container, &get.port).map(of_port));
    }
    if let Some(socket) = tcp {
        let of_port = |port| Handler::Tcp { host: host(&socket.host), port };
        return Some(port(container, &socket.port).map(of_port));
    }
    let seconds = u64::try_from(sleep?.seconds).unwrap_or(0);
    Some(Ok(Handler::Sleep(Duration::from_secs(seconds))))
}

/// A number, or the name of one of the container's ports.
fn port(container: &Container, wanted: &IntOrString) -> Result<u16, String> {
    let valid = |number: i32| u16::try_from(number).ok().filter(|number| *number > 0);
    match wanted {
        IntOrString::Int(number) => valid(*number).ok_or_else(|| format!("invalid port number: {number}")),
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            let named = ports.find(|port| port.name.as_ref() == Some(name)).map(|port| port.container_port);
            let number = named.or_else(|| name.parse().ok()).and_then(valid);
            number.ok_or_else(|| format!("couldn't find port: {name:?} in container {:?}", container.name))
        }
    }
}

/// Signals by their names, as Linux numbers them; those for real time are not passed on by a container's first process.
pub fn signal_number(name: &str) -> Option<i32> {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let name = name.strip_prefix("SIG")?;
    let at = NAMES.iter().position(|known| *known == name)?;
    i32::try_from(at + 1).ok()
}

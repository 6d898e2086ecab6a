//! The node's address, chosen as upstream does: what was given, the host name's, or that of the way to the API server.

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Result, anyhow};
use bowline_host::Host;
use kube::config::Kubeconfig;

/// What `--node-ip` says; nothing when it is empty or unspecified.
pub(super) fn given(text: &str) -> Result<Option<IpAddr>, String> {
    if text.contains(',') {
        return Err(format!("--node-ip=`{text}`: one address is supported, not two"));
    }
    let address = match text.trim() {
        "" => return Ok(None),
        text => text.parse::<IpAddr>().map_err(|_| format!("--node-ip=`{text}` is not an IP address"))?,
    };
    if address.is_multicast() {
        return Err(format!("--node-ip=`{address}` is a multicast address"));
    }
    Ok((!address.is_unspecified()).then_some(address))
}

/// `HOST:PORT` of the server in a kubeconfig. What is wrong with the file was said when the client was made.
pub(super) fn of_api_server(kubeconfig: Option<&Path>) -> Option<String> {
    let file = Kubeconfig::read_from(kubeconfig?).ok()?;
    let current = file.current_context?;
    let context = file.contexts.into_iter().find(|context| context.name == current)?.context?;
    let cluster = file.clusters.into_iter().find(|cluster| cluster.name == context.cluster)?.cluster?;
    let server: http::Uri = cluster.server?.parse().ok()?;
    let port = server.port_u16().unwrap_or(443);
    Some(format!("{}:{port}", server.host()?))
}

pub(super) async fn choose(
    host: &Host,
    node_ip: &str,
    node_name: &str,
    server: Option<&str>,
) -> Result<IpAddr> {
    if let Some(address) = given(node_ip).map_err(anyhow::Error::msg)? {
        return Ok(address);
    }
    if let Ok(address) = node_name.parse() {
        return Ok(address);
    }
    // A name may lead to a loopback address of this machine only.
    let named = host.net.lookup(node_name).await.unwrap_or_default();
    if let Some(address) = named.into_iter().find(reachable) {
        return Ok(address);
    }
    let Some(server) = server else { return Err(unknown("the kubeconfig names no server")) };
    host.net.source_address(server).await.map_err(|error| unknown(&format!("no way to {server}: {error}")))
}

fn reachable(address: &IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !address.is_loopback() && !address.is_unspecified() && !address.is_multicast() && !link_local
}

fn unknown(why: &str) -> anyhow::Error {
    anyhow!("find the address of this node: {why}; set --node-ip")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_or_none() {
        assert_eq!(given(""), Ok(None));
        assert_eq!(given("0.0.0.0"), Ok(None));
        assert_eq!(given("10.0.0.7"), Ok(Some(IpAddr::from([10, 0, 0, 7]))));
        for wrong in ["10.0.0", "10.0.0.1,fd00::1", "224.0.0.1"] {
            assert!(given(wrong).is_err(), "{wrong}");
        }
    }
}

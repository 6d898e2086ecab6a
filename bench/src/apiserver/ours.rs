//! `bowline kube-apiserver` on its embedded store.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use anyhow::{Context, Result};
use bowline_apiserver::certs::Authority;

use super::client::Target;
use super::subject::{Recipe, Subject};
use crate::startup::SUBJECT;

pub async fn start(program: &Path, dir: &Path) -> Result<Subject> {
    let (data, port) = (dir.join("data"), free_port()?);
    let now = jiff::Timestamp::now();
    // The server opens the same authority, so a certificate of ours is one of its administrator's.
    let authority = Authority::open(&data, now)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let target = Target::new(address, &authority, &authority.issue_admin(now)?)?;
    let arguments = [
        "kube-apiserver".to_owned(),
        format!("--data-dir={}", data.display()),
        format!("--secure-port={port}"),
        // Nobody makes service accounts here, as beside upstream's.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
    ];
    let recipe =
        Recipe { program: program.to_owned(), arguments: arguments.to_vec(), log: dir.join("server.log") };
    Subject::start(SUBJECT, target, vec![recipe]).await
}

/// A port that was free a moment ago.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
    Ok(listener.local_addr()?.port())
}

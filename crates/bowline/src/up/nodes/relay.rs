//! The way of one node to the API server, which can be cut.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Passes connections on until it is cut; clones share it.
#[derive(Clone)]
pub struct Relay {
    pub address: SocketAddr,
    cut: watch::Sender<bool>,
}

impl Relay {
    /// Listens on a free port of this machine.
    pub async fn start(server: SocketAddr, stop: CancellationToken) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("listen for a node")?;
        let address = listener.local_addr().context("read the address of a node's relay")?;
        let server = match server.ip().is_unspecified() {
            true => SocketAddr::from((Ipv4Addr::LOCALHOST, server.port())),
            false => server,
        };
        let (cut, is_cut) = watch::channel(false);
        tokio::spawn(async move { stop.run_until_cancelled(serve(listener, server, is_cut)).await });
        Ok(Self { address, cut })
    }

    /// Ends all connections and takes no new ones, or takes them again.
    pub fn set_cut(&self, cut: bool) {
        self.cut.send_replace(cut);
    }
}

async fn serve(listener: TcpListener, server: SocketAddr, cut: watch::Receiver<bool>) {
    loop {
        match listener.accept().await {
            Ok(_) if *cut.borrow() => {}
            Ok((client, _)) => drop(tokio::spawn(pass(client, server, cut.clone()))),
            Err(error) => {
                tracing::warn!(%error, "accept a connection of a node");
                // Usually for want of file descriptors.
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

async fn pass(mut client: TcpStream, server: SocketAddr, mut cut: watch::Receiver<bool>) {
    let passed = async {
        let mut server = TcpStream::connect(server).await?;
        server.set_nodelay(true)?;
        client.set_nodelay(true)?;
        copy_bidirectional(&mut client, &mut server).await
    };
    tokio::select! {
        biased;
        // Ends with the relay, too.
        _ = cut.wait_for(|cut| *cut) => {}
        // How a connection ends is for its two ends to say.
        _ = passed => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_cut_ends_connections_and_joining_takes_new_ones() {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = server.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = server.accept().await {
                tokio::spawn(async move {
                    let (mut reader, mut writer) = stream.split();
                    let _ = tokio::io::copy(&mut reader, &mut writer).await;
                });
            }
        });
        let relay = Relay::start(address, CancellationToken::new()).await.expect("a relay");
        let echo = async |stream: &mut TcpStream| {
            let _ = stream.write_all(b"x").await;
            stream.read_u8().await.ok()
        };
        let mut first = TcpStream::connect(relay.address).await.expect("connected");
        assert_eq!(echo(&mut first).await, Some(b'x'));
        relay.set_cut(true);
        assert_eq!(first.read_u8().await.ok(), None, "it ends");
        let mut second = TcpStream::connect(relay.address).await.expect("the kernel answers");
        assert_eq!(echo(&mut second).await, None);
        relay.set_cut(false);
        let mut third = TcpStream::connect(relay.address).await.expect("connected");
        assert_eq!(echo(&mut third).await, Some(b'x'));
    }
}

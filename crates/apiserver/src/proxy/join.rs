//! Two connections that have become one.

use std::io;
use std::time::Duration;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

/// For a client to close its side after everything has been said.
const GOODBYE: Duration = Duration::from_secs(5);

/// Passes bytes on in both directions until either side has ended, or the server is to.
pub async fn run(client: OnUpgrade, kubelet: OnUpgrade, closing: CancellationToken) {
    let (client, kubelet) = match tokio::try_join!(client, kubelet) {
        Ok(both) => both,
        Err(error) => return tracing::debug!(%error, "a session did not begin"),
    };
    let passed = tokio::select! {
        biased;
        () = closing.cancelled() => return,
        passed = pass(client, kubelet) => passed,
    };
    if let Err(error) = passed {
        tracing::debug!(%error, "a session broke off");
    }
}

async fn pass(client: Upgraded, kubelet: Upgraded) -> io::Result<()> {
    let (mut from_client, mut to_client) = tokio::io::split(TokioIo::new(client));
    let (mut from_kubelet, mut to_kubelet) = tokio::io::split(TokioIo::new(kubelet));
    tokio::select! {
        // The client has gone: what the kubelet still says is for nobody.
        passed = tokio::io::copy(&mut from_client, &mut to_kubelet) => {
            passed?;
            to_kubelet.shutdown().await
        }
        passed = tokio::io::copy(&mut from_kubelet, &mut to_client) => {
            passed?;
            to_client.shutdown().await?;
            drain(&mut from_client).await;
            Ok(())
        }
    }
}

/// Says something to a client and closes the connection.
pub async fn tell(client: OnUpgrade, bytes: Vec<u8>) {
    let told = async {
        let mut client = TokioIo::new(client.await.map_err(io::Error::other)?);
        client.write_all(&bytes).await?;
        client.shutdown().await?;
        drain(&mut client).await;
        Ok::<_, io::Error>(())
    };
    match tokio::time::timeout(2 * GOODBYE, told).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a refused session broke off"),
        Err(_) => tracing::debug!("a refused session was not closed by its client"),
    }
}

/// To close with input unread would throw away what is still on its way to the client.
async fn drain(client: &mut (impl AsyncReadExt + Unpin)) {
    // Neither a client that does not close in time nor one that is gone matters any more.
    let _ = tokio::time::timeout(GOODBYE, tokio::io::copy(client, &mut tokio::io::sink())).await;
}

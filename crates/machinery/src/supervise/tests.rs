//! Parts that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bowline_host::fake;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::fake_api;
use crate::journal::Journal;

fn ports(stop: &CancellationToken) -> Ports {
    let (client, _) = fake_api::client(|_, _| None);
    Ports::new(client, fake::host(1).0, Journal::default(), stop.clone())
}

/// A part that ends in each way there is, and then runs.
async fn troubled(lives: u32, stop: CancellationToken) -> Result<(), RunError> {
    match lives {
        0 => Err(RunError::Refused("first".into())),
        1 => panic!("second"),
        2 => Ok(()),
        _ => {
            stop.cancelled().await;
            Ok(())
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_that_fails_is_started_again_until_the_process_stops() {
    let (stop, lives) = (CancellationToken::new(), Arc::new(AtomicU32::new(0)));
    let (count, until) = (lives.clone(), stop.clone());
    let part = supervised("part", &ports(&stop), move || {
        troubled(count.fetch_add(1, Ordering::SeqCst), until.clone())
    });
    let part = tokio::spawn(part);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(lives.load(Ordering::SeqCst), 4, "with pauses of 1, 2 and 4 s");
    stop.cancel();
    assert!(part.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_part_that_panics_before_it_begins_is_started_again() {
    let (stop, lives) = (CancellationToken::new(), Arc::new(AtomicU32::new(0)));
    let (count, until) = (lives.clone(), stop.clone());
    let part = supervised("part", &ports(&stop), move || {
        assert_ne!(count.fetch_add(1, Ordering::SeqCst), 0, "the first start");
        let until = until.clone();
        async move {
            until.cancelled().await;
            Ok(())
        }
    });
    let part = tokio::spawn(part);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(lives.load(Ordering::SeqCst), 2);
    stop.cancel();
    assert!(part.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_the_part_for_good() {
    let stop = CancellationToken::new();
    let lost = || async { Err(RunError::LeaseLost("lock".into())) };
    let ended = supervised("part", &ports(&stop), lost).await;
    assert!(matches!(ended, Err(RunError::LeaseLost(_))), "{ended:?}");
}

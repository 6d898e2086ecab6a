//! Reading everything at one revision, and the key that says whose data it is.

use std::sync::Arc;

use bowline_proto::etcd::{KeyValue, PutRequest, RangeRequest, TxnRequest};
use bytes::{BufMut, Bytes, BytesMut};
use tokio::time::Instant;

use super::client::{Client, Tries, revision, signed, unsigned};
use super::failure::Failure;
use super::layout::{self, FORMAT, Layout, Place};
use super::transaction;
use crate::store::backend::Loaded;
use crate::store::object::{EventKind, Stored, encode};

/// Objects per request.
const PAGE: i64 = 1000;

/// What stands at the format key.
#[derive(Debug, PartialEq, Eq)]
enum Claim {
    Ours,
    Newer(String),
    /// Nothing, and nothing else below the prefix either.
    Free,
    /// Nothing, but somebody keeps something there.
    Foreign,
}

fn judge(format: Option<&str>, others: bool) -> Claim {
    match format.map(|text| (text, text.trim().parse::<u32>())) {
        Some((_, Ok(found))) if found <= FORMAT => Claim::Ours,
        Some((text, _)) => Claim::Newer(format!("{:?}", text.trim())),
        None if others => Claim::Foreign,
        None => Claim::Free,
    }
}

async fn look(client: &Client, layout: &Layout, deadline: Instant) -> Result<Claim, Failure> {
    let format = RangeRequest { key: layout.format_key(), ..RangeRequest::default() };
    let format = client.range(format, deadline).await?;
    let format = format.kvs.first().map(|kv| String::from_utf8_lossy(&kv.value).into_owned());
    let (key, range_end) = layout.range();
    let any = RangeRequest { key, range_end, limit: 1, keys_only: true, ..RangeRequest::default() };
    let any = client.range(any, deadline).await?;
    Ok(judge(format.as_deref(), any.count > 0))
}

fn refuse(claim: &Claim, layout: &Layout) -> Result<(), String> {
    let prefix = layout.prefix();
    match claim {
        Claim::Ours | Claim::Free => Ok(()),
        Claim::Newer(found) => Err(format!(
            "{prefix} was written by a newer version (format {found}, this one reads up to {FORMAT}): use that version or another --etcd-prefix"
        )),
        Claim::Foreign => Err(format!(
            "{prefix} holds data of another program, perhaps of kube-apiserver, which keeps objects in another form: choose another --etcd-prefix"
        )),
    }
}

/// Only looks whose data it is.
pub async fn check_claim(client: &Client, layout: &Layout, deadline: Instant) -> Result<(), String> {
    let claim = look(client, layout, deadline).await.map_err(|failure| failure.to_string())?;
    match claim {
        Claim::Free => Err(format!("there is no store below {}", layout.prefix())),
        claim => refuse(&claim, layout),
    }
}

/// Takes a prefix that is free. Several servers may do so at the same time.
pub async fn claim(client: &Client, layout: &Layout, deadline: Instant) -> Result<(), String> {
    let mut tries = Tries::until(deadline);
    loop {
        let claim = look(client, layout, deadline).await.map_err(|failure| failure.to_string())?;
        refuse(&claim, layout)?;
        if claim == Claim::Ours {
            return Ok(());
        }
        let value = format!("{FORMAT}\n").into();
        let put = PutRequest { key: layout.format_key(), value, lease: 0 };
        let request = TxnRequest {
            compare: vec![transaction::last_changed(layout.format_key(), 0)],
            success: vec![transaction::put(put)],
            failure: Vec::new(),
        };
        // Whether it worked, or somebody else was first, or the answer is lost: the next look shows it.
        if let Err(failure) = client.transact(request).await
            && !(failure.may_pass() && tries.again().await)
        {
            return Err(failure.to_string());
        }
    }
}

/// Everything below the prefix, and what could not be understood of it.
pub async fn all(
    client: &Client,
    layout: &Layout,
    deadline: Instant,
) -> Result<(Loaded, Vec<String>), Failure> {
    let (mut key, range_end) = layout.range();
    let mut loaded = Loaded::default();
    let mut problems = Vec::new();
    loop {
        let request = RangeRequest {
            key: key.clone(),
            range_end: range_end.clone(),
            limit: PAGE,
            // Later pages show the revision of the first one.
            revision: signed(loaded.version),
            ..RangeRequest::default()
        };
        let page = client.range(request, deadline).await?;
        if loaded.version == 0 {
            loaded.version = revision(page.header.as_ref());
        }
        for kv in &page.kvs {
            if let Err(why) = take(&mut loaded, layout, kv) {
                problems.push(format!("key {}: {why}", String::from_utf8_lossy(&kv.key)));
            }
        }
        match page.kvs.last().filter(|_| page.more) {
            Some(last) => key = after(&last.key),
            None => return Ok((loaded, problems)),
        }
    }
}

/// The first key behind this one.
fn after(key: &Bytes) -> Bytes {
    let mut next = BytesMut::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.put_u8(0);
    next.freeze()
}

fn take(loaded: &mut Loaded, layout: &Layout, kv: &KeyValue) -> Result<(), String> {
    let (resource, key) = match layout.place(&kv.key) {
        Place::Format => return Ok(()),
        Place::Foreign => return Err("it is not ours".into()),
        Place::Object { resource, key } => (resource, key),
    };
    let version = unsigned(kv.mod_revision);
    let kept = layout::decode(&kv.value)?;
    let (json, _) = encode(EventKind::Added, kept.object, version)?;
    // Keys come sorted, so kinds come in runs: share the text of their name.
    let resource = match loaded.objects.last() {
        Some((last, _)) if **last == *resource => last.clone(),
        _ => resource.into(),
    };
    loaded.objects.push((resource, Arc::new(Stored::new(key, version, json))));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_data_it_is() {
        assert_eq!(judge(Some("1\n"), true), Claim::Ours);
        assert_eq!(judge(Some("2\n"), true), Claim::Newer("\"2\"".into()));
        assert_eq!(judge(Some("x"), true), Claim::Newer("\"x\"".into()));
        assert_eq!(judge(None, false), Claim::Free);
        assert_eq!(judge(None, true), Claim::Foreign);
    }
}

//! Which log is shown, what of it, and how the channels of a session are written.

use std::io;

use async_trait::async_trait;
use bowline_host::disk::Growing;
use bowline_host::fake;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ContainerStatus;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::exec::wanted;
use super::follow::Reading;
use super::frames::{self, Decoder, Message, Violation};
use super::listen::terminal_size;
use super::logs::run_to_show;
use super::query::Query;
use super::select::{Options, Refusal, Selection};
use super::session::{Streams, outcome};

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().unwrap()
}

fn options(query: &str) -> Result<Options, Refusal> {
    Options::parse(&Query::parse(query), now())
}

#[test]
fn wishes() {
    let all =
        options("follow=true&previous=1&timestamps=true&tailLines=5&limitBytes=7&sinceSeconds=10").unwrap();
    let since = Some("2026-01-01T00:00:50Z".parse().unwrap());
    let want = Options {
        follow: true,
        previous: true,
        since,
        timestamps: true,
        tail_lines: Some(5),
        limit_bytes: Some(7),
    };
    assert_eq!(all, want);
    assert_eq!(options("follow=false&previous=0").unwrap(), Options::default());
    let time = options("sinceTime=2026-01-01T00%3A00%3A00Z").unwrap().since;
    assert_eq!(time, Some("2026-01-01T00:00:00Z".parse().unwrap()));
    for (query, why) in [
        ("tailLines=x", Refusal::Unreadable),
        ("sinceTime=yesterday", Refusal::Unreadable),
        ("tailLines=-1", Refusal::Invalid),
        ("limitBytes=0", Refusal::Invalid),
        ("sinceSeconds=0", Refusal::Invalid),
        ("sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", Refusal::Invalid),
    ] {
        assert_eq!(options(query), Err(why), "{query}");
    }
}

const LOG: &str = "2026-01-01T00:00:01.000000001Z stdout F one\n\
                   2026-01-01T00:00:02.000000000Z stderr P tw\n\
                   2026-01-01T00:00:03.000000000Z stderr F o\n\
                   torn by a full disk\n\
                   2026-01-01T00:00:04.000000000Z stdout F \n\
                   2026-01-01T00:00:05.000000000Z stdout P end";

fn selected(query: &str, pieces: &[&str]) -> String {
    let mut selection = Selection::new(&options(query).unwrap());
    let mut output = Vec::new();
    for piece in pieces {
        if !selection.is_over() {
            output.extend(selection.take(piece.as_bytes()));
        }
    }
    String::from_utf8(output).unwrap()
}

#[test]
fn selections() {
    let whole = format!("{LOG}\n");
    assert_eq!(selected("", &[&whole]), "one\ntwo\n\nend");
    let (head, tail) = whole.split_at(60);
    assert_eq!(selected("", &[head, tail]), "one\ntwo\n\nend", "in any pieces");
    assert_eq!(selected("", &[LOG]), "one\ntwo\n\n", "an entry without an end may go on");
    let times = "2026-01-01T00:00:01.000000001Z one\n2026-01-01T00:00:02.000000000Z two\n\
                 2026-01-01T00:00:04.000000000Z \n2026-01-01T00:00:05.000000000Z end";
    assert_eq!(selected("timestamps=true", &[&whole]), times);
    assert_eq!(selected("sinceTime=2026-01-01T00:00:03Z", &[&whole]), "o\n\nend");
    assert_eq!(selected("sinceSeconds=56", &[&whole]), "\nend");
    assert_eq!(selected("limitBytes=5", &[&whole]), "one\nt");
    assert_eq!(selected("limitBytes=4", &[head, tail]), "one\n");
}

#[tokio::test]
async fn the_end_of_a_log() {
    let (host, _) = fake::host(1);
    let path = std::path::PathBuf::from("/0.log");
    let long: String = (0..5000)
        .map(|number| format!("2026-01-01T00:00:00.000000000Z stdout F line {number:04}\n"))
        .collect();
    host.disk.write_atomic(&path, long.as_bytes(), 0o600).await.unwrap();
    for (query, first, count) in [
        ("", "line 0000\n", 5000),
        ("tailLines=0", "", 0),
        ("tailLines=1", "line 4999\n", 1),
        ("tailLines=4000", "line 1000\n", 4000),
        ("tailLines=4999", "line 0001\n", 4999),
        ("tailLines=9999", "line 0000\n", 5000),
    ] {
        let (sender, mut receiver) = mpsc::channel(1);
        let file = host.disk.open_growing(&path).await.unwrap();
        let (options, container) = (options(query).unwrap(), "u/c/0".to_owned());
        let reading = Reading { host: host.clone(), path: path.clone(), file, options, container };
        let task = tokio::spawn(reading.run(sender));
        let mut text = String::new();
        while let Some(piece) = receiver.recv().await {
            text.push_str(std::str::from_utf8(&piece).unwrap());
        }
        task.await.unwrap();
        assert!(text.starts_with(first), "{query}: {:?}", text.get(..20));
        assert_eq!(text.lines().count(), count, "{query}");
    }
}

/// A file that gets one more line between two looks, and is put aside then.
struct PutAside {
    lines: Vec<&'static str>,
    last: Option<&'static str>,
}

#[async_trait]
impl Growing for PutAside {
    async fn length(&mut self) -> io::Result<u64> {
        Ok(self.lines.concat().len() as u64)
    }

    async fn read_at(&mut self, offset: u64, _max: usize) -> io::Result<Vec<u8>> {
        Ok(self.lines.concat().into_bytes().split_off(offset as usize))
    }

    async fn changed(&mut self) -> io::Result<()> {
        Ok(())
    }

    async fn replaced(&mut self) -> io::Result<bool> {
        self.lines.extend(self.last.take());
        Ok(true)
    }
}

#[tokio::test]
async fn no_line_is_lost_when_a_log_is_put_aside() {
    let (host, _) = fake::host(1);
    let path = std::path::PathBuf::from("/0.log");
    host.disk.write_atomic(&path, b"2026-01-01T00:00:03Z stdout F three\n", 0o600).await.unwrap();
    let file = PutAside {
        lines: vec!["2026-01-01T00:00:01Z stdout F one\n"],
        last: Some("2026-01-01T00:00:02Z stdout F two\n"),
    };
    let (sender, mut receiver) = mpsc::channel(9);
    let (options, container) = (options("").unwrap(), "u/c/0".to_owned());
    Reading { host, path, file: Box::new(file), options, container }.run(sender).await;
    let mut text = Vec::new();
    while let Some(piece) = receiver.recv().await {
        text.extend(piece);
    }
    assert_eq!(String::from_utf8(text).unwrap(), "one\ntwo\nthree\n");
}

#[test]
fn which_run_is_shown() {
    let status = |state: Value, last: Value| -> ContainerStatus {
        serde_json::from_value(json!({
            "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "containerID": "now", "state": state, "lastState": last,
        }))
        .unwrap()
    };
    let ended = |id: &str| json!({"terminated": {"exitCode": 1, "containerID": id}});
    let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
    let start = |why: &str| Err(format!("container \"c\" in pod \"p\" is waiting to start: {why}"));
    let running = || json!({"running": {}});
    let table = [
        (status(running(), json!({})), false, Ok("now".into())),
        (status(running(), ended("before")), true, Ok("before".into())),
        (
            status(running(), json!({})),
            true,
            Err("previous terminated container \"c\" in pod \"p\" not found".into()),
        ),
        (status(ended("now"), ended("before")), false, Ok("now".into())),
        (status(ended(""), ended("before")), false, Ok("before".into())),
        (status(ended(""), json!({})), false, Err("container \"c\" in pod \"p\" is terminated".into())),
        (status(waiting("CrashLoopBackOff"), ended("before")), false, Ok("before".into())),
        (status(waiting("CrashLoopBackOff"), ended("before")), true, Ok("before".into())),
        (status(waiting("ContainerCreating"), json!({})), false, start("ContainerCreating")),
        (status(waiting("ErrImagePull"), json!({})), false, start("image can't be pulled")),
        (status(waiting("ImagePullBackOff"), json!({})), false, start("trying and failing to pull image")),
        (
            status(json!({}), json!({})),
            false,
            Err("container \"c\" in pod \"p\" is waiting to start - no logs yet".into()),
        ),
    ];
    for (status, previous, want) in table {
        assert_eq!(run_to_show(&status, "p", previous), want, "{:?}", status.state);
    }
}

/// As a client sends it.
fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [1, 2, 3, 4];
    let mut frame = vec![first];
    match u8::try_from(payload.len()) {
        Ok(short) if short < 126 => frame.push(0x80 | short),
        _ => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&u16::try_from(payload.len()).unwrap().to_be_bytes());
        }
    }
    frame.extend_from_slice(&mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

#[test]
fn messages_from_frames() {
    let long = vec![7; 300];
    let bytes = [
        masked(0x82, b"\0hello"),
        masked(0x89, b"still there?"),
        masked(0x02, b"\0in "),
        masked(0x8a, b"an answer that nobody asked for"),
        masked(0x80, b"two"),
        masked(0x82, &long),
        masked(0x88, &1000u16.to_be_bytes()),
    ]
    .concat();
    let want = [
        Message::Data(b"\0hello".to_vec()),
        Message::Ping(b"still there?".to_vec()),
        Message::Data(b"\0in two".to_vec()),
        Message::Data(long),
        Message::Close,
    ];
    for size in [1, 7, bytes.len()] {
        let (mut decoder, mut found) = (Decoder::default(), Vec::new());
        for piece in bytes.chunks(size) {
            decoder.feed(piece);
            while let Some(message) = decoder.next().unwrap() {
                found.push(message);
            }
        }
        assert_eq!(found, want, "in pieces of {size}");
    }
}

#[test]
fn clients_that_break_the_rules() {
    let cases = [
        (vec![0x82, 0x01, 0x00], Violation::Protocol, "not masked"),
        (masked(0xc2, b"x"), Violation::Protocol, "reserved bit"),
        (masked(0x80, b"x"), Violation::Protocol, "continues nothing"),
        (masked(0x83, b"x"), Violation::Protocol, "unknown kind"),
        (masked(0x09, b"x"), Violation::Protocol, "a ping in parts"),
        (vec![0x82, 0xff, 0, 0, 0, 0, 0x7f, 0, 0, 0], Violation::TooBig, "two gigabytes"),
    ];
    for (bytes, why, name) in cases {
        let mut decoder = Decoder::default();
        decoder.feed(&bytes);
        assert_eq!(decoder.next(), Err(why), "{name}");
    }
}

#[test]
fn frames_to_a_client() {
    assert_eq!(frames::data(1, b"ab"), b"\x82\x03\x01ab");
    assert_eq!(frames::data(2, &[0; 200])[..5], [0x82, 126, 0, 201, 2]);
    assert_eq!(frames::data(2, &[0; 70_000])[..11], [0x82, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x71, 2]);
    assert_eq!(frames::pong(b"x"), b"\x8a\x01x");
    assert_eq!(frames::ping(), b"\x89\0");
    assert_eq!(frames::close(1000), [0x88, 2, 0x03, 0xe8]);
}

#[test]
fn what_is_run_and_shown() {
    let (spec, streams) = wanted(&Query::parse("command=ls&command=-l+a&output=1&error=1&input=1")).unwrap();
    assert_eq!((spec.argv, spec.stdin, spec.tty), (vec!["ls".into(), "-l a".into()], true, false));
    assert_eq!(streams, Streams { stdout: true, stderr: true });
    let (spec, streams) = wanted(&Query::parse("command=sh&output=1&error=1&tty=1")).unwrap();
    assert!(spec.tty && !streams.stderr, "a terminal has one output");
    assert_eq!(wanted(&Query::parse("command=ls&tty=1&error=1")), None, "nothing to say or hear");
    let lowest = |stdout, stderr| Streams { stdout, stderr }.lowest();
    assert_eq!([lowest(true, true), lowest(false, true), lowest(false, false)], [1, 2, 3]);
}

#[test]
fn the_last_channel() {
    assert_eq!(outcome(Ok(0)), json!({"metadata": {}, "status": "Success"}));
    let seven = outcome(Ok(7));
    assert_eq!(seven["reason"], "NonZeroExitCode");
    assert_eq!(seven["details"]["causes"], json!([{"reason": "ExitCode", "message": "7"}]));
    assert_eq!(terminal_size(br#"{"Width":80,"Height":24}"#), Some((80, 24)));
    assert_eq!(terminal_size(b"80x24"), None);
}

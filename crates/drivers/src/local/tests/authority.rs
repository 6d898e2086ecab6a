//! Clients that name the server by the path of its socket, as gRPC's C core does.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::world::{SOCKET, World};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// Header fields as literals, none of them Huffman-coded.
fn fields(authority: &str) -> Vec<u8> {
    let all = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/csi.v1.Identity/Probe"),
        (":authority", authority),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat();
    all.into_iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

/// The kind of the first frame that answers the request.
async fn answer(world: &World, headers: &[u8]) -> u8 {
    let mut stream = world.host.net.connect(Path::new(SOCKET)).await.unwrap();
    let request = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &frame(SETTINGS, 0, 0, b"")[..],
        headers,
        &frame(DATA, END_STREAM, 1, &[0; 5]),
    ];
    stream.write_all(&request.concat()).await.unwrap();
    let first = async {
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.unwrap();
            let [a, b, c, kind, _, _, _, _, id] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            stream.read_exact(&mut payload).await.unwrap();
            if id == 1 && matches!(kind, HEADERS | RST_STREAM) {
                return kind;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), first).await.expect("an answer")
}

#[tokio::test]
async fn every_spelling_of_the_server_is_answered() {
    let world = World::new().await;
    for authority in ["localhost", "[::1]:50051", "%2Fvar%2Flib%2Fcsi.sock"] {
        let fields = fields(authority);
        let whole = frame(HEADERS, END_HEADERS, 1, &fields);
        assert_eq!(answer(&world, &whole).await, HEADERS, "{authority}");
        // In the middle of the name.
        let (start, rest) = fields.split_at(fields.len() - 60);
        let cut = [frame(HEADERS, 0, 1, start), frame(CONTINUATION, END_HEADERS, 1, rest)].concat();
        assert_eq!(answer(&world, &cut).await, HEADERS, "{authority} in two frames");
    }
}

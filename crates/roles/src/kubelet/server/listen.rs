//! What the client of a session says.

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

use super::frames::{self, Decoder, Message};
use super::session::{CHUNK, RESIZE, STDIN};

/// Says that the channel named in its one byte has ended.
const CLOSE: u8 = 255;

/// Where it goes.
pub struct Input {
    /// For the program to read; `None` is the end.
    pub pieces: mpsc::Sender<Option<Vec<u8>>>,
    /// Columns and rows of its terminal.
    pub sizes: mpsc::Sender<(u16, u16)>,
}

/// Takes in what the client sends until it closes the connection or breaks the rules.
pub async fn listen(socket: &mut (impl AsyncRead + Unpin), input: Input, frames: &mpsc::Sender<Vec<u8>>) {
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; CHUNK];
    while let Ok(length @ 1..) = socket.read(&mut buffer).await {
        decoder.feed(&buffer[..length]);
        loop {
            match decoder.next() {
                Ok(None) => break,
                Ok(Some(Message::Close)) => return,
                Ok(Some(Message::Ping(payload))) => {
                    let _ = frames.send(frames::pong(&payload)).await;
                }
                Ok(Some(Message::Data(data))) => input.take(&data).await,
                Err(violation) => {
                    let _ = frames.send(frames::close(violation.code())).await;
                    return;
                }
            }
        }
    }
}

impl Input {
    /// A program that takes no more input keeps the client waiting, not this process's memory growing.
    async fn take(&self, data: &[u8]) {
        match data.split_first() {
            Some((&STDIN, piece)) => drop(self.pieces.send(Some(piece.to_vec())).await),
            Some((&CLOSE, [STDIN])) => drop(self.pieces.send(None).await),
            Some((&RESIZE, size)) => {
                if let Some(size) = terminal_size(size) {
                    let _ = self.sizes.send(size).await;
                }
            }
            _ => {}
        }
    }
}

/// `{"Width":80,"Height":24}`
pub fn terminal_size(text: &[u8]) -> Option<(u16, u16)> {
    let size: Value = serde_json::from_slice(text).ok()?;
    let side = |name: &str| u16::try_from(size[name].as_u64()?).ok();
    Some((side("Width")?, side("Height")?))
}

//! As much of a Redis client as a look needs.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A Redis that is stopped does not answer; the next look tries anew.
const ANSWER: Duration = Duration::from_secs(2);

/// What Redis answers. Errors are no answer.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Empty where there is nothing.
    Bytes(Vec<u8>),
    Array(Vec<Self>),
}

impl Reply {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Array(_) => panic!("not bytes: {self:?}"),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Link(BufReader<TcpStream>);

impl Link {
    pub(crate) async fn open(address: SocketAddr) -> Option<Self> {
        let stream = timeout(ANSWER, TcpStream::connect(address)).await.ok()?.ok()?;
        Some(Self(BufReader::new(stream)))
    }

    /// `None` if there is no answer, or an error: then the link is of no use any more.
    pub(crate) async fn call(&mut self, words: &[&[u8]]) -> Option<Reply> {
        timeout(ANSWER, self.ask(words)).await.ok()?
    }

    async fn ask(&mut self, words: &[&[u8]]) -> Option<Reply> {
        let mut sent = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            sent.extend(format!("${}\r\n", word.len()).into_bytes());
            sent.extend_from_slice(word);
            sent.extend_from_slice(b"\r\n");
        }
        self.0.write_all(&sent).await.ok()?;
        self.reply().await
    }

    async fn reply(&mut self) -> Option<Reply> {
        let mut line = String::new();
        self.0.read_line(&mut line).await.ok()?;
        let (kind, rest) = (line.chars().next()?, line.get(1..)?.trim_end());
        match kind {
            '$' => self.bulk(rest.parse().ok()?).await,
            '*' => {
                let mut all = Vec::new();
                for _ in 0..rest.parse::<usize>().ok()? {
                    all.push(Box::pin(self.reply()).await?);
                }
                Some(Reply::Array(all))
            }
            '+' | ':' => Some(Reply::Bytes(rest.as_bytes().to_vec())),
            _ => None,
        }
    }

    async fn bulk(&mut self, len: i64) -> Option<Reply> {
        let Ok(len) = usize::try_from(len) else { return Some(Reply::Bytes(Vec::new())) };
        let mut bytes = vec![0; len + 2];
        self.0.read_exact(&mut bytes).await.ok()?;
        bytes.truncate(len);
        Some(Reply::Bytes(bytes))
    }
}

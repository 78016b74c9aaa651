use std::fs;
use std::path::Path;

use futures_util::stream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::follow::Followed;
use super::*;
use crate::flags::tls::Pem;

/// The certificates that the gateway's tests use: two authorities, one holder of each.
const PEER: [&str; 3] = [
    include_str!("../../../gateway/src/running/tls/peer.pem"),
    include_str!("../../../gateway/src/running/tls/peer.key"),
    include_str!("../../../gateway/src/running/tls/ca.pem"),
];
const OTHER: [&str; 3] = [
    include_str!("../../../gateway/src/running/tls/stranger.pem"),
    include_str!("../../../gateway/src/running/tls/stranger.key"),
    include_str!("../../../gateway/src/running/tls/other-ca.pem"),
];

fn pems(dir: &Path, texts: [&str; 3]) -> Pems {
    let mut files = ["cert", "key", "ca"].into_iter().zip(texts).map(|(name, text)| {
        let path = dir.join(name);
        // Another file in its place: nothing depends on how finely time is kept.
        let fresh = dir.join("new");
        fs::write(&fresh, text).unwrap();
        fs::rename(&fresh, &path).unwrap();
        Pem { path, text: text.to_owned() }
    });
    let mut next = || files.next().unwrap();
    Pems { certificate: next(), key: next(), authority: next() }
}

fn links(texts: [&str; 3]) -> Result<Links, TlsError> {
    Links::new(&pems(tempfile::tempdir().unwrap().path(), texts))
}

fn count(links: &Links, result: &str) -> u64 {
    links.reloads.with_label_values(&[result]).get()
}

/// A byte there and back; whether it arrived.
async fn reaches(client: &Links, server: &Arc<Links>) -> bool {
    let (near, far) = tokio::io::duplex(16 * 1024);
    let mut accepted =
        Box::pin(server.incoming(stream::iter([Ok::<DuplexStream, io::Error>(far)])));
    let serve = async {
        let Some(connection) = accepted.next().await else { return };
        let mut connection = connection.unwrap();
        let byte = connection.read_u8().await.unwrap();
        connection.write_u8(byte).await.unwrap();
        connection.flush().await.unwrap();
    };
    let ask = async {
        let mut connection = client.connect("localhost", near).await.ok()?;
        connection.write_u8(7).await.ok()?;
        connection.flush().await.ok()?;
        connection.read_u8().await.ok()
    };
    let ((), answer) = tokio::join!(serve, ask);
    answer == Some(7)
}

#[tokio::test]
async fn both_sides_show_certificates_of_one_authority() {
    let (peer, other) = (Arc::new(links(PEER).unwrap()), Arc::new(links(OTHER).unwrap()));
    assert!(reaches(&peer, &peer).await);
    assert!(!reaches(&other, &peer).await);
    // Whom it trusts, but not what it shows.
    let mixed = links([OTHER[0], OTHER[1], PEER[2]]).unwrap();
    assert!(!reaches(&mixed, &peer).await);
    assert_eq!(peer.failed.get(), 2);
    assert!(reaches(&other, &other).await);
}

#[test]
fn what_cannot_be_used_names_the_file() {
    for (texts, says) in [
        (["", PEER[1], PEER[2]], "--tls-cert"),
        ([PEER[0], "", PEER[2]], "--tls-key"),
        ([PEER[0], PEER[1], PEER[1]], "--tls-ca"),
        ([PEER[0], OTHER[1], PEER[2]], "keys may not be consistent"),
    ] {
        let error = links(texts).unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{error}");
    }
    let registry = Registry::new();
    links(PEER).unwrap().register(&registry).unwrap();
    assert_eq!(registry.gather().len(), 3);
}

#[tokio::test]
async fn changed_files_are_taken_once_they_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let before = pems(dir.path(), PEER);
    let (here, other) = (Arc::new(Links::new(&before).unwrap()), links(OTHER).unwrap());
    let mut followed = Followed::new(before);
    assert!(!followed.look(&here).unwrap());
    assert!(!reaches(&other, &here).await);

    pems(dir.path(), OTHER);
    assert!(!followed.look(&here).unwrap(), "they may still be being written");
    assert!(followed.look(&here).unwrap());
    assert!(!followed.look(&here).unwrap(), "nothing new");
    assert!(reaches(&other, &here).await);
    assert_eq!((count(&here, TAKEN), count(&here, REFUSED)), (1, 0));
}

#[tokio::test]
async fn broken_files_keep_what_is_there_and_are_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let before = pems(dir.path(), PEER);
    let here = Arc::new(Links::new(&before).unwrap());
    let mut followed = Followed::new(before);
    let large = "x".repeat(usize::try_from(follow::PEM_BYTES_MAX).unwrap() + 1);
    let bad =
        [[PEER[0], OTHER[1], PEER[2]], ["none", PEER[1], PEER[2]], [&large, PEER[1], PEER[2]]];
    for (at, texts) in bad.into_iter().enumerate() {
        pems(dir.path(), texts);
        assert!(!followed.look(&here).unwrap());
        assert!(followed.look(&here).is_err());
        assert!(!followed.look(&here).unwrap(), "told already");
        assert_eq!(count(&here, REFUSED), at as u64 + 1);
    }
    pems(dir.path(), PEER);
    fs::remove_file(dir.path().join("key")).unwrap();
    assert!(!followed.look(&here).unwrap());
    assert!(matches!(followed.look(&here), Err(TlsError::Read(_))));
    assert_eq!(count(&here, REFUSED), 4);
    assert!(reaches(&here, &here).await, "what was there goes on");

    pems(dir.path(), OTHER);
    assert!(!followed.look(&here).unwrap());
    assert!(followed.look(&here).unwrap());
    assert_eq!(count(&here, TAKEN), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_says_nothing_gives_its_place_back() {
    let here = Arc::new(links(PEER).unwrap());
    let (ends, silent): (Vec<_>, Vec<_>) =
        (0..=HANDSHAKES_MAX).map(|_| tokio::io::duplex(64)).unzip();
    let connections = stream::iter(silent.into_iter().map(Ok::<DuplexStream, io::Error>));
    let mut accepted = Box::pin(here.incoming(connections));
    let early = tokio::time::timeout(HANDSHAKE_TIMEOUT / 2, accepted.next());
    assert!(early.await.is_err());
    assert_eq!(here.under_way.get(), HANDSHAKES_MAX as i64, "the last one waits for a place");
    assert!(accepted.next().await.is_none());
    assert_eq!(here.under_way.get(), 0);
    assert_eq!(here.failed.get(), HANDSHAKES_MAX as u64 + 1);
    drop(ends);
}

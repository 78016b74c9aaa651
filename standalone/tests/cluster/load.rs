//! Rooms with agents that speak all the time, and the proof that what was acknowledged is there.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::mcp::{Client, Era};

/// Longest a call is repeated until it succeeds.
const GIVE_UP: Duration = Duration::from_secs(30);
/// Texts of one room at most: so that all of them can be read back at once.
const TEXTS_MAX: usize = 45;

/// One room with the agent that made it.
pub(crate) struct Speaker {
    client: Client,
    pub(crate) handle: String,
    /// Sequence and text of what was acknowledged.
    said: Vec<(u64, String)>,
    /// Calls that were refused or got no answer.
    pub(crate) failed: Vec<String>,
    /// The slowest call of all.
    pub(crate) slowest: Duration,
    name: usize,
}

impl Speaker {
    /// Makes `count` rooms over these gateways in turn.
    pub(crate) async fn several(gateways: &[SocketAddr], count: usize) -> Vec<Self> {
        let mut speakers = Vec::new();
        for name in 0..count {
            let mut client = Client::new(gateways[name % gateways.len()], Era::Modern);
            let made = client.call("create_room", json!({"name": "Ana"})).await.unwrap().ok();
            let handle = made["participantHandle"].as_str().unwrap().to_owned();
            let (said, failed) = (Vec::new(), Vec::new());
            let slowest = Duration::ZERO;
            speakers.push(Self { client, handle, said, failed, slowest, name });
        }
        speakers
    }

    /// One text, once. What failed is kept, the request is forgotten.
    pub(crate) async fn say(&mut self) {
        let request = self.request();
        let begin = Instant::now();
        match self.client.call("send_text", request.clone()).await {
            Ok(called) if !called.refused => self.acknowledged(&request, &called.value),
            Ok(called) => self.failed.push(called.value.to_string()),
            Err(lost) => self.failed.push(format!("{lost:?}")),
        }
        self.slowest = self.slowest.max(begin.elapsed());
    }

    /// One text, repeated with the same request id until it is acknowledged; how long that took.
    pub(crate) async fn insist(&mut self) -> Duration {
        let request = self.request();
        let begin = Instant::now();
        loop {
            match self.client.call("send_text", request.clone()).await {
                Ok(called) if !called.refused => {
                    self.acknowledged(&request, &called.value);
                    return begin.elapsed();
                }
                Ok(called) => {
                    assert_eq!(called.value["retryable"], true, "{}", called.value);
                    self.failed.push(called.value.to_string());
                }
                Err(lost) => self.failed.push(format!("{lost:?}")),
            }
            assert!(begin.elapsed() < GIVE_UP, "no answer: {:?}", self.failed.last());
        }
    }

    fn request(&self) -> Value {
        let text = format!("room-{}.text-{}", self.name, self.said.len() + self.failed.len());
        json!({"participantHandle": self.handle, "clientRequestId": text, "text": text})
    }

    fn acknowledged(&mut self, request: &Value, answer: &Value) {
        let text = request["text"].as_str().unwrap().to_owned();
        self.said.push((answer["sequence"].as_u64().unwrap(), text));
    }

    /// Reads the room back: every acknowledged text is there, once, with its sequence.
    pub(crate) async fn verify(&mut self) {
        let missing = self.missing().await;
        assert!(missing.is_empty(), "{missing:?} of room-{}", self.name);
    }

    /// Reads the room back, which holds nothing twice; which acknowledged texts are not there.
    pub(crate) async fn missing(&mut self) -> Vec<(u64, String)> {
        let read = json!({"participantHandle": self.handle, "limit": 50});
        let context = self.client.call("read_room_context", read).await.unwrap().ok();
        let there: Vec<(u64, String)> = context["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| (e["sequence"].as_u64().unwrap(), e["text"].as_str().unwrap().to_owned()))
            .collect();
        // What failed may have happened, once; nothing else is there.
        assert!(there.len() <= self.said.len() + self.failed.len(), "{there:?}");
        let mut texts: Vec<&str> = there.iter().map(|(_, text)| text.as_str()).collect();
        texts.sort_unstable();
        assert!(texts.is_sorted_by(|one, next| one < next), "a text is there twice: {there:?}");
        self.said.iter().filter(|said| !there.contains(said)).cloned().collect()
    }

    /// How many texts were acknowledged.
    pub(crate) fn count(&self) -> usize {
        self.said.len()
    }
}

/// All speak until told to stop, each one call after the other.
pub(crate) fn speaking(
    speakers: Vec<Speaker>,
    stop: &Arc<AtomicBool>,
) -> Vec<tokio::task::JoinHandle<Speaker>> {
    let speak = |mut speaker: Speaker| {
        let stop = Arc::clone(stop);
        tokio::spawn(async move {
            // The pace of the load.
            let mut pace = tokio::time::interval(PAUSE);
            while !stop.load(Ordering::SeqCst) && speaker.said.len() < TEXTS_MAX {
                pace.tick().await;
                speaker.say().await;
            }
            speaker
        })
    };
    speakers.into_iter().map(speak).collect()
}

/// Between two texts of one speaker.
const PAUSE: Duration = Duration::from_millis(100);

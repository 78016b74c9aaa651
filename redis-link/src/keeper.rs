//! Keeps the map of primaries true: looks each second and whenever somebody stumbled.
//!
//! A primary enters the map only when it is verified: its role, its settings, its generation, and
//! the libraries loaded. Its lanes then serve this one life of it; another life is another primary.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use crate::check::check;
use crate::core::Core;
use crate::discover::{Finder, Place};
use crate::generation::{Markers, Part, Unsettled};
use crate::identity::{Identity, NotUsable, identify};
use crate::library::{Form, LoadError};
use crate::primary::{Map, Owner, Primary};
use crate::socket::{Login, Socket, SocketError};
use crate::{Address, Endpoint, OpenError};

/// The time between two looks, milliseconds.
const LOOK_MS: u64 = 1_000;
/// The same while something is wrong.
const LOOK_WRONG_MS: u64 = 200;
/// The least time between two looks, however many stumble, milliseconds.
const LOOK_LEAST_MS: u64 = 50;
/// The longest the keeper waits for one answer, milliseconds: a server that hangs must not keep it
/// from the others.
const ANSWER_MS: u64 = 1_000;

/// The only writer of the map.
#[derive(Debug)]
pub(crate) struct Keeper {
    core: Arc<Core>,
    finder: Finder,
    markers: Markers,
    /// The store this link was opened on.
    generation: Option<String>,
    /// Bounded by the primaries.
    held: HashMap<Address, Held>,
    /// Where the primaries were found the last time.
    places: Vec<Place>,
    last: Option<String>,
}

/// A primary that was verified, and the keeper's own link to it while it is reached.
#[derive(Debug)]
struct Held {
    primary: Arc<Primary>,
    socket: Option<Socket>,
}

/// What became of one place in a look.
type Looked = (Place, Result<Held, (OpenError, Option<Arc<Primary>>)>);

impl Keeper {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        let endpoint = &core.settings.endpoint;
        Self {
            core: Arc::clone(core),
            finder: Finder::new(endpoint, &core.login, &core.nudge),
            markers: Markers::new(endpoint),
            generation: None,
            held: HashMap::new(),
            places: Vec::new(),
            last: None,
        }
    }

    /// Looks until the link is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            // A nudge or the time, whichever is first.
            let rest = if self.last.is_none() { LOOK_MS } else { LOOK_WRONG_MS };
            drop(timeout(Duration::from_millis(rest), self.core.nudge.notified()).await);
            let looked = self.look().await;
            let said = looked.as_ref().err().map(ToString::to_string);
            if said != self.last {
                match &said {
                    Some(why) => tracing::error!("{why}"),
                    None => tracing::info!("all primaries of redis are verified again"),
                }
                self.last = said;
            }
            self.core.metrics.open.set(i64::from(looked.is_ok()));
            tokio::time::sleep(Duration::from_millis(LOOK_LEAST_MS)).await;
        }
    }

    /// One look at everything. The map is drawn of what is verified, even if something is not; the
    /// first thing that is not is the error.
    pub(crate) async fn look(&mut self) -> Result<(), OpenError> {
        match self.finder.find().await {
            Ok(places) => self.places = places,
            Err(why) if self.places.is_empty() => return Err(why),
            // Those who name the primaries are gone; the primaries may well be there.
            Err(why) => tracing::warn!("the primaries of before are kept: {why}"),
        }
        let looks = self.places.clone().into_iter().map(|place| {
            let held = self.held.remove(&place.address);
            look_at(&self.core, place, held)
        });
        let looked: Vec<Looked> = join_all(looks.collect::<Vec<_>>()).await;
        self.held.clear();
        let mut parts = Vec::new();
        let mut wrong = None;
        for (place, result) in looked {
            let held = match result {
                Ok(held) => held,
                Err((why, kept)) => {
                    wrong = wrong.or(Some(why));
                    let Some(primary) = kept else { continue };
                    Held { primary, socket: None }
                }
            };
            parts.push((Arc::clone(&held.primary), place.slots));
            self.held.insert(place.address, held);
        }
        // The generation of a store can be learnt or begun only with all of it in sight.
        if let Some(why) = wrong.take_if(|_| self.generation.is_none()) {
            return Err(why);
        }
        self.settle(&parts).await?;
        self.draw(&parts);
        wrong.map_or(Ok(()), Err)
    }

    /// Compares the generation; closes the link if the store is not the one it was.
    async fn settle(&mut self, parts: &[Owner]) -> Result<(), OpenError> {
        let sockets: Vec<Part<'_>> = parts
            .iter()
            .filter_map(|(primary, slots)| {
                let socket = self.held.get(&primary.address)?.socket.as_ref()?;
                Some((socket, slots.as_slice()))
            })
            .collect();
        let confirm_ms = match self.core.settings.durability.waits() {
            true => self.core.settings.response_ms / 2,
            false => 0,
        };
        if sockets.is_empty() {
            return Ok(());
        }
        let settled = self.markers.settle(&sockets, self.generation.as_deref(), confirm_ms).await;
        let address =
            || parts.iter().map(|(p, _)| p.address.to_string()).collect::<Vec<_>>().join(", ");
        match settled {
            Ok(generation) => {
                self.generation = Some(generation);
                self.core.closed.store(false, Ordering::Release);
                self.core.metrics.generation.set(0);
                Ok(())
            }
            Err(Unsettled::Alarm(why)) => {
                self.core.closed.store(true, Ordering::Release);
                self.core.metrics.generation.set(1);
                self.held.clear();
                self.draw(&[]);
                Err(OpenError::Generation { address: address(), why: why.to_owned() })
            }
            // Not verified now: what was verified before stays, its lanes check the identity.
            Err(e) => Err(OpenError::Unreachable { address: address(), why: e.to_string() }),
        }
    }

    fn draw(&self, parts: &[Owner]) {
        let map = Arc::new(Map::new(parts));
        let mut is_changed = false;
        self.core.map.send_if_modified(|now| {
            is_changed = !now.is_same(&map);
            if is_changed {
                *now = map;
            }
            is_changed
        });
        if is_changed {
            self.core.metrics.primaries.inc();
            self.core.changed();
        }
    }
}

async fn look_at(core: &Arc<Core>, place: Place, held: Option<Held>) -> Looked {
    let (primary, socket) = match held {
        Some(Held { primary, socket }) => (Some(primary), socket),
        None => (None, None),
    };
    if let (Some(primary), Some(socket)) = (&primary, socket)
        && is_as_it_was(core, primary, &socket).await
    {
        let held = Held { primary: Arc::clone(primary), socket: Some(socket) };
        return (place, Ok(held));
    }
    let result = match verify(core, &place.address).await {
        Ok((socket, identity, form)) => {
            let same = primary.filter(|p| p.identity == identity && p.form == form);
            let primary = same.unwrap_or_else(|| {
                Arc::new(Primary::new(core, place.address.clone(), identity, form))
            });
            Ok(Held { primary, socket: Some(socket) })
        }
        // Not reached is not another: its lanes find out themselves, and it may be back soon.
        Err(e @ OpenError::Unreachable { .. }) => Err((e, primary)),
        Err(e) => Err((e, None)),
    };
    (place, result)
}

/// Whether the same life answers, as a primary, with the libraries still there.
async fn is_as_it_was(core: &Core, primary: &Primary, socket: &Socket) -> bool {
    let is_same = identify(socket).await.is_ok_and(|found| found == primary.identity);
    is_same && core.shelf.is_loaded(socket, primary.form).await.unwrap_or(false)
}

/// Everything about one server that does not need the others.
async fn verify(core: &Core, address: &Address) -> Result<(Socket, Identity, Form), OpenError> {
    let at = || address.to_string();
    let lost = |e: SocketError| match e {
        SocketError::Credentials => OpenError::Credentials { address: at() },
        e => OpenError::Unreachable { address: at(), why: e.to_string() },
    };
    let response = core.login.response.min(Duration::from_millis(ANSWER_MS));
    let login = Login { response, ..core.login.clone() };
    let nudge = Arc::clone(&core.nudge);
    let pushed = move |push: redis::PushInfo| {
        if push.kind == redis::PushKind::Disconnection {
            nudge.notify_one();
        }
        Ok(())
    };
    let socket = Socket::listening(address, &login, pushed).await.map_err(lost)?;
    let identity = identify(&socket).await.map_err(|e| match e {
        NotUsable::Socket(e) => lost(e),
        NotUsable::Replica | NotUsable::Other => OpenError::NotPrimary { address: at() },
        NotUsable::Answer(why) => OpenError::Unreachable { address: at(), why },
    })?;
    let settings = &core.settings;
    let is_replicated = !matches!(settings.endpoint, Endpoint::Single { .. });
    let (level, ttl) = (settings.durability, settings.node_ttl_ms);
    check(&socket, address, level, is_replicated, ttl).await?;
    let form = core.shelf.load(&socket).await.map_err(|e| match e {
        LoadError::Socket(e) => lost(e),
        LoadError::NotNow(why) => OpenError::Unreachable { address: at(), why },
        LoadError::Refused { library, why } => {
            OpenError::Library { name: library, address: at(), why }
        }
    })?;
    Ok((socket, identity, form))
}

//! Where the primaries are now.

mod cluster;
mod sentinel;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{Pipeline, PushInfo, PushKind, Value};
use tokio::sync::Notify;

use crate::primary::Range;
use crate::socket::{Login, Socket, SocketError};
use crate::{Address, Endpoint, OpenError, SLOTS};

/// The longest that one server may take to say where the primaries are, milliseconds: the others
/// say it too.
const ASK_MS: u64 = 500;
/// Servers that are asked in one round.
const ASKED_MAX: usize = 32;

/// A primary as discovery names it; not verified yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) address: Address,
    pub(crate) slots: Vec<Range>,
}

impl Place {
    fn of_all(address: Address) -> Self {
        Self { address, slots: vec![(0, SLOTS - 1)] }
    }
}

/// Finds the primaries of one endpoint.
#[derive(Debug)]
pub(crate) enum Finder {
    Single(Address),
    Sentinel { panel: Panel, name: String },
    Cluster { panel: Panel, seeds: Vec<Address> },
}

impl Finder {
    pub(crate) fn new(endpoint: &Endpoint, login: &Login, nudge: &Arc<Notify>) -> Self {
        match endpoint {
            Endpoint::Single { address, .. } => Self::Single(address.clone()),
            Endpoint::Sentinel { sentinels, name, .. } => {
                // The URL's credentials are those of the primary.
                let login = Login { credentials: crate::Credentials::default(), ..login.clone() };
                let panel = Panel::new(sentinels.clone(), login, Some(Arc::clone(nudge)));
                Self::Sentinel { panel, name: name.clone() }
            }
            Endpoint::Cluster { seeds, .. } => {
                let panel = Panel::new(seeds.clone(), login.clone(), None);
                Self::Cluster { panel, seeds: seeds.clone() }
            }
        }
    }

    pub(crate) async fn find(&mut self) -> Result<Vec<Place>, OpenError> {
        match self {
            Self::Single(address) => Ok(vec![Place::of_all(address.clone())]),
            Self::Sentinel { panel, name } => {
                let mut command = Pipeline::with_capacity(1);
                command.cmd("SENTINEL").arg("MASTER").arg(name.as_str());
                let address = sentinel::elect(&panel.ask(&command).await);
                let address =
                    address.map_err(|why| OpenError::NoPrimary { name: name.clone(), why })?;
                Ok(vec![Place::of_all(address)])
            }
            Self::Cluster { panel, seeds } => {
                let mut commands = Pipeline::with_capacity(2);
                commands.cmd("CLUSTER").arg("INFO");
                commands.cmd("CLUSTER").arg("SLOTS");
                let picture = cluster::newest(&panel.ask(&commands).await);
                let picture = picture.map_err(|why| OpenError::Cluster { why })?;
                // Seeds may be gone for good while the cluster lives on.
                panel.members.clone_from(seeds);
                let new = picture.nodes.into_iter().filter(|node| !seeds.contains(node));
                panel.members.extend(new);
                Ok(picture.primaries)
            }
        }
    }
}

/// Servers that are asked the same.
#[derive(Debug)]
pub(crate) struct Panel {
    /// Bounded by the servers that the settings name, and those that they tell of.
    members: Vec<Address>,
    /// Bounded by the members.
    sockets: HashMap<Address, Socket>,
    login: Login,
    /// Told of each change that a sentinel announces.
    announced: Option<Arc<Notify>>,
}

/// What one server answered.
pub(crate) type Answer = (Address, Result<Vec<Value>, SocketError>);

impl Panel {
    fn new(members: Vec<Address>, login: Login, announced: Option<Arc<Notify>>) -> Self {
        let short = Duration::from_millis(ASK_MS);
        let login = Login {
            db: 0,
            connect: login.connect.min(short),
            response: login.response.min(short),
            ..login
        };
        Self { members, sockets: HashMap::new(), login, announced }
    }

    /// Asks all at once. Connections are kept for the next time.
    async fn ask(&mut self, commands: &Pipeline) -> Vec<Answer> {
        let (login, announced) = (&self.login, &self.announced);
        let asked = self.members.iter().take(ASKED_MAX).map(|address| {
            let kept = self.sockets.remove(address);
            async move {
                let answer = ask(address, kept, login, announced.as_ref(), commands).await;
                (address.clone(), answer)
            }
        });
        let answers = join_all(asked.collect::<Vec<_>>()).await;
        // Those of members that are gone end here.
        self.sockets.clear();
        let mut heard = Vec::with_capacity(answers.len());
        for (address, answer) in answers {
            let answer = answer.map(|(values, socket)| {
                self.sockets.insert(address.clone(), socket);
                values
            });
            heard.push((address, answer));
        }
        heard
    }
}

async fn ask(
    address: &Address,
    kept: Option<Socket>,
    login: &Login,
    announced: Option<&Arc<Notify>>,
    commands: &Pipeline,
) -> Result<(Vec<Value>, Socket), SocketError> {
    let socket = match (kept.filter(Socket::is_alive), announced) {
        (Some(socket), _) => socket,
        (None, None) => Socket::open(address, login).await?,
        (None, Some(nudge)) => {
            let nudge = Arc::clone(nudge);
            let pushed = move |push: PushInfo| {
                if push.kind == PushKind::Message {
                    nudge.notify_one();
                }
                Ok(())
            };
            let socket = Socket::listening(address, login, pushed).await?;
            let mut command = redis::cmd("SUBSCRIBE");
            command.arg("+switch-master");
            // Without it the next round finds out, a second later.
            drop(socket.one(command).await?);
            socket
        }
    };
    let values = socket.ask(commands).await?;
    Ok((values, socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Credentials;

    #[tokio::test]
    async fn so_many_servers_are_asked_in_one_round() {
        // Nobody listens there any more.
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let address = |number| Address { host: format!("127.0.0.{number}"), port };
        let members: Vec<_> = (1..=ASKED_MAX + 8).map(address).collect();
        let short = Duration::from_millis(ASK_MS);
        let credentials = Credentials::default();
        let login = Login { credentials, db: 0, connect: short, response: short };
        let mut panel = Panel::new(members.clone(), login, None);
        let mut commands = Pipeline::with_capacity(1);
        commands.cmd("PING");
        let asked: Vec<_> = panel.ask(&commands).await.into_iter().map(|answer| answer.0).collect();
        assert_eq!(asked, members[..ASKED_MAX]);
    }
}

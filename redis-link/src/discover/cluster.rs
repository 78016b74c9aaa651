//! What the nodes of a cluster say.

use redis::Value;

use super::{Answer, Place};
use crate::value::{error_line, info, int, items, text};
use crate::{Address, SLOTS};

/// Who owns what, as one node sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Picture {
    /// Bounded by the nodes of the cluster.
    pub(super) primaries: Vec<Place>,
    /// All nodes, replicas too: they can be asked when the others are gone.
    /// Bounded by the cluster.
    pub(super) nodes: Vec<Address>,
}

/// The picture of the node that knows the newest epoch, of those the one that covers most slots.
pub(super) fn newest(answers: &[Answer]) -> Result<Picture, String> {
    let mut best: Option<((i64, u32), Picture)> = None;
    let mut problems = Vec::new();
    for (node, answer) in answers {
        match answer.as_ref().map_err(ToString::to_string).and_then(|values| read(node, values)) {
            Err(why) => problems.push(format!("{node}: {why}")),
            Ok((epoch, picture)) => {
                let rank = (epoch, covered(&picture));
                if best.as_ref().is_none_or(|(newest, _)| rank > *newest) {
                    best = Some((rank, picture));
                }
            }
        }
    }
    best.map(|(_, picture)| picture).ok_or_else(|| problems.join("; "))
}

fn read(node: &Address, values: &[Value]) -> Result<(i64, Picture), String> {
    let [about, slots] = values else { return Err("it is silent".to_owned()) };
    if let (Value::ServerError(e), _) | (_, Value::ServerError(e)) = (about, slots) {
        return Err(error_line(e));
    }
    let about = text(about).unwrap_or_default();
    let epoch = info(about, "cluster_current_epoch").and_then(|epoch| epoch.trim().parse().ok());
    let mut picture = Picture::default();
    for range in items(slots) {
        let Some((first, last, owner, replicas)) = stretch(node, range) else {
            return Err("CLUSTER SLOTS is not understood".to_owned());
        };
        for replica in replicas.into_iter().chain([owner.clone()]) {
            if !picture.nodes.contains(&replica) {
                picture.nodes.push(replica);
            }
        }
        match picture.primaries.iter_mut().find(|place| place.address == owner) {
            Some(place) => place.slots.push((first, last)),
            None => {
                picture.primaries.push(Place { address: owner, slots: vec![(first, last)] });
            }
        }
    }
    if picture.primaries.is_empty() {
        return Err("no slots are assigned".to_owned());
    }
    // The same picture must look the same whoever tells it.
    picture.primaries.sort_by(|a, b| a.address.cmp(&b.address));
    picture.primaries.iter_mut().for_each(|place| place.slots.sort_unstable());
    picture.nodes.sort();
    Ok((epoch.unwrap_or(0), picture))
}

fn stretch(node: &Address, range: &Value) -> Option<(u16, u16, Address, Vec<Address>)> {
    let [first, last, owner, replicas @ ..] = items(range) else { return None };
    let first = u16::try_from(int(first)?).ok()?;
    let last = u16::try_from(int(last)?).ok().filter(|last| *last < SLOTS && *last >= first)?;
    let replicas = replicas.iter().filter_map(|replica| address(node, replica)).collect();
    Some((first, last, address(node, owner)?, replicas))
}

/// A node that does not know its own host is where it was asked.
fn address(node: &Address, told: &Value) -> Option<Address> {
    let [host, port, ..] = items(told) else { return None };
    let host = match host {
        Value::Nil => node.host.clone(),
        host => match text(host)? {
            "" => node.host.clone(),
            "?" => return None,
            host => host.to_owned(),
        },
    };
    Some(Address { host, port: u16::try_from(int(port)?).ok()? })
}

fn covered(picture: &Picture) -> u32 {
    let slots = picture.primaries.iter().flat_map(|place| &place.slots);
    slots.map(|(first, last)| u32::from(last - first) + 1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, port: i64) -> Value {
        let id = Value::BulkString(b"id".to_vec());
        Value::Array(vec![Value::BulkString(host.as_bytes().to_vec()), Value::Int(port), id])
    }

    fn told(epoch: u32, ranges: &[(i64, i64, i64)]) -> Answer {
        let about = format!("cluster_state:ok\r\ncluster_current_epoch:{epoch}\r\n");
        let ranges = ranges.iter().map(|(first, last, port)| {
            Value::Array(vec![Value::Int(*first), Value::Int(*last), node("", *port), node("r", 9)])
        });
        let slots = Value::Array(ranges.collect());
        let about = Value::BulkString(about.into_bytes());
        (Address { host: "a".to_owned(), port: 1 }, Ok(vec![about, slots]))
    }

    #[test]
    fn the_newest_picture_counts() {
        let old = told(3, &[(0, 16_383, 1)]);
        let new = told(4, &[(8_192, 16_383, 2), (0, 99, 1), (100, 8_191, 2)]);
        let picture = newest(&[old, new]).unwrap();
        let places: Vec<_> =
            picture.primaries.iter().map(|p| (p.address.to_string(), p.slots.clone())).collect();
        assert_eq!(
            places,
            [
                ("a:1".to_owned(), vec![(0, 99)]),
                ("a:2".to_owned(), vec![(100, 8_191), (8_192, 16_383)]),
            ]
        );
        assert_eq!(picture.nodes.len(), 3);
    }

    #[test]
    fn nodes_without_slots_and_nonsense_are_no_picture() {
        assert!(newest(&[told(4, &[])]).is_err());
        assert!(newest(&[told(4, &[(5, 99_999, 1)])]).is_err());
        assert!(newest(&[]).is_err());
    }
}

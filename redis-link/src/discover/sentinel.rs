//! What sentinels say.

use redis::Value;

use super::Answer;
use crate::Address;
use crate::value::{error_line, field, int, text};

/// The primary that most recent vote made: sentinels that were cut off still name the one before.
pub(super) fn elect(answers: &[Answer]) -> Result<Address, String> {
    let mut best: Option<(i64, Address)> = None;
    let mut problems = Vec::new();
    for (sentinel, answer) in answers {
        let told = match answer {
            Err(e) => Err(e.to_string()),
            Ok(values) => match values.first() {
                Some(Value::ServerError(e)) => Err(error_line(e)),
                Some(told) => named(told).ok_or_else(|| "it names no address".to_owned()),
                None => Err("it is silent".to_owned()),
            },
        };
        match told {
            Err(why) => problems.push(format!("{sentinel}: {why}")),
            Ok((epoch, address)) => {
                if best.as_ref().is_none_or(|(newest, _)| epoch > *newest) {
                    best = Some((epoch, address));
                }
            }
        }
    }
    best.map(|(_, address)| address).ok_or_else(|| problems.join("; "))
}

fn named(told: &Value) -> Option<(i64, Address)> {
    let host = field(told, "ip").and_then(text)?.to_owned();
    let port = u16::try_from(int(field(told, "port")?)?).ok()?;
    let epoch = field(told, "config-epoch").and_then(int).unwrap_or(0);
    Some((epoch, Address { host, port }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::SocketError;

    fn told(port: i64, epoch: i64) -> Answer {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let pairs = [
            ("ip", "10.0.0.1".to_owned()),
            ("port", port.to_string()),
            ("config-epoch", epoch.to_string()),
        ];
        let map = pairs.iter().map(|(name, value)| (text(name), text(value))).collect();
        (Address { host: "s".to_owned(), port: 1 }, Ok(vec![Value::Map(map)]))
    }

    #[test]
    fn the_newest_vote_counts_and_silence_does_not() {
        let silent = (Address { host: "t".to_owned(), port: 2 }, Err(SocketError::Timeout));
        let elected = elect(&[told(1, 3), told(2, 4), told(3, 3), silent.clone()]).unwrap();
        assert_eq!(elected.port, 2);
        assert_eq!(elect(&[silent]), Err("t:2: no answer in time".to_owned()));
    }
}

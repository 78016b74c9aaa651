//! Is it still the same store? A random generation is written once into a new store; a primary
//! that comes back without it, or with another, came back empty, and would wipe its replicas.
//!
//! A cluster has one marker for each stretch of slots, so that every primary holds some. They are
//! first all written as pending and then all as final: nobody serves before all are final, so a
//! missing one beside a final one means loss, while an opening that was cut short is finished by
//! the next.

use redis::{Pipeline, Value};

use crate::primary::Range;
use crate::random::random;
use crate::socket::{Socket, SocketError};
use crate::value::{error_line, int, text};
use crate::{Endpoint, SLOTS, slot};

/// Markers of a cluster: each primary with a stretch of 256 slots or more holds one.
const MARKERS: u16 = 64;

/// Keys of the markers, with their slots.
#[derive(Debug)]
pub(crate) struct Markers(Vec<(u16, String)>);

/// What one marker says.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Mark {
    Missing,
    Pending(String),
    Final(String),
}

/// What is to be done about what the markers say.
#[derive(PartialEq, Eq, Debug)]
enum Decision {
    Same(String),
    /// All are there, not all are final.
    Finish(String),
    /// The store is new.
    Begin,
    Alarm(&'static str),
}

/// Why there is no generation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsettled {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("it answers {0}")]
    Answer(String),
    #[error("{0}")]
    Alarm(&'static str),
}

/// A primary and the slots it owns.
pub(crate) type Part<'a> = (&'a Socket, &'a [Range]);

/// What all primaries said.
#[derive(Debug, Default)]
struct Survey {
    /// By index of the marker; those of slots that nobody here owns are left out.
    /// Bounded by the markers.
    marks: Vec<(usize, Mark)>,
    /// Whether a primary has keys that are no markers.
    has_others: bool,
}

impl Markers {
    pub(crate) fn new(endpoint: &Endpoint) -> Self {
        let Endpoint::Cluster { .. } = endpoint else {
            let key = "{roomring}generation".to_owned();
            return Self(vec![(slot(key.as_bytes()), key)]);
        };
        let stretch = SLOTS / MARKERS;
        let mut found: Vec<(u16, String)> = Vec::new();
        for number in 0_u32.. {
            let key = format!("{{roomring-{number}}}generation");
            let at = slot(key.as_bytes());
            if at.is_multiple_of(stretch) && found.iter().all(|(taken, _)| *taken != at) {
                found.push((at, key));
            }
            if found.len() == usize::from(MARKERS) {
                break;
            }
        }
        found.sort();
        Self(found)
    }

    /// Makes sure that all parts are of the store that `known` names; without it, learns which it
    /// is, or begins it if it is new. `confirm_ms` is how long a replica may take to confirm a
    /// beginning, 0 for not at all.
    pub(crate) async fn settle(
        &self,
        parts: &[Part<'_>],
        known: Option<&str>,
        confirm_ms: u64,
    ) -> Result<String, Unsettled> {
        let mut survey = self.survey(parts).await?;
        if known.is_none() && decide(&survey, known) != Decision::Begin {
            // Another opener may have begun between the two questions of the survey.
            survey = self.survey(parts).await?;
        }
        let generation = match decide(&survey, known) {
            Decision::Same(generation) => return Ok(generation),
            Decision::Alarm(why) => return Err(Unsettled::Alarm(why)),
            Decision::Finish(generation) => generation,
            Decision::Begin => self.begin(parts, &survey).await?,
        };
        let finished = format!("final:{generation}");
        for (index, _) in &survey.marks {
            self.write(parts, *index, &finished, false).await?;
        }
        if confirm_ms > 0 {
            for (socket, _) in parts {
                let mut wait = redis::cmd("WAIT");
                wait.arg(1).arg(confirm_ms);
                if int(&socket.one(wait).await?) < Some(1) {
                    return Err(Unsettled::Answer(
                        "no replica confirmed the generation".to_owned(),
                    ));
                }
            }
        }
        Ok(generation)
    }

    /// Writes all markers as pending. The first one decides between openers that begin together.
    async fn begin(&self, parts: &[Part<'_>], survey: &Survey) -> Result<String, Unsettled> {
        let mut indices = survey.marks.iter().map(|(index, _)| *index);
        let first = indices.next().ok_or(Unsettled::Alarm("no primary owns a slot of a marker"))?;
        let candidate = format!("{:016x}{:016x}", random(), random());
        self.write(parts, first, &format!("pending:{candidate}"), true).await?;
        let (Mark::Pending(generation) | Mark::Final(generation)) = self.read(parts, first).await?
        else {
            return Err(Unsettled::Answer("the generation vanished as it was written".to_owned()));
        };
        let pending = format!("pending:{generation}");
        for index in indices {
            self.write(parts, index, &pending, false).await?;
        }
        Ok(generation)
    }

    async fn survey(&self, parts: &[Part<'_>]) -> Result<Survey, Unsettled> {
        let mut survey = Survey::default();
        for (socket, ranges) in parts {
            let mine = self.0.iter().enumerate().filter(|(_, (slot, _))| owns(ranges, *slot));
            let mine: Vec<(usize, &str)> = mine.map(|(i, (_, key))| (i, key.as_str())).collect();
            let mut commands = Pipeline::with_capacity(mine.len() + 1);
            for (_, key) in &mine {
                commands.cmd("GET").arg(key);
            }
            commands.cmd("DBSIZE");
            let mut answers = socket.ask(&commands).await?;
            let keys = answers.pop().as_ref().and_then(int).unwrap_or(0);
            let mut present = 0;
            for ((index, _), answer) in mine.into_iter().zip(&answers) {
                if let Some(mark) = mark(answer)? {
                    present += i64::from(mark != Mark::Missing);
                    survey.marks.push((index, mark));
                }
            }
            survey.has_others |= keys > present;
        }
        survey.marks.sort_by_key(|(index, _)| *index);
        Ok(survey)
    }

    async fn read(&self, parts: &[Part<'_>], index: usize) -> Result<Mark, Unsettled> {
        let Some((socket, key)) = self.place(parts, index) else { return Ok(Mark::Missing) };
        let mut command = redis::cmd("GET");
        command.arg(key);
        Ok(mark(&socket.one(command).await?)?.unwrap_or(Mark::Missing))
    }

    async fn write(
        &self,
        parts: &[Part<'_>],
        index: usize,
        value: &str,
        only_if_missing: bool,
    ) -> Result<(), Unsettled> {
        let Some((socket, key)) = self.place(parts, index) else { return Ok(()) };
        let mut command = redis::cmd("SET");
        command.arg(key).arg(value);
        if only_if_missing {
            command.arg("NX");
        }
        match socket.one(command).await? {
            Value::ServerError(e) => Err(Unsettled::Answer(error_line(&e))),
            _ => Ok(()),
        }
    }

    fn place<'a>(&'a self, parts: &[Part<'a>], index: usize) -> Option<(&'a Socket, &'a str)> {
        let (slot, key) = self.0.get(index)?;
        let (socket, _) = parts.iter().find(|(_, ranges)| owns(ranges, *slot))?;
        Some((socket, key))
    }
}

fn owns(ranges: &[Range], slot: u16) -> bool {
    ranges.iter().any(|(first, last)| (*first..=*last).contains(&slot))
}

/// What the answer to GET says; none if the key lives elsewhere by now.
fn mark(answer: &Value) -> Result<Option<Mark>, Unsettled> {
    match answer {
        Value::Nil => Ok(Some(Mark::Missing)),
        Value::ServerError(e) if matches!(e.code(), "MOVED" | "ASK") => Ok(None),
        Value::ServerError(e) => Err(Unsettled::Answer(error_line(e))),
        other => Ok(Some(match text(other).and_then(|text| text.split_once(':')) {
            Some(("pending", generation)) => Mark::Pending(generation.to_owned()),
            Some(("final", generation)) => Mark::Final(generation.to_owned()),
            _ => Mark::Final("unreadable".to_owned()),
        })),
    }
}

fn decide(survey: &Survey, known: Option<&str>) -> Decision {
    let marks = || survey.marks.iter().map(|(_, mark)| mark);
    let finals = marks().find_map(|mark| match mark {
        Mark::Final(generation) => Some(generation.as_str()),
        _ => None,
    });
    let Some(expected) = known.or(finals) else {
        return if survey.has_others {
            Decision::Alarm(
                "it holds keys, but not the generation that is written into a new store",
            )
        } else {
            Decision::Begin
        };
    };
    let mut is_final = true;
    for mark in marks() {
        match mark {
            Mark::Missing => {
                return Decision::Alarm("its generation is missing: it came back empty");
            }
            Mark::Pending(found) | Mark::Final(found) if found != expected => {
                return Decision::Alarm("its generation is another one");
            }
            Mark::Pending(_) => is_final = false,
            Mark::Final(_) => {}
        }
    }
    let expected = expected.to_owned();
    if is_final { Decision::Same(expected) } else { Decision::Finish(expected) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(marks: &[&str], has_others: bool) -> Survey {
        let mark = |text: &&str| match text.split_once(':') {
            Some(("p", g)) => Mark::Pending(g.to_owned()),
            Some((_, g)) => Mark::Final(g.to_owned()),
            None => Mark::Missing,
        };
        Survey { marks: marks.iter().map(mark).enumerate().collect(), has_others }
    }

    #[test]
    fn a_store_is_new_the_same_or_refused() {
        let same = || Decision::Same("a".to_owned());
        let finish = || Decision::Finish("a".to_owned());
        for (marks, others, known, wanted) in [
            (&["-", "-"][..], false, None, Decision::Begin),
            (&["p:a", "-"], false, None, Decision::Begin),
            (&["p:a", "p:b"], false, None, Decision::Begin),
            (&["f:a", "f:a"], true, None, same()),
            (&["f:a", "p:a"], true, None, finish()),
            (&["f:a", "f:a"], true, Some("a"), same()),
            (&["p:a", "f:a"], true, Some("a"), finish()),
        ] {
            assert_eq!(decide(&survey(marks, others), known), wanted, "{marks:?} {known:?}");
        }
        for (marks, others, known) in [
            (&["-", "-"][..], true, None),
            (&["p:a", "-"], true, None),
            (&["f:a", "-"], false, None),
            (&["f:a", "f:b"], false, None),
            (&["f:a", "p:b"], false, None),
            (&["-", "-"], false, Some("a")),
            (&["f:a", "-"], true, Some("a")),
            (&["f:b", "f:b"], true, Some("a")),
        ] {
            let decided = decide(&survey(marks, others), known);
            assert!(matches!(decided, Decision::Alarm(_)), "{marks:?} {known:?} {decided:?}");
        }
    }

    #[test]
    fn the_markers_of_a_cluster_are_spread_evenly() {
        let markers = Markers::new(&"redis+cluster://a".parse().unwrap());
        let slots: Vec<u16> = markers.0.iter().map(|(slot, _)| *slot).collect();
        assert_eq!(slots, (0..MARKERS).map(|n| n * 256).collect::<Vec<_>>());
        assert_eq!(Markers::new(&"redis://a".parse().unwrap()).0.len(), 1);
    }
}

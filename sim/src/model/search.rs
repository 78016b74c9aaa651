//! Searching the model, and showing what was found.

use stateright::{Checker, HasDiscoveries, Model};

use super::{Action, Bounds, Protocol, Rules, State};

/// What a search has found.
#[derive(Debug)]
pub struct Searched {
    /// States told apart.
    pub states: usize,
    /// Actions of the longest path looked at.
    pub depth: usize,
    /// Broken properties, each with a trace.
    pub broken: Vec<(&'static str, Vec<String>)>,
    /// What the search has met, by name.
    pub seen: [(&'static str, u64); 7],
}

/// Searches breadth first until everything within the bounds was seen or a property is broken.
pub fn search(rules: Rules, bounds: Bounds) -> Searched {
    let mut builder =
        Protocol::new(rules, bounds).checker().finish_when(HasDiscoveries::AnyFailures);
    if let Some(depth) = bounds.depth {
        builder = builder.target_max_depth(depth);
    }
    let checker = builder.spawn_bfs().join();
    let found = checker.discoveries();
    let broken = found.into_iter().map(|(name, path)| (name, trace(path.into_vec()))).collect();
    Searched {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        broken,
        seen: checker.model().seen.counts(),
    }
}

/// One line for each action, with what the primary holds after it.
fn trace(steps: Vec<(State, Option<Action>)>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut done: Option<Action> = None;
    for (state, next) in steps {
        if let Some(action) = &done {
            lines.push(format!("{:>2}. {action:?}", lines.len() / 2 + 1));
            lines.push(format!("      primary {:?}", state.primary));
        }
        if next.is_none() {
            lines.push(format!("      nodes {:?}", state.nodes));
            lines.push(format!("      acks {:?} failed {:?}", state.acks, state.failed));
        }
        done = next;
    }
    lines
}

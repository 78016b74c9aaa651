//! Names the server makes: room ids and app instance ids.

/// First words of generated room ids: things of the sky and of travel through it.
const ROOTS: [&str; 63] = [
    "amber", "anvil", "arrow", "aster", "atlas", "aurora", "basin", "beacon", "binary", "bloom",
    "breeze", "canyon", "cedar", "cinder", "cobalt", "comet", "coral", "corona", "crater", "delta",
    "drift", "dune", "eclipse", "ember", "fable", "falcon", "fern", "flare", "forge", "frost",
    "galaxy", "gale", "glacier", "grove", "halo", "harbor", "haven", "helium", "heron", "indigo",
    "jade", "kestrel", "lagoon", "lantern", "lunar", "lyric", "maple", "meadow", "meteor",
    "mirage", "nebula", "onyx", "orbit", "pebble", "prism", "quartz", "raven", "saffron", "solar",
    "tundra", "velvet", "willow", "zephyr",
];

/// Second words: places.
const PLACES: [&str; 32] = [
    "arch", "bay", "bridge", "camp", "cape", "cove", "deck", "dock", "field", "ford", "gate",
    "glen", "hall", "hill", "inlet", "isle", "lane", "ledge", "mesa", "mill", "nook", "pass",
    "peak", "pier", "plain", "point", "port", "reef", "ridge", "shore", "spire", "vale",
];

/// The alphabet of suffixes: no letters or digits that look alike.
const SYMBOLS: [char; 31] = [
    '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'j', 'k', 'm',
    'n', 'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z',
];

/// Symbols in a suffix: 12 x log2(31) is 59 bits, with the words about 70 (ours 21).
const SUFFIX_CHARS: usize = 12;

/// A fresh room id made of 128 random bits: `root-place-suffix`.
#[must_use]
pub fn fresh_room_id(random: u128) -> String {
    let mut rest = random;
    let root = pick(&mut rest, &ROOTS, "nova");
    let place = pick(&mut rest, &PLACES, "bay");
    let mut id = format!("{root}-{place}-");
    for _ in 0..SUFFIX_CHARS {
        id.push(pick(&mut rest, &SYMBOLS, '2'));
    }
    id
}

/// Takes one choice out of the random bits. The bias of 128 bits is below 2^-56.
fn pick<T: Copy>(rest: &mut u128, choices: &[T], never: T) -> T {
    let count = choices.len() as u128;
    let at = usize::try_from(*rest % count).unwrap_or(0);
    *rest /= count;
    choices.get(at).copied().unwrap_or(never)
}

/// The id of a curated app's instance in a room: `appId:` and 8 hex digits of the 32-bit FNV-1a
/// over the UTF-16 units of `room:appId` (rooms 16.1).
#[must_use]
pub fn app_instance_id(room: &str, app_id: &str) -> String {
    let mut hash: u32 = 0x811c_9dc5;
    for unit in format!("{room}:{app_id}").encode_utf16() {
        hash = (hash ^ u32::from(unit)).wrapping_mul(0x0100_0193);
    }
    format!("{app_id}:{hash:08x}")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn room_ids_have_the_documented_form_and_differ() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut seen = HashSet::new();
        for _ in 0..1_000 {
            let id = fresh_room_id(random.u128(..));
            let parts: Vec<&str> = id.split('-').collect();
            assert_eq!(parts.len(), 3, "{id}");
            assert!(ROOTS.contains(&parts[0]) && PLACES.contains(&parts[1]), "{id}");
            assert_eq!(parts[2].chars().count(), SUFFIX_CHARS);
            assert!(parts[2].chars().all(|c| SYMBOLS.contains(&c)), "{id}");
            assert!(id.len() <= 64);
            assert!(seen.insert(id));
        }
    }

    #[test]
    fn words_are_unique() {
        assert_eq!(ROOTS.iter().collect::<HashSet<_>>().len(), 63);
        assert_eq!(PLACES.iter().collect::<HashSet<_>>().len(), 32);
    }

    #[test]
    fn app_instances_are_stable() {
        assert_eq!(app_instance_id("a", "b"), app_instance_id("a", "b"));
        assert_ne!(app_instance_id("a", "b"), app_instance_id("c", "b"));
        assert_eq!(app_instance_id("", ""), ":3f0cb86d");
    }
}

use super::*;
use crate::BUCKETS;
use crate::view::Incarnation;

fn member(node: &str, zone: &str, weight: u32, state: State) -> Member {
    Member {
        incarnation: Incarnation::new(node, 1).unwrap(),
        address: format!("{node}:7070"),
        zone: zone.into(),
        weight,
        state,
        schema: (1, 1),
        load: 0,
    }
}

/// How many different leavers are tried of each cluster.
const LEAVERS_MAX: usize = 3;

/// Over how many sets of names the balance is measured.
const NAMES: u32 = 6;

/// `n` equal members in `zones` zones.
fn members(n: usize, zones: usize) -> Vec<Member> {
    let made = |i| member(&format!("node-{i}"), &format!("zone-{}", i % zones), 1, State::Active);
    (0..n).map(made).collect()
}

fn table(members: Vec<Member>) -> Table {
    Ring.table(&View { number: 1, members })
}

fn owner(table: &Table, bucket: Bucket) -> &str {
    &table.owner(bucket).unwrap().incarnation.node
}

/// The rendezvous placement that the ring was measured against.
fn rendezvous(members: &[Member], bucket: Bucket) -> &str {
    let score = |member: &&Member| {
        let mut bytes = member.incarnation.node.as_bytes().to_vec();
        bytes.push(0);
        bytes.extend_from_slice(&bucket.0.to_be_bytes());
        xxh3_64(&bytes)
    };
    &members.iter().max_by_key(score).unwrap().incarnation.node
}

#[test]
fn golden_digests_never_change() {
    let golden = [
        5_501_930_712_724_262_988,
        287_344_815_336_379_322,
        7_529_853_592_792_488_216,
        15_488_757_962_958_419_039,
    ];
    let mut weighted = members(4, 2);
    weighted[1].weight = 3;
    let seen = [members(1, 1), members(3, 3), weighted, members(12, 4)].map(|m| table(m).digest());
    assert_eq!(seen, golden, "raise PLACEMENT_VERSION if this must change");
}

#[test]
fn the_order_of_the_view_does_not_matter() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut shuffled = members(9, 3);
    let digest = table(shuffled.clone()).digest();
    for _ in 0..5 {
        random.shuffle(&mut shuffled);
        assert_eq!(table(shuffled.clone()).digest(), digest);
    }
}

/// The figures of docs/decisions/0012-membership.md: `cargo test -p membership fullest --
/// --nocapture`.
#[test]
fn the_fullest_node_is_near_the_mean() {
    for (nodes, ratio_max) in [(2, 1.15), (3, 1.2), (5, 1.25), (10, 1.35), (50, 1.6)] {
        let (mut ring, mut other) = (Vec::new(), Vec::new());
        for names in 0..NAMES {
            let mut members = members(nodes, 1);
            for member in &mut members {
                let node = format!("set-{names}-{}", member.incarnation.node);
                member.incarnation = Incarnation::new(&node, 1).unwrap();
            }
            let mut counts = std::collections::BTreeMap::<&str, u32>::new();
            for bucket in Bucket::all() {
                *counts.entry(rendezvous(&members, bucket)).or_default() += 1;
            }
            let highest = f64::from(*counts.values().max().unwrap());
            let (max, mean) = table(members.clone()).load();
            ring.push(f64::from(u32::try_from(max).unwrap()) / mean);
            other.push(highest / mean);
        }
        let worst = |ratios: &[f64]| ratios.iter().copied().fold(0.0, f64::max);
        let mean = |ratios: &[f64]| ratios.iter().sum::<f64>() / f64::from(NAMES);
        println!(
            "{nodes} nodes, max/mean: ring {:.3} (worst {:.3}), rendezvous {:.3} (worst {:.3})",
            mean(&ring),
            worst(&ring),
            mean(&other),
            worst(&other)
        );
        assert!(worst(&ring) <= ratio_max, "{nodes} nodes: {:.3}", worst(&ring));
    }
}

#[test]
fn a_leaving_node_moves_its_own_buckets_only() {
    for nodes in [2, 3, 5, 10, 50] {
        let all = members(nodes, 1);
        let before = table(all.clone());
        let mut worst = 0.0_f64;
        let mut worst_rendezvous = 0.0_f64;
        for leaver in 0..nodes.min(LEAVERS_MAX) {
            let mut left = all.clone();
            let gone = left.remove(leaver).incarnation.node;
            let after = table(left.clone());
            let mut moved = 0_u32;
            let mut moved_rendezvous = 0_u32;
            for bucket in Bucket::all() {
                if owner(&before, bucket) != owner(&after, bucket) {
                    moved += 1;
                    assert_eq!(owner(&before, bucket), &*gone, "a bucket of a staying node moved");
                    let mut heirs = before.next(bucket).map(|next| &next.incarnation.node);
                    assert_eq!(
                        owner(&after, bucket),
                        &**heirs.next().unwrap(),
                        "the next one is heir"
                    );
                }
                moved_rendezvous +=
                    u32::from(rendezvous(&all, bucket) != rendezvous(&left, bucket));
            }
            worst = worst.max(f64::from(moved) / f64::from(BUCKETS));
            worst_rendezvous =
                worst_rendezvous.max(f64::from(moved_rendezvous) / f64::from(BUCKETS));
        }
        let share = 1.0 / f64::from(u32::try_from(nodes).unwrap());
        println!(
            "{nodes} nodes, share {share:.3}: moved at worst {worst:.3}, rendezvous {worst_rendezvous:.3}"
        );
        assert!(worst <= share + 0.05, "{nodes} nodes: {worst:.3} moved");
    }
}

#[test]
fn only_active_members_own_buckets() {
    let mut some = members(4, 2);
    some[0].state = State::Joining;
    some[1].state = State::Draining;
    some[2].weight = 0;
    let made = table(some.clone());
    for bucket in Bucket::all() {
        assert_eq!(owner(&made, bucket), "node-3");
        assert_eq!(made.next(bucket).count(), 0);
    }
    some[3].state = State::Draining;
    let made = table(some);
    assert!(Bucket::all().all(|bucket| made.owner(bucket).is_none()));
    assert_eq!(made.load(), (0, 0.0));
}

#[test]
fn weight_is_the_share() {
    let mut some = members(3, 1);
    some[2].weight = 2;
    let made = table(some.clone());
    let of = |i: usize| made.owned_by(&some[i].incarnation).len();
    assert_eq!(of(0) + of(1) + of(2), usize::from(BUCKETS));
    assert!((1_700..2_400).contains(&of(2)), "2,048 expected, {} seen", of(2));
}

#[test]
fn the_next_nodes_are_others_and_in_other_zones() {
    for (nodes, zones) in [(1, 1), (2, 1), (2, 2), (3, 1), (5, 2), (6, 3), (7, 7)] {
        let made = table(members(nodes, zones));
        for bucket in Bucket::all() {
            let row: Vec<&Member> =
                made.owner(bucket).into_iter().chain(made.next(bucket)).collect();
            let ids: BTreeSet<_> = row.iter().map(|member| &member.incarnation).collect();
            let seen: BTreeSet<_> = row.iter().map(|member| &member.zone).collect();
            assert_eq!((row.len(), ids.len()), (nodes.min(3), nodes.min(3)), "{nodes} {zones}");
            assert_eq!(seen.len(), zones.min(3), "{nodes} nodes in {zones} zones");
        }
    }
}

#[test]
fn two_incarnations_of_one_node_stand_as_one() {
    let mut some = members(3, 1);
    let digest = table(some.clone()).digest();
    let mut twin = some[1].clone();
    twin.incarnation.boot = 2;
    some.push(twin.clone());
    let made = table(some);
    assert_eq!(made.digest(), digest);
    assert!(made.owned_by(&twin.incarnation).is_empty());
}

use super::*;

const LIMITS: Limits = Limits { queue_age_ms: 100, cpu_percent: 90, store_p99_ms: 250 };

const CALM: Readings = Readings { queue: Reading::Calm, cpu: Reading::Calm, store: Reading::Calm };
const BETWEEN: Readings = Readings { cpu: Reading::Between, ..CALM };
const QUEUE: Readings = Readings { queue: Reading::Over, ..CALM };
const STORE: Readings = Readings { store: Reading::Over, ..CALM };
const CPU: Readings = Readings { cpu: Reading::Over, ..CALM };

#[test]
fn each_signal_has_two_marks_and_can_be_off() {
    let idle = Sample { age_min_ms: u64::MAX, ..Sample::default() };
    assert_eq!(Readings::of(LIMITS, idle), CALM, "nobody called");
    let queue = |taken, age_min_ms| {
        Readings::of(LIMITS, Sample { taken, age_min_ms, ..Sample::default() }).queue
    };
    for (taken, age, expected) in [
        (99, 5_000, Reading::Calm),
        (100, 80, Reading::Calm),
        (100, 81, Reading::Between),
        (100, 100, Reading::Between),
        (100, 101, Reading::Over),
    ] {
        assert_eq!(queue(taken, age), expected, "{taken} {age}");
    }
    let cpu = |cpu_percent| Readings::of(LIMITS, Sample { cpu_percent, ..idle }).cpu;
    for (percent, expected) in [
        (None, Reading::Calm),
        (Some(72), Reading::Calm),
        (Some(73), Reading::Between),
        (Some(90), Reading::Between),
        (Some(91), Reading::Over),
    ] {
        assert_eq!(cpu(percent), expected, "{percent:?}");
    }
    let store = |trips, trips_over, trips_above_calm| {
        Readings::of(LIMITS, Sample { trips, trips_over, trips_above_calm, ..idle }).store
    };
    for (trips, over, above_calm, expected) in [
        (99, 99, 99, Reading::Calm),
        (100, 1, 1, Reading::Calm),
        (100, 1, 2, Reading::Between),
        (100, 2, 2, Reading::Over),
        (1_000, 10, 10, Reading::Calm),
        (1_000, 11, 11, Reading::Over),
    ] {
        assert_eq!(store(trips, over, above_calm), expected, "{trips} {over} {above_calm}");
    }
    let off = Limits { queue_age_ms: 0, cpu_percent: 0, store_p99_ms: 0 };
    let worst = Sample {
        taken: 1_000,
        age_min_ms: 5_000,
        cpu_percent: Some(100),
        trips: 1_000,
        trips_over: 1_000,
        trips_above_calm: 1_000,
    };
    assert_eq!(Readings::of(off, worst), CALM);
}

/// Looks once a second, from the first on.
fn levels(looks: &[Readings]) -> Vec<Level> {
    let mut shedder = Shedder::default();
    let look = |(second, readings): (u64, &Readings)| shedder.look(Mono(second * 1_000), *readings);
    (0..).zip(looks).map(look).collect()
}

#[test]
fn wakes_go_first_then_polls_writes_last_and_each_calm_second_takes_one_back() {
    use Level::{None, Polls, Wakes, Writes};
    for over in [QUEUE, STORE] {
        let mut looks = vec![over; 8];
        looks.extend([CALM; 4]);
        let expected =
            [None, Wakes, Polls, Polls, Polls, Writes, Writes, Writes, Polls, Wakes, None, None];
        assert_eq!(levels(&looks), expected);
    }
}

#[test]
fn a_busy_processor_alone_refuses_no_writes() {
    use Level::{None, Polls, Wakes, Writes};
    let mut looks = vec![CPU; 20];
    assert_eq!(levels(&looks).last(), Some(&Polls));
    looks = [vec![QUEUE; 6], vec![CPU; 3]].concat();
    let expected = [None, Wakes, Polls, Polls, Polls, Writes, Polls, Polls, Polls];
    assert_eq!(levels(&looks), expected);
}

#[test]
fn between_the_marks_nothing_changes_and_a_short_peak_does_nothing() {
    use Level::{None, Wakes};
    assert_eq!(levels(&[QUEUE, CALM, STORE, CALM, CPU, CALM]), [None; 6]);
    assert_eq!(levels(&[QUEUE, BETWEEN, QUEUE, BETWEEN]), [None; 4], "it did not last");
    assert_eq!(
        levels(&[QUEUE, STORE, BETWEEN, BETWEEN, QUEUE, BETWEEN, CALM]),
        [None, Wakes, Wakes, Wakes, Wakes, Wakes, None]
    );
}

#[test]
fn levels_go_up_and_down_one_by_one() {
    for (level, up, down) in [
        (Level::None, Level::Wakes, Level::None),
        (Level::Wakes, Level::Polls, Level::None),
        (Level::Polls, Level::Writes, Level::Wakes),
        (Level::Writes, Level::Writes, Level::Polls),
    ] {
        assert_eq!((level.up(), level.down()), (up, down));
        assert_eq!(Level::of(level.index()), level);
    }
}

#[test]
fn a_look_empties_what_was_measured() {
    let gate = Gate::new(&Config::default());
    gate.took(3, 40);
    gate.took(1, 70);
    for ms in [200, 201, 250, 251] {
        gate.answered(ms);
    }
    let sample = gate.sample(Some(7));
    let expected = Sample {
        taken: 4,
        age_min_ms: 40,
        cpu_percent: Some(7),
        trips: 4,
        trips_over: 1,
        trips_above_calm: 3,
    };
    assert_eq!(sample, expected);
    assert_eq!(gate.sample(None), Sample { age_min_ms: u64::MAX, ..Sample::default() });
}

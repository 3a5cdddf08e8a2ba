use super::*;

fn offset(wire: i64) -> Offset {
    Offset::new(wire).unwrap()
}

const LIMITS: Limits = Limits { messages: 1000, bytes: 1 << 20, span: 2000 };

fn view() -> View<'static> {
    View {
        load: Load::default(),
        limits: &LIMITS,
        cache_full: false,
        suspended: false,
        routed: true,
        told: true,
    }
}

fn pulled(fetch: &mut Fetch, now: Instant) -> Offset {
    match fetch.step(&view(), now) {
        Step::Pull { from, .. } => from,
        other => panic!("{other:?} instead of a pull"),
    }
}

#[test]
fn one_pull_at_a_time_however_often_it_is_nudged() {
    let now = Instant::now();
    let mut fetch = Fetch::new(offset(5), Duration::ZERO);
    assert_eq!(pulled(&mut fetch, now), offset(5));
    for _ in 0..100 {
        assert_eq!(fetch.step(&view(), now), Step::Nothing);
    }
    fetch.ended(Outcome::Advanced(offset(37)), now, 0.0);
    assert_eq!(pulled(&mut fetch, now), offset(37));
}

#[test]
fn each_hindrance_parks_with_its_reason() {
    let full = |messages, bytes, span| Load { messages, bytes, span };
    let cases = [
        (View { suspended: true, ..view() }, Some(Pause::Suspended)),
        (View { load: full(1000, 1, 1000), ..view() }, Some(Pause::FlowControl)),
        (View { load: full(999, 1, 1999), ..view() }, None),
        (View { load: full(1, 1 << 20, 1), ..view() }, Some(Pause::FlowControl)),
        (View { load: full(1, 1, 2000), ..view() }, Some(Pause::FlowControl)),
        (View { cache_full: true, load: full(1, 1, 1), ..view() }, Some(Pause::CacheLimit)),
        (View { cache_full: true, ..view() }, None),
        (View { routed: false, ..view() }, Some(Pause::NoRoute)),
        (View { told: false, ..view() }, Some(Pause::NoHeartbeat)),
    ];
    for (view, expected) in cases {
        let mut fetch = Fetch::new(Offset::ZERO, Duration::ZERO);
        let step = fetch.step(&view, Instant::now());
        match expected {
            None => assert!(matches!(step, Step::Pull { .. }), "{view:?}: {step:?}"),
            Some(why) => {
                assert_eq!(step, Step::Park(why.clone()), "{view:?}");
                assert_eq!(fetch.pause(), Some(&why));
            }
        }
    }
}

#[test]
fn errors_wait_a_second_and_after_thirty_in_a_row_half_a_minute() {
    let mut now = Instant::now();
    let mut fetch = Fetch::new(Offset::ZERO, Duration::ZERO);
    for n in 1..=40 {
        pulled(&mut fetch, now);
        fetch.ended(Outcome::Failed("no".into()), now, 0.0);
        let delay = if n < 30 { ERROR_DELAY } else { STUCK_DELAY };
        assert_eq!(fetch.step(&view(), now), Step::WakeAt(now + delay), "failure {n}");
        now += delay;
    }
    pulled(&mut fetch, now);
    fetch.ended(Outcome::Nothing(Offset::ZERO), now, 0.0);
    assert_eq!(fetch.failures(), 0);
}

#[test]
fn p5_a_busy_broker_is_left_alone_for_some_20_ms() {
    let now = Instant::now();
    let mut fetch = Fetch::new(Offset::ZERO, Duration::ZERO);
    pulled(&mut fetch, now);
    fetch.ended(Outcome::FlowControl, now, 1.0);
    assert_eq!(fetch.step(&view(), now), Step::WakeAt(now + Duration::from_millis(30)));
}

#[test]
fn a_broker_that_holds_no_pulls_is_asked_once_a_second_and_has_not_failed() {
    let now = Instant::now();
    let mut fetch = Fetch::new(offset(5), Duration::ZERO);
    pulled(&mut fetch, now);
    fetch.ended(Outcome::Failed("no".into()), now, 0.0);
    pulled(&mut fetch, now + ERROR_DELAY);
    fetch.ended(Outcome::NotHeld, now, 0.0);
    assert_eq!((fetch.failures(), fetch.next()), (0, offset(5)));
    assert_eq!(fetch.step(&view(), now), Step::WakeAt(now + ERROR_DELAY));
}

#[test]
fn a_heartbeat_or_a_route_ends_the_wait_but_not_the_pull_interval() {
    let now = Instant::now();
    let mut fetch = Fetch::new(Offset::ZERO, Duration::from_secs(9));
    pulled(&mut fetch, now);
    fetch.ended(Outcome::NotTold, now, 0.0);
    assert_eq!(fetch.pause(), Some(&Pause::NoHeartbeat));
    fetch.hurry();
    pulled(&mut fetch, now);
    fetch.ended(Outcome::Advanced(offset(1)), now, 0.0);
    fetch.hurry();
    assert_eq!(fetch.step(&view(), now), Step::WakeAt(now + Duration::from_secs(9)));
}

#[test]
fn a_broker_that_takes_heartbeats_and_forgets_them_is_not_asked_in_a_loop() {
    let now = Instant::now();
    let mut fetch = Fetch::new(Offset::ZERO, Duration::ZERO);
    for _ in 0..2 {
        pulled(&mut fetch, now);
        fetch.ended(Outcome::NotTold, now, 0.0);
        fetch.hurry();
    }
    assert_eq!(fetch.step(&view(), now), Step::WakeAt(now + ERROR_DELAY));
    pulled(&mut fetch, now + ERROR_DELAY);
    fetch.ended(Outcome::Nothing(Offset::ZERO), now, 0.0);
    pulled(&mut fetch, now);
    fetch.ended(Outcome::NotTold, now, 0.0);
    fetch.hurry();
    pulled(&mut fetch, now);
}

#[test]
fn unreadable_bytes_are_asked_for_alone_and_never_passed() {
    let mut now = Instant::now();
    let mut fetch = Fetch::new(Offset::ZERO, Duration::ZERO);
    pulled(&mut fetch, now);
    for n in 0..5 {
        fetch.ended(Outcome::Unreadable(offset(3), "broken".into()), now, 0.0);
        now += if n < 3 { ERROR_DELAY } else { STUCK_DELAY };
        assert_eq!(fetch.step(&view(), now), Step::Pull { from: offset(3), single: true });
    }
    fetch.ended(Outcome::Advanced(offset(4)), now, 0.0);
    assert_eq!(fetch.step(&view(), now), Step::Pull { from: offset(4), single: false });
}

#[test]
fn a_pull_without_an_answer_is_lost_after_its_deadline() {
    let now = Instant::now();
    let mut fetch = Fetch::new(Offset::ZERO, Duration::ZERO);
    assert!(!fetch.is_lost(now));
    pulled(&mut fetch, now);
    assert!(!fetch.is_lost(now + Duration::from_secs(30)));
    assert!(fetch.is_lost(now + Duration::from_secs(34)));
}

#[test]
fn o11_corrections_go_to_the_nearest_end_and_resets_where_they_say() {
    let table = [
        // asked, suggested, min, max
        (150, 0, 0, 100, Correction::Moved(offset(100))),
        (150, 100, 0, 100, Correction::Moved(offset(100))),
        (5, 20, 20, 100, Correction::Moved(offset(20))),
        (50, 7, 0, 100, Correction::Reset(offset(7))),
        (50, 0, 0, 100, Correction::Reset(offset(0))),
    ];
    for (asked, suggested, min, max, expected) in table {
        assert_eq!(corrected(offset(asked), offset(suggested), offset(min), offset(max)), expected);
    }
}

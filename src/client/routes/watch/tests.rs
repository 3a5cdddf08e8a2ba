use super::*;

const INTERVAL: Duration = Duration::from_secs(30);
const FOUND: Asked = Asked::Found { lost_broker: false };

struct Scene {
    watch: RouteWatch,
    start: Instant,
    topic: Arc<str>,
}

impl Scene {
    fn new() -> Self {
        Scene { watch: RouteWatch::new(INTERVAL), start: Instant::now(), topic: "orders".into() }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    fn due_in(&self) -> Option<u128> {
        self.watch.next_due().map(|due| due.saturating_duration_since(self.start).as_millis())
    }

    /// Asks at the time when the topic is due, and answers at once.
    fn ask(&mut self, asked: Asked) {
        let due = self.watch.next_due().unwrap().max(self.start);
        assert_eq!(*self.watch.take_due(due), *std::slice::from_ref(&self.topic));
        self.watch.answered(&self.topic, asked, due);
    }
}

#[test]
fn a_known_topic_is_asked_for_every_interval() {
    let mut scene = Scene::new();
    scene.watch.want(&scene.topic.clone(), scene.at(0));
    scene.ask(FOUND);
    assert_eq!(scene.due_in(), Some(30_000));
    scene.ask(FOUND);
    assert_eq!(scene.due_in(), Some(60_000));
}

#[test]
fn a_missing_topic_is_asked_for_after_1_5_and_30_seconds() {
    let mut scene = Scene::new();
    scene.watch.want(&scene.topic.clone(), scene.at(0));
    for due in [1_000, 6_000, 36_000, 66_000] {
        scene.ask(Asked::Missing);
        assert_eq!(scene.due_in(), Some(due));
    }
}

#[test]
fn an_acknowledged_heartbeat_brings_the_retry_topic_in_100_ms() {
    let mut scene = Scene::new();
    scene.watch.want(&scene.topic.clone(), scene.at(0));
    scene.ask(Asked::Missing);
    scene.ask(Asked::Missing);
    scene.watch.brokers_told(scene.at(2_000));
    assert_eq!(scene.due_in(), Some(2_100));
    scene.ask(Asked::Missing);
    assert_eq!(scene.due_in(), Some(3_100), "and the steps begin anew");
    scene.ask(FOUND);
    scene.watch.brokers_told(scene.at(3_200));
    assert_eq!(scene.due_in(), Some(33_100), "what is known waits for its turn");
}

#[test]
fn without_an_answer_pauses_grow_to_the_interval() {
    let mut scene = Scene::new();
    scene.watch.want(&scene.topic.clone(), scene.at(0));
    let mut sum = 0;
    for pause in [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
        scene.ask(Asked::Failed);
        sum += pause;
        assert_eq!(scene.due_in(), Some(sum));
    }
}

#[test]
fn a_lost_broker_is_looked_for_every_4_s_for_5_minutes() {
    let mut scene = Scene::new();
    scene.watch.want(&scene.topic.clone(), scene.at(0));
    scene.ask(FOUND);
    scene.ask(Asked::Found { lost_broker: true });
    let mut due = 30_000;
    while due < 30_000 + 300_000 {
        due += 4_000;
        assert_eq!(scene.due_in(), Some(due));
        scene.ask(FOUND);
    }
    assert_eq!(scene.due_in(), Some(due + 30_000));
}

#[test]
fn a_topic_that_vanishes_is_looked_for_every_4_s() {
    let mut scene = Scene::new();
    scene.watch.want(&scene.topic.clone(), scene.at(0));
    scene.ask(FOUND);
    scene.ask(Asked::Missing);
    assert_eq!(scene.due_in(), Some(31_000));
    scene.ask(Asked::Missing);
    assert_eq!(scene.due_in(), Some(35_000));
    scene.ask(Asked::Missing);
    assert_eq!(scene.due_in(), Some(39_000));
}

#[test]
fn trouble_asks_at_once_but_not_more_than_once_a_second() {
    let mut scene = Scene::new();
    let topic = scene.topic.clone();
    scene.watch.want(&topic, scene.at(0));
    scene.ask(FOUND);
    scene.watch.trouble([&topic], scene.at(10_000));
    assert_eq!(scene.due_in(), Some(10_000));
    scene.ask(FOUND);
    scene.watch.trouble([&topic], scene.at(10_200));
    assert_eq!(scene.due_in(), Some(11_000));
    scene.watch.trouble([&"not watched".into()], scene.at(10_200));
    assert_eq!(scene.due_in(), Some(11_000));
}

#[test]
fn wanting_a_topic_that_is_being_asked_for_asks_once_more() {
    let mut scene = Scene::new();
    let topic = scene.topic.clone();
    scene.watch.want(&topic, scene.at(0));
    assert_eq!(scene.watch.take_due(scene.at(0)).len(), 1);
    scene.watch.want(&topic, scene.at(5));
    scene.watch.want(&topic, scene.at(6));
    assert_eq!(scene.watch.take_due(scene.at(10)).len(), 0);
    scene.watch.answered(&topic, FOUND, scene.at(10));
    assert_eq!(scene.due_in(), Some(60));
    scene.ask(FOUND);
    assert_eq!(scene.due_in(), Some(30_060));
}

#[test]
fn what_nobody_needs_is_no_longer_asked_for() {
    let mut scene = Scene::new();
    let topic = scene.topic.clone();
    scene.watch.want(&topic, scene.at(0));
    scene.ask(FOUND);
    scene.watch.retain(|_| false);
    assert!(scene.watch.next_due().is_none() && !scene.watch.is_watched("orders"));
    scene.watch.answered(&topic, FOUND, scene.at(1));
    assert!(scene.watch.next_due().is_none());
}

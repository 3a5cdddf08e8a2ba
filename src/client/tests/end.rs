//! Goodbyes and the end.

use super::*;

#[test]
fn a_goodbye_follows_the_heartbeat_that_is_out() {
    let fake = Fake::start();
    fake.add_topic("orders", 1);
    let client = builder(&fake).request_timeout(Duration::from_millis(300)).start().unwrap();
    let instance = client.instance();
    instance.register(Listener::consumer("g", "orders")).unwrap();
    wait_for("the broker to be told", || instance.is_told(&fake.address, "g", "orders", 1));
    // From now on heartbeats hang until their timeout.
    fake.answer(RequestCode::HEART_BEAT, |_, _| None);
    let before = heartbeats(&fake).len();
    instance.heartbeat_now(None);
    wait_for("a heartbeat that hangs", || heartbeats(&fake).len() > before);
    let left = instance.leave(MemberKind::Consumer, "g", Instant::now() + SOON);
    assert!(fake.seen(RequestCode::UNREGISTER_CLIENT).is_empty());
    assert_eq!(left.recv_timeout(SOON).unwrap().len(), 0);
    let goodbyes = fake.seen(RequestCode::UNREGISTER_CLIENT);
    let header = goodbyes[0].header::<UnregisterClient>().unwrap();
    assert_eq!(
        (goodbyes.len(), header.consumer_group.as_deref(), &*header.client_id),
        (1, Some("g"), client.client_id())
    );
    assert!(!instance.is_told(&fake.address, "g", "orders", 1));
    assert!(heartbeats(&fake).last().unwrap().consumer_data_set.len() <= 1);
}

#[test]
fn nobody_to_say_goodbye_to_is_no_wait() {
    let fake = Fake::start();
    let client = builder(&fake).start().unwrap();
    client.instance().register(Listener::producer("p")).unwrap();
    let left = client.instance().leave(MemberKind::Producer, "p", Instant::now() + SOON);
    assert_eq!(left.recv_timeout(SOON).unwrap().len(), 0);
}

#[test]
fn shutdown_ends_members_and_threads_and_gives_one_report() {
    let fake = Fake::start();
    fake.add_topic("orders", 1);
    let client = builder(&fake).start().unwrap();
    let instance = client.instance().clone();
    for member in
        [Listener::consumer("a", "orders"), Listener::consumer("b", "orders"), Listener::producer("p")]
    {
        instance.register(member).unwrap();
    }
    let hook = Arc::new(parking_lot::Mutex::new(false));
    let ran = hook.clone();
    instance.on_last_shutdown(Box::new(move |_| *ran.lock() = true));
    assert!(client.stats().threads >= 2 && client.stats().connections >= 1);
    let report = client.shutdown(SOON);
    assert_eq!(report.released, 3);
    assert_eq!(client.shutdown(SOON), report);
    assert!(*hook.lock());
    assert_eq!(instance.threads.running(), 0);
    wait_for("the connections to close", || fake.peers().is_empty());
    assert_eq!(instance.register(Listener::producer("q")).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(instance.fetch_route("orders", Instant::now() + SOON).unwrap_err().kind(), ErrorKind::Closed);
    let left = instance.leave(MemberKind::Producer, "q", Instant::now() + SOON);
    assert!(left.recv_timeout(SOON).is_err(), "nobody is left to say goodbye");
}

#[test]
fn the_last_handle_that_is_dropped_shuts_down() {
    let fake = Fake::start();
    let client = builder(&fake).start().unwrap();
    let instance = client.instance().clone();
    let other = client.clone();
    drop(client);
    assert!(instance.is_running());
    drop(other);
    assert!(!instance.is_running());
    assert_eq!(instance.threads.running(), 0);
}

#[test]
fn shutdown_on_a_thread_of_the_library_does_not_wait_for_itself() {
    let fake = Fake::start();
    let client = builder(&fake).start().unwrap();
    let instance = client.instance().clone();
    let inside = client.clone();
    let thread = instance.spawn("rmq-test", move || assert!(inside.shutdown(SOON).in_background)).unwrap();
    thread.join().unwrap();
    assert!(client.shutdown(SOON).is_clean());
    assert_eq!(instance.threads.running(), 0);
}
